"""The jobs of the examples, tested as their authors would: in memory, or on a test's own database under a movable clock."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal

import pytest

from asyncjobs import AsyncJobs, Cancel, Dead, Retry, Snooze
from asyncjobs.testing import MovableClock, assert_enqueued, captured, override, perform, refute_enqueued, run_until_idle
from examples import dedup, results, retry_and_snooze
from examples.routers import mail, reports
from examples.routers.__main__ import jobs as routers_jobs


@asynccontextmanager
async def at(dsn: str, jobs: AsyncJobs) -> AsyncGenerator[MovableClock]:
    with override(jobs, dsn=dsn):
        async with jobs, MovableClock(jobs) as clock:
            yield clock


async def test_verdicts_are_what_they_say() -> None:
    assert await perform(retry_and_snooze.throttled.new()) == Retry(delay=0.1)
    assert await perform(retry_and_snooze.throttled.new(), attempt=2) == "accepted"
    assert await perform(retry_and_snooze.polls.new()) == Snooze(0.05)
    assert await perform(retry_and_snooze.unwanted.new("nobody@example.com")) == Dead("no such mailbox")
    assert await perform(retry_and_snooze.unwanted.new("gone@example.com")) == Cancel("unsubscribed")
    with pytest.raises(ConnectionError, match="attempt 2 met a closed door"):
        await perform(retry_and_snooze.flaky.new(), attempt=2)


async def test_retries_end_as_they_should(dsn: str) -> None:
    async with at(dsn, retry_and_snooze.jobs) as clock:
        await retry_and_snooze.flaky.enqueue()
        await retry_and_snooze.hopeless.enqueue()
        await retry_and_snooze.polls.enqueue()
        ran = await run_until_idle(retry_and_snooze.jobs, clock=clock, ahead=timedelta(minutes=1))
    ended = {job.type: (job.status, job.attempts, job.snoozes) for job in ran}
    assert ended == {
        "retry.flaky": ("completed", 3, 0),
        "retry.hopeless": ("dead", 2, 0),
        "retry.polls": ("completed", 1, 2),
    }


async def test_a_report_tells_two_readers_in_order_of_priority(dsn: str) -> None:
    async with at(dsn, routers_jobs):
        await reports.monthly.using(correlation_id="c").enqueue("2026-11")
        report, *mails = await run_until_idle(routers_jobs)
        assert [job.parent_job_id for job in mails] == [report.id] * 2
        await assert_enqueued(routers_jobs, mail.newsletter, {"to": "ann@example.com", "issue": 11}, priority=200, queue="mail")
        await assert_enqueued(routers_jobs, mail.newsletter, correlation_id="c", count=2)
        await refute_enqueued(routers_jobs, mail.welcome)


async def test_a_report_says_which_mail_came_first() -> None:
    with captured(routers_jobs) as enqueued:
        assert await perform(reports.monthly.new("2026-11")) == enqueued.jobs[0].id


async def test_one_live_job_per_account(dsn: str) -> None:
    once = dedup.sync_account.using(dedup_key="a")
    async with at(dsn, dedup.jobs):
        await once.enqueue("a")
        await once.using(on_duplicate="replace").enqueue("a", full=True)
        job = await assert_enqueued(dedup.jobs, dedup.sync_account, dedup_key="a", count=1)
        assert [(job.id, job.result) for job in await run_until_idle(dedup.jobs)] == [(job.id, "a: all of it")]


async def test_an_invoice_is_added_up() -> None:
    assert await perform(results.invoice.new("1", [Decimal("1.50"), Decimal(2)])) == results.Invoice("1", Decimal("3.50"))
    assert await perform(results.invoice.new("1", [])) == Dead("nothing to add up")
