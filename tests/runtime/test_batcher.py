"""Each rule in the batcher's docstring."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from asyncjobs.runtime.batcher import Batcher, BatcherEnded
from tests.support.eventually import patience


class Line:
    """What a batcher sends to: it notes the batches, and answers when it may."""

    def __init__(self, answer: Callable[[int], int | Exception] = lambda item: -item) -> None:
        self.batches: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None
        self._answer = answer

    async def send(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return [self._answer(item) for item in items]


@asynccontextmanager
async def sending(line: Line, *, limit: int = 100, room: int = 1000) -> AsyncGenerator[Batcher[int, int]]:
    batcher: Batcher[int, int] = Batcher(line.send, limit=limit, room=room)
    task = asyncio.create_task(batcher.run())
    try:
        yield batcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        batcher.end()


async def turns(count: int = 5) -> None:
    """Let everybody run who can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_one_alone_is_sent_alone_at_once() -> None:
    line = Line()
    async with sending(line) as batcher:
        assert await batcher.submit(1) == -1
        assert await batcher.submit(2) == -2
    assert line.batches == [[1], [2]]


async def test_what_comes_while_one_is_on_its_way_is_the_next_batch() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line) as batcher, asyncio.TaskGroup() as group:
        group.create_task(batcher.submit(1))
        await turns()
        for item in range(2, 7):
            group.create_task(batcher.submit(item))
        await turns()
        assert line.batches == [[1]]
        line.may_answer.set()
    assert line.batches == [[1], [2, 3, 4, 5, 6]]


async def test_a_batch_has_at_most_limit_items() -> None:
    line = Line()
    async with sending(line, limit=3) as batcher:
        assert await asyncio.gather(*map(batcher.submit, range(7))) == [-item for item in range(7)]
    assert line.batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_batch_is_no_heavier_than_it_may_be_unless_one_item_is() -> None:
    line = Line()
    batcher: Batcher[int, int] = Batcher(line.send, limit=100, weigh=lambda item: item, heaviest=10)
    task = asyncio.create_task(batcher.run())
    await asyncio.gather(*map(batcher.submit, [4, 6, 1, 99, 3, 7]))
    task.cancel()
    assert line.batches == [[4, 6], [1], [99], [3, 7]]


async def test_a_caller_cancelled_before_its_item_was_taken_leaves_nothing() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line) as batcher:
        first = asyncio.create_task(batcher.submit(1))
        await turns()
        second, third = asyncio.create_task(batcher.submit(2)), asyncio.create_task(batcher.submit(3))
        await turns()
        second.cancel()
        line.may_answer.set()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert second.cancelled()
    assert line.batches == [[1], [3]]


async def test_a_caller_cancelled_after_its_item_was_taken_harms_nobody() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line) as batcher:
        first, second = asyncio.create_task(batcher.submit(1)), asyncio.create_task(batcher.submit(2))
        await turns()
        first.cancel()
        await turns()
        line.may_answer.set()
        assert await second == -2
        assert await batcher.submit(3) == -3
    assert line.batches == [[1, 2], [3]]


async def test_further_callers_wait_for_room_in_their_order() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line, room=3, limit=2) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(8)]
        await turns()
        assert len(batcher._line) + len(line.batches[0]) == 3
        line.may_answer.set()
        await asyncio.gather(*tasks)
    assert [item for batch in line.batches for item in batch] == list(range(8))


async def test_a_caller_cancelled_while_it_waits_for_room_takes_none() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line, room=1) as batcher:
        first, second, third = (asyncio.create_task(batcher.submit(item)) for item in range(3))
        await turns()
        second.cancel()
        await turns()
        line.may_answer.set()
        assert [await first, await third] == [0, -2]
    assert line.batches == [[0], [2]]


async def test_a_caller_cancelled_just_as_it_gets_room_passes_it_on() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line, room=1) as batcher:

        async def submit_and_cancel() -> None:
            await batcher.submit(0)
            second.cancel()  # it was woken by our leaving, and has not run yet

        first = asyncio.create_task(submit_and_cancel())
        second, third = (asyncio.create_task(batcher.submit(item)) for item in (1, 2))
        await turns()
        line.may_answer.set()
        assert await asyncio.wait_for(third, 5) == -2
        assert first.done()
        assert second.cancelled()
    assert line.batches == [[0], [2]]


async def test_each_item_has_an_answer_or_an_error_of_its_own() -> None:
    line = Line(lambda item: ValueError(item) if item % 2 else item)
    async with sending(line) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(4)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [int, ValueError, int, ValueError]
    assert str(answers[3]) == "3"


async def test_when_sending_fails_all_of_the_batch_are_told_and_the_next_is_sent() -> None:
    line = Line()
    line.error = OSError("away")
    async with sending(line) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(3)), return_exceptions=True)
        assert {str(answer) for answer in answers} == {"away"}
        line.error = None
        assert await batcher.submit(5) == -5


async def test_it_is_idle_when_everything_was_answered() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line, room=1) as batcher:
        async with patience(1):
            await batcher.wait_idle()
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(2)]  # the second waits for room
        idle = asyncio.create_task(batcher.wait_idle())
        await turns()
        assert [batcher.is_idle, idle.done()] == [False, False]
        line.may_answer.set()
        async with patience(1):
            await idle
        assert all(task.done() for task in tasks)


async def test_at_its_end_those_who_wait_are_told_whether_they_were_sent_and_nobody_is_cancelled() -> None:
    line = Line()
    line.may_answer.clear()
    async with sending(line, limit=1, room=2) as batcher:
        sent, waiting, outside = (asyncio.create_task(batcher.submit(item)) for item in range(3))
        await turns()
    answers = await asyncio.wait_for(asyncio.gather(sent, waiting, outside, return_exceptions=True), 1)
    assert [isinstance(answer, BatcherEnded) and answer.was_sent for answer in answers] == [True, False, False]
    assert not any(task.cancelled() for task in (sent, waiting, outside))
    with pytest.raises(BatcherEnded):
        await batcher.submit(9)


@asynccontextmanager
async def sending_apart(line: Line, apart: Line) -> AsyncGenerator[Batcher[int, int]]:
    """A batcher whose next item is expected to come alone."""

    async def send_one(item: int) -> int:
        (answer,) = await apart.send([item])
        if isinstance(answer, Exception):
            raise answer
        return answer

    batcher: Batcher[int, int] = Batcher(line.send, limit=100, send_one=send_one)
    task = asyncio.create_task(batcher.run())
    try:
        assert [await batcher.submit(1), await batcher.submit(2)] == [-1, -2]
        yield batcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_third_in_a_row_that_comes_alone_is_sent_by_its_caller() -> None:
    line, apart = Line(), Line()
    async with sending_apart(line, apart) as batcher:
        assert [await batcher.submit(3), await batcher.submit(4)] == [-3, -4]
    assert [line.batches, apart.batches] == [[[1], [2]], [[3], [4]]]


async def test_what_comes_while_a_caller_sends_its_own_is_the_next_batch_and_the_one_after_it_is_handed_over() -> None:
    line, apart = Line(), Line()
    apart.may_answer.clear()
    async with sending_apart(line, apart) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item)) for item in (3, 4, 5)]
        await turns()
        assert [line.batches, batcher.is_sent_apart, batcher.is_idle] == [[[1], [2]], True, False]
        apart.may_answer.set()
        assert await asyncio.gather(*tasks) == [-3, -4, -5]
        assert await batcher.submit(6) == -6
        async with patience(1):
            await batcher.wait_idle()
    assert [line.batches, apart.batches] == [[[1], [2], [4, 5], [6]], [[3]]]


async def test_a_caller_that_is_cancelled_while_it_sends_its_own_lets_the_others_go_on() -> None:
    line, apart = Line(), Line()
    apart.may_answer.clear()
    async with sending_apart(line, apart) as batcher:
        first, second, third = (asyncio.create_task(batcher.submit(item)) for item in (3, 4, 5))
        await turns()
        second.cancel()
        first.cancel()
        assert await asyncio.wait_for(third, 5) == -5
        assert [first.cancelled(), second.cancelled(), batcher.is_idle] == [True, True, True]
    assert line.batches == [[1], [2], [5]]


async def test_what_a_caller_sends_itself_fails_for_it_alone() -> None:
    line, apart = Line(), Line(ValueError)
    async with sending_apart(line, apart) as batcher:
        with pytest.raises(ValueError, match="3"):
            await batcher.submit(3)
        assert not batcher.is_sent_apart
