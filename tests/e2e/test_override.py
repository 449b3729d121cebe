"""`override`: a program's own app, pointed at a test's database."""

import asyncio
from typing import Any

import pytest

from asyncjobs import AsyncJobs, ConfigurationError, InvalidDSN, SchemaMissing, UsageError
from asyncjobs.testing import assert_enqueued, override, run_until_idle

ELSEWHERE = "postgresql://elsewhere.example.com/production"


def production() -> AsyncJobs:
    jobs = AsyncJobs(ELSEWHERE, listen_dsn=ELSEWHERE, connect_kwargs={"ssl": True}, grace=5)

    @jobs.job("ping")
    async def ping() -> str:
        return "pong"

    return jobs


async def test_points_the_app_at_a_database_and_back(dsn: str) -> None:
    jobs = production()
    before = jobs.settings
    with override(jobs, dsn=dsn, grace=1) as same:
        assert same is jobs
        async with jobs:
            await jobs.enqueue("ping", {})
            assert [job.result for job in await run_until_idle(jobs)] == ["pong"]
        assert (jobs.settings.grace, jobs.settings.listen_dsn, jobs.settings.connect_kwargs) == (1, None, {})
    assert (jobs.dsn, jobs.settings) == (ELSEWHERE, before)


async def test_again_and_again_also_nested(dsn: str, empty_dsn: str) -> None:
    jobs = production()
    with override(jobs, dsn=dsn):
        async with jobs:
            await jobs.enqueue("ping", {})
        with override(jobs, dsn=empty_dsn, schema="other"):
            assert [job.type for job in await run_until_idle(jobs)] == []  # it made the schema
        assert [job.type for job in await run_until_idle(jobs)] == ["ping"]
        await assert_enqueued(jobs, "ping")


async def test_makes_no_schema_when_told_not_to(empty_dsn: str) -> None:
    jobs = production()
    with override(jobs, dsn=empty_dsn, auto_migrate=False), pytest.raises(SchemaMissing):
        await run_until_idle(jobs)


async def test_an_open_app_is_not_moved(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    async with jobs:
        with pytest.raises(UsageError, match=r"is open: close it before override\(\) is entered"), override(jobs, dsn=ELSEWHERE):
            pass
    with pytest.raises(UsageError, match=r"before override\(\) is left"), override(jobs, dsn=dsn):
        await jobs.__aenter__()
    await jobs.__aexit__(None, None, None)
    assert jobs.dsn == dsn


def test_what_cannot_be_meant_changes_nothing() -> None:
    jobs = production()
    with pytest.raises(InvalidDSN), override(jobs, dsn="mysql://x/y"):
        pass
    with pytest.raises(ConfigurationError, match="pool_size"), override(jobs, pool_size=0):
        pass
    with pytest.raises(ConfigurationError, match="no setting queues="), override(jobs, queues=()):  # type: ignore[call-arg]
        pass
    assert jobs.dsn == ELSEWHERE


def test_an_error_in_the_block_is_the_blocks() -> None:
    jobs = production()
    with pytest.raises(KeyError), override(jobs, grace=1):
        raise KeyError
    assert jobs.settings.grace == 5


async def test_nothing_runs_by_itself_when_told_so(dsn: str) -> None:
    jobs = production()
    with override(jobs, dsn=dsn, runs=False):
        for opening in (jobs.lifespan(None), jobs.lifespan(None, run=True), jobs.runner(grace=1)):
            async with opening as got:
                handle = await jobs.enqueue("ping", {})
                assert jobs.runners == []
                assert jobs.health(runs=True).is_ready
                if got is not None:
                    got.wake()
                    waiting = asyncio.create_task(got.wait_stopped())
                    await asyncio.sleep(0)
                    assert (got.id, got.name, [*got.queues], waiting.done()) == (0, None, [], False)
                    await got.stop(timeout=1)
                    await asyncio.wait_for(waiting, 5)
                assert [job.result for job in await run_until_idle(jobs)] == ["pong"]
                assert await handle.result(timeout=5) == "pong"
        with override(jobs):
            assert jobs.rests  # an inner block takes nothing back
    assert not jobs.rests


@pytest.mark.parametrize("runs", [None, 1, "no"])
def test_runs_is_true_or_false(runs: Any) -> None:
    jobs = production()
    with pytest.raises(ConfigurationError, match=r"runs=.*: give True or False"), override(jobs, runs=runs):
        pass
    assert not jobs.rests
