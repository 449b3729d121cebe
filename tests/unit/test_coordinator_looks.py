"""What scans may have skipped is looked for: when, how often, and what follows."""

from asyncjobs.model.claim import FRONT
from asyncjobs.runtime.coordinator import LONELY_LOOK_SECONDS, SECOND_LOOK_SECONDS
from asyncjobs.settings import Queue
from tests.support.coordinating import asked_for, looked_at, working


async def test_looks_soon_whether_another_runner_held_something_and_scans_only_if_so() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(0)
        assert ([seconds for seconds, _ in harness.timers], harness.line.looks) == ([SECOND_LOOK_SECONDS], [])
        assert await looked_at(harness) == [("default", None)]
        assert (harness.timers, await harness.asks()) == ([], [])


async def test_looks_again_after_growing_pauses_as_long_as_something_is_skipped() -> None:
    async with working(Queue(concurrency=2)) as harness:
        pauses = []
        for _ in range(9):
            await harness.answer(0)
            pauses += [seconds for seconds, _ in harness.timers]
            await looked_at(harness, {("default", None)})
        assert pauses == [LONELY_LOOK_SECONDS, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
        await harness.answer(0)
        await looked_at(harness)
        harness.coordinator.wake()
        await harness.answer(0)
        assert [seconds for seconds, _ in harness.timers] == [LONELY_LOOK_SECONDS], "as at first"


async def test_scans_of_the_same_time_share_a_look() -> None:
    async with working(Queue(concurrency=4, lanes={"fast": 2}), others=True) as harness:
        await harness.answer(0, 0)
        harness.coordinator.wake()
        await harness.answer(0, 0)
        assert len(harness.timers) == 1
        assert sorted(await looked_at(harness), key=str) == [("default", "fast"), ("default", None)]


async def test_scan_that_was_sent_just_before_a_look_has_another() -> None:
    """A look leaves out what became pending in that moment."""
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(0)
        harness.coordinator.wake()
        await harness.asks()
        harness.now += SECOND_LOOK_SECONDS
        timers, harness.timers = harness.timers, []
        await harness.answer(0)
        for _, callback in timers:
            callback()
        await harness.turn()
        harness.line.looks[-1][1].set_result(set())
        await harness.turn()
        assert [seconds for seconds, _ in harness.timers] == [SECOND_LOOK_SECONDS]
        assert await looked_at(harness) == [("default", None)]
        assert harness.timers == []


async def test_what_was_skipped_before_all_slots_were_taken_is_looked_for_when_one_is_free() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(1)
        harness.coordinator.wake()
        await harness.answer(1)
        await looked_at(harness, {("default", None)})
        assert await harness.asks() == []
        await harness.end(1)
        assert asked_for(await harness.asks()) == [(None, 1)]


async def test_full_claim_is_followed_by_no_second_look() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(2)
        assert harness.timers == []


async def test_a_coordinator_that_has_a_reason_claims_before_it_looks() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(0)
        harness.coordinator.wake()
        harness.fire()
        assert (asked_for(await harness.asks()), harness.line.looks) == ([(None, 2)], [])
        await harness.answer(1)
        assert asked_for(await harness.asks()) == [], "and looks then"
        assert len(harness.line.looks) == 1
        harness.line.looks[0][1].set_result(set())
        await harness.turn()


async def test_poll_that_found_nothing_has_no_look_since_the_next_comes_anyway() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(0)
        await looked_at(harness)
        harness.coordinator._time_out()
        await harness.answer(0)
        assert harness.timers == []
        harness.coordinator._time_out()
        await harness.answer(1)
        assert [seconds for seconds, _ in harness.timers] == [LONELY_LOOK_SECONDS], "what is beside it may have been skipped"


async def test_reason_to_look_beside_a_poll_has_its_look() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(0)
        for is_called_first in (True, False):
            await looked_at(harness)
            if is_called_first:
                harness.hear(1)
            harness.coordinator._time_out()
            if not is_called_first:
                harness.coordinator.wake()
            await harness.answer(0)
            assert [seconds for seconds, _ in harness.timers] == [LONELY_LOOK_SECONDS]


async def test_looks_start_at_the_floor_but_behind_a_scan_that_found_too_little_at_the_front() -> None:
    async with working(Queue(concurrency=5), others=True) as harness:
        for _ in range(2):
            harness.now += 1.0
            harness.coordinator.wake()
            await harness.answer(1)
            await looked_at(harness)
            await harness.end(harness.place)
        floor = harness.coordinator.general.start.floor
        assert floor == (100, 1)
        starts = []
        for found, told in ((1, None), (0, None), (1, 2), (2, 2)):
            harness.coordinator.wake()
            if told is not None:
                harness.coordinator._herd.told = told
            await harness.answer(found)
            harness.now += 1.0
            await looked_at(harness)
            starts.append(harness.line.looked_from[-1])
        assert starts == [floor, FRONT, FRONT, (100, 4)]


async def test_look_that_may_not_start_at_the_front_yet_is_followed_by_one_that_does() -> None:
    async with working(Queue(concurrency=5), others=True) as harness:
        for _ in range(2):
            harness.now += 1.0
            harness.coordinator.wake()
            await harness.answer(1)
            await looked_at(harness)
        start = harness.coordinator.general.start
        start.looked(FRONT, found=False, at=harness.now, seconds=0.1)
        harness.coordinator.wake()
        await harness.answer(1)
        harness.coordinator.wake()
        await harness.answer(0)
        assert await looked_at(harness) == [("default", None)], "it was planned before it was known that more was to be found"
        assert harness.line.looked_from[-1] == start.floor != FRONT
        [(seconds, _)] = harness.timers
        assert 1.9 < seconds < 2.0
        await looked_at(harness)
        assert (harness.line.looked_from[-1], harness.timers) == (FRONT, [])
