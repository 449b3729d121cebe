"""What the attempts of a runner share: the sentences of runtime/resources.py."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from asyncjobs import ResourceFailed, resource
from asyncjobs.runtime.resources import Resources
from asyncjobs.telemetry.events import Events, ResourceNotClosed


class Shared:
    """Resources that note what happens to them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.failures = 0
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.may_close = asyncio.Event()
        self.may_close.set()
        self.events = Events()
        self.reported: list[ResourceNotClosed] = []
        self.events.subscribe(self.reported.append, ResourceNotClosed)
        self.resources = Resources(events=self.events)
        self.client = resource(self._client)
        self.other = resource(self._other)

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[object]:
        self.seen.append("opening")
        await self.may_open.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no route")
        async with anyio.create_task_group():  # must be left in the task that entered it
            yield self
            await self.may_close.wait()
            self.seen.append("closed client")

    @asynccontextmanager
    async def _other(self) -> AsyncGenerator[int]:
        yield 5
        self.seen.append("closed other")

    async def close(self, seconds: float = 5) -> None:
        await self.resources.close(time.monotonic() + seconds)
        await self.resources.let_go()


@pytest.fixture
async def shared() -> Shared:
    return Shared()


async def test_fifty_that_ask_at_once_get_the_same(shared: Shared) -> None:
    shared.may_open.clear()
    asking = [asyncio.create_task(shared.resources.use(shared.client)) for _ in range(50)]
    await asyncio.sleep(0)
    shared.may_open.set()
    assert set(await asyncio.gather(*asking)) == {shared}
    assert shared.seen == ["opening"]
    await shared.close()


async def test_one_that_is_cancelled_cancels_the_opening_for_nobody(shared: Shared) -> None:
    shared.may_open.clear()
    first, second = (asyncio.create_task(shared.resources.use(shared.client)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    shared.may_open.set()
    assert await second is shared
    await shared.close()


async def test_one_that_fails_to_open_fails_who_asked_and_is_tried_again(shared: Shared) -> None:
    shared.failures = 1
    results = await asyncio.gather(*(shared.resources.use(shared.client) for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ['resource "Shared._client" did not open: ConnectionError: no route.'] * 3
    assert all(isinstance(result, ResourceFailed) for result in results)
    assert await shared.resources.use(shared.client) is shared
    await shared.close()


async def test_the_last_opened_is_closed_first_and_nothing_is_opened_afterwards(shared: Shared) -> None:
    await shared.resources.use(shared.client)
    assert await shared.resources.use(shared.other) == 5
    await shared.close()
    assert shared.seen == ["opening", "closed other", "closed client"]
    with pytest.raises(ResourceFailed, match="was asked for while its runner stops"):
        await shared.resources.use(shared.other)


async def test_one_that_does_not_close_is_cancelled_and_reported(shared: Shared) -> None:
    shared.may_close.clear()
    await shared.resources.use(shared.client)
    await shared.close(0.01)
    assert [(event.resource, type(event.error)) for event in shared.reported] == [("Shared._client", asyncio.CancelledError)]


async def test_one_that_is_still_being_opened_is_not_waited_for(shared: Shared) -> None:
    shared.may_open.clear()
    asking = asyncio.create_task(shared.resources.use(shared.client))
    await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(ResourceFailed, match="did not open: CancelledError: its runner stops"):
        await asking


async def test_what_a_closing_raises_is_reported_and_the_others_are_closed(shared: Shared) -> None:
    @resource
    @asynccontextmanager
    async def breaks() -> AsyncGenerator[int]:
        yield 1
        raise OSError("broken pipe")

    await shared.resources.use(shared.client)
    await shared.resources.use(breaks)
    await shared.close()
    assert [str(event.error) for event in shared.reported] == ["broken pipe"]
    assert shared.seen[-1] == "closed client"


async def test_one_that_ignores_its_cancellation_holds_nobody_up(shared: Shared) -> None:
    ends = asyncio.Event()

    @resource
    @asynccontextmanager
    async def stubborn() -> AsyncGenerator[int]:
        yield 1
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                shared.seen.append("ignored")

    await shared.resources.use(stubborn)
    await shared.close(0.01)
    assert shared.seen == ["ignored"]
    ends.set()
    await asyncio.sleep(0)
