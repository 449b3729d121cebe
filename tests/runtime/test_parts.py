"""What ends a part of a runner, what does not, and what is told of it: `runtime/parts.py`, sentence by sentence."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from asyncjobs.errors import UsageError
from asyncjobs.runtime import parts as module
from asyncjobs.runtime.parts import Part, Parts
from asyncjobs.telemetry.events import Events, PartRestarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually


@pytest.fixture
async def parts(recorder: Recorder) -> AsyncGenerator[Parts]:
    made = Parts(Events())
    yield made
    await made.stop()


class Life:
    """A part that lives until it is made to end, and counts its lives."""

    def __init__(self) -> None:
        self.lives = 0
        self.began = asyncio.Event()
        self.end: Callable[[], Any] = lambda: None
        self.ends = asyncio.Event()

    async def run(self) -> None:
        self.lives += 1
        self.began.set()
        await self.ends.wait()
        self.ends.clear()
        self.end()

    async def end_by(self, end: Callable[[], Any]) -> None:
        self.began.clear()
        self.end = end
        self.ends.set()
        await self.began.wait()


def raises(error: BaseException) -> Callable[[], Any]:
    def end() -> None:
        raise error

    return end


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), asyncio.CancelledError("leaked"), SystemExit(3), GeneratorExit()],
    ids=lambda one: type(one).__name__,
)
async def test_part_that_ends_in_any_way_but_by_its_stop_is_started_again(
    parts: Parts, recorder: Recorder, error: BaseException
) -> None:
    life = Life()
    part = parts.start("life", life.run)
    await life.began.wait()
    await life.end_by(raises(error))
    assert life.lives == 2
    [told] = recorder.of(PartRestarted)
    assert (told.part, told.error, told.restarts) == ("life", error, 1)
    assert part.restarts == 1


async def test_what_is_said_of_its_error_is_short_and_can_be_stored(parts: Parts) -> None:
    life = Life()
    part = parts.start("life", life.run)
    await life.began.wait()
    await life.end_by(raises(ValueError("a\0b" + "x" * 1_000_000)))
    assert r"for ValueError: a\x00bxxx" in str(part)
    assert str(part).endswith("xxx…)")
    assert len(str(part)) < 600


async def test_cancellation_by_somebody_else_starts_it_again_and_does_not_cling_to_it(parts: Parts) -> None:
    life = Life()
    part = parts.start("life", life.run)
    await life.began.wait()
    for _ in range(2):
        life.began.clear()
        part.task.cancel()
        await life.began.wait()
    assert (life.lives, part.task.cancelling()) == (3, 0)


async def test_task_that_is_cancelled_before_its_first_step_is_made_anew(parts: Parts) -> None:
    life = Life()
    parts.start("life", life.run).task.cancel()
    await life.began.wait()
    assert life.lives == 1


async def test_cancellation_while_it_waits_to_begin_again_does_not_end_it(parts: Parts) -> None:
    calls: list[int] = []

    async def fails() -> None:
        calls.append(1)
        raise ValueError

    part = parts.start("fails", fails)
    await eventually(lambda: len(calls) >= 3, description="it backs off")
    part.task.cancel()
    before = len(calls)
    await eventually(lambda: len(calls) > before, description="it goes on")


async def test_part_that_returns_is_done(parts: Parts, recorder: Recorder) -> None:
    async def returns() -> None:
        return

    part = parts.start("returns", returns)
    await part.wait_done()
    assert (parts.all, recorder.of(PartRestarted)) == ((), [])
    told: list[bool] = []
    part.when_done(lambda: told.append(True))
    assert told == [True]


@pytest.mark.parametrize("error", [None, ValueError(), SystemExit()], ids=lambda one: type(one).__name__)
async def test_stop_ends_it_for_good_whatever_it_says_to_that(parts: Parts, error: BaseException | None) -> None:
    began = asyncio.Event()

    async def minds() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            if error is not None:
                raise error

    part = parts.start("minds", minds)
    await began.wait()
    part.stop()
    await part.wait_done()
    assert part.is_done
    assert part.restarts == 0


async def test_it_is_in_trouble_until_it_has_lived_again_for_a_while(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life()
    part = parts.start("life", life.run)
    await life.began.wait()
    assert parts.troubles() == []
    await life.end_by(raises(ValueError("why")))
    assert parts.troubles() == ["part life was started again (1 in all, the last time for ValueError: why)"]
    monkeypatch.setattr(module, "WELL_SECONDS", 0.0)
    await eventually(lambda: not part.is_in_trouble, description="it lives")
    assert parts.troubles() == []
    assert len(parts.troubles(within=60)) == 1


async def test_it_waits_longer_and_longer_while_it_does_not_live_for_a_while(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def backoff_seconds(failures: int, maximum_seconds: float, chance: float) -> float:
        asked.append(failures)
        return 0.0

    lives: list[int] = []

    async def fails() -> None:
        lives.append(1)
        if len(lives) == 5:
            monkeypatch.setattr(module, "WELL_SECONDS", 0.0)
        if len(lives) == 7:
            await asyncio.Event().wait()
        raise ValueError

    monkeypatch.setattr(module, "backoff_seconds", backoff_seconds)
    parts.start("fails", fails)
    await eventually(lambda: len(lives) == 7, description="it has failed often")
    assert asked == [1, 2, 3], "at once the first time, and after it has lived for a while"


async def test_nothing_is_started_after_the_end(recorder: Recorder) -> None:
    made = Parts(Events())
    await made.stop()
    with pytest.raises(UsageError):
        made.start("late", Life().run)


async def test_what_is_not_stopped_is_listed_in_the_order_of_its_start(parts: Parts) -> None:
    names = ["one", "two", "three"]
    made: list[Part] = [parts.start(name, forever) for name in names]
    made[1].stop()
    await made[1].wait_done()
    assert [part.name for part in parts.all] == ["one", "three"]


async def forever() -> None:
    waiting: Awaitable[bool] = asyncio.Event().wait()
    await waiting


def test_keyboard_interrupt_ends_the_loop_and_the_part_goes_on_when_the_loop_does() -> None:
    """As `asyncio.run` has it go on, to stop the app."""
    loop = asyncio.new_event_loop()
    try:
        life, made = Life(), list[Parts]()

        async def begin() -> None:
            made.append(Parts(Events()))
            made[0].start("life", life.run)
            await life.began.wait()

        async def end() -> None:
            life.end = raises(KeyboardInterrupt())
            life.ends.set()
            await asyncio.sleep(3600)

        loop.run_until_complete(begin())
        life.began.clear()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(end())
        loop.run_until_complete(life.began.wait())
        assert life.lives == 2
        loop.run_until_complete(made[0].stop())
        for task in asyncio.all_tasks(loop):
            task.cancel()
    finally:
        loop.close()
