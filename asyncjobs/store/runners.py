"""Who is alive: registering, beating, leaving, and what a rescuer sees of it.

A runner's id is a random number that its process chose and that is never used again: a runner that was declared dead
registers under a new one, so a row that is gone stays gone. Every statement may be repeated after an answer that was lost.
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec

from asyncjobs.model.declared_type import DeclaredType
from asyncjobs.store import migrate
from asyncjobs.store.database import Link
from asyncjobs.store.reading import decoded_or


class BeatAnswer(msgspec.Struct, frozen=True):
    """What a confirmed beat says: its number, how many runners there are, this one among them, and which migration, if any, this
    program is too old for.
    """

    beat: int
    runners: int
    newer: str | None


class RunnersLook(msgspec.Struct, frozen=True):
    """One look at all runners: the beat of each, and whether a job is processed by a runner that does not exist."""

    beats: Mapping[int, int]
    orphans: bool
    places: Mapping[int, tuple[str | None, int]]  # the machine and the process of each


class Rescued(msgspec.Struct, frozen=True):
    """What one rescue did: jobs that were taken back, and those among them that ended."""

    ids: list[int]
    dead: list[int]
    cancelled: list[int]
    given_back: list[int]  # with their attempts, of runners that stopped by themselves; not among `ids`
    queues: list[str]  # of each job that became pending
    suspects: list[str]  # the queues of suspects among these, of which each runner takes one
    attempts: list[tuple[str, str]]  # that were lost: the type, and what that made of the job
    more: bool  # the batch was full


class RunnerRow(msgspec.Struct, frozen=True):
    """One runner: who and where it is, what it serves, since when; and when it ended, if it did."""

    id: int
    host: str
    pid: int
    version: str
    queues: list[str]
    types: list[str]
    duties: list[str]
    started_at: datetime
    beat_at: datetime | None  # None: it has ended
    ended_at: datetime | None
    died_at: datetime | None  # None for one that left on its own
    versions: dict[str, int]  # by type, the newest payload that it can run, where that is not 1
    troubles: list[str]  # what its last beat said of its parts
    stopped_at: datetime | None  # since when it stops, or stopped, by itself
    name: str | None  # what people call it
    is_cut_off: bool  # the session that beat last has ended: its process may be gone, or has to connect anew

    def can_run(self) -> list[str]:
        """Its types as people read them, with the newest version of their payloads if they have any."""
        return [f"{type} (version {self.versions[type]})" if type in self.versions else type for type in self.types]


def new_runner_id() -> int:
    """A random 62-bit number, never 0."""
    return secrets.randbits(62) or 1


async def register(
    link: Link,
    id: int,
    *,
    host: str,
    pid: int,
    version: str,
    queues: Sequence[str],
    types: Sequence[str],
    duties: Sequence[str] = (),
    slots: Mapping[str, Mapping[str, int]] | None = None,
    prefetch: Mapping[str, int] | None = None,
    versions: Mapping[str, int] | None = None,
    declares: Sequence[DeclaredType] = (),
    name: str | None = None,
    machine: str | None = None,
) -> None:
    """Make the runner known. Claims need it: they hold its row. `slots`: by queue and lane ("" for general ones). `prefetch`: by
    queue, how many jobs it may claim ahead of them. `versions`: by type, the newest payload it can run, where that is not 1.
    `declares`: its types, for enqueues from SQL. `machine`: where its process is.
    """
    declared = msgspec.json.encode([{**msgspec.structs.asdict(one), "digest": one.digest} for one in declares]).decode()
    room, ahead, newest = (msgspec.json.encode(one or {}, order="deterministic").decode() for one in (slots, prefetch, versions))
    await link.fetch(
        "register_runner",
        id,
        host,
        pid,
        version,
        sorted(queues),
        sorted(types),
        sorted(duties),
        room,
        ahead,
        newest,
        declared,
        name,
        machine,
        _serves(room, ahead, newest, sorted(queues), sorted(types)),
    )


def _serves(*what: object) -> int:
    """A digest: runners of the same serve the same."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode(what, order="deterministic")).digest()[:8], signed=True)


async def beat(
    link: Link, id: int, *, troubles: Sequence[str] = (), stops: bool = False, timeout: float | None = None
) -> BeatAnswer | None:
    """Count the runner's beat up; `troubles`: what is to be said of its parts. `stops`: from now on its end is no death.

    None: its row is gone, it was declared dead (or left).
    """
    row = await link.fetch_row("beat", id, migrate.newest(), list(troubles), stops, timeout=timeout)
    return None if row is None else BeatAnswer(row["beat"], row["runners"], row["newer"])


async def leave(
    link: Link, id: int, *, kept: Sequence[str] = (), fresh_seconds: float = 30.0, timeout: float | None = None
) -> int | None:
    """Move the runner to the former ones, and free the leases that it holds but for the kept ones; returns who is to take them.

    What it still processes is an orphan from now on, given back by the next rescue.
    """
    (row,) = await link.fetch("leave_runner", id, kept, fresh_seconds, timeout=timeout)
    successor: int | None = row["successor"]
    return successor


async def everybody(link: Link, former: int) -> list[RunnerRow]:
    """The runners that are registered, and the last of the former ones."""
    rows = await link.fetch("list_runners", former)
    return [RunnerRow(**{**row, "versions": decoded_or(row["versions"], {}, type=dict[str, int])}) for row in rows]


async def end_listener(link: Link, pid: int, *, timeout: float | None = None) -> None:
    """End the session that listens, if the server's process with this number still is one."""
    await link.fetch("end_listener", pid, timeout=timeout)


async def look(link: Link, *, timeout: float | None = None) -> RunnersLook:
    """Every runner's beat, and whether there are orphans."""
    (row,) = await link.fetch("look_at_runners", timeout=timeout)
    places = dict(zip(row["ids"], zip(row["machines"], row["pids"], strict=True), strict=True))
    return RunnersLook(dict(zip(row["ids"], row["beats"], strict=True)), row["orphans"], places)


async def cut_off(link: Link, ids: Collection[int]) -> set[int]:
    """Those of them that beat last by a session which has ended."""
    return {row["id"] for row in await link.fetch("cut_off", list(ids))}


async def bury(link: Link, beats: Mapping[int, int]) -> dict[int, bool]:
    """Delete the runners whose beat is still the one given, and keep them among the former ones; by id whether it died, or had
    stopped by itself.
    """
    rows = await link.fetch("bury_runners", list(beats), list(beats.values()))
    return {row["id"]: row["died"] for row in rows}


async def orphans(link: Link, batch: int, *, aside: Sequence[int]) -> list[int]:
    """The jobs that a `rescue` would look at."""
    return [row["id"] for row in await link.fetch("orphans", batch, list(aside))]


async def rescue(
    link: Link, batch: int, *, max_errors: int, aside: Sequence[int] = (), only: Sequence[int] | None = None
) -> Rescued:
    """Take back at most `batch` jobs from runners that do not exist, but for those `aside`; or `only` these. Not in the
    transaction that deleted the runners.
    """
    (row,) = await link.fetch("rescue", batch, max_errors, list(aside) or None, None if only is None else list(only))
    attempts = list(zip(row["types"], row["statuses"], strict=True))
    return Rescued(
        row["rescued"], row["dead"], row["cancelled"], row["given_back"], row["queues"], row["suspects"], attempts, row["more"]
    )
