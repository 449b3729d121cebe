import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

import pytest

from asyncjobs.runtime.service import Service, backoff_seconds
from asyncjobs.telemetry.events import Events, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience
from tests.support.services import running

pytestmark = pytest.mark.matrix("loop")


class Counting(Service):
    """Does `work` and answers `delay`; notes when its passes started."""

    name: ClassVar[str] = "counting"

    def __init__(self, *, interval: float = 3600.0, chance: float = 0.5, delay: float | None = None) -> None:
        super().__init__(events=Events(), interval_seconds=interval, monotonic=self._read_clock, chance=lambda: chance)
        self.now: float | None = None  # None: the real clock
        self.starts: list[float] = []
        self.delay = delay
        self.work: Callable[[], Awaitable[object]] | None = None

    def _read_clock(self) -> float:
        return time.monotonic() if self.now is None else self.now

    async def pass_(self) -> float | None:
        self.starts.append(time.monotonic())
        if self.work is not None:
            await self.work()
        return self.delay


class Broken(Exception):
    pass


async def fail() -> None:
    raise Broken


async def test_first_pass_runs_at_once_and_the_next_after_the_interval() -> None:
    service = Counting(interval=0.05)
    async with running(service), patience(2):
        await service.wait_passed()
        await service.wait_passed()
    assert service.starts[1] - service.starts[0] > 0.04


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1)])
async def test_interval_is_spread_by_a_tenth_either_way(chance: float, factor: float) -> None:
    assert await Counting(interval=10.0, chance=chance)._turn() == pytest.approx(10.0 * factor)


@pytest.mark.parametrize("chance", [0.0, 1.0])
async def test_delay_that_a_pass_names_is_not_spread(chance: float) -> None:
    assert await Counting(chance=chance, delay=2.5)._turn() == 2.5


async def test_wake_ends_the_wait() -> None:
    service = Counting()
    async with running(service):
        await service.wait_passed()
        service.wake()
        async with patience(2):
            await service.wait_passed()


async def test_wake_during_a_pass_is_followed_by_another_pass() -> None:
    service = Counting()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        entered.set()
        await leave.wait()

    service.work = work
    async with running(service), patience(2):
        await entered.wait()
        service.wake()
        leave.set()
        await service.wait_passed()
    assert service.passes >= 2


async def test_many_wakes_are_one_pass() -> None:
    service = Counting()
    async with running(service):
        await service.wait_passed()
        for _ in range(1000):
            service.wake()
        await service.wait_passed()
        for _ in range(20):
            await asyncio.sleep(0)
    assert service.passes == 2


async def test_wake_within_shortens_the_wait_and_never_lengthens_it() -> None:
    service = Counting()
    async with running(service), patience(2):
        await service.wait_passed()
        service.wake_within(0.1)
        service.wake_within(50.0)
        await service.wait_passed()
    assert service.starts[1] - service.starts[0] > 0.09


async def test_wake_within_during_a_pass_is_not_lost() -> None:
    service = Counting()

    async def work() -> None:
        if service.started_passes == 1:
            service.wake_within(0.05)
            await asyncio.sleep(0)

    service.work = work
    async with running(service), patience(2):
        await service.wait_passed()
        await service.wait_passed()


async def test_wake_within_is_served_by_the_pass_that_starts_later_than_it() -> None:
    service = Counting()
    async with running(service):
        await service.wait_passed()
        service.wake_within(0.02)
        await service.wait_passed()
        await asyncio.sleep(0.1)
    assert service.passes == 2


async def test_wake_within_is_not_served_by_a_pass_that_starts_before_its_time() -> None:
    service = Counting()
    async with running(service), patience(2):
        await service.wait_passed()
        service.wake_within(0.1)
        service.wake()
        await service.wait_passed()
        await service.wait_passed()
    assert service.starts[2] - service.starts[0] >= 0.09


async def test_failing_pass_is_reported_and_does_not_end_the_service(recorder: Recorder) -> None:
    service = Counting(interval=0.01)
    service.work = fail
    async with running(service), patience(5):
        for _ in range(3):
            await service.wait_passed()
        service.work = None
        await service.wait_passed()
    failures = recorder.of(ServicePassFailed)
    assert [event.failures for event in failures[:3]] == [1, 2, 3]
    assert failures[0].service == "counting"
    assert isinstance(failures[0].error, Broken)
    assert service.failures == 0


def test_backoff_doubles_up_to_the_maximum_and_gives_up_to_a_half_to_chance() -> None:
    assert [backoff_seconds(n, 1.0, 0.0) for n in (1, 2, 3, 4, 5, 99_999)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff_seconds(3, 1.0, 1.0) == 0.2


async def test_backoff_is_at_most_the_interval_and_at_most_30_seconds() -> None:
    for interval, longest in ((5.0, 5.0), (3600.0, 30.0)):
        service = Counting(interval=interval, chance=0.0)
        service.work = fail
        delays = [await service._turn() for _ in range(20)]
        assert delays[-1] == longest


async def test_service_may_say_a_shorter_longest_backoff() -> None:
    class Hurried(Counting):
        longest_backoff_seconds = 2.0

    service = Hurried(interval=5.0, chance=0.0)
    service.work = fail
    assert [await service._turn() for _ in range(20)][-1] == 2.0


async def has_passed(service: Service, passes: int) -> None:
    await eventually(lambda: service.passes == passes, description=f"pass {passes}")


async def test_wakes_do_not_shorten_the_backoff_and_are_served_after_it() -> None:
    service = Counting(chance=0.0)
    service.work = fail
    service.now = 0.0
    async with running(service), patience(5):
        await service.wait_passed()
        for passes, at in enumerate((0.1, 0.3, 0.7), start=1):
            service.now = at - 0.01
            for _ in range(20):
                service.wake()
                service.wake_within(0.0)
                await asyncio.sleep(0.001)
            assert service.passes == passes
            service.now = at + 0.005 * passes
            await has_passed(service, passes + 1)
        service.work = None
        service.now = 10.0
        await has_passed(service, 5)
    assert service.failures == 0


async def test_cancelling_ends_a_pass_and_is_no_failure(recorder: Recorder) -> None:
    service = Counting()
    service.work = asyncio.Event().wait
    task = asyncio.create_task(service.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.started_passes == 1
    assert not recorder.of(ServicePassFailed)


async def test_passes_without_pause_leave_room_for_others() -> None:
    service = Counting(delay=0.0)
    async with running(service), patience(2):
        for _ in range(100):
            await asyncio.sleep(0)
    assert 50 < service.passes < 200


async def test_stop_ends_the_loop_after_the_pass() -> None:
    service = Counting()

    async def work() -> None:
        service.stop()

    service.work = work
    async with patience(2):
        await service.run()
    assert service.passes == 1


async def test_age_of_the_last_turn_tells_a_stuck_pass() -> None:
    service = Counting()
    service.now = 5.0
    ages = [service.turn_age_seconds]
    async with running(service):
        await service.wait_passed()
        ages.append(service.turn_age_seconds)
        service.work = asyncio.Event().wait
        service.wake()
        service.now = 35.0
        ages.append(service.turn_age_seconds)
    assert ages == [None, 0.0, 30.0]


async def test_wait_passed_wants_a_pass_that_started_after_the_call() -> None:
    service = Counting()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        entered.set()
        await leave.wait()

    service.work = work
    async with running(service):
        await entered.wait()
        waiting = asyncio.create_task(service.wait_passed())
        await asyncio.sleep(0)
        leave.set()
        while service.passes < 1:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        service.wake()
        await waiting


async def test_starting_and_stopping_at_any_moment_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    for turns in range(60):
        service = Counting(interval=0.0001, delay=None if turns % 2 else 0.0)
        service.work = (fail, None, lambda: asyncio.sleep(0.0001))[turns % 3]
        async with running(service):
            for _ in range(turns):
                service.wake()
                await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
