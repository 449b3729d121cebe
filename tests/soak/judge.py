"""What became of a soak: by the tables, by the auditor's looks at them, and by the checker of histories.

The history of a million jobs is judged in parts, each of them some keys (or some jobs without one) from beginning to end: nothing
that the checker looks for spans two keys.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.telemetry.events import OutcomeWritten
from asyncjobs.testing import History, Joined, Ready, Serving, Written
from asyncjobs.testing.attempts import Attempt, Recorded, attempts_in
from tests.soak.spool import entries, unpacked

_PARTS: Final = 64
_LOOKS: Final = 50
_LOOK_SECONDS: Final = 0.2
_FINAL: Final = frozenset({"completed", "failed", "dead", "cancelled"})
#: A poll of its runners, five times.
_PROMPT_SECONDS: Final = 5.0


class Waited(msgspec.Struct, frozen=True):
    """Jobs that are to be in time where nothing befalls their runners, and when these could claim."""

    ready: Sequence[Ready] = ()
    serving: Sequence[Serving] = ()


class Verdict(msgspec.Struct, frozen=True):
    """What was found. All lists are empty when every promise held."""

    jobs: int  # in the table
    attempts: int
    rescued: int  # attempts that died with their process
    lost: list[int]  # accepted, and not there or not completed
    doubled: list[int]  # completed more than once
    overlapped: list[str]
    out_of_order: list[str]
    limbo: list[str]
    left_behind: list[str]  # connections
    others: list[str] = []  # effects without their completions, and the reverse; who waited beside a free slot; deadlocks

    @property
    def is_clean(self) -> bool:
        """Whether every promise held."""
        return not any((self.lost, self.doubled, self.overlapped, self.out_of_order, self.limbo, self.left_behind, self.others))

    def __str__(self) -> str:
        found = [*self.overlapped, *self.out_of_order, *self.limbo, *self.left_behind, *self.others]
        return (
            f"{self.jobs:,} jobs, {self.attempts:,} attempts, {self.rescued:,} rescued: lost {len(self.lost)}, doubled "
            f"{len(self.doubled)}, overlapped {len(self.overlapped)}, out of order {len(self.out_of_order)}, in limbo "
            f"{len(self.limbo)}, connections left behind {len(self.left_behind)}, besides {len(self.others)}"
            + "".join(f"\n  {one}" for one in found[:20])
        )


class Table(msgspec.Struct, kw_only=True):
    """What the tables say of each job."""

    keys: dict[int, str] = {}
    ended: dict[int, float] = {}
    unended: set[int] = set()
    errors: dict[int, list[dict[str, Any]]] = {}
    lines: dict[int, list[Joined]] = {}  # by part
    effects: dict[int, int] = {}  # of those that end in transactions of their own
    deadlocks: int = 0
    rescues: int = 0
    to_monotonic: float = 0.0  # from the time of day of its times

    def join(self, joined: Joined) -> None:
        """A job got its place in its key's line."""
        self.lines.setdefault(int(joined.key) % _PARTS, []).append(joined)

    def part(self, job_id: int) -> int:
        """Where its key is judged."""
        key = self.keys.get(job_id)
        return (job_id if key is None else int(key)) % _PARTS


async def judge(
    dsn: str, spools: Iterable[Path], accepted: Collection[int], to_monotonic: float, waited: Waited | None = None
) -> Verdict:
    """Read everything. The runners have ended; the database is as they left it."""
    database = Database(dsn)
    link = database.link("auditor", command_timeout=600)
    try:
        table = await _read(await link.connection(), to_monotonic)
        limbo = [str(tuple(row)) for name in ("audit_jobs", "audit_keys", "audit_dedup") for row in await link.fetch(name)]
        behind = await _left_behind(link)
    finally:
        await link.close()
    return judged(table, spools, accepted, limbo=limbo, left_behind=behind, waited=waited)


def judged(
    table: Table, spools: Iterable[Path], accepted: Iterable[int], *, limbo: list[str], left_behind: list[str],
    waited: Waited | None = None,
) -> Verdict:  # fmt: skip
    """What follows from what was read."""
    parts = _sorted_into_parts(spools, table)
    attempts = 0
    doubled: list[int] = []
    overlapped: list[str] = []
    unordered: list[str] = []
    kept: list[Attempt] = []
    for number in range(_PARTS):
        recorded = _recorded(parts.pop(number, b""), table)
        made = attempts_in(recorded)
        attempts += len(made)
        kept += made if waited is not None else ()
        doubled += _doubled(recorded)
        for violation in _history(recorded, made, table, number).violations():
            (unordered if "in front of it" in violation.problem else overlapped).append(str(violation))
    lost = [job_id for job_id in accepted if job_id not in table.ended]
    return Verdict(
        jobs=len(table.ended) + len(table.unended), attempts=attempts, rescued=table.rescues, lost=[*lost, *table.unended],
        doubled=doubled, overlapped=overlapped, out_of_order=unordered, limbo=limbo, left_behind=left_behind,
        others=_others(table, kept, waited or Waited()),
    )  # fmt: skip


def _others(table: Table, attempts: list[Attempt], waited: Waited) -> list[str]:
    deadlocks = [f"the server found {table.deadlocks} deadlocks"] if table.deadlocks else []
    whole = History(attempts=(), effects=table.effects, completed=table.ended.keys(), deadlocks=deadlocks).violations()
    late = History(attempts=attempts, ready=waited.ready, serving=waited.serving, prompt_seconds=_PROMPT_SECONDS).violations()
    return list(map(str, [*whole, *(one for one in late if one.promise == "P4")]))


async def _left_behind(link: Link) -> list[str]:
    """Connections that the server still has, some time after their processes have ended."""
    found: list[str] = []
    for _ in range(_LOOKS):
        found = [str(tuple(row)) for row in await link.fetch("audit_connections")]
        if not found:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return found


async def _read(connection: Connection, to_monotonic: float) -> Table:
    table = Table(to_monotonic=to_monotonic)
    async with connection.transaction():
        statement = (
            "SELECT id, serialization_key AS key, status, extract(epoch FROM completed_at)::float8 AS ended_at, rescues,"
            " CASE WHEN rescues > 0 THEN errors::text END AS errors FROM asyncjobs.jobs"
        )
        async for row in connection.cursor(statement, prefetch=10_000):
            if row["key"] is not None:
                table.keys[row["id"]] = row["key"]
            if row["status"] == "completed":
                table.ended[row["id"]] = row["ended_at"] + to_monotonic
            else:
                table.unended.add(row["id"])
            if row["rescues"]:
                table.rescues += row["rescues"]
                table.errors[row["id"]] = json.loads(row["errors"])
        for statement in (
            "SELECT id, 0 FROM asyncjobs.jobs WHERE type = 'whole'",
            "SELECT job_id, count(*) FROM public.effects GROUP BY job_id",
        ):
            table.effects.update(map(tuple, await connection.fetch(statement)))
        statement = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"  # since the server's last crash
        table.deadlocks = await connection.fetchval(statement)
        async for row in connection.cursor("SELECT serialization_key, job_id, place FROM asyncjobs.audit_line", prefetch=10_000):
            table.join(Joined(*row))
    return table


def _sorted_into_parts(spools: Iterable[Path], table: Table) -> dict[int, bytearray]:
    parts: defaultdict[int, bytearray] = defaultdict(bytearray)
    for path in spools:
        for entry in entries(path):
            if entry.job_id:
                parts[table.part(entry.job_id)] += entry.packed
            else:
                for number in range(_PARTS):
                    parts[number] += entry.packed
    return parts


def _recorded(part: bytes | bytearray, table: Table) -> list[Recorded]:
    return sorted((entry.event(table.keys.get(entry.job_id)) for entry in unpacked(part)), key=lambda one: one.at)


def _doubled(recorded: Iterable[Recorded]) -> list[int]:
    completed = Counter(
        event.job_id for _, event in recorded if isinstance(event, OutcomeWritten) and event.status == "completed"
    )
    return [job_id for job_id, times in completed.items() if times > 1]


def _history(recorded: Iterable[Recorded], attempts: list[Attempt], table: Table, part: int) -> History:
    jobs = {attempt.job_id for attempt in attempts}
    return History(
        attempts=attempts, joins=table.lines.get(part, ()), writes=_writes(recorded, attempts, table),
        ended={job_id: table.ended[job_id] for job_id in jobs if job_id in table.ended},
    )  # fmt: skip


def lost_tokens(attempts: Iterable[Attempt], table: Table) -> set[int]:
    """The tokens of attempts that the table tells were lost: of those with its number the last that had started by then.

    A loss that costs nothing leaves its number to the next attempt, and one may be lost before it starts.
    """
    started: defaultdict[tuple[int, int], list[Attempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda attempt: attempt.started_at):
        started[attempt.job_id, attempt.number].append(attempt)
    lost: set[int] = set()
    for job_id, errors in table.errors.items():
        for error in errors:
            if error["type"] == "RunnerLost":
                lost_at = datetime.fromisoformat(error["at"]).timestamp() + table.to_monotonic
                before = [one.token for one in started[job_id, error["attempt"]] if one.started_at <= lost_at]
                lost.update(before[-1:])
    return lost


def _writes(recorded: Iterable[Recorded], attempts: Iterable[Attempt], table: Table) -> list[Written]:
    """The outcomes that were accepted. An attempt that the table tells was lost with its runner has none to be accepted."""
    lost = lost_tokens(attempts, table)
    return [
        Written(event.job_id, event.token, at, True, 0.0 if event.token in lost else None)
        for at, event in recorded
        if isinstance(event, OutcomeWritten) and event.status in _FINAL
    ]
