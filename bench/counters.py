"""What one database's work has cost its server, in numbers that do not depend on the machine."""

import asyncio
from typing import NamedTuple

from bench.server import Connection, connected, database_at
from bench.usage import Usage

_COUNTS = """
    SELECT d.xact_commit + d.xact_rollback AS transactions,
        (SELECT coalesce(sum(s.calls), 0)::bigint FROM pg_stat_statements AS s WHERE s.dbid = d.datid) AS statements,
        (pg_current_wal_insert_lsn() - '0/0')::bigint AS wal
    FROM pg_stat_database AS d WHERE d.datname = $1
"""
_DEAD = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_all_tables WHERE schemaname NOT LIKE 'pg\\_%'"
_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'"


class Counts(NamedTuple):
    """Since the server started; the difference of two is what happened between them."""

    transactions: float
    statements: float
    wal_bytes: float
    #: Row versions that updates and deletes made obsolete.
    dead_tuples: float
    server_cpu_seconds: float

    def since(self, before: "Counts") -> "Counts":
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


class Counters:
    """Reads the counts of one database, from another one, so that little of the reading is counted."""

    def __init__(self, connection: Connection, dsn: str, name: str) -> None:
        self._connection = connection
        self._name = name
        self._dsn = database_at(dsn, name)
        self._read = 0

    async def when_all_left(self) -> Counts:
        """When nobody is connected to it any more: sessions write down what they did at most once a second, and when they end."""
        while await self._connection.fetchval(_OTHERS, self._name):  # noqa: ASYNC110 - a table has no event to await
            await asyncio.sleep(0.02)
        return await self.now()

    async def now(self) -> Counts:
        row = await self._connection.fetchrow(_COUNTS, self._name)
        assert row is not None
        async with connected(self._dsn) as inside:
            dead: int = await inside.fetchval(_DEAD)
        server = await Usage.of_server(self._connection)
        return Counts(row["transactions"], row["statements"], row["wal"], dead, server.family_cpu_seconds())
