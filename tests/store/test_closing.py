"""Closing a connection is bounded and raises nothing, whatever a version of the driver does."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import asyncpg
import pytest

from asyncjobs.store import closing
from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import Proxy
from tests.support.eventually import Stopwatch


class Driver:
    """A connection whose close does what some version of the driver did."""

    def __init__(self, error: BaseException | None = None, *, hangs: bool = False) -> None:
        self.error, self.hangs = error, hangs
        self.began = asyncio.Event()
        self.is_aborted = False

    def is_closed(self) -> bool:
        return False

    def is_in_transaction(self) -> bool:
        return False

    def terminate(self) -> None:
        self.is_aborted = True

    async def close(self, *, timeout: float) -> None:
        self.began.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


def close(driver: Driver, *, seconds: float = 5.0, before: Any = None) -> Any:
    return closing.close(cast("Connection", driver), seconds=seconds, before=before)


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), TimeoutError(), ConnectionResetError(), asyncpg.InternalClientError("state"), ValueError("new")],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_the_driver_raises_stays_inside(error: BaseException) -> None:
    driver = Driver(error)
    await close(driver)
    assert driver.is_aborted


async def test_driver_that_never_ends_a_close_is_not_waited_for() -> None:
    driver, watch = Driver(hangs=True), Stopwatch()
    await close(driver, seconds=0.05)
    assert driver.is_aborted
    assert watch.stop() < 2


async def test_what_is_said_before_takes_part_of_the_same_time() -> None:
    driver, watch = Driver(), Stopwatch()
    await close(driver, seconds=0.05, before=asyncio.Event().wait)
    assert driver.is_aborted
    assert watch.stop() < 2


async def test_cancellation_of_the_caller_goes_through() -> None:
    driver = Driver(hangs=True)
    task = asyncio.create_task(close(driver))
    await driver.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert driver.is_aborted


async def test_task_that_was_cancelled_before_closes_politely() -> None:
    driver = Driver(asyncio.CancelledError())

    async def body() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await close(driver)
            return "closed"
        raise AssertionError

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "closed"


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    async with Proxy(dsn) as made:
        yield made


async def test_link_to_a_silent_server_closes_in_time(proxy: Proxy) -> None:
    link = Database(proxy.dsn).link("test")
    await link.connection()
    proxy.black_hole()
    watch = Stopwatch()
    await link.close(timeout=0.2)
    assert watch.stop() < 2
    assert not link.is_open
