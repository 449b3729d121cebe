"""Sleeps that end when somebody says so, or when it is time."""

import asyncio
import time
from math import inf
from unittest.mock import patch

import pytest

from asyncjobs.runtime.alarm import Alarm


async def _asleep(alarm: Alarm, until: float) -> "asyncio.Task[None]":
    task = asyncio.create_task(alarm.sleep(until))
    await asyncio.sleep(0)
    assert alarm.is_asleep
    return task


async def test_sleeper_is_woken() -> None:
    alarm = Alarm()
    sleeper = await _asleep(alarm, time.monotonic() + 3_600)
    alarm.wake()
    alarm.wake()  # once more before he got up
    await sleeper
    assert not alarm.is_asleep
    alarm.close()


@pytest.mark.parametrize("seconds", [-1.0, 0.01])
async def test_sleep_ends_at_its_instant(seconds: float) -> None:
    until = time.monotonic() + seconds
    await Alarm().sleep(until)
    assert time.monotonic() >= until - 0.002  # uvloop counts milliseconds


async def test_timer_is_kept_from_sleep_to_sleep_while_it_rings_early_enough() -> None:
    alarm, now = Alarm(), time.monotonic()
    loop = asyncio.get_running_loop()
    with patch.object(loop, "call_later", wraps=loop.call_later) as call_later:
        for later in (600, 700, 800):
            sleeper = await _asleep(alarm, now + later)
            alarm.wake()
            await sleeper
        assert call_later.call_count == 1
        sleeper = await _asleep(alarm, now + 0.01)
        await sleeper
        assert call_later.call_count == 2
        sleeper = await _asleep(alarm, now + 600)  # the one that rang is gone
        assert call_later.call_count == 3
    alarm.wake()
    await sleeper
    alarm.close()


async def test_wake_up_while_nobody_sleeps_is_not_kept() -> None:
    alarm = Alarm()
    alarm.wake()
    sleeper = await _asleep(alarm, time.monotonic() + 3_600)
    alarm.wake()
    await sleeper
    alarm.close()


async def test_sleeper_that_is_cancelled_sleeps_no_more_and_no_timer_is_left() -> None:
    alarm = Alarm()
    sleeper = await _asleep(alarm, time.monotonic() + 3_600)
    alarm.wake()
    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    assert not alarm.is_asleep
    alarm.close()
    with patch.object(asyncio.get_running_loop(), "call_later") as call_later:
        sleeper = await _asleep(alarm, inf)
        assert not call_later.called
    alarm.wake()
    await sleeper
