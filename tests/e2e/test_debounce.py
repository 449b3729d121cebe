"""Debounce, dedup keys that are held until the start, and what handles say of an enqueue."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Debounce, Queue
from asyncjobs.errors import InvalidOption, InvalidSchedule
from asyncjobs.store.database import Connection
from asyncjobs.testing import MovableClock
from tests.support.eventually import eventually


class Site:
    """A page that is built: `built` has what was built, and when. `hold` keeps builds from ending until it is cleared."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        given: Any = {"poll_interval": 0.2, "promote_interval": 0.5, **settings}
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=4)], **given)
        self.built: list[tuple[int, float]] = []
        self.running = self.most = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

        @self.app.job("page", max_attempts=2)
        async def page(number: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            self.built.append((number, time.monotonic()))
            await self.may_end.wait()
            self.running -= 1
            return number

        self.page = page

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.built]


@pytest.fixture
async def site(dsn: str) -> AsyncGenerator[Site]:
    made = Site(dsn)
    async with made.app.runner(grace=5):
        yield made
        made.may_end.set()


# Debounce.


async def test_a_debounced_job_runs_once_after_the_last_enqueue_with_its_payload(site: Site) -> None:
    page = site.page.using(dedup_key="page-7", debounce=Debounce(quiet=0.6, at_most=30))
    handles = []
    for number in range(6):
        handles.append(await page.enqueue(number))
        await asyncio.sleep(0.1)
    last = time.monotonic() - 0.1
    assert await handles[-1].result(timeout=10) == 5
    assert len({handle.id for handle in handles}) == 1
    assert [handle.did for handle in handles] == ["made", *["replaced"] * 5]
    [(number, at)] = site.built
    assert number == 5
    assert at - last >= 0.55


async def test_enqueues_that_never_end_are_answered_at_most_so_long_after_the_first(site: Site) -> None:
    page = site.page.using(dedup_key="page-7", debounce=Debounce(quiet=0.5, at_most=1))
    first = await page.enqueue(0)
    for number in range(1, 18):
        await asyncio.sleep(0.1)
        await page.enqueue(number)
    await eventually(lambda: site.numbers[-1:] == [17], description="the last one ran", timeout=10)
    assert len(site.built) > 1, "the first ran while enqueues went on"
    job = await site.app.get(first.id)
    assert job is not None
    assert job.run_at - job.created_at <= timedelta(seconds=1)


async def test_at_most_counts_by_the_databases_clock(dsn: str) -> None:
    site = Site(dsn)
    async with site.app, MovableClock(site.app) as clock:
        page = site.page.using(dedup_key="a", debounce=Debounce(quiet=60, at_most=100))
        first = await page.enqueue(1)
        await clock.advance(50)
        await page.enqueue(2)
        job = await site.app.get(first.id)
        assert job is not None
        assert (job.run_at - job.created_at).total_seconds() == pytest.approx(100)
        await clock.advance(51)
        await page.enqueue(3)
        async with site.app.runner():
            assert await first.result(timeout=10) == 3


async def test_a_debounced_job_that_runs_is_followed_by_another(site: Site) -> None:
    site.may_end.clear()
    page = site.page.using(dedup_key="a", debounce=Debounce(quiet=0.1, at_most=1))
    first = await page.enqueue(1)
    await eventually(lambda: site.numbers == [1], description="it runs")
    second = await page.enqueue(2)
    assert (second.did, second.id != first.id) == ("made", True)
    await eventually(lambda: site.numbers == [1, 2], description="the second runs, too")


async def test_a_debounce_that_holds_its_key_until_the_end_drops_what_comes_meanwhile(site: Site) -> None:
    site.may_end.clear()
    page = site.page.using(dedup_key="a", debounce=Debounce(quiet=0.1, at_most=1), dedup_until="end")
    first = await page.enqueue(1)
    await eventually(lambda: site.numbers == [1], description="it runs")
    second = await page.enqueue(2)
    assert (second.did, second.id) == ("dropped", first.id)


async def test_a_debounced_job_of_a_key_and_one_that_expires(site: Site) -> None:
    page = site.page.using(dedup_key="a", serialization_key="k", expires=30, debounce=Debounce(quiet=0.3, at_most=5))
    handles = [await page.enqueue(number) for number in range(5)]
    job = await site.app.get(handles[0].id)
    assert job is not None
    assert job.start_before is not None
    assert (job.start_before - job.run_at).total_seconds() == 30
    assert await handles[0].result(timeout=10) == 4
    assert site.numbers == [4]


async def test_many_at_once_are_debounced_too(site: Site) -> None:
    page = site.page.using(dedup_key="a", debounce=Debounce(quiet=0.2, at_most=5))
    handles = await site.app.enqueue_many([page.new(number) for number in range(50)])
    assert await handles[0].result(timeout=10) == 49
    assert [handle.did for handle in handles] == ["made", *["replaced"] * 49]
    assert site.numbers == [49]


# dedup_until="start".


async def test_one_runs_and_one_waits(site: Site) -> None:
    site.may_end.clear()
    page = site.page.using(dedup_key="a", dedup_until="start")
    first = await page.enqueue(1)
    await eventually(lambda: site.numbers == [1], description="it runs")
    await site.app.admin.pause(type="page")
    second = await page.enqueue(2)
    third = await page.enqueue(3)
    assert [first.did, second.did, third.did] == ["made", "made", "kept"]
    assert second.id == third.id != first.id
    replaced = await page.using(on_duplicate="replace").enqueue(4)
    assert (replaced.id, replaced.did) == (second.id, "replaced")
    await site.app.admin.resume(type="page")
    site.may_end.set()
    assert await third.result(timeout=10) == 4


async def test_until_the_end_what_comes_meanwhile_is_dropped(site: Site) -> None:
    site.may_end.clear()
    page = site.page.using(dedup_key="a")
    first = await page.enqueue(1)
    await eventually(lambda: site.numbers == [1], description="it runs")
    assert (await page.enqueue(2)).did == "dropped"
    assert (await page.using(on_duplicate="replace").enqueue(3)).did == "dropped"
    site.may_end.set()
    assert await first.result(timeout=10) == 1
    assert site.app.handle(first.id).did is None


async def test_with_a_serialization_key_they_never_run_at_once(site: Site) -> None:
    page = site.page.using(dedup_key="a", dedup_until="start", serialization_key="k", on_duplicate="replace")
    for number in range(100):
        await page.enqueue(number)
    await eventually(lambda: site.numbers[-1:] == [99], description="the last one ran")
    assert site.most == 1


async def test_an_enqueue_in_a_transaction_keeps_the_job_that_waits_from_starting_before_its_commit(
    dsn: str, connection: Connection
) -> None:
    site = Site(dsn)
    page = site.page.using(dedup_key="a", dedup_until="start")
    async with site.app:
        first = await page.enqueue(1)
        async with connection.transaction():
            kept = await page.using(connection=connection).enqueue(2)
            assert (kept.did, kept.id) == ("kept", first.id)
            async with site.app.runner():
                other = await site.page.enqueue(7)
                assert await other.result(timeout=10) == 7
                assert site.numbers == [7]
        async with site.app.runner():
            assert await first.result(timeout=10) == 1


async def test_a_transaction_whose_kept_job_of_a_key_has_started_fails(dsn: str, connection: Connection) -> None:
    site = Site(dsn)
    page = site.page.using(dedup_key="a", dedup_until="start", serialization_key="k")
    async with site.app:
        first = await page.enqueue(1)
        with pytest.raises(asyncpg.SerializationError, match="has started"):  # noqa: PT012
            async with connection.transaction():
                assert (await page.using(connection=connection).enqueue(2)).did == "kept"
                async with site.app.runner():
                    assert await first.result(timeout=10) == 1
        async with connection.transaction():
            again = await page.using(connection=connection).enqueue(2)
            assert again.did == "made"
        await site.app.admin.cancel(again.id)


# Bad input.


def test_what_cannot_be_meant_is_refused(dsn: str) -> None:
    site = Site(dsn)
    debounce = Debounce(quiet=1, at_most=5)
    options: Any
    for options in ({"debounce": debounce}, {"dedup_until": "start"}):
        with pytest.raises(InvalidOption, match="needs a dedup_key"):
            site.page.using(**options).new(1)
        with pytest.raises(InvalidOption, match="need a dedup_key"):
            site.page.new(1).using(**options)
    for options in ({"delay": 5}, {"on_duplicate": "return"}):
        with pytest.raises(InvalidOption, match="was given with a debounce"):
            site.page.using(dedup_key="a", debounce=debounce, **options).new(1)
    for options in ({"debounce": 5}, {"dedup_until": "now"}):
        with pytest.raises(InvalidOption, match="give"):
            site.page.using(dedup_key="a", **options)
    for quiet in (0, -1, float("nan")):
        with pytest.raises(InvalidOption, match="quiet"):
            Debounce(quiet=quiet, at_most=5)
    with pytest.raises(InvalidSchedule):
        site.app.schedule("s", site.page.using(dedup_key="a", debounce=debounce).new(1), every=5)
