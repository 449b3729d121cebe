"""Very many rows to be deleted: in bounded batches, whose locks are held for moments, while claims go on."""

import time
from typing import Any

import pytest

from asyncjobs.runtime.pruner import Pruner, keeping
from asyncjobs.settings import Settings
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, RowsPruned
from asyncjobs.testing import Recorder
from tests.support.claiming import Claiming
from tests.support.eventually import eventually
from tests.support.services import running

BATCH = 100


async def old_jobs(connection: Connection, count: int) -> None:
    """So many jobs of two types that ended eight days ago, or somewhat more."""
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, type, queue, status, completed_at) "
        "SELECT 0, CASE n % 2 WHEN 0 THEN 'mail' ELSE 'sms' END, 'default', 'completed', "
        "now() - interval '8 days' - n * interval '1 second' FROM generate_series(1, $1) AS n",
        count,
    )


class Setup:
    """A pruner, and how long each of its statements took."""

    def __init__(self, database: Database) -> None:
        self.link = database.link("duties")
        self.seconds: list[float] = []
        self.pruner = Pruner(self.link, keeping(Settings()), events=Events(), interval_seconds=600.0, batch=BATCH)
        self._fetch = self.link.fetch
        self.link.fetch = self._timed  # type: ignore[method-assign]

    async def _timed(self, name: str, *args: Any, **options: Any) -> Any:
        began = time.monotonic()
        try:
            return await self._fetch(name, *args, **options)
        finally:
            self.seconds.append(time.monotonic() - began)


async def test_rows_are_pruned_in_bounded_batches_until_there_are_no_more(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    await old_jobs(connection, 1_900)
    setup = Setup(database)
    async with running(setup.pruner):
        await eventually(lambda: sum(event.jobs for event in recorder.of(RowsPruned)) == 1_900, description="all are gone")
        before = setup.pruner.passes
        setup.pruner.wake()
        await setup.pruner.wait_passed()
    batches = [event.jobs for event in recorder.of(RowsPruned)]
    assert batches == [2 * BATCH] * 9 + [BATCH], "a batch of each type"
    assert len(setup.seconds) == setup.pruner.passes >= before, "a pass is one statement"
    await setup.link.close()


async def test_rows_that_somebody_holds_end_nothing_and_are_pruned_later(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    await old_jobs(connection, 10)
    setup = Setup(database)
    async with running(setup.pruner):
        async with connection.transaction():
            await connection.execute("SELECT FROM asyncjobs.jobs WHERE type = 'mail' FOR UPDATE")
            await eventually(lambda: recorder.of(RowsPruned), description="the others go")
        setup.pruner.wake()
        await eventually(lambda: sum(event.jobs for event in recorder.of(RowsPruned)) == 10, description="all go")
    assert [event.jobs for event in recorder.of(RowsPruned)] == [5, 5]
    assert setup.pruner.failures == 0
    await setup.link.close()


@pytest.mark.proof
async def test_half_a_million_rows_are_pruned_while_claims_go_on(
    database: Database, connection: Connection, claiming: Claiming, recorder: Recorder
) -> None:
    ends = time.monotonic() + 10.0
    await claiming.go_on(lambda: time.monotonic() > ends)
    idle = claiming.p99
    await old_jobs(connection, 500_000)
    claiming.seconds.clear()
    setup = Setup(database)
    began = time.monotonic()
    async with running(setup.pruner):
        await claiming.go_on(lambda: sum(event.jobs for event in recorder.of(RowsPruned)) >= 500_000)
    seconds = time.monotonic() - began
    longest = max(setup.seconds)
    print(  # noqa: T201 - the figures are the point
        f"500,000 rows in {seconds:.0f} s, the longest of {len(setup.seconds)} statements {longest * 1000:.0f} ms; "
        f"claim p99 idle {idle * 1000:.1f} ms, meanwhile {claiming.p99 * 1000:.1f} ms"
    )
    assert max(event.jobs for event in recorder.of(RowsPruned)) <= 2 * BATCH
    assert longest < 1.0
    assert claiming.p99 < 3 * idle
    await setup.link.close()
