"""Handlers tested in memory, and whole flows on a database of the test's own.

Run it with `pytest examples/testing_your_jobs.py`.
"""

import subprocess
import sys
from collections.abc import Generator
from datetime import timedelta

import pytest

from asyncjobs import AsyncJobs, Dead, JobContext, Retry
from asyncjobs.testing import MovableClock, assert_enqueued, captured, override, perform, refute_enqueued, run_until_idle

# The app: it names its own database, which no test ever reaches, and knows nothing of tests.

shop = AsyncJobs("postgresql://db.example.com/shop")
DOWN: set[str] = set()  # addresses whose mail server does not answer


@shop.job("mail", max_attempts=4)
async def send_mail(ctx: JobContext, to: str, about: str = "welcome") -> str | Retry | Dead:
    if "@" not in to:
        return Dead("no address")
    if to in DOWN:
        return Retry()
    return f"{about} sent at attempt {ctx.attempt}"


@shop.job("order")
async def place_order(ctx: JobContext, number: int, customer: str) -> int:
    ctx.progress(0.5, "packed")
    await send_mail.using(priority=10).enqueue(customer, about=f"order {number}")
    await send_mail.using(delay=timedelta(days=7)).enqueue(customer, about="how was it?")
    return number


# Tests of a handler need no database.


async def test_what_a_handler_answers() -> None:
    assert await perform(send_mail.new("ada@example.com"), attempt=2) == "welcome sent at attempt 2"
    assert await perform(send_mail.new("ada")) == Dead("no address")


async def test_what_a_handler_enqueues() -> None:
    with captured(shop) as enqueued:
        assert await perform(place_order.new(7, customer="ada@example.com")) == 7
    await assert_enqueued(enqueued, send_mail, {"to": "ada@example.com", "about": "order 7"}, priority=10)
    await assert_enqueued(enqueued, send_mail, {"about": "how was it?"}, delay=timedelta(days=7))


# Tests of a flow get a new database each.


@pytest.fixture
def jobs(asyncjobs_dsn: str) -> Generator[AsyncJobs]:
    with override(shop, dsn=asyncjobs_dsn):
        yield shop


async def test_an_order_is_confirmed(jobs: AsyncJobs) -> None:
    async with jobs:
        handle = await place_order.enqueue(8, customer="eve@example.com")
        order, mail = await run_until_idle(jobs)
        assert (order.id, order.status, mail.result) == (handle.id, "completed", "order 8 sent at attempt 1")
        await refute_enqueued(jobs, send_mail, {"about": "welcome"})


async def test_mail_is_tried_four_times(jobs: AsyncJobs) -> None:
    DOWN.add("bob@example.com")
    async with jobs, MovableClock(jobs) as clock:
        await send_mail.enqueue("bob@example.com")
        [mail] = await run_until_idle(jobs, clock=clock, ahead=timedelta(hours=1))
        assert (mail.status, mail.attempts) == ("dead", 4)


if __name__ == "__main__":
    # What a project says once in its pytest settings.
    modes = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", *modes, __file__]))  # noqa: S603 - this very file
