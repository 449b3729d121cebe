"""What leases cost besides heartbeats, whatever the number of runners. These are simulated, each with a leader that beats."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from asyncjobs.model.lease import LeaseTimes
from asyncjobs.runtime.heartbeat import MainLoop
from asyncjobs.runtime.leader import Leader
from asyncjobs.store import leases
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.telemetry.events import Events
from tests.support.eventually import eventually
from tests.support.factories import insert_runner

DUTIES = ("prune", "rescue", "sweep", "report", "roll up", "mail")
HEARTBEAT_SECONDS = 5.0
#: Besides heartbeats, of all runners together.
STATEMENTS_PER_SECOND = 6.0


class Simulated:
    """A runner as far as leases go: it beats as `_Beating` does, over a connection that it shares with others."""

    def __init__(self, link: Link, id: int, *, offset: float, poll_seconds: float, scale: float) -> None:
        self.id = id
        self.times = LeaseTimes(**{name: scale * seconds for name, seconds in msgspec.structs.asdict(LeaseTimes()).items()})
        self.fresh_seconds = scale * 8.0
        self.heartbeat_seconds = scale * HEARTBEAT_SECONDS
        self.leader = Leader(
            DUTIES, self.times, events=Events(), fresh_seconds=self.fresh_seconds, poll_seconds=lambda: scale * poll_seconds
        )
        self.statements: Counter[str] = Counter()
        self._link = link
        self._offset = scale * offset

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        main = MainLoop(loop, Events(), stall_after_seconds=60.0)
        await asyncio.sleep(self._offset)
        beats_at = 0.0
        while True:
            sent_at = self.leader._clock()
            is_beat = sent_at >= beats_at
            if is_beat:
                beats_at = sent_at + self.heartbeat_seconds
            self.statements["beats" if is_beat else "leases"] += 1
            said = self.leader.say(self.id, sent_at, may_renew=True)
            heard = await leases.beat(
                self._link, self.id, said, expiry_seconds=self.times.expiry_seconds, fresh_seconds=self.fresh_seconds
            )
            assert heard is not None
            self.leader.hear(said, heard, sent_at=sent_at, answered_at=self.leader._clock(), call=main.call)
            pause = self.leader.pause_seconds(self.leader._clock())
            await asyncio.sleep(min(pause or self.heartbeat_seconds, beats_at - self.leader._clock()))


@asynccontextmanager
async def fleet(
    database: Database, connection: Connection, count: int, *, poll_seconds: float = 5.0, scale: float = 1.0
) -> AsyncGenerator[list[Simulated]]:
    links = [database.link(f"fleet {number}") for number in range(8)]
    made = [
        Simulated(
            links[id % 8], id, offset=scale * HEARTBEAT_SECONDS * id / count, poll_seconds=scale * poll_seconds, scale=scale
        )
        for id in range(1, count + 1)
    ]
    for one in made:
        await insert_runner(connection, id=one.id, duties=list(DUTIES))
    tasks = [asyncio.create_task(one.run()) for one in made]
    try:
        await asyncio.sleep(scale * (HEARTBEAT_SECONDS + 0.5))
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in links:
            await link.close()


def total(made: list[Simulated]) -> Counter[str]:
    return sum((one.statements for one in made), Counter())


async def measured(
    database: Database, connection: Connection, count: int, seconds: float, *, scale: float = 1.0, **options: float
) -> float:
    """Statements per second besides heartbeats. With a scale all times are so much shorter, and seconds mean what they were."""
    async with fleet(database, connection, count, scale=scale, **options) as made:
        before = total(made)
        await asyncio.sleep(scale * seconds)
        counted = total(made) - before
    rate, beats = counted["leases"] / seconds, counted["beats"] / seconds
    print(f"{count} runners: {rate:.2f} lease statements/s besides {beats:.1f} beats/s")  # noqa: T201 - the figure is the point
    return rate


async def test_lease_traffic_is_small(database: Database, connection: Connection) -> None:
    assert await measured(database, connection, 20, 6.0, scale=0.4) <= 2.0


async def test_where_runners_poll_for_leases_only_a_few_do(database: Database, connection: Connection) -> None:
    assert await measured(database, connection, 20, 6.0, poll_seconds=0.05, scale=0.4) <= 4.5


async def test_fleet_does_not_fall_upon_a_lease_whose_holder_fell_silent(database: Database, connection: Connection) -> None:
    async with fleet(database, connection, 30, scale=0.4) as made:
        await connection.execute(
            "UPDATE asyncjobs.background_job_leases SET held_by_worker_id = '77', token = 1, renewals = 0, heartbeat_at = now()"
        )
        before = total(made)
        await eventually(lambda: any(one.leader.term("prune") for one in made), description="somebody takes it", timeout=16.0)
        assert (total(made) - before)["leases"] <= 20


@pytest.mark.proof
@pytest.mark.parametrize("count", [10, 50, 200])
@pytest.mark.parametrize("poll_seconds", [5.0, 1.0])
async def test_lease_traffic_does_not_grow_with_the_number_of_runners(
    database: Database, connection: Connection, count: int, poll_seconds: float
) -> None:
    assert await measured(database, connection, count, 60.0, poll_seconds=poll_seconds) <= STATEMENTS_PER_SECOND
