"""What the doctor looks at in the database.

It may be in any state, and behind any pooler, so the connections are plain ones (`Database.plain`): no statement outlives its
call, no start-up parameter is sent. What needs the tables is looked at only when they are this program's. A notification is sent,
and waited for, only where the server's process is not the one that was reached: a pooler that hands over sessions delivers it.
"""

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from asyncjobs.model.symptom import (
    LONG_BLOCKED,
    LONG_CANCEL,
    LONG_TRANSACTION,
    RECENT,
    BlockedKeys,
    Death,
    LeaseAge,
    SchemaState,
    Signs,
    TableUse,
    Transaction,
)
from asyncjobs.store import leases, migrate, overview, runners, schedules
from asyncjobs.store.database import Database, Link
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.store.listener import Listener

_MADE = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON|^DROP INDEX (?:IF EXISTS )?\S*?(\w+);", re.MULTILINE)
_HEAR_SECONDS: Final = 2.0
_PROBE: Final = "t:doctor"  # a probe's payload: runners do nothing about it
_WAITS_SECONDS: Final = 30.0  # for which jobs that hold all slots have waited for their children
_PAUSED: Final = 10_000  # jobs that are looked at for who paused them
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
            seen |= await _of_tables(link, seen.pop("now"), seen.pop("indexes"), silent_after)
        else:
            del seen["now"], seen["indexes"]
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
        "now": server["now"],
        "indexes": {name: name not in row["invalid"] for row in tables for name in row["indexes"]},
        "tables": [TableUse(row["name"], row["live"], row["dead"], row["left_out"]) for row in tables],
        "transactions": [Transaction(*row) for row in await link.fetch("doctor_transactions", LONG_TRANSACTION)],
        "skew_seconds": (asked_at + (answered_at - asked_at) / 2 - server["now"]).total_seconds(),
        "connections": server["connections"],
        "max_connections": server["max_connections"],
        "autovacuum": server["autovacuum"],
        "isolation": server["isolation"],
    }


async def _of_tables(link: Link, now: datetime, indexes: Mapping[str, bool], silent_after: float) -> dict[str, Any]:
    everybody = await runners.everybody(link, _FORMER)
    unserved = [(one.queue, one.type, one.unserved) for one in (await overview.depths(link)).counts if one.unserved]
    stuck = await link.fetch("doctor_jobs", _WAITS_SECONDS, _PAUSED, LONG_CANCEL, RECENT.total_seconds())
    living = [(one, one.beat_at) for one in everybody if one.beat_at is not None]
    return {
        "missing_indexes": sorted(expected_indexes(link.database) - indexes.keys()),
        "invalid_indexes": sorted(name for name, is_valid in indexes.items() if not is_valid),
        "leases": [
            LeaseAge(one.duty, one.runner_id, _age(now, one.renewed_at), _age(now, one.last_run_at))
            for one in await leases.leases(link)
        ],
        "silent_runners": [(one.id, one.host, one.pid, (now - beat_at).total_seconds()) for one, beat_at in living],
        "live_runners": sum(one.stopped_at is None for one, _ in living),
        "stopping": [
            (one.id, one.host, one.pid, (now - one.stopped_at).total_seconds())
            for one, beat_at in living
            if one.stopped_at is not None and (now - beat_at).total_seconds() <= silent_after
        ],
        "troubles": [(one.id, trouble) for one, _ in living for trouble in one.troubles],
        "failed_schedules": await schedules.failed(link),
        "deaths": sorted(
            (Death(one.id, one.host, one.pid, one.died_at) for one in everybody if one.died_at and now - one.died_at < RECENT),
            key=lambda death: death.died_at,
            reverse=True,
        ),
        "unserved": unserved,
        "undeclared": await _undeclared(
            link, {type for _, type, _ in unserved} - {type for one, _ in living for type in one.types}
        ),
        "waits": [(one["name"], one["count"], one["slots"]) for one in stuck if one["why"] == "starved"],
        "held_by_hand": [(one["name"], one["count"]) for one in stuck if one["why"] == "paused"],
        "cancelling": [(one["id"], one["name"], one["seconds"], one["count"]) for one in stuck if one["why"] == "cancelling"],
        "broken": [(one["id"], one["name"], one["count"]) for one in stuck if one["why"] == "broken"],
        "sequences": [tuple(row) for row in await link.fetch("doctor_sequences")],
        "blocked_keys": [BlockedKeys(*row) for row in await link.fetch("doctor_keys", LONG_BLOCKED, silent_after)],
    }


async def _undeclared(link: Link, types: set[str]) -> dict[str, datetime | None]:
    """When each of these types, which no living runner has, was declared last."""
    rows = await link.fetch("declared_types", sorted(types)) if types else []
    declared: dict[str, datetime] = {row["name"]: row["declared_at"] for row in rows}
    return {type: declared.get(type) for type in sorted(types)}


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
