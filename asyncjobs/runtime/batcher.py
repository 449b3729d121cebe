"""Group commit without timers: while one statement is on its way, the next gathers.

1. `submit` puts an item at the end of the line and waits for its own answer.
2. The batcher's task takes all that wait, up to `limit` and up to `heaviest` in weight, and calls `send` with them; whatever is
   submitted meanwhile is the next batch. An item that comes alone is sent alone at once: gathering never adds latency.
3. A caller that is cancelled before its item was taken leaves nothing behind; afterwards the item may have been written.
4. At most `room` items wait; further callers wait for room, first come, first served. A process that enqueues faster than its
   database writes slows down, it does not grow.
5. The answer of each item is a value or an exception of its own. If `send` itself raises, all items of the batch get that.
6. An item that comes alone after two that came alone is sent by its caller's own task: by `send_one`, without the two turns of
   the loop that it takes to hand it to the batcher's task and back. What is submitted meanwhile is the next batch, and the one
   after that is handed over again. A caller that sends so and is cancelled cancels the sending; `send_one` has to bear that.
7. When the batcher's task ends, callers that still wait are told by `BatcherEnded` whether the item had been taken. None is
   cancelled by it: a caller could not tell that from a cancellation of its own. (One that sends itself is left to what ends
   what `send_one` works with.)
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


#: After so many items that came alone the next is expected to.
_SINGLES: Final = 2


class BatcherEnded(Exception):
    """The batcher ended before it had an answer. `.was_sent`: the item may have been written."""

    def __init__(self, *, was_sent: bool) -> None:
        self.was_sent = was_sent
        super().__init__("the batcher has ended")


def _weightless(_item: object) -> int:
    return 0


class Batcher(Generic[Item, Answer]):
    """One line of items and the task that sends them in batches."""

    def __init__(
        self,
        send: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        limit: int,
        send_one: Callable[[Item], Awaitable[Answer]] | None = None,
        room: int = 10_000,
        weigh: Callable[[Item], int] = _weightless,
        heaviest: int = 1 << 22,
    ) -> None:
        self._loop = asyncio.get_running_loop()  # to ask for it is a system call in Python 3.11
        self._send = send
        self._send_one = send_one
        self._singles = 0  # items in a row that came alone
        self._is_sent_apart = False  # one of them is being sent by its caller
        self._limit = limit
        self._weigh = weigh
        self._heaviest = heaviest
        self._room = room
        self._inside = 0  # they have room
        self._outside: deque[asyncio.Future[None]] = deque()  # they wait for it
        self._line: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._arrived = asyncio.Event()
        self._idle: asyncio.Event | None = None  # while a task waits for it
        self._open = 0  # submitted, not answered
        self._ended = False

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted has been answered."""
        return self._open == 0

    @property
    def is_sent_apart(self) -> bool:
        """Whether a caller is sending its item itself."""
        return self._is_sent_apart

    async def submit(self, item: Item) -> Answer:
        """The answer to the item. Raises what `send` had to say about it, BatcherEnded when there will be none."""
        if self._singles >= _SINGLES and self._open == 0 and self._send_one is not None and not self._ended:
            return await self._submit_apart(item, self._send_one)
        self._open += 1
        try:
            if self._inside < self._room:
                self._inside += 1
            else:
                await self._enter()
            try:
                if self._ended:
                    raise BatcherEnded(was_sent=False)
                future: asyncio.Future[Answer] = self._loop.create_future()
                self._line.append((item, future))
                if len(self._line) == 1 and not self._is_sent_apart:
                    self._arrived.set()
                return await future
            finally:
                self._leave()
        finally:
            self._close_one()

    async def _submit_apart(self, item: Item, send_one: Callable[[Item], Awaitable[Answer]]) -> Answer:
        self._open += 1
        self._inside += 1
        self._is_sent_apart = True
        try:
            return await send_one(item)
        finally:
            self._is_sent_apart = False
            if self._line:
                self._singles = 0
                self._arrived.set()
            self._leave()
            self._close_one()

    def _close_one(self) -> None:
        self._open -= 1
        if self._open == 0 and self._idle is not None:
            self._idle.set()
            self._idle = None

    async def _enter(self) -> None:
        """Wait until a caller leaves, behind those that wait already; the room is ours then."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._outside.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Give our room to the first who waits for it. (A semaphore does the same, and was half of what a submit took.)"""
        while self._outside:
            turn = self._outside.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._inside -= 1

    async def wait_idle(self) -> None:
        """Wait until all that was submitted has been answered."""
        while self._open:
            if self._idle is None:
                self._idle = asyncio.Event()
            await self._idle.wait()

    async def run(self) -> None:
        """Send batches until cancelled. Run again it goes on with what waits."""
        while True:
            while not self._line or self._is_sent_apart:
                self._arrived.clear()
                await self._arrived.wait()
            await self._send_batch()

    def end(self) -> None:
        """No task runs it any more: callers that still wait are told so."""
        self._ended = True
        for _, future in self._line:
            _tell(future, BatcherEnded(was_sent=False))
        self._line.clear()

    async def _send_batch(self) -> None:
        batch = self._take()
        if not batch:
            return
        self._singles = self._singles + 1 if len(batch) == 1 and not self._line else 0
        try:
            answers = await self._answers([item for item, _ in batch])
        except BaseException:
            for _, future in batch:
                _tell(future, BatcherEnded(was_sent=True))
            raise
        for (_, future), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                _tell(future, answer)
            elif not future.done():
                future.set_result(answer)

    def _take(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        weight = 0
        while self._line and len(batch) < self._limit:
            item, future = self._line[0]
            if not future.done():
                weight += self._weigh(item)
                if batch and weight > self._heaviest:
                    break
                batch.append((item, future))
            self._line.popleft()
        return batch

    async def _answers(self, items: list[Item]) -> Sequence[Answer | Exception]:
        try:
            return await self._send(items)
        except Exception as error:  # noqa: BLE001 - it goes to the callers, the batcher goes on
            return [error] * len(items)


def _tell(future: "asyncio.Future[Answer]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
