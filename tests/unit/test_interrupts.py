"""Who is told of signals, and what a second Ctrl-C does while a runner is there: `open/signals.py`."""

import asyncio
import signal
from functools import partial

import pytest

from asyncjobs.open.signals import handled, interrupted_in_order


def strike() -> None:
    """Ctrl-C, now."""
    signal.raise_signal(signal.SIGINT)


async def interrupted(told: list[str], times: int) -> None:
    """A block that is struck so often, in the middle of a step."""
    with interrupted_in_order(lambda: told.append("hurry")):
        try:
            strike()
            told.append("struck")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            for _ in range(times - 1):
                strike()
            await asyncio.sleep(0)
            told.append("goes on")
            raise


def test_second_one_hurries_and_raises_nothing() -> None:
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):  # by asyncio, at the end
        asyncio.run(interrupted(told, 2))
    assert told == ["struck", "cancelled", "hurry", "goes on"]


def test_third_one_is_pythons() -> None:
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted(told, 3))
    assert told == ["struck", "cancelled"]


def test_first_one_that_cancels_nothing_more_is_as_ever_and_blocks_nest() -> None:
    told: list[str] = []

    async def main() -> None:
        before = signal.getsignal(signal.SIGINT)
        with interrupted_in_order(lambda: told.append("outer")), interrupted_in_order(lambda: told.append("inner")):
            strike()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(1)
            strike()
            await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGINT) is before

    asyncio.run(main())
    assert told == ["outer", "inner"]


def test_handlers_of_others_are_left_alone() -> None:
    def own(number: int, frame: object) -> None:
        del number, frame

    async def main() -> None:
        for handler in (own, signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, handler)
            with interrupted_in_order(lambda: None):
                assert signal.getsignal(signal.SIGINT) is handler

    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_block_that_is_left_in_another_run_leaves_no_handler_of_the_first() -> None:
    """As fixtures do, whose steps are runs of one asyncio.Runner."""
    block = interrupted_in_order(lambda: None)

    async def enter() -> None:
        block.__enter__()

    async def leave() -> None:
        block.__exit__(None, None, None)

    with asyncio.Runner() as runner:
        runner.run(enter())
        runner.run(leave())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_another_thread_nothing_is_done() -> None:
    async def block() -> object:
        with interrupted_in_order(lambda: None):
            return signal.getsignal(signal.SIGINT)

    async def main() -> None:
        own = signal.getsignal(signal.SIGINT)
        assert await asyncio.to_thread(lambda: asyncio.run(block())) is own

    asyncio.run(main())


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_blocks_are_all_told_and_whichever_ends_last_puts_back_what_was_before(order: tuple[str, str]) -> None:
    told: list[str] = []

    async def main() -> None:
        before = signal.getsignal(signal.SIGINT)
        blocks = {
            name: handled(partial(told.append, name), noted=partial(told.append, f"{name} at once"))
            for name in ("first", "second")
        }
        for block in blocks.values():
            block.__enter__()
        strike()
        await asyncio.sleep(0.01)
        assert told == ["first at once", "second at once", "first", "second"]
        blocks[order[0]].__exit__(None, None, None)
        told.clear()
        strike()
        await asyncio.sleep(0.01)
        assert told == [f"{order[1]} at once", order[1]]
        blocks[order[1]].__exit__(None, None, None)
        assert signal.getsignal(signal.SIGINT) is before

    asyncio.run(main())
