"""Group commit without timers: while one statement is on its way, the next gathers.

1. `submit` puts an item at the end of the line and waits for its own answer.
2. The batcher's task takes all that wait, up to `limit`, and calls `send` with them; whatever is submitted meanwhile is the next
   batch. An item that comes alone is sent alone at once: gathering never adds latency.
3. A caller that is cancelled before its item was taken leaves nothing behind; afterwards the item may have been written.
4. At most `room` items wait; further callers wait for room. A process that enqueues faster than its database writes slows down,
   it does not grow.
5. The answer of each item is a value or an exception of its own. If `send` itself raises, all items of the batch get that.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """One line of items and the task that sends them in batches."""

    def __init__(
        self, send: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]], *, limit: int, room: int = 10_000
    ) -> None:
        self._send = send
        self._limit = limit
        self._room = room
        self._line: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()
        self._sending = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self._line and not self._sending

    async def submit(self, item: Item) -> Answer:
        """The answer to the item. Raises what `send` had to say about it."""
        while len(self._line) >= self._room:
            self._left.clear()
            await self._left.wait()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._line.append((item, future))
        self._arrived.set()
        return await future

    async def wait_idle(self) -> None:
        """Wait until all that was submitted has been answered."""
        while not self.is_idle:
            self._left.clear()
            await self._left.wait()

    async def run(self) -> None:
        """Send batches until cancelled; then whoever still waits is told so."""
        try:
            while True:
                if not self._line:
                    self._arrived.clear()
                    await self._arrived.wait()
                await self._send_batch()
        finally:
            for _, future in self._line:
                future.cancel()
            self._line.clear()
            self._left.set()

    async def _send_batch(self) -> None:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        while self._line and len(batch) < self._limit:
            item, future = self._line.popleft()
            if not future.done():
                batch.append((item, future))
        if batch:
            self._sending = True
            try:
                await self._answer(batch)
            finally:
                self._sending = False
                for _, future in batch:
                    future.cancel()  # does nothing to one that was answered
        self._left.set()

    async def _answer(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._send([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it goes to the callers, the batcher goes on
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
