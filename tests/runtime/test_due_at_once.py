"""Very many jobs due at once: they become pending in bounded batches, and neither claims nor batches wait for each other."""

import time

import pytest

from asyncjobs.runtime.promoter import Promoter
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.due import promote
from asyncjobs.telemetry.events import Events, JobsPromoted
from asyncjobs.testing import Recorder
from tests.support.claiming import Claiming, fill
from tests.support.eventually import eventually
from tests.support.services import running

BATCH = 100


def batches_of(recorder: Recorder) -> list[int]:
    return [event.count for event in recorder.of(JobsPromoted)]


async def promote_while_claiming(database: Database, claiming: Claiming, recorder: Recorder, count: int) -> list[int]:
    """The sizes of the batches."""
    link = database.link("duties")
    promoter = Promoter(link, Wakes(lambda _: None), events=Events(), batch=BATCH)

    try:
        async with running(promoter):
            await claiming.go_on(lambda: sum(batches_of(recorder)) >= count)
    finally:
        await link.close()
    return batches_of(recorder)


async def test_promotion_is_in_bounded_batches(database: Database, connection: Connection, recorder: Recorder) -> None:
    await fill(connection, 2_000, "scheduled", "default")
    link = database.link("duties")
    promoter = Promoter(link, Wakes(lambda _: None), events=Events(), interval_seconds=3600.0, batch=BATCH)
    try:
        async with running(promoter):
            await eventually(lambda: sum(batches_of(recorder)) == 2_000, description="all are promoted")
    finally:
        await link.close()
    assert batches_of(recorder) == [BATCH] * 20
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'scheduled'") == 0


@pytest.mark.parametrize("is_claim_held", [False, True], ids=["a batch", "a claim"])
async def test_claims_and_batches_go_on_beside_one_of_the_other_that_is_not_committed(
    database: Database, connection: Connection, claiming: Claiming, *, is_claim_held: bool
) -> None:
    await fill(connection, BATCH, "pending", "probe")
    await fill(connection, BATCH, "scheduled", "probe")
    link = database.link("duties")

    async def batch() -> int:
        return (await promote(link, BATCH))[0].count

    first, second = (claiming.take_all, batch) if is_claim_held else (batch, claiming.take_all)
    held = await (claiming.claims.link if is_claim_held else link).connection()
    async with held.transaction():
        assert (await first(), await second()) == (BATCH, BATCH)
    assert await claiming.take_all() == BATCH
    await link.close()


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
