"""What becomes of an attempt that is cancelled while it closes the key of its limit."""

import asyncio
from typing import Any

import pytest

from asyncjobs import Throttled
from tests.support.attempts import Runs


@pytest.mark.parametrize("then", ["it is closed", "it is cancelled"])
async def test_an_attempt_that_is_cancelled_while_it_closes_its_key_ends_and_waits_itself(then: str) -> None:
    closing, goes_on = asyncio.Event(), asyncio.Event()

    async def close_key(*_: Any) -> bool:
        closing.set()
        await goes_on.wait()
        return True

    async def busy() -> None:
        raise Throttled(5.0)

    runs = Runs(close_key=close_key)
    attempt = runs.make(busy, limit_key="api:a")
    task = runs.start(attempt)
    await closing.wait()
    if then == "it is closed":
        goes_on.set()
    else:
        attempt.cancel("claim lost")
    await asyncio.wait([task], timeout=10)
    [ack] = runs.acks
    assert ack.outcome.kind == "snooze"
    assert ack.outcome.delay_seconds == (0.0 if then == "it is closed" else 5.0)
