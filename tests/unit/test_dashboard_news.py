"""Readings that viewers share: the sentences of asyncjobs/dashboard/news.py."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.dashboard import news as module
from asyncjobs.dashboard.news import News, Reading
from asyncjobs.dashboard.problems import Refused


class Source:
    """What is read: it counts, and waits for leave if told to."""

    def __init__(self) -> None:
        self.count = 0
        self.may = asyncio.Event()
        self.may.set()
        self.fails = False

    async def read(self) -> dict[str, Any]:
        self.count += 1
        mine = self.count
        await self.may.wait()
        if self.fails:
            raise ConnectionError("gone")
        return {"number": mine}


def pollers() -> int:
    return sum(task.get_name() == "asyncjobs dashboard poller" for task in asyncio.all_tasks())


async def test_who_asks_meanwhile_or_soon_after_gets_the_same_reading() -> None:
    news, source = News(), Source()
    source.may.clear()
    asking = [asyncio.create_task(news.look("a", source.read)) for _ in range(5)]
    await asyncio.sleep(0)
    source.may.set()
    assert await asyncio.gather(*asking) == [{"number": 1}] * 5
    assert await news.look("a", source.read, fresh_seconds=60) == {"number": 1}
    assert await news.look("b", source.read) == {"number": 2}
    assert await news.look("a", source.read, fresh_seconds=-1) == {"number": 3}


async def test_who_asks_after_a_verb_gets_a_new_reading_even_if_one_is_under_way() -> None:
    news, source = News(), Source()
    source.may.clear()
    early = asyncio.create_task(news.look("a", source.read))
    await asyncio.sleep(0)
    news.forget()
    late = asyncio.create_task(news.look("a", source.read))
    source.may.set()
    assert (await early, await late) == ({"number": 1}, {"number": 2})


async def test_one_who_gives_up_takes_the_reading_from_nobody() -> None:
    news, source = News(), Source()
    source.may.clear()
    one, other = (asyncio.create_task(news.look("a", source.read)) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    source.may.set()
    assert await other == {"number": 1}


async def test_a_reading_that_fails_is_not_kept() -> None:
    news, source = News(), Source()
    source.fails = True
    with pytest.raises(ConnectionError):
        await news.look("a", source.read, fresh_seconds=60)
    source.fails = False
    assert await news.look("a", source.read, fresh_seconds=60) == {"number": 2}


async def test_followers_of_the_same_share_one_poller_that_ends_with_the_last() -> None:
    news, source = News(every=0.01), Source()
    assert pollers() == 0
    followers = [news.follow("a", source.read) for _ in range(20)]
    first = await asyncio.gather(*(anext(one) for one in followers))
    assert {number(reading) for reading in first} == {1}
    await asyncio.gather(*(anext(one) for one in followers))
    assert (source.count, pollers(), news.followers) == (2, 1, 20)
    for one in followers[1:]:
        await one.aclose()
    assert number(await anext(followers[0])) > 1
    await followers[0].aclose()
    assert (pollers(), news.followers) == (0, 0)
    seen = source.count
    await asyncio.sleep(0.03)
    assert source.count == seen


async def test_a_late_follower_of_something_else_does_not_wait_for_the_next_turn() -> None:
    news, one, other = News(every=3600), Source(), Source()
    first = news.follow("a", one.read)
    await anext(first)
    second = news.follow("b", other.read)
    assert number(await anext(second)) == 1
    await first.aclose()
    await second.aclose()


async def test_trouble_is_told_and_passes() -> None:
    news, source = News(every=0.01), Source()
    source.fails = True
    follower = news.follow("a", source.read)
    reading = await anext(follower)
    assert (reading.data, str(reading.trouble)) == (None, "gone")
    source.fails = False
    assert await settled(follower) is None
    await follower.aclose()


async def settled(follower: AsyncGenerator[Reading]) -> Exception | None:
    """The next reading that has data."""
    async for reading in follower:
        if reading.data is not None:
            return reading.trouble
    raise AssertionError("it ended")


async def test_a_follower_that_is_cut_off_is_forgotten() -> None:
    news, source = News(every=0.01), Source()

    async def follow() -> None:
        async for _ in news.follow("a", source.read):
            pass

    following = asyncio.create_task(follow())
    while not source.count:
        await asyncio.sleep(0)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    while news.followers:
        await asyncio.sleep(0)  # the generator is closed by the loop
    assert pollers() == 0


async def test_there_are_not_too_many_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FOLLOWERS", 1)
    news, source = News(every=0.01), Source()
    first = news.follow("a", source.read)
    await anext(first)
    with pytest.raises(Refused, match="Too many"):
        await anext(news.follow("b", source.read))
    await first.aclose()


def number(reading: Reading) -> int:
    assert reading.data is not None
    return int(reading.data["number"])
