"""An event loop on virtual time: one thread of a simulated process. It waits for nothing; the world steps it.

It does what asyncio's own loop does with callbacks and timers, in the same order, and has no sockets, signals or threads. A
process that is frozen is not stepped; one that was killed is never stepped again.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeVarTuple, cast

Ts = TypeVarTuple("Ts")

_NEVER: Final = float("inf")


class SimTask(asyncio.Task[Any]):
    """A task that hashes by its number: a set of tasks is walked through in the same order in each replay."""

    def __init__(self, *args: Any, number: int, **kwargs: Any) -> None:
        self._number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(asyncio.AbstractEventLoop):
    """A loop whose time is the world's. `complain` is told what asyncio would have logged."""

    def __init__(self, clock: Callable[[], float], complain: Callable[[str], None]) -> None:
        self._clock = clock
        self._complain = complain
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._made = count()
        self._closed = False
        self.on_exit: Callable[[SystemExit], None] | None = None  # told of one that a callback raised
        self.tasks: dict[int, SimTask] = {}  # that have not ended

    # What the world does with it.

    @property
    def is_ready(self) -> bool:
        """Whether a callback is due now."""
        return bool(self._ready) or self.next_at <= self._clock()

    @property
    def next_at(self) -> float:
        """When the next timer is due."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        return timers[0][0] if timers else _NEVER

    def step(self) -> None:
        """One turn: everything that is ready now."""
        self._ripen()
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle._cancelled:
                    self._call(handle)
        finally:
            asyncio._set_running_loop(None)

    def _call(self, handle: asyncio.Handle) -> None:
        try:
            handle._run()
        except SystemExit as error:
            if self.on_exit is None:
                raise
            self.on_exit(error)

    def _ripen(self) -> None:
        now = self._clock()
        while self.next_at <= now:
            self._ready.append(heapq.heappop(self._timers)[2])

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self._clock()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._made), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **kwargs: Any) -> Any:
        number = next(self._made)
        task = self.tasks[number] = SimTask(coro, loop=self, number=number, **kwargs)
        task.add_done_callback(lambda _: self.tasks.pop(number))
        return task

    def get_task_factory(self) -> None:
        return None

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._complain(f"{context.get('message')}: {error!r}")

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True


def make_loop(clock: Callable[[], float], complain: Callable[[str], None]) -> SimLoop:
    """A loop. It has nothing of what asyncio's loops have besides."""
    loop: SimLoop = cast("Any", SimLoop)(clock, complain)
    return loop
