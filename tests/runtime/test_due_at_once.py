"""Very many jobs due at once: they become pending in bounded batches, and claims go on meanwhile."""

import time

import pytest

from asyncjobs.runtime.promoter import Promoter
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, JobsPromoted
from asyncjobs.testing import Recorder
from tests.support.claiming import Claiming, fill
from tests.support.services import running

BATCH = 100


async def promote_while_claiming(database: Database, claiming: Claiming, recorder: Recorder, count: int) -> list[int]:
    """The sizes of the batches."""
    link = database.link("duties")
    promoter = Promoter(link, Wakes(lambda _: None), events=Events(), batch=BATCH)

    def batches() -> list[int]:
        return [event.count for event in recorder.of(JobsPromoted)]

    try:
        async with running(promoter):
            await claiming.go_on(lambda: sum(batches()) >= count)
    finally:
        await link.close()
    return batches()


async def test_promotion_is_in_bounded_batches_and_claims_go_on(
    database: Database, connection: Connection, claiming: Claiming, recorder: Recorder
) -> None:
    await fill(connection, 2_000, "pending", "probe")
    await fill(connection, 2_000, "scheduled", "default")
    batches = await promote_while_claiming(database, claiming, recorder, 2_000)
    assert batches == [BATCH] * 20
    assert len(claiming.seconds) >= len(batches) / 2, "claims and batches take turns"
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'scheduled'") == 0


@pytest.mark.proof
async def test_claims_are_not_slowed_down_by_100_000_jobs_that_are_due_at_once(
    database: Database, connection: Connection, claiming: Claiming, recorder: Recorder
) -> None:
    ends = time.monotonic() + 10.0
    await claiming.go_on(lambda: time.monotonic() > ends)
    idle, claimed = claiming.p99, len(claiming.seconds)
    await fill(connection, 100_000, "scheduled", "default")
    claiming.seconds.clear()
    began = time.monotonic()
    batches = await promote_while_claiming(database, claiming, recorder, 100_000)
    seconds = time.monotonic() - began
    print(  # noqa: T201 - the figures are the point
        f"claim p99 idle {idle * 1000:.1f} ms ({claimed}), while 100,000 were promoted in {seconds:.1f} s "
        f"{claiming.p99 * 1000:.1f} ms ({len(claiming.seconds)})"
    )
    assert sum(batches) == 100_000
    assert max(batches) <= BATCH
    assert claiming.p99 < 3 * idle
