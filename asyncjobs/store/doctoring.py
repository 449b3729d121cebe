"""What the doctor looks at in the database.

It may be in any state, and behind any pooler, so the connections are plain ones (`Database.plain`): no statement outlives its
call, no start-up parameter is sent. What needs the tables is looked at only when they are this program's. A notification is sent,
and waited for, only where the server's process is not the one that was reached: a pooler that hands over sessions delivers it.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, Final

from asyncjobs.model.signs import (
    BlockedKeys,
    Death,
    Held,
    LeaseAge,
    LimitTrouble,
    SchemaState,
    Signs,
    TableUse,
    Transaction,
)
from asyncjobs.model.symptom import (
    FAILING_ATTEMPTS,
    FAILING_SECONDS,
    LONG_BLOCKED,
    LONG_CANCEL,
    LONG_CLOSED,
    LONG_TRANSACTION,
    RECENT,
)
from asyncjobs.store import leases, migrate, overview, runners
from asyncjobs.store.database import Database, Link, Record
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.store.listener import Listener

_MADE = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON|^DROP INDEX (?:IF EXISTS )?\S*?(\w+);", re.MULTILINE)
_HEAR_SECONDS: Final = 2.0
_PROBE: Final = "t:doctor"  # a probe's payload: runners do nothing about it
_WAITS_SECONDS: Final = 30.0  # for which jobs that hold all slots have waited for their children
_PAUSED: Final = 10_000  # jobs that are looked at for who paused them
_FULL: Final = 10_000  # limit keys that are looked at for whether they are
_FORMER: Final = 100  # runners that have ended: whether one died is looked for among so many


def expected_indexes(database: Database) -> set[str]:
    """The indexes that the migrations make by name."""
    names: set[str] = set()
    for one in migrate.known():
        for made, dropped in _MADE.findall(database.migration(one.name)):
            names.add(made) if made else names.discard(dropped)
    return names


async def signs(database: Database, *, listening: Database | None = None, silent_after: float) -> Signs:
    """What there is to see. Reads statistics and small tables, no finished jobs. `listening`: where runners LISTEN."""
    link = database.plain().link("doctor")
    try:
        found = await migrate.status(link.database)
        schema = SchemaState(
            database.schema, found.applied, found.pending, found.unknown_breaking, found.renamed_from, found.forgotten
        )
        seen = await _of_server(link)
        if schema.is_readable:
            seen |= await _of_tables(link, seen.pop("indexes"), silent_after)
        else:
            del seen["indexes"]
        if database.sets_isolation:
            del seen["isolation"]
        return Signs(schema=schema, pooled=not await _hears((listening or database).plain()), **seen)
    finally:
        await link.close()


async def _of_server(link: Link) -> dict[str, Any]:
    asked_at = datetime.now(UTC)
    (server,) = await link.fetch("doctor_server")
    answered_at = datetime.now(UTC)
    tables = await link.fetch("doctor_tables", link.database.schema)
    return {
        "indexes": {name: name not in row["invalid"] for row in tables for name in row["indexes"]},
        "tables": [TableUse(row["name"], row["live"], row["dead"], row["left_out"]) for row in tables],
        "transactions": [Transaction(*row) for row in await link.fetch("doctor_transactions", LONG_TRANSACTION)],
        "skew_seconds": (asked_at + (answered_at - asked_at) / 2 - server["now"]).total_seconds(),
        "connections": server["connections"],
        "max_connections": server["max_connections"],
        "autovacuum": server["autovacuum"],
        "isolation": server["isolation"],
    }


async def _of_tables(link: Link, indexes: Mapping[str, bool], silent_after: float) -> dict[str, Any]:
    counts = (await overview.depths(link)).counts
    stuck = await link.fetch("doctor_jobs", _WAITS_SECONDS, _PAUSED, LONG_CANCEL, RECENT.total_seconds())
    found = await _of_work(link, counts, silent_after)
    return {
        **found,
        "missing_indexes": sorted(expected_indexes(link.database) - indexes.keys()),
        "invalid_indexes": sorted(name for name, is_valid in indexes.items() if not is_valid),
        "waits": [(one["name"], one["count"], one["slots"]) for one in stuck if one["why"] == "starved"],
        "held_by_hand": [(one["name"], one["count"]) for one in stuck if one["why"] == "paused"],
        "cancelling": [(one["id"], one["name"], one["seconds"], one["count"]) for one in stuck if one["why"] == "cancelling"],
        "broken": [(one["id"], one["name"], one["count"]) for one in stuck if one["why"] == "broken"],
        "limits": [LimitTrouble(*row) for row in await link.fetch("doctor_limits", LONG_CLOSED, _FULL)],
        "sequences": [(one["name"], one["count"], one["id"]) for one in stuck if one["why"] == "sequence"],
    }


async def work(link: Link, counts: Sequence[overview.Count], *, silent_after: float) -> Signs:
    """The signs of what keeps work from being done, for those who look often and have counted the jobs: four statements."""
    return Signs(**await _of_work(link, counts, silent_after))


async def _of_work(link: Link, counts: Sequence[overview.Count], silent_after: float) -> dict[str, Any]:
    everybody = await runners.everybody(link, _FORMER)
    living = [(one, one.beat_at) for one in everybody if one.beat_at is not None]
    rows = await link.fetch("doctor_work", FAILING_SECONDS, FAILING_ATTEMPTS)
    now: datetime = next(row["at"] for row in rows if row["why"] == "now")
    dead = next((row for row in rows if row["why"] == "dead"), None)
    declared: dict[str, datetime] = {row["name"]: row["at"] for row in rows if row["why"] == "declared"}
    served = {type for one, _ in living for type in one.types}
    pauses = {(row["kind"], row["name"]) for row in rows if row["why"] == "pause"}
    return {
        "now": now,
        "leases": [
            LeaseAge(one.duty, one.runner_id, _age(now, one.renewed_at), _age(now, one.last_run_at), one.failures or 0)
            for one in await leases.leases(link)
        ],
        "silent_runners": [(one.id, one.host, one.pid, (now - beat_at).total_seconds()) for one, beat_at in living],
        "cut_off": [(one.id, one.host, one.pid, (now - beat_at).total_seconds()) for one, beat_at in living if one.is_cut_off],
        "live_runners": sum(one.stopped_at is None for one, _ in living),
        "stopping": [
            (one.id, one.host, one.pid, (now - one.stopped_at).total_seconds())
            for one, beat_at in living
            if one.stopped_at is not None and (now - beat_at).total_seconds() <= silent_after
        ],
        "troubles": [(one.id, trouble) for one, _ in living for trouble in one.troubles],
        "failed_schedules": [(row["name"], row["note"]) for row in rows if row["why"] == "schedule"],
        "deaths": sorted(
            (Death(one.id, one.host, one.pid, one.died_at) for one in everybody if one.died_at and now - one.died_at < RECENT),
            key=lambda death: death.died_at,
            reverse=True,
        ),
        "undeclared": {one.type: declared.get(one.type) for one in counts if one.unserved and one.type not in served},
        "unserved": [(one.queue, one.type, one.unserved) for one in counts if one.unserved],
        "pauses": [_held(row, _behind_pause(row, counts)) for row in rows if row["why"] == "pause"],
        "breakers": [
            _held(row, sum(one.count for one in counts if one.status == "pending" and one.type in row["types"]))
            for row in rows
            if row["why"] == "breaker"
        ],
        "dead_letters": 0 if dead is None else dead["count"],
        "first_death_at": None if dead is None else dead["at"],
        "oldest_pending": _oldest(now, counts, pauses, {type for row in rows for type in row["types"] or ()}),
        "failing": [(row["name"], row["count"]) for row in rows if row["why"] == "failing"],
        "blocked_keys": [BlockedKeys(*row) for row in await link.fetch("doctor_keys", LONG_BLOCKED, silent_after)],
    }


def _held(row: Record, jobs: int) -> Held:
    what = "everything" if row["kind"] == "all" else f'{row["kind"] or "breaker"} "{row["name"]}"'
    return Held(what, row["at"], row["until"], row["note"] or "", jobs)


def _behind_pause(pause: Record, counts: Sequence[overview.Count]) -> int:
    """Jobs of a paused type are paused, those of a paused queue pending."""
    if pause["kind"] == "type":
        return sum(one.count for one in counts if one.status == "paused" and one.type == pause["name"])
    return sum(one.count for one in counts if one.status == "pending" and (pause["kind"] == "all" or one.queue == pause["name"]))


def _oldest(
    now: datetime, counts: Sequence[overview.Count], pauses: AbstractSet[tuple[str, str]], broken: AbstractSet[str]
) -> tuple[str, str, float] | None:
    """The pending job that has been due for longest of those that nothing holds back that has a rule of its own."""
    held = {name for kind, name in pauses if kind == "queue"}
    if any(kind == "all" for kind, _ in pauses):
        return None
    free = [
        one
        for one in counts
        if one.status == "pending" and one.unserved < one.count and one.queue not in held and one.type not in broken
    ]
    oldest = min(free, key=lambda one: one.oldest_at, default=None)
    return None if oldest is None else (oldest.queue, oldest.type, (now - oldest.oldest_at).total_seconds())


async def _hears(database: Database) -> bool:
    """Whether notifications arrive, as far as one can see; with a process of the server's own they do."""
    link = database.link("doctor")
    try:
        reached = (await link.connection()).get_server_pid()
        (server,) = await link.fetch("doctor_server")
        return reached == server["backend_pid"] or await _is_notified(database, link)
    finally:
        await link.close()


async def _is_notified(database: Database, link: Link) -> bool:
    heard = asyncio.Event()
    listener = Listener(database, on_notification=lambda *_: heard.set(), on_lost=lambda: None)
    try:
        await listener.listen()
        await link.fetch("send_notifications", database.channel, [_PROBE])
        await asyncio.wait_for(heard.wait(), _HEAR_SECONDS)
    except (TimeoutError, *DATABASE_ERRORS):
        return False
    finally:
        await listener.close()
    return True


def _age(now: datetime, since: datetime | None) -> float | None:
    return None if since is None else (now - since).total_seconds()
