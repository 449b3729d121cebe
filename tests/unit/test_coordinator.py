"""When a coordinator asks, and for how much (P5, P6): its loop with a call line in the test's hands."""

import asyncio

import pytest

from asyncjobs.model.claim import FRONT, Claimed
from asyncjobs.runtime.coordinator import QUIET_SECONDS
from asyncjobs.runtime.orders import Scanned
from asyncjobs.runtime.slots import SlotsError
from asyncjobs.settings import Lane, Queue
from tests.support.claims import a_claimed
from tests.support.coordinating import asked_for, looked_at, working

FAST = {"fast": Lane(slots=1)}


async def test_asks_for_exactly_the_free_slots_of_each_lane_and_starts_what_it_gets_in_them() -> None:
    async with working(Queue("q", concurrency=8, lanes={"fast": 3})) as harness:
        assert asked_for(await harness.asks()) == [("fast", 3), (None, 5)]
        await harness.answer(1, 2)
        assert (harness.running, harness.free) == ([(1, "fast"), (2, None), (3, None)], {"fast": 2, None: 3})
        harness.coordinator.wake()
        assert asked_for(await harness.asks()) == [("fast", 2), (None, 3)]


async def test_slots_are_taken_while_it_asks_and_those_that_are_not_used_are_given_back() -> None:
    async with working(Queue(concurrency=3)) as harness:
        await harness.asks()
        assert harness.free == {None: 0}
        await harness.answer(1)
        assert harness.free == {None: 2}


async def test_slots_of_a_call_that_failed_are_given_back_and_it_asks_again_at_the_front() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(2)
        await harness.end(1)
        assert [scan.start for scan in await harness.asks()] == [(100, 2)]
        harness.coordinator.wake(front=True)
        harness.line.open.clear()
        await harness.fail()
        assert (harness.free, await harness.asks()) == ({None: 1}, [])
        harness.line.open.set()
        assert [scan.start for scan in await harness.asks()] == [FRONT]
        await harness.fail()
        assert [scan.start for scan in await harness.asks()] == [FRONT]


async def test_claim_of_a_coordinator_whose_task_ends_goes_on_and_its_next_task_waits_for_it() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.asks()
        harness.task.cancel()
        await harness.turn()
        assert harness.free == {None: 0}
        harness.task = asyncio.create_task(harness.coordinator.run())
        await harness.turn()
        assert len(harness.line.asked) == 1
        await harness.answer(1)
        assert (harness.running, harness.free) == ([(1, None)], {None: 1})
        harness.coordinator.wake()
        assert asked_for(await harness.asks()) == [(None, 1)]


async def test_attempts_end_without_a_task_of_the_coordinator() -> None:
    async with working(Queue(concurrency=1, prefetch=1)) as harness:
        await harness.answer(2)
        harness.task.cancel()
        await harness.turn()
        await harness.end(1)
        assert (harness.running, [ack.id for ack in harness.line.put_]) == ([(2, None)], [1])
        await harness.end(2)
        assert harness.free == {None: 1}


async def test_lane_without_a_free_slot_is_not_asked_for() -> None:
    async with working(Queue("q", concurrency=2, lanes=FAST)) as harness:
        await harness.answer(1, 0)
        harness.coordinator.wake()
        assert asked_for(await harness.asks()) == [(None, 1)]
        await harness.answer(1)
        harness.coordinator.wake()
        assert await harness.asks() == []


async def test_is_satisfied_when_a_scan_from_the_front_came_back_short() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(1)
        assert await harness.asks() == []
        await harness.end(1)
        assert await harness.asks() == [], "a freed slot is no reason when nothing was there"


async def test_asks_again_when_a_slot_is_free_after_a_full_claim() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(2)
        assert await harness.asks() == []
        await harness.end(1)
        assert asked_for(await harness.asks()) == [(None, 1)]


@pytest.mark.parametrize("woken", ["after it asked", "after the call was sent", "as it goes to sleep"])
async def test_reason_is_seen_by_a_call_that_was_sent_after_it_only(woken: str) -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.asks()
        if woken == "after it asked":
            harness.coordinator.wake()
        harness.send()
        if woken == "after the call was sent":
            harness.coordinator.wake()
        await harness.answer(0, number=1)
        if woken == "as it goes to sleep":
            harness.coordinator.wake()
        assert bool(await harness.asks()) is (woken != "after it asked")
        if woken != "after it asked":
            await harness.answer(0)
            assert await harness.asks() == []


async def test_wake_up_while_all_slots_are_taken_is_served_when_one_is_free() -> None:
    async with working(Queue(concurrency=1)) as harness:
        await harness.answer(1)
        harness.coordinator.wake()
        assert await harness.asks() == []
        await harness.end(1)
        assert asked_for(await harness.asks()) == [(None, 1)]


async def test_short_scan_behind_a_full_one_is_followed_by_none() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(2)
        await harness.end(1)
        assert [scan.start for scan in await harness.asks()] == [(100, 2)]
        await harness.answer(0)
        assert await harness.asks() == []


@pytest.mark.parametrize("woken", ["before the full one was sent", "after it", "after the short one was sent"])
async def test_reason_that_came_after_the_full_scan_was_sent_is_seen_by_one_from_the_front(woken: str) -> None:
    """What became pending then may have a place before its end."""
    async with working(Queue(concurrency=2)) as harness:
        await harness.asks()
        if woken == "before the full one was sent":
            harness.coordinator.wake()
        await harness.answer(2)
        if woken == "after it":
            harness.coordinator.wake()
        await harness.end(1)
        assert [scan.start for scan in await harness.asks()] == [(100, 2)]
        harness.send()
        if woken == "after the short one was sent":
            harness.coordinator.wake()
        await harness.answer(0, number=2)
        assert [scan.start for scan in await harness.asks()] == ([] if woken == "before the full one was sent" else [FRONT])


async def test_short_scan_behind_a_full_one_is_followed_by_a_look_for_what_both_have_skipped() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(2)
        await harness.end(1)
        await harness.answer(0)
        assert await looked_at(harness) == [("default", None)]


async def test_suspect_does_not_move_the_start() -> None:
    async with working(Queue(concurrency=1)) as harness:
        await harness.answer(1, jobs=[a_claimed(id=41, token=41, place=41, suspicion=1)])
        await harness.end(41)
        assert [scan.start for scan in await harness.asks()] == [FRONT]


async def test_starts_of_lanes_are_their_own() -> None:
    async with working(Queue(concurrency=4, lanes={"fast": 2})) as harness:
        await harness.answer(2, 1)
        for job_id in (1, 2, 3):
            await harness.end(job_id)
        harness.now += 0.001
        harness.coordinator.wake()
        scans = harness.line.asked[-1][0]
        assert next((scan.lane, scan.start) for scan in scans) == ("fast", (100, 2))


async def test_queue_is_quiet_after_a_short_scan_for_a_while() -> None:
    async with working(Queue(concurrency=2)) as harness:
        quiet = [harness.coordinator.is_quiet]
        await harness.answer(1)
        quiet.append(harness.coordinator.is_quiet)
        harness.now += QUIET_SECONDS + 0.001
        quiet.append(harness.coordinator.is_quiet)
        assert quiet == [False, True, False]


async def test_queue_is_not_quiet_when_something_waits_or_has_woken_it() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.answer(2)
        assert not harness.coordinator.is_quiet
        await harness.end(1)
        await harness.answer(0)
        quiet = [harness.coordinator.is_quiet]
        harness.coordinator.wake()
        assert [*quiet, harness.coordinator.is_quiet] == [True, False]


async def test_scan_of_a_lane_says_nothing_about_the_general_slots() -> None:
    async with working(Queue(concurrency=2, lanes=FAST)) as harness:
        await harness.answer(0, 1)
        assert not harness.coordinator.is_quiet


async def test_stopped_coordinator_is_not_quiet_and_asks_for_nothing_and_gives_back_what_waits() -> None:
    async with working(Queue(concurrency=1, prefetch=5)) as harness:
        await harness.answer(3)
        harness.coordinator.stop()
        await harness.turn()
        assert (harness.line.given_back, harness.coordinator.is_quiet, harness.task.done()) == ([2, 3], False, True)
        assert harness.coordinator.startable([a_claimed(id=9)]) == ()
        assert harness.line.given_back == [2, 3, 9]


async def test_answer_that_comes_after_the_stop_starts_nothing() -> None:
    async with working(Queue(concurrency=2)) as harness:
        await harness.asks()
        harness.coordinator.stop()
        await harness.answer(2)
        assert (harness.running, harness.line.given_back, harness.free) == ([], [1, 2], {None: 2})


async def test_outcomes_go_to_the_line_to_the_actor_of_their_key_or_to_the_settler() -> None:
    async with working(Queue(concurrency=3)) as harness:
        jobs = [a_claimed(id=n, token=n, place=n) for n in (1, 2)]
        await harness.answer(3, jobs=[*jobs, a_claimed(id=3, token=3, place=3, serialization_key="k")])
        await harness.end(1)
        await harness.end(2, completed_in_transaction=True)
        await harness.end(3)
        assert [[ack.id for ack in acks] for acks in (harness.line.put_, harness.verified, harness.keyed)] == [[1], [2], [3]]
        assert harness.free[None] == 2, "one was taken again at once: the claim was full"


async def test_only_a_scan_with_a_slot_may_bring_a_suspect() -> None:
    async with working(Queue(concurrency=1, prefetch=2)) as harness:
        assert [scan.has_slot for scan in await harness.asks()] == [True]
        await harness.answer(3)
        await harness.end(1)
        assert [(scan.has_slot, scan.limit) for scan in await harness.asks()] == [(False, 1)]


@pytest.mark.parametrize("prefetch", [0, 2])
async def test_more_jobs_than_it_asked_for_are_a_defect(prefetch: int) -> None:
    async with working(Queue(concurrency=1, prefetch=prefetch)) as harness:
        await harness.asks()
        harness.send()
        jobs = [a_claimed(id=n, token=n) for n in range(prefetch + 2)]
        with pytest.raises(SlotsError, match="more than"):
            harness.line.orders[-1].answered([Scanned(jobs, FRONT, False, None, 1, 0.0, 0.0)])


async def test_slots_of_attempts_that_end_at_once_are_asked_for_with_the_others() -> None:
    async with working(Queue(concurrency=5)) as harness:
        start, loop = harness.coordinator.start, asyncio.get_running_loop()

        def starts_and_ends(job: Claimed, lane: str | None) -> None:
            start(job, lane)
            loop.call_soon(harness.ends, job.id)

        harness.coordinator.start = starts_and_ends  # type: ignore[method-assign]
        await harness.asks()
        harness.send()
        harness.coordinator.wake()
        await harness.answer(2, number=1)
        assert asked_for(await harness.asks()) == [(None, 5)], "two calls would take turns with two and three slots"
