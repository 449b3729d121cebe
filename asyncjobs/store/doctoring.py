"""What the doctor looks at in the database."""

import re
from datetime import UTC, datetime

from asyncjobs.model.symptom import LONG_TRANSACTION, LeaseAge, Signs, TableUse, Transaction
from asyncjobs.store import leases, migrate, overview, runners
from asyncjobs.store.database import Database, Link

_MADE = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON|^DROP INDEX (?:IF EXISTS )?\S*?(\w+);", re.MULTILINE)


def expected_indexes(database: Database) -> set[str]:
    """The indexes that the migrations make by name."""
    names: set[str] = set()
    for one in migrate.known():
        for made, dropped in _MADE.findall(database.migration(one.name)):
            names.add(made) if made else names.discard(dropped)
    return names


async def signs(link: Link) -> Signs:
    """What there is to see. Reads statistics and small tables, no finished jobs."""
    database = link.database
    indexes = {row["name"]: row["valid"] for row in await link.fetch("doctor_indexes", database.schema)}
    asked_at = datetime.now(UTC)
    (server,) = await link.fetch("doctor_server")
    answered_at = datetime.now(UTC)
    reached = (await link.connection()).get_server_pid()
    now: datetime = server["now"]
    (halted,) = await link.fetch("halted_keys")
    living = [(one, (now - one.beat_at).total_seconds()) for one in await runners.everybody(link, 0) if one.beat_at is not None]
    return Signs(
        missing_indexes=sorted(expected_indexes(database) - indexes.keys()),
        invalid_indexes=[name for name, valid in indexes.items() if not valid],
        pending_migrations=(await migrate.status(database)).pending,
        tables=[TableUse(*row) for row in await link.fetch("doctor_tables", database.schema)],
        transactions=[Transaction(*row) for row in await link.fetch("doctor_transactions", LONG_TRANSACTION)],
        leases=[
            LeaseAge(one.duty, one.runner_id, _age(now, one.renewed_at), _age(now, one.last_run_at))
            for one in await leases.leases(link)
        ],
        silent_runners=[(one.id, one.host, one.pid, age) for one, age in living],
        live_runners=len(living),
        unserved=[(one.queue, one.type, one.count) for one in await overview.stats(link) if not one.served],
        halted_keys=halted["count"],
        skew_seconds=(asked_at + (answered_at - asked_at) / 2 - now).total_seconds(),
        pooled=reached != server["backend_pid"],
        connections=server["connections"],
        max_connections=server["max_connections"],
        autovacuum=server["autovacuum"],
    )


def _age(now: datetime, since: datetime | None) -> float | None:
    return None if since is None else (now - since).total_seconds()
