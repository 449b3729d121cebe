"""Which of many runners look for jobs of which all of them hear: the rules of `runtime/herd.py`, one after the other."""

import asyncio

from asyncjobs.model.claim import FRONT
from asyncjobs.runtime.herd import APART_SECONDS, LOOKS_AFTER_SECONDS, MOST_PASSES, PATIENCE_SECONDS
from asyncjobs.settings import Lane, Queue
from tests.support.coordinating import Harness, asked_for, looked_at, working


async def seen(harness: Harness) -> None:
    """Its first scan, and the look after that, found nothing."""
    await harness.answer(0)
    await looked_at(harness)
    harness.now += 1.0


async def test_those_that_are_called_claim_at_once() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.hear(1)
        assert asked_for(await harness.asks()) == [(None, 2)]


async def test_as_many_are_called_as_it_takes_slots_for_the_jobs() -> None:
    async with working(Queue(concurrency=10), others=True) as harness:
        await seen(harness)
        for count, after in ((10, 1), (25, 3), (1000, 100)):
            harness.hear(count, after=after)
            assert await harness.asks() == [], f"{after} before it have enough slots for {count}"
        harness.hear(25, after=2)
        assert asked_for(await harness.asks()) == [(None, 10)]


async def test_the_others_do_not_look() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.hear(1, after=None)
        assert (await harness.asks(), harness.timers) == ([], [])


async def test_one_that_is_not_called_and_has_no_free_slot_asks_with_the_next_that_it_frees() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(1)
        harness.coordinator.wake()
        await harness.answer(1)
        await harness.end(1)
        await harness.answer(1)
        await looked_at(harness)
        harness.coordinator.lanes[None].seen = harness.line.calls + 1  # nothing is known to wait
        harness.send()
        harness.send()
        harness.hear(1, after=None)
        assert await harness.asks() == []
        await harness.end(2)
        assert asked_for(await harness.asks()) == [(None, 1)]


async def test_what_is_heard_while_a_scan_has_the_slots_is_no_reason_for_another() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.coordinator.wake()
        await harness.asks()
        harness.send()
        harness.hear(1, after=None)
        await harness.answer(0, number=harness.line.calls)
        assert await harness.asks() == []
        harness.coordinator.wake()
        await harness.asks()
        harness.send()
        harness.hear(1)
        await harness.answer(0, number=harness.line.calls)
        assert asked_for(await harness.asks()) == [(None, 2)], "unless it was called"


async def test_what_a_called_one_answers_for_and_cannot_claim_is_passed_on_with_a_lot() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(1)
        await looked_at(harness)
        harness.now += 1.0
        harness.hear(2)
        await harness.answer(1)
        assert harness.told == [1], "it had one slot for two jobs"


async def test_what_it_answers_for_it_claims_itself_if_a_slot_is_free_by_then() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(1)
        await looked_at(harness)
        harness.hear(2)
        await harness.asks()
        await harness.end(1)
        await harness.answer(1)
        assert harness.told == []
        assert asked_for(await harness.asks()) == [(None, 1)]


async def call_all(harness: Harness) -> None:
    """The moment is over in which a slot could have been freed."""
    [moment] = [timer for timer in harness.timers if timer[0] == PATIENCE_SECONDS]
    harness.timers.remove(moment)
    moment[1]()


async def full(harness: Harness) -> None:
    """Its one slot is taken."""
    await harness.answer(1)
    harness.now += 1.0


async def test_what_it_answered_for_others_have_if_a_short_scan_behind_the_full_one_did_not_find_it() -> None:
    async with working(Queue(concurrency=4), others=True) as harness:
        await harness.answer(2)
        harness.hear(4)
        await harness.asks()
        harness.send()
        for job_id in (1, 2):
            await harness.end(job_id)
        await harness.answer(2, number=2)
        await harness.answer(1)
        assert (await harness.asks(), harness.coordinator._herd.told) == ([], 0)


async def test_one_that_is_called_and_has_no_slot_passes_the_jobs_on_after_a_moment() -> None:
    async with working(Queue(concurrency=1), others=True) as harness:
        await full(harness)
        harness.hear(1)
        harness.hear(2, after=1)
        assert ([seconds for seconds, _ in harness.timers], harness.told) == ([PATIENCE_SECONDS], [])
        harness.fire()
        assert (harness.told, harness.passed) == ([2], [1])
        await harness.end(1)
        assert asked_for(await harness.asks()) == [(None, 1)], "and has a reason itself"


async def test_one_that_frees_a_slot_within_that_moment_claims_itself() -> None:
    async with working(Queue(concurrency=1), others=True) as harness:
        await full(harness)
        harness.hear(1)
        await harness.end(1)
        await harness.asks()
        harness.fire()
        await harness.answer(1)
        assert harness.told == []


async def test_what_three_have_passed_on_and_could_not_claim_calls_all() -> None:
    async with working(Queue(concurrency=1), others=True) as harness:
        await full(harness)
        for passes, told, passed in ((MOST_PASSES - 1, 1, MOST_PASSES), (MOST_PASSES, None, 0), (0, 1, 1)):
            harness.hear(1, passes=passes)
            harness.fire()
            assert (harness.told[-1], harness.passed[-1]) == (told, passed)


async def test_jobs_that_were_claimed_in_part_begin_anew_to_be_passed_on() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(1)
        await looked_at(harness)
        harness.hear(2, passes=MOST_PASSES)
        await harness.answer(1)
        assert (harness.told, harness.passed) == ([1], [0])


async def test_one_whose_line_is_closed_passes_on_after_a_moment_and_one_that_stops_at_once() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.line.open.clear()
        harness.hear(1)
        harness.fire()
        assert harness.told == [1]
        harness.line.open.set()
        await harness.turn()
        await harness.answer(0)
        harness.now += 1.0
        harness.hear(1)
        harness.coordinator.stop()
        assert harness.told == [1, 1]
        harness.timers.clear()
        harness.hear(1)
        harness.fire()
        assert harness.told == [1, 1, 1]


async def test_a_called_one_whose_call_failed_answers_for_the_jobs_still() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.hear(2)
        await harness.asks()
        harness.line.open.clear()
        await harness.fail()
        assert (harness.told, harness.passed) == ([2], [1])


async def test_called_by_what_its_own_process_sent_it_passes_on_if_it_is_full_and_else_has_looked() -> None:
    async with working(Queue(concurrency=1), others=True) as harness:
        await seen(harness)
        harness.hear(1, is_own=True)
        assert (await harness.asks(), harness.told, harness.timers) == ([], [], [])
        harness.coordinator.wake()
        await harness.answer(1)
        harness.hear(1, is_own=True)
        harness.fire()
        assert (harness.told, harness.passed) == ([1], [1])


async def test_where_all_are_called_one_that_is_full_answers_for_nothing() -> None:
    async with working(Queue(concurrency=1), others=True) as harness:
        await full(harness)
        harness.hear(1)
        harness.hear(None)
        harness.fire()
        assert harness.told == []


async def test_all_that_are_called_look() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.hear(None)
        assert asked_for(await harness.asks()) == [(None, 2)]


async def test_all_are_called_once_in_a_while_and_by_one_of_those_that_want_to() -> None:
    async with working(Queue(concurrency=1), others=True) as harness:
        await full(harness)
        for _ in range(3):
            harness.hear(1, passes=MOST_PASSES)
            await call_all(harness)
        assert (harness.told, len(harness.timers)) == ([None], 1)
        [(seconds, _)] = harness.timers
        assert APART_SECONDS <= seconds <= 2 * APART_SECONDS
        harness.fire()
        assert harness.told == [None, None], "those that came meanwhile"
        harness.hear(1, passes=MOST_PASSES)
        await call_all(harness)
        harness.hear(None)
        assert (harness.told, harness.timers) == ([None, None], []), "another has called them"


async def test_nobody_is_called_where_nobody_is() -> None:
    async with working(Queue(concurrency=1)) as harness:
        await full(harness)
        harness.hear(5)
        assert (harness.told, harness.timers) == ([], [])


async def test_the_three_that_come_next_look_and_claim_only_what_they_found() -> None:
    async with working(Queue(concurrency=10), others=True) as harness:
        await seen(harness)
        for number, seconds in enumerate(LOOKS_AFTER_SECONDS, 1):
            harness.hear(1, after=number)
            assert [after for after, _ in harness.timers] == [seconds]
            assert await looked_at(harness) == [("default", None)]
            assert await harness.asks() == []
            harness.now += 1.0
        harness.hear(1, after=1)
        await looked_at(harness, {("default", None)})
        assert asked_for(await harness.asks()) == [(None, 10)]


async def test_what_was_seen_since_they_heard_needs_no_look() -> None:
    async with working(Queue(concurrency=10), others=True) as harness:
        await seen(harness)
        looks = len(harness.line.looks)
        harness.hear(1, after=2)
        timers, harness.timers = harness.timers, []
        harness.hear(1)
        harness.send()
        await harness.answer(1)
        harness.timers += timers
        harness.fire()
        await harness.turn()
        assert len(harness.line.looks) == looks


async def test_full_scan_after_a_look_calls_others_for_as_many_again() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.hear(1, after=1)
        await looked_at(harness, {("default", None)})
        await harness.answer(2)
        assert harness.told == [2]


async def test_full_scan_after_the_poll_calls_all_unless_more_was_known_to_wait() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.coordinator._time_out()
        await harness.answer(2)
        assert harness.told == [None]
        harness.now += 1.0
        harness.coordinator._time_out()
        await harness.end(1)
        await harness.answer(1)
        assert harness.told == [None]


async def test_called_one_that_found_what_it_answers_for_needs_no_second_look() -> None:
    async with working(Queue(concurrency=6), others=True) as harness:
        await seen(harness)
        harness.hear(2)
        await harness.answer(2)
        assert harness.timers == []
        harness.hear(2)
        await harness.answer(1)
        assert len(harness.timers) == 1, "one of two may be locked"
        await looked_at(harness)
        harness.hear(1)
        harness.coordinator.wake()
        await harness.answer(1)
        assert len(harness.timers) == 1, "there was another reason"


async def test_hint_at_the_front_is_for_all_that_hear_it() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await harness.answer(2)
        await harness.end(1)
        assert [scan.start for scan in await harness.asks()] == [(100, 2)]
        harness.hear(1, after=None, front=True)
        await harness.fail()
        assert [scan.start for scan in await harness.asks()] == [FRONT]


async def test_lane_without_a_free_slot_is_noted_by_itself() -> None:
    async with working(Queue(concurrency=3, lanes={"fast": Lane(slots=1)}), others=True) as harness:
        await harness.answer(1, 0)
        await looked_at(harness)
        harness.hear(1, after=None)
        assert await harness.asks() == []
        await harness.end(1)
        assert asked_for(await harness.asks()) == [("fast", 1)]


async def test_claim_of_a_task_that_has_ended_answers_for_what_it_was_told_of() -> None:
    async with working(Queue(concurrency=2), others=True) as harness:
        await seen(harness)
        harness.hear(2)
        await harness.asks()
        harness.task.cancel()
        await asyncio.wait([harness.task])
        await harness.fail()
        assert harness.coordinator._herd.told == 2, "what was asked for goes its way, and is refused"
        harness.task = asyncio.get_running_loop().create_task(harness.coordinator.run())
