"""What a coordinator claims ahead of its slots (`prefetch`), and the slots that are kept for it."""

from asyncjobs.model.claim import FRONT
from asyncjobs.runtime.orders import Scanned
from asyncjobs.settings import Lane, Queue
from tests.support.claims import a_claimed
from tests.support.coordinating import Harness, asked_for, working

FAST = {"fast": Lane(slots=1)}


async def test_prefetch_is_asked_for_beyond_the_general_slots_when_half_of_it_is_gone() -> None:
    async with working(Queue("q", concurrency=3, lanes=FAST, prefetch=4)) as harness:
        assert asked_for(await harness.asks()) == [("fast", 1), (None, 6)]
        await harness.answer(1, 6)
        assert (len(harness.running), len(harness.coordinator.stock)) == (3, 4)
        await harness.end(2)
        assert (len(harness.coordinator.stock), await harness.asks()) == (3, [])
        await harness.end(3)
        assert (len(harness.coordinator.stock), asked_for(await harness.asks())) == (2, [(None, 2)])
        assert [scan.has_slot for scan in await harness.asks()] == [False]


async def test_what_was_claimed_ahead_starts_at_once_in_slots_that_became_free_meanwhile() -> None:
    async with working(Queue("q", concurrency=1, prefetch=2)) as harness:
        await harness.answer(3)
        await harness.end(1)
        assert asked_for(await harness.asks()) == [(None, 1)]
        await harness.end(2)
        await harness.end(3)
        assert harness.running == []
        await harness.answer(1)
        assert (harness.running, len(harness.coordinator.stock)) == ([(4, None)], 0)


async def _run_dry(harness: Harness) -> None:
    """Of two slots and four that wait all have ended, while the next two were asked for."""
    await harness.answer(6)
    for job_id in range(1, 7):
        await harness.end(job_id)
    assert (asked_for(await harness.asks()), harness.running) == ([(None, 2)], [])


async def test_what_is_to_wait_is_asked_for_before_what_was_claimed_starts() -> None:
    async with working(Queue("q", concurrency=2, prefetch=4)) as harness:
        await _run_dry(harness)
        seen = list[list[tuple[int, str | None]]]()
        harness.line.on_ask = lambda: seen.append(harness.running)
        await harness.answer(2)
        assert (seen, asked_for(await harness.asks()), harness.line.at_once[-1]) == ([[]], [(None, 4)], True)
        assert (harness.running, len(harness.coordinator.stock), harness.free) == ([(7, None), (8, None)], 0, {None: 0})


async def test_what_takes_jobs_back_takes_those_whose_slots_are_kept_and_these_are_free() -> None:
    async with working(Queue("q", concurrency=2, prefetch=4)) as harness:
        await _run_dry(harness)
        harness.line.on_ask = lambda: harness.coordinator.give_back_waiting(lambda job: job.id == 7)
        await harness.answer(2)
        assert (harness.line.given_back, harness.running, harness.free) == ([7], [(8, None)], {None: 1})


async def test_stop_gives_back_what_slots_are_kept_for() -> None:
    async with working(Queue("q", concurrency=2, prefetch=4)) as harness:
        await _run_dry(harness)
        harness.line.on_ask = harness.coordinator.stop
        await harness.answer(2)
        assert (harness.line.given_back, harness.running) == ([7, 8], [])
        await harness.fail()
        assert harness.free == {None: 2}


async def test_slot_of_an_attempt_that_ends_meanwhile_is_the_first_ones_and_those_that_are_kept_are_the_next_ones() -> None:
    async with working(Queue("q", concurrency=2, prefetch=4)) as harness:
        await harness.answer(6)
        for job_id in (1, 2, 3, 4, 5):
            await harness.end(job_id)
        assert (asked_for(await harness.asks()), harness.running) == ([(None, 2)], [(6, None)])
        harness.line.on_ask = lambda: harness.ends(6)
        await harness.answer(2)
        assert (harness.running, len(harness.coordinator.stock), harness.free) == ([(7, None), (8, None)], 0, {None: 0})


async def test_suspect_and_what_a_breaker_holds_start_at_once_where_others_wait_for_a_step() -> None:
    async with working(Queue("q", concurrency=2, prefetch=4)) as harness:
        await _run_dry(harness)
        harness.held.add("guarded")
        seen = list[list[tuple[int, str | None]]]()
        harness.line.on_ask = lambda: seen.append(harness.running)
        await harness.answer(2, jobs=[a_claimed(id=7, token=7, suspicion=1), a_claimed(id=8, token=8, type="guarded")])
        assert (seen, harness.running) == ([[(7, None), (8, None)]], [(7, None), (8, None)])


async def test_nothing_is_prefetched_for_general_slots_that_there_are_none_of() -> None:
    async with working(Queue("q", concurrency=1, lanes=FAST, prefetch=4)) as harness:
        assert asked_for(await harness.asks()) == [("fast", 1)]


async def test_jobs_that_wait_take_the_slots_that_attempts_leave_in_the_order_of_their_claims() -> None:
    async with working(Queue("q", concurrency=2, lanes=FAST, prefetch=10)) as harness:
        await harness.asks()
        claimed = [a_claimed(id=n, token=n, place=n, lane=lane) for n, lane in ((2, None), (3, "slow"), (4, "fast"), (5, "fast"))]
        scans, answer = harness.line.asked[-1]
        harness.send()
        parts = [[a_claimed(id=1, token=1, lane="fast")], claimed]
        answer.set_result([Scanned(jobs, scan.start, False, None, 1, 0.0, 0.0) for scan, jobs in zip(scans, parts, strict=True)])
        await harness.turn()
        assert harness.running == [(1, "fast"), (2, None)]
        await harness.end(1)
        assert harness.running == [(2, None), (4, "fast")]
        await harness.end(2)
        assert harness.running == [(4, "fast"), (3, None)]


async def test_kept_slot_of_its_lane_that_is_free_is_taken_at_once() -> None:
    async with working(Queue("q", concurrency=2, lanes=FAST, prefetch=10)) as harness:
        await harness.answer(0, 0)
        harness.coordinator.wake()
        claimed = [a_claimed(id=1, token=1, place=1), a_claimed(id=2, token=2, place=2, lane="fast")]
        scans = await harness.asks()
        harness.send()
        harness.line.asked[-1][1].set_result(
            [
                Scanned([], scans[0].start, False, None, 2, 0.0, 0.0),
                Scanned(claimed, scans[1].start, False, None, 2, 0.0, 0.0),
            ]
        )
        await harness.turn()
        assert harness.running == [(1, None), (2, "fast")]


async def test_suspects_and_what_a_breaker_holds_never_wait_for_a_slot() -> None:
    async with working(Queue("q", concurrency=1, prefetch=5)) as harness:
        harness.held.add("guarded")
        suspect = a_claimed(id=1, token=1, place=9, losses=2, rescues=2, suspicion=1)
        jobs = [suspect, a_claimed(id=2, token=2, place=1), a_claimed(id=3, token=3, type="guarded", place=2)]
        await harness.answer(3, jobs=jobs)
        assert (harness.running, [*harness.coordinator.stock._line], harness.line.given_back) == ([(1, None)], [2], [3])


async def test_what_is_to_wait_here_is_asked_for_at_once_when_all_slots_are_taken() -> None:
    async with working(Queue(concurrency=2, prefetch=4)) as harness:
        await harness.asks()
        harness.send()
        found = [a_claimed(id=n, token=n) for n in range(1, 4)]
        harness.line.orders[-1].answered([Scanned(found, FRONT, True, None, 1, 0.0, 0.0)])
        assert [asked_for(scans) for scans, _ in harness.line.asked] == [[(None, 6)], [(None, 3)]]
        assert harness.line.at_once == [False, True]
        await harness.turn()
        assert len(harness.line.asked) == 2
