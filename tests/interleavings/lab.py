"""One database, four connections, one world at a time.

In a *play* one call, or a transaction of it, is held open before its commit. The others are called, one after the other, and
answer or wait. The first is committed (or rolled back), and all end. In a *serial order* they come one after the other.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

import asyncpg

from asyncjobs.store.database import Database
from tests.interleavings.calls import CLAIM, CLAIM_RUN, TOKEN, Call, all_calls
from tests.interleavings.worlds import World

#: The rows of a call, as tuples, or the text of its error.
Answer: TypeAlias = list[tuple[Any, ...]] | str

_TABLES: Final = (
    "jobs",
    "serialized_jobs",
    "dedup_keys",
    "dead_letter_jobs",
    "dispatch_requests",
    "runners",
    "former_runners",
    "pauses",
    "holds",
    "replacements",
    "background_job_leases",
    "circuit_breakers",
    "schedules",
    "schedule_declarations",
)
#: What an INSERT may name.
_COLUMNS: Final = """
SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute AS a
WHERE a.attrelid = ('asyncjobs.' || $1)::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
"""
#: All others. No call and no duty writes to these, which is looked at in the end: what one play leaves would be in the next.
_OTHERS: Final = r"""
SELECT c.relname FROM pg_class AS c
WHERE c.relnamespace = 'asyncjobs'::regnamespace AND c.relkind = 'r' AND c.relname <> ALL ($1::text[])
  AND c.relname NOT LIKE 'audit%'  -- the trail of what was done by hand, and an auditor's notes: no call reads them
"""
_WAITS: Final = "SELECT wait_event_type = 'Lock' OR wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $1"
_RUNNERS: Final = (
    "INSERT INTO asyncjobs.runners (id, host, pid, version, queues, types) "
    "SELECT r, 'h', 1, '1', '{default}', '{work}' FROM generate_series(1, 2) AS r"
)
_VACUUM: Final = "VACUUM asyncjobs.jobs, asyncjobs.serialized_jobs, asyncjobs.dedup_keys, asyncjobs.runners"
_PAUSES: Final = {"pause_key": "key", "pause type": "type", "pause queue": "queue"}
#: As often as callers make a call again that the server resolved a conflict against.
_TRIES: Final = 4
_LOOK_SECONDS: Final = 0.001
#: The longest lock timeout of a call that gives up, and a bit.
_PATIENCE_SECONDS: Final = 0.26


class Held(NamedTuple):
    """Where the first call of a play is held, and how it ends."""

    transaction: int = 0
    after: int | None = None  # statements; None: all of them
    ends: str = "COMMIT"
    is_patient: bool = False  # it waits until those who give up have given up


class Seen(NamedTuple):
    """What came out: the answers, and the tables before and after the duties, with names for what is drawn."""

    answers: dict[str, Answer]
    raw: dict[str, Any]
    settled: dict[str, Any]


class Lab:
    """Made with a fresh database's DSN; to be entered."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.runs: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._desk, *self._players = [await asyncpg.connect(self._dsn) for _ in range(4)]
        database = Database(self._dsn)
        self._all = all_calls(database.sql("bury_runners"))
        audits = [
            f"SELECT * FROM ({database.sql(n).strip().rstrip(';')}) AS {n}" for n in ("audit_jobs", "audit_keys", "audit_dedup")
        ]
        kept = "; ".join(f"CREATE TABLE lab.{table} AS TABLE asyncjobs.{table} WITH NO DATA" for table in _TABLES)
        functions = Path(__file__).with_name("lab.sql").read_text(encoding="ascii")
        await self._desk.execute(f"DROP SCHEMA IF EXISTS lab CASCADE; CREATE SCHEMA lab; {kept}")
        await self._desk.execute(f"CREATE VIEW lab.audit AS {' UNION ALL '.join(audits)}; {functions}")
        self._untouched = await self._others()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        touched = [name for name, content in (await self._others()).items() if content != self._untouched[name]]
        for connection in (self._desk, *self._players):
            await connection.close()
        assert not touched, f"calls write to {touched}, which are not reset between two plays"

    async def _others(self) -> dict[str, Any]:
        """What is in the tables that are not reset."""
        names = [name for (name,) in await self._desk.fetch(_OTHERS, _TABLES)]
        return {name: await self._desk.fetchval(f"SELECT jsonb_agg(t) FROM asyncjobs.{name} AS t") for name in names}

    async def build(self, world: World) -> None:
        """Make the world, keep a copy of it, and fill it into the calls that it has."""
        self._orders: dict[tuple[str, ...], Seen] = {}
        tables = ", ".join("asyncjobs." + table for table in _TABLES)
        await self._desk.execute(f"TRUNCATE {tables} CASCADE; SELECT setval('asyncjobs.jobs_id_seq', 1000)")
        await self._desk.execute(f"SELECT setval('asyncjobs.place_seq', 1); {_RUNNERS}")
        self._known: dict[str, Any] = {"K": "'K'", **world.known}
        for name, text in world.jobs:
            self._known[name] = (await self._desk.fetchval(text))[0]
        if {CLAIM % 1, CLAIM % 2} & set(world.steps):
            self._known["t_" + world.jobs[0][0]] = TOKEN
        if CLAIM_RUN in world.steps:
            self._known |= {"t_h": TOKEN, "r_w": TOKEN + 1}
        for step in world.steps:
            await self._desk.execute(step.format_map(self._known))
        self._known["all"] = f"ARRAY{[self._known[name] for name, _ in world.jobs]}::bigint[]"
        if dead_letters := await self._desk.fetchval("SELECT array_agg(id) FROM asyncjobs.dead_letter_jobs"):
            self._known["dead_letters"] = f"ARRAY{dead_letters}::bigint[]"
        await self._keep()
        self.calls = {name: self._filled(call) for name, call in self._all.items() if call.names() <= set(self._known)}

    async def _keep(self) -> None:
        await self._desk.execute("".join(f"TRUNCATE lab.{t}; INSERT INTO lab.{t} TABLE asyncjobs.{t};" for t in _TABLES))
        columns = {table: await self._desk.fetchval(_COLUMNS, table) for table in _TABLES}
        back = "".join(
            f"DELETE FROM asyncjobs.{t}; "
            f"INSERT INTO asyncjobs.{t} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM lab.{t}; "
            for t, names in columns.items()
        )
        self._back = (
            f"BEGIN; SET LOCAL session_replication_role = replica; {back}; "
            "SELECT setval('asyncjobs.jobs_id_seq', 5000), setval('asyncjobs.place_seq', 5000); COMMIT"
        )

    def _filled(self, call: Call) -> Call:
        return call._replace(
            transactions=tuple(tuple(text.format_map(self._known) for text in each) for each in call.transactions)
        )

    async def _reset(self, kind: str) -> None:
        if self.runs.total() % 150 == 0:
            await self._desk.execute(_VACUUM)
        await self._desk.execute(self._back)
        self.runs[kind] += 1

    async def serial(self, names: tuple[str, ...]) -> Seen:
        """What comes of the calls in this order."""
        if names not in self._orders:
            await self._reset("serial")
            self._orders[names] = await self._seen({name: await self._do(self._players[0], name, 0) for name in names}, {})
        return self._orders[names]

    async def play(self, names: Sequence[str], held: Held) -> tuple[Seen, list[bool]]:
        """The first is held as told, the others come. What was seen, and which of the others waited."""
        await self._reset("play")
        first = self.calls[names[0]]
        answered: dict[str, float] = {}
        waited: list[bool] = []
        tasks: list[asyncio.Task[Answer]] = []
        rows = await self._do(self._players[0], names[0], 0, upto=held.transaction)
        texts = first.transactions[held.transaction]
        rows = _joined(rows, await self._part(self._players[0], [first.begin, *texts[: held.after]], None))
        for name, player in zip(names[1:], self._players[1:], strict=False):
            tasks.append(asyncio.create_task(self._timed(player, name, answered)))
            while not (await asyncio.wait({tasks[-1]}, timeout=_LOOK_SECONDS))[0] and not await self._waits(player):
                pass
            waited.append(not tasks[-1].done())
        if held.is_patient and any(waited):
            await asyncio.wait(tasks, timeout=_PATIENCE_SECONDS)
        rest = texts[held.after :] if held.after is not None and isinstance(rows, list) else ()
        rows = _joined(rows, await self._part(self._players[0], rest, held.ends))
        if held.ends == "COMMIT" and isinstance(rows, list):
            rows = _joined(rows, await self._do(self._players[0], names[0], held.transaction + 1))
        answered[names[0]] = await self._clock()
        others = [await asyncio.wait_for(task, 30) for task in tasks]
        return await self._seen(dict(zip(names, [rows, *others], strict=True)), answered), waited

    async def _waits(self, player: asyncpg.Connection) -> bool:
        return bool(await self._desk.fetchval(_WAITS, player.get_server_pid()))

    async def _clock(self) -> float:
        return float(await self._desk.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8"))

    async def _timed(self, player: asyncpg.Connection, name: str, answered: dict[str, float]) -> Answer:
        answer = await self._do(player, name, 0)
        if name in _PAUSES and isinstance(answer, list):
            answered[name] = float(await player.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8"))
        return answer

    async def _do(self, player: asyncpg.Connection, name: str, start: int, *, upto: int | None = None) -> Answer:
        """The call's answer, or of some of its transactions; each is made again as its callers do."""
        call = self.calls[name]
        answer: Answer = []
        for texts in call.transactions[start:upto]:
            begins = [call.begin] if name.startswith(("tx ", "rr ")) else []
            rows: Answer = []
            for _ in range(_TRIES):
                rows = await self._part(player, [*begins, *texts], "COMMIT")
                if "ERROR 40001" not in rows and "again" not in str(rows):
                    break
            answer = _joined(answer, rows)
        return answer

    async def _part(self, player: asyncpg.Connection, texts: Sequence[str], ends: str | None) -> Answer:
        try:
            rows = [tuple(row) for text in texts for row in await player.fetch(text)]
            if player.is_in_transaction() and ends:
                await player.execute(ends)
        except asyncpg.PostgresError as error:
            if player.is_in_transaction():
                await player.execute("ROLLBACK")
            return f"ERROR {error.sqlstate} {error}"
        return rows

    async def _seen(self, answers: Mapping[str, Answer], answered: Mapping[str, float]) -> Seen:
        raw, settled = json.loads(await self._desk.fetchval("SELECT lab.ends()"))
        names = (raw["names"] or {}) | (settled["names"] or {})
        names |= {str(value): name for name, value in self._known.items() if isinstance(value, int) and not name.startswith("t_")}

        def named(value: Any) -> Any:
            text = re.sub(r"\b[1-9]\d{3}\b", lambda found: f'"{names.get(found[0], "?")}"', json.dumps(value, default=str))
            return json.loads(text.replace('""', '"'))

        at = {kind: answered[name] for name, kind in _PAUSES.items() if name in answered}
        raw["late"] = [[job, kind] for job, kind, moment in raw["late"] or () if moment > at.get(kind, float("inf"))]
        settled.pop("late")
        for look in (raw, settled):
            look.pop("names")
            look["audit"] = [[job, re.sub(r"\d{4,}", "N", problem)] for job, problem in look["audit"] or ()]
            look["jobs"] = sorted(
                named(look["jobs"] or []), key=str
            )  # ids are drawn before they are written: their order says nothing
        known = {name: answer if isinstance(answer, str) else named(answer) for name, answer in answers.items()}
        return Seen(known, named(raw), named(settled))


def _joined(first: Answer, then: Answer) -> Answer:
    if isinstance(first, list):
        return [*first, *then] if isinstance(then, list) else then
    return first
