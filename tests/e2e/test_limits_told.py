"""What operators are told of limits: metrics, the doctor, health, lists."""

from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from asyncjobs import AsyncJobs, Limit, Queue, Throttled, UsageError
from asyncjobs.integrations import prometheus
from asyncjobs.model.symptom import Symptom
from asyncjobs.store.database import Connection
from tests.support.claims import Claims, an_ack
from tests.support.eventually import eventually
from tests.support.limiting import declare, enqueue, promote
from tests.support.metrics_app import Scrape

_LONG_AGO: Final = (
    "UPDATE asyncjobs.limit_turns SET turned_at = now() - interval '2 min';"
    "UPDATE asyncjobs.limits SET opened_at = now() - interval '2 min'"
)


@pytest.fixture
async def claims(database: Any, connection: Connection) -> AsyncGenerator[Claims]:
    link = database.link("finish")
    made = await Claims(link, connection).register()
    yield made
    await link.close()
    await made.end_all()


async def _told(dsn: str) -> dict[str, Symptom]:
    return {one.what: one for one in await AsyncJobs(dsn).admin.doctor()}


async def test_use_of_limits_is_listed_and_sampled(dsn: str, claims: Claims) -> None:
    """Of each limit what runs and waits, keys that are full and closed; and of a queue with a total what runs."""
    await declare(claims.connection, each=2, total=5)
    await declare(claims.connection, "default", kind="queue", total=9)
    await enqueue(claims, *["api:a"] * 3, *["api:b"] * 3, "api:c")
    claimed = await claims.claim(9)
    assert len(claimed) == 5
    throttled = next(job for job in claimed if job.limit_key == "api:b")
    await claims.connection.execute("SELECT asyncjobs.throttle_key($1, $2, 3600)", throttled.id, throttled.token)
    await claims.ack(an_ack(throttled, "interrupted"))
    await claims.claim(9)
    registry = CollectorRegistry()
    jobs = AsyncJobs(dsn, queues=[Queue("aside")])
    prometheus.setup(jobs, registry=registry, sample_every=0.05)
    async with jobs.runner():
        limit, queue = await jobs.admin.limit("api"), await jobs.admin.limit("default", kind="queue")
        assert (limit.running, limit.total, limit.waiting, limit.keys) == (4, 5, 3, 2)
        assert (limit.full_keys, limit.closed_keys, limit.throttled_keys, limit.differing) == (1, 1, 1, [])
        assert 0 < limit.oldest_age_seconds < 60
        assert (queue.running, queue.total) == (4, 9)
        await eventually(lambda: Scrape(registry).sum("asyncjobs_sampled_at_seconds") > 0, description="it is sampled")
        scrape = Scrape(registry)
        values = {
            name: scrape.sum(f"asyncjobs_limit_{name}", limit="api")
            for name in ("running", "total", "waiting", "keys_full", "keys_closed", "keys_throttled", "differing")
        }
        wanted = {"running": 4, "total": 5, "waiting": 3, "keys_full": 1, "keys_closed": 1, "keys_throttled": 1, "differing": 0}
        assert values == wanted
        assert 0 < scrape.sum("asyncjobs_limit_oldest_age_seconds", limit="api") < 60
        assert scrape.sum("asyncjobs_limit_running", queue="default") == 4


async def test_keys_that_their_rate_has_closed_are_told_from_those_that_a_service_has(dsn: str, claims: Claims) -> None:
    await declare(claims.connection, every=3600, burst=1)
    await enqueue(claims, *["api:a"] * 2, *["api:b"] * 2)
    job = (await claims.claim(9))[0]
    async with AsyncJobs(dsn) as jobs:
        limit = await jobs.admin.limit("api")
        assert (limit.closed_keys, limit.throttled_keys) == (2, 0)
        await claims.connection.execute("SELECT asyncjobs.throttle_key($1, $2, 3600)", job.id, job.token)
        limit = await jobs.admin.limit("api")
        assert (limit.closed_keys, limit.throttled_keys) == (2, 1)
        await claims.connection.execute("UPDATE asyncjobs.limit_keys SET closed_until = now() - interval '1 s'")
        assert (await jobs.admin.limit("api")).throttled_keys == 0, "that is over"


async def test_it_is_seen_for_how_long_a_permit_is_free_that_a_job_waits_for(dsn: str, claims: Claims) -> None:
    """Not since the job is due, but since the key could be claimed; and not where nothing is free."""
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a")
    await claims.connection.execute("UPDATE asyncjobs.jobs SET run_at = now() - interval '1 h'")
    async with AsyncJobs(dsn) as jobs:

        async def idle() -> float:
            return (await jobs.admin.limit("api")).idle_seconds

        assert 0 < await idle() < 60, "it was opened just now"
        await claims.connection.execute(_LONG_AGO)
        assert 119 < await idle() < 180
        [job] = await claims.claim(9)
        assert await idle() == 0, "it is full"
        await claims.connection.execute(_LONG_AGO)
        await claims.ack(an_ack(job))
        assert 0 < await idle() < 60, "it was freed just now"


@pytest.mark.parametrize("weight", [0, -1, 1e-308, 1e7, float("inf"), float("nan"), True, "2"])
async def test_a_weight_that_no_declaration_could_have_is_not_set_by_hand(dsn: str, claims: Claims, weight: Any) -> None:
    """(One by 1e-308 is more than a number can be: each claim of the queue would fail.)"""
    await declare(claims.connection, each=1)
    async with AsyncJobs(dsn) as jobs:
        with pytest.raises(UsageError, match="weight"):
            await jobs.admin.set_limit("api", weight=weight)
        await jobs.admin.set_limit("api", weight=1e-6)
    await enqueue(claims, "api:a")
    assert len(await claims.claim(1)) == 1


async def test_a_key_that_a_service_closed_for_long_is_told_while_jobs_wait(dsn: str, claims: Claims) -> None:
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a")
    [job] = await claims.claim(9)
    throttle = "SELECT asyncjobs.throttle_key($1, $2, $3)"
    what = "limit keys are closed for long"
    await claims.connection.execute(throttle, job.id, job.token, 300.0)
    assert what not in await _told(dsn), "that is not long"
    await claims.connection.execute(throttle, job.id, job.token, 3600.0)
    one = (await _told(dsn))[what]
    assert (one.severity, one.evidence[:24]) == ("warning", "1; longest api:a, until ")
    assert one.evidence.endswith(f"as job {job.id} was told")
    await claims.connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'cancelled', completed_at = now() WHERE status = 'pending'"
    )
    assert what not in await _told(dsn), "nothing waits"


@pytest.mark.unaudited("states that are wrong")
async def test_a_limit_that_is_taken_for_full_and_is_not_is_told(dsn: str, claims: Claims) -> None:
    await declare(claims.connection, each=1, total=5)
    await enqueue(claims, "api:a", "api:a")
    [job] = await claims.claim(9)
    what = "a limit is taken for full, and is not"
    assert what not in await _told(dsn), "it is full"
    await claims.ack(an_ack(job))
    await claims.connection.execute("UPDATE asyncjobs.limit_turns SET state = 'full'")
    one = (await _told(dsn))[what]
    assert (one.severity, one.evidence.split(", and")[0]) == ("critical", "1; api:a has 0 of 1 running")
    await claims.connection.execute("UPDATE asyncjobs.limit_turns SET state = 'open'; UPDATE asyncjobs.limits SET is_full = true")
    assert (await _told(dsn))[what].evidence.startswith("1; api has 0 of 5 running")
    async with AsyncJobs(dsn) as jobs:
        await jobs.admin.open_limit_key("api:a")
        assert what not in await _told(dsn), "a request is on its way"
        await promote(claims)
        assert what not in await _told(dsn)
        assert len(await claims.claim(9)) == 1


async def test_programs_that_declare_a_limit_differently_are_told_while_both_live(dsn: str) -> None:
    first, second = AsyncJobs(dsn), AsyncJobs(dsn)
    for jobs, each in ((first, 1), (second, 2)):
        jobs.job("work", limit=Limit("api", each=each, by="{tenant}"))(_work)
    what = "programs declare limits differently"
    async with first.runner() as older:
        assert first.health().runners[0].differing_limits == []
        async with second.runner():
            health = second.health()
            assert health.runners[0].differing_limits == ["api"]
            await eventually(lambda: second.health().is_ready, description="both run: a deployment rolls on")
            limit = await second.admin.limit("api")
            assert (limit.each, limit.differing) == (2, [older.id])
            assert (await _told(dsn))[what].evidence == f"1, as limit api; by 1 runners, as {older.id}"
    async with second.runner():
        assert what not in await _told(dsn)


async def _work(tenant: str) -> None:
    raise Throttled(1)
