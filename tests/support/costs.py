"""What work costs, in counts that are the same on every machine: statements, transactions, pages, log, memory, calls."""

import gc
import sys
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from asyncjobs.store.database import Connection

_TOTALS = """
SELECT coalesce(sum(s.calls), 0)::bigint AS calls,
    coalesce(sum(s.shared_blks_hit + s.shared_blks_read), 0)::bigint AS buffers,
    coalesce(sum(s.shared_blks_dirtied), 0)::bigint AS dirtied, coalesce(sum(s.wal_bytes), 0)::bigint AS wal_bytes,
    (pg_snapshot_xmax(pg_current_snapshot())::text)::bigint AS transactions
FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
WHERE d.datname = current_database() AND s.toplevel AND s.query ~ $1
"""


class Cost(msgspec.Struct, frozen=True):
    """What the server did for statements of a kind."""

    statements: int
    buffers: int  # pages looked at
    dirtied: int  # of these, pages that were clean until then
    wal_bytes: int
    transactions: int  # that wrote, whatever their statements

    def per(self, count: int) -> "dict[str, float]":
        """By job, say."""
        return {name: value / count for name, value in msgspec.structs.asdict(self).items()}


class Meter:
    """What statements whose text matches `pattern` cost since the meter was set, in the connection's database."""

    def __init__(self, connection: Connection, pattern: str) -> None:
        self._connection = connection
        self._pattern = pattern
        self._from = Cost(0, 0, 0, 0, 0)

    async def set(self) -> None:
        """Count from now on."""
        await self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._from = await self._totals()

    async def read(self) -> Cost:
        """What it cost since then."""
        now, before = msgspec.structs.astuple(await self._totals()), msgspec.structs.astuple(self._from)
        return Cost(*(a - b for a, b in zip(now, before, strict=True)))

    async def _totals(self) -> Cost:
        row = await self._connection.fetchrow(_TOTALS, self._pattern)
        assert row is not None
        return Cost(*row)


class Calls:
    """How many Python functions were called."""

    def __init__(self) -> None:
        self.count = 0

    def _note(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self.count += event == "call"

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count in this thread."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)


class Memory:
    """Bytes that Python allocated: at most, and what stayed."""

    def __init__(self) -> None:
        self.peak = 0
        self.left = 0

    @contextmanager
    def traced(self) -> Generator[None]:
        """Trace meanwhile."""
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            yield
            _, peak = tracemalloc.get_traced_memory()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            self.peak, self.left = peak - before, after - before
        finally:
            tracemalloc.stop()
