"""The parts of an app and of its runners: how each is started, watched, started again, counted and shown. There is no other way.

A part is a coroutine function that runs from its start to its stop: a coordinator, the call line, the listener, a duty.

1. Only `stop` ends a part. One that ends otherwise - an error, a cancellation that leaked or was meant for another task, a
   SystemExit - is started again: at once the first time and whenever it had lived for a second, else after 0.1 s, 0.2 s, 0.4 s
   ... 5 s.
2. A part that returns is done: a duty that was drained, a listener where no notifications arrive.
3. Each start anew is an event, `PartRestarted`, and counted. A part is in trouble until it has lived for a second again:
   `troubles` says so in words, which health and each beat repeat.
4. Nothing ends the program from here but KeyboardInterrupt, which is raised in the interpreter's main thread for that. The loop
   that it ends has still to stop the app, for which the part is started again.
5. Two tasks are no parts, since nothing could begin them again: the one that stops a runner, and the owner of the app. A stop
   that is struck, by a cancellation or KeyboardInterrupt, is made anew without grace. Whatever else ends it is raised to its
   caller and told as `RunnerLostItself`, the runner counts as stopped, and its beats end: others take its jobs. An owner that
   ends stops the app's runners, so `jobs.run()` ends, and closes the app; `health()` is not ready and says so.
6. A task that is cancelled before its first step never enters the part: its end is noticed by the task's callback.

What a part leaves behind when it ends in its middle is its own to find: each begins with what the database says, or with what
it kept (`CallLine.run` asks what became of its last call). Tasks are made in an empty context: nothing of the request that
happened to open the app leaks into what runs for all.

They are plain tasks of asyncio's, and in no task group, anyio's or asyncio's: a group ends all its tasks with the first one
that is cancelled from outside, in anyio's without an error even, and of one that is cancelled before its first step nothing
inside of it can prevent that. Such ends are what this is for. Within a part task groups hold what lives and ends together
(`runtime/keys.py`): there it is right that one task's end is the part's, which is then started again as a whole.
"""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from asyncjobs.errors import UsageError
from asyncjobs.model.storable import cut
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.telemetry.events import Events, PartRestarted

WELL_SECONDS: Final = 1.0
#: For how long a part that was started again is told of.
RECENT_SECONDS: Final = 60.0
_LONGEST_BACKOFF_SECONDS: Final = 5.0
_LONGEST_REASON: Final = 500  # bytes


#: How a part is started: its name, which is a metric's label, and what runs.
Start: TypeAlias = "Callable[[str, Callable[[], Awaitable[None]]], Part]"


class Part:
    """One part, and the task that runs it now."""

    def __init__(self, name: str, run: Callable[[], Awaitable[None]], events: Events) -> None:
        self.name = name
        self.restarts = 0
        self.error: BaseException | None = None  # why it was last started again
        self.ended_at = float("-inf")  # when it last ended though it had not been stopped; time.monotonic()
        self._run = run
        self._events = events
        self._failures = 0  # in a row, without a life of a second in between
        self._is_stopped = False
        self._done = asyncio.Event()
        self._when_done: list[Callable[[], object]] = []
        self.task = self._start()

    def _start(self) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self._live(), name=f"asyncjobs {self.name}", context=contextvars.Context())
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None or self._is_stopped:
            self._done.set()
            for callback in self._when_done:
                callback()
        else:
            self._note(error)
            self.task = self._start()

    async def _live(self) -> None:
        while True:
            began_at = time.monotonic()
            try:
                if self._failures > 1:
                    await asyncio.sleep(backoff_seconds(self._failures - 1, _LONGEST_BACKOFF_SECONDS, 0.5))
                    began_at = time.monotonic()
                return await self._run()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if self._is_stopped:
                    if isinstance(error, asyncio.CancelledError):
                        raise
                    return None
                _take_back()
                if time.monotonic() - began_at >= WELL_SECONDS:
                    self._failures = 0
                self._note(error)

    def _note(self, error: BaseException) -> None:
        self._failures += 1
        self.restarts += 1
        self.error = error
        self.ended_at = time.monotonic()
        self._events.emit(PartRestarted(part=self.name, error=error, restarts=self.restarts))

    @property
    def is_done(self) -> bool:
        """Whether it has ended for good."""
        return self._done.is_set()

    @property
    def is_in_trouble(self) -> bool:
        """Whether it ended though it had not been stopped, and has not lived for a second since."""
        return not self._is_stopped and time.monotonic() - self.ended_at < WELL_SECONDS + self._backing_off_seconds

    @property
    def _backing_off_seconds(self) -> float:
        return backoff_seconds(self._failures - 1, _LONGEST_BACKOFF_SECONDS, 0.0) if self._failures > 1 else 0.0

    def stop(self) -> None:
        """End it. Twice is the same as once."""
        self._is_stopped = True
        self.task.cancel()

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call back when it has ended for good; at once if it has."""
        if self.is_done:
            callback()
        else:
            self._when_done.append(callback)

    async def wait_done(self) -> None:
        """Wait until it has ended for good."""
        await self._done.wait()

    def __str__(self) -> str:
        why = cut(f"{type(self.error).__name__}: {self.error}".removesuffix(": "), _LONGEST_REASON)
        return f"part {self.name} was started again ({self.restarts} in all, the last time for {why})"


def _take_back() -> None:
    """Take back the cancellations of this task: it goes on."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


class Parts:
    """All parts of an open app, those of its runners among them."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self._parts: dict[Part, None] = {}  # in the order in which they started
        self._is_closed = False

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> Part:
        """Run a part until it is stopped, or returns. UsageError when the app was closed meanwhile."""
        if self._is_closed:
            raise UsageError("asyncjobs was closed meanwhile.")
        part = Part(name, run, self.events)
        self._parts[part] = None
        part.when_done(lambda: self._parts.pop(part, None))
        return part

    @property
    def all(self) -> Sequence[Part]:
        """Those that have not ended for good."""
        return tuple(self._parts)

    def troubles(self, *, within: float = 0.0) -> list[str]:
        """Parts that do not do what they are for, in words; also those that were started again within so many seconds."""
        now = time.monotonic()
        return [str(part) for part in self._parts if part.is_in_trouble or now - part.ended_at < within]

    async def stop(self) -> None:
        """End them all, and begin no other. Returns when they have ended."""
        self._is_closed = True
        parts = self.all
        for part in parts:
            part.stop()
        for part in parts:
            await part.wait_done()
