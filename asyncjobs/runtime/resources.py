"""What the attempts of one runner share: opened once, when the first asks for it, closed after the attempts.

1. Each resource is entered and left by a task of its own: attempts come and go, and what is entered in one task (an anyio task
   group, a cancel scope) must be left in the same.
2. However many ask at once, it is opened once; all of them get it, or ResourceFailed. One that is cancelled while it waits does
   not cancel the opening for the others.
3. One that failed to open fails the attempts that waited; the next one to ask tries again. The runner goes on.
4. Closed are they when no handler runs any more, the last opened first. One that does not end in its time is cancelled, and then
   left alone. What a closing raises is reported, and the others are closed all the same.
5. Once they are being closed nothing is opened any more: ResourceFailed.

The tasks are in no group: a resource that hangs must not keep a shutdown from ending.
"""

import asyncio
import contextvars
import time
from typing import Any, Final, TypeVar

from asyncjobs.context import Resource
from asyncjobs.errors import ResourceFailed
from asyncjobs.model.storable import safe_str
from asyncjobs.runtime.abandoned import abandon
from asyncjobs.telemetry.events import Events, ResourceNotClosed

T = TypeVar("T")

_CANCEL_SECONDS: Final = 0.05


class _Held:
    """One resource that is being opened, open, or being closed."""

    def __init__(self, resource: Resource[Any]) -> None:
        self.resource = resource
        self.value: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.closing = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Resources:
    """The shared resources of one runner. For one event loop."""

    def __init__(self, *, events: Events) -> None:
        self._events = events
        self._held: dict[Resource[Any], _Held] = {}
        self._closed = False

    async def use(self, resource: Resource[T]) -> T:
        """The open resource, opened if it is not. ResourceFailed."""
        if self._closed:
            raise ResourceFailed(resource.name, "was asked for while its runner stops")
        held = self._held.get(resource) or self._open(resource)
        value: T = await asyncio.shield(held.value)
        return value

    def _open(self, resource: Resource[Any]) -> _Held:
        held = self._held[resource] = _Held(resource)
        held.value.add_done_callback(_seen)
        loop = asyncio.get_running_loop()
        held.task = loop.create_task(self._hold(held), name=f"resource {resource.name}", context=contextvars.Context())
        # A task that is cancelled before its first step never enters its coroutine: who asked would wait for ever.
        held.task.add_done_callback(lambda _: self._ended(held))
        return held

    def _ended(self, held: _Held) -> None:
        if not held.value.done():
            self._failed(held, asyncio.CancelledError("its runner stops"))
        self._forget(held)

    def _forget(self, held: _Held) -> None:
        if self._held.get(held.resource) is held:
            del self._held[held.resource]

    async def _hold(self, held: _Held) -> None:
        try:
            async with held.resource.provider() as value:
                held.value.set_result(value)
                await held.closing.wait()
        except BaseException as error:  # noqa: BLE001 - a provider is the application's code
            self._failed(held, error)

    def _failed(self, held: _Held, error: BaseException) -> None:
        if held.value.done():
            self._events.emit(ResourceNotClosed(resource=held.resource.name, error=error))
            return
        self._forget(held)  # before those that wait are told: they may ask again at once
        failure = ResourceFailed(held.resource.name, f"did not open: {type(error).__name__}: {safe_str(error)}")
        failure.__cause__ = error
        held.value.set_exception(failure)

    async def close(self, until: float) -> None:
        """Close them one after the other, until this moment of `time.monotonic`; what is not closed by then is cancelled."""
        self._closed = True
        for held in list(reversed(self._held.values())):
            held.closing.set()
            task = held.task
            if task is None or task.done():
                continue
            if not held.value.done():
                task.cancel()  # it is still being opened, and no attempt waits for it
            await asyncio.wait([task], timeout=max(until - time.monotonic(), 0))

    async def let_go(self) -> None:
        """Cancel those that are not closed, and leave alone those that ignore it."""
        self._closed = True
        tasks = [held.task for held in self._held.values() if held.task is not None and not held.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            _, ignoring = await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
            for task in ignoring:
                abandon(task)


def _seen(value: "asyncio.Future[Any]") -> None:
    """Mark the error as seen: all who waited may have been cancelled meanwhile."""
    if not value.cancelled():
        value.exception()
