"""Tags: what types and enqueues say, in the handler, kept by every way into the table, and found by every filter."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, ConfigurationError, Dead, InvalidOption, JobContext, UsageError
from asyncjobs.testing import captured, run_until_idle
from tests.support.cli import cli


def make(dsn: str) -> tuple[AsyncJobs, Any, Any]:
    jobs = AsyncJobs(dsn)

    @jobs.job("tagged", tags=["billing"])
    async def tagged(ctx: JobContext, number: int = 0) -> list[str] | Dead:
        return Dead("no") if number < 0 else list(ctx.job.tags)

    @jobs.job("plain")
    async def plain(ctx: JobContext) -> list[str]:
        return list(ctx.job.tags)

    return jobs, tagged, plain


async def test_tags_of_types_and_enqueues_reach_the_handler_and_the_row(dsn: str) -> None:
    jobs, tagged, plain = make(dsn)
    async with jobs:
        both = tagged.using(tags=["eu", "billing", "nightly"])
        handles = [
            await tagged.enqueue(), await both.enqueue(), await plain.enqueue(), await plain.using(tags={"b", "a"}).enqueue(),
            await both.using(serialization_key="k").enqueue(), await both.using(dedup_key="d").enqueue(),
            *await jobs.enqueue_many([both.new(), both.new()]), *await jobs.enqueue_many([both.new(), plain.new()]),
        ]  # fmt: skip
        expected = [["billing"], ["billing", "eu", "nightly"], [], ["a", "b"], *[["billing", "eu", "nightly"]] * 5, []]
        assert [job.tags for handle in handles if (job := await jobs.get(handle.id))] == expected
        await run_until_idle(jobs)
        assert [await handle.result() for handle in handles] == expected
    with captured(jobs) as enqueued:
        await jobs.enqueue(both.new())
    assert [*enqueued.jobs[0].tags] == ["billing", "eu", "nightly"]


async def test_a_requeued_dead_letter_keeps_its_tags(dsn: str) -> None:
    jobs, tagged, _ = make(dsn)
    async with jobs:
        await tagged.using(tags=["eu"]).enqueue(-1)
        await run_until_idle(jobs)
        await jobs.admin.requeue_all(by="test", type="tagged")
        [job] = [one for one in (await jobs.admin.find(type="tagged")).jobs if one.requeued_from]
        assert job.tags == ["billing", "eu"]


async def test_every_filter_takes_tags(dsn: str) -> None:
    jobs, tagged, plain = make(dsn)
    async with jobs:
        await plain.enqueue()
        eu = await tagged.using(tags=["eu"], delay=60, priority=7).enqueue()
        us = await tagged.using(tags=["us"], delay=60, dedup_key="once").enqueue()

        async def found(**which: Any) -> set[int]:
            page = await jobs.admin.find(**which)
            assert {job.id for job in (await jobs.admin.rows(**which)).jobs} == {job.id for job in page.jobs}
            return {job.id for job in page.jobs}

        assert await found(tag="billing") == {eu.id, us.id}
        assert await found(tag=["billing", "eu"]) == {eu.id}
        assert await found(tag=["eu", "us"]) == set()
        assert await found(tag="billing", status="scheduled", type="tagged") == {eu.id, us.id}
        assert await found(priority=7) == {eu.id}
        assert await found(dedup_key="once") == {us.id}
        assert await found(ids=[us.id, 10**9]) == {us.id}
        assert await found(ids=[]) == set()
        assert await found(tag="billing", ids=[eu.id]) == {eu.id}
        now = datetime.now(UTC)
        assert await found(created_before=now - timedelta(hours=1)) == set()
        assert await found(tag="us", created_after=now - timedelta(hours=1), created_before=now + timedelta(hours=1)) == {us.id}
        with pytest.raises(UsageError, match="created_after=2027-01-01T00:00:00 has no time zone"):
            await jobs.admin.find(created_after=datetime(2027, 1, 1))  # noqa: DTZ001 - that is what is refused
        nothings: list[Any] = [{"tag": []}, {"tag": ()}, {"tag": None}]
        for nothing in nothings:
            with pytest.raises(UsageError, match="cancel_all would take every job"):
                await jobs.admin.cancel_all(**nothing)
        said = await cli("jobs", "list", "--tag", "billing", "--tag", "eu", "--json", dsn=dsn)
        assert [one["id"] for one in json.loads(said.out)] == [eu.id]
        said = await cli("jobs", "cancel", "--tag", "eu", "--yes", dsn=dsn)
        assert said.code == 0, said.err
        assert (await jobs.admin.cancel_all(tag="billing", status="scheduled")).outcomes == {"cancelled": 1}


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("eu", 'tags="eu" is a str: give a list, as in tags=["nightly"].'),
        (7, "tags=7 is an int: give a list"),
        ([7], "tags= has 7, which is an int, not a str."),
        ([""], 'tags= has "", which is empty.'),
        (["x" * 64], "which has 64 characters, at most 63."),
        (["a\nb"], "which has characters that cannot be printed."),
        ([" a"], 'tags= has " a", which begins or ends with a space.'),
        (["\x00"], "which has a NUL character"),
        ([str(number) for number in range(21)], "tags= has 21 tags, at most 20."),
    ],
)
def test_tags_that_cannot_be_meant_are_refused(tags: Any, said: str) -> None:
    jobs, tagged, _ = make("postgresql://nowhere")
    with pytest.raises(InvalidOption) as caught:
        tagged.using(tags=tags)
    assert said in str(caught.value)
    with pytest.raises(ConfigurationError) as refused:
        jobs.job("other", tags=tags)
    assert str(refused.value) == f'job "other": {caught.value}'


def test_type_and_enqueue_have_20_tags_together() -> None:
    jobs = AsyncJobs()

    @jobs.job("many", tags=[str(number) for number in range(20)])
    async def many() -> None: ...

    with pytest.raises(InvalidOption, match="21 tags"):
        many.using(tags=["one more"]).new()
