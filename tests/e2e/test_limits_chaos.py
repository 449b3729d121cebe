"""P15 with three processes, of which one is killed and one frozen for longer than its death takes.

Transactions of callers are open for a while, and some are rolled back; jobs fail and come back; urgent rows come in front of
others. Every start is looked at in its claim's own transaction.
"""

import asyncio
import json
import sys
from collections.abc import Collection
from pathlib import Path

import asyncpg
import msgspec
import pytest

from asyncjobs.model.new_row import NewRow
from asyncjobs.store.database import Connection, Database
from tests.support.idle_permits import Idle, watch
from tests.support.stress import Plan, Result, Stress

TOTAL = 20
MOST_EACH = 5


class LimitStress(Stress):
    """Keys are tenants: of five limits, of which the n-th lets n of each run at once, and twenty of all."""

    def _row(self, key: int, number: int) -> NewRow:
        row = super()._row(key, number)
        return msgspec.structs.replace(
            row, limit_key=f"api{key % MOST_EACH + 1}:tenant{key}", priority=self.random.choice([100, 100, 100, 1]),
            serialization_key=row.serialization_key if self.random.random() < 0.1 else None,
        )  # fmt: skip

    def _accept(self, ids: Collection[int]) -> None:
        self.committed.update(ids)  # (when a job can start, whose permit others have, is not known here)


async def _declare(connection: Connection) -> None:
    """Five limits; the processes themselves declare a total of the queue over all of them."""
    limits = [
        {"kind": "limit", "name": f"api{each}", "values": {"each": each, "total": TOTAL}} for each in range(1, MOST_EACH + 1)
    ]
    await connection.execute("SELECT asyncjobs.declare_limits($1)", json.dumps(limits))


async def _check(result: Result, database: Database, connection: Connection) -> None:
    assert result.violations == []
    assert (result.missing, result.unexpected, result.stuck) == ([], [], [])
    for name in ("audit_limits", "audit_limit_keys"):
        assert [tuple(row) for row in await connection.fetch(database.sql(name))] == []


async def test_no_limit_is_exceeded_when_processes_are_killed_and_frozen(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    await _declare(connection)
    result = await LimitStress(database, Plan(seed=0, keys=25, jobs_per_key=12, work_seconds=0.06, total=TOTAL), tmp_path).run()
    await _check(result, database, connection)
    assert result.enqueued == 300
    assert result.rescued > 0


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1, 4))
async def test_two_hundred_tenants(seed: int, database: Database, connection: Connection, tmp_path: Path) -> None:
    """Of 1 to 5 permits each, twenty over all: none idles while a job waits that may have it, and no tenant is passed over."""
    await _declare(connection)
    plan = Plan(seed=seed, keys=200, jobs_per_key=12, work_seconds=0.2, total=TOTAL)
    watcher, seen = await asyncpg.connect(database.dsn), Idle()
    watching = asyncio.get_running_loop().create_task(watch(watcher, TOTAL, seen))
    try:
        result = await LimitStress(database, plan, tmp_path).run()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await watcher.close()
    sys.stdout.write(
        f"seed {seed}: {result.enqueued} jobs in {result.seconds:.1f} s, {result.cancelled} cancelled, {result.rescued} rescued; "
        f"{seen.looks} looks: at most {seen.most_running} ran, {seen.share:.1%} of the permits idled in {seen.seconds:.1f} s, "
        f"a key was passed over for {seen.passed_over:.1f} s\n"
    )
    await _check(result, database, connection)
    assert result.rescued > 0
    assert seen.most_running <= TOTAL
    assert seen.share < 0.05
    assert seen.passed_over < 15
