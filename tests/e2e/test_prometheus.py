"""What a scrape says, read by the official client: the sentences of asyncjobs/integrations/prometheus.py."""

import asyncio
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from asyncjobs import AlreadyOpen, AsyncJobs, ConfigurationError
from asyncjobs.integrations import prometheus
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.telemetry.events import LeaseEnded
from asyncjobs.testing import MovableClock
from tests.support.eventually import eventually
from tests.support.metrics_app import Exporting, Scrape


async def test_what_happens_is_counted_and_what_is_there_is_sampled(dsn: str, schema: str) -> None:
    app = Exporting(dsn, schema)
    async with app.jobs.runner():
        await app.live()
        await app.sampled("asyncjobs_jobs", 1, type="work", status="scheduled")
        scrape = await app.fresh()
        assert scrape.sum("asyncjobs_jobs", type="work", status="processing") == 1
        attempts = {
            outcome: scrape.sum("asyncjobs_attempts_total", type="work", queue="default", outcome=outcome)
            for outcome in ("completed", "retry", "snooze", "dead")
        }
        assert attempts == {"completed": 2, "retry": 1, "snooze": 1, "dead": 2}
        assert scrape.sum("asyncjobs_jobs_enqueued_total") == 9
        assert scrape.sum("asyncjobs_queue_seconds_count", type="work") == 7
        assert scrape.sum("asyncjobs_run_seconds_count", type="work") == 6
        assert scrape.sum("asyncjobs_run_seconds_bucket", type="work", le="+Inf") == 6
        assert scrape.sum("asyncjobs_jobs_claimed_total", queue="default") >= 7
        assert scrape.sum("asyncjobs_ack_seconds_count") >= 1
        assert scrape.sum("asyncjobs_notifications_sent_total") >= 1
        # What this process holds.
        assert (scrape.sum("asyncjobs_slots", lane="fast"), scrape.sum("asyncjobs_slots", lane="")) == (1, 3)
        assert (scrape.sum("asyncjobs_slots_taken", lane="fast"), scrape.sum("asyncjobs_slots_taken", lane="")) == (0, 1)
        assert scrape.sum("asyncjobs_lease_held", duty=prometheus.DUTY) == 1
        assert (scrape.sum("asyncjobs_runners"), scrape.kinds["asyncjobs_loop_lag_seconds"]) == (1, "gauge")
        # What the database holds.
        assert scrape.sum("asyncjobs_jobs", type="later", status="scheduled") == 1
        assert scrape.sum("asyncjobs_jobs", type="keyed", status="waiting") == 1
        assert scrape.sum("asyncjobs_oldest_age_seconds", type="keyed", status="waiting") > 0
        assert (scrape.sum("asyncjobs_dead_letters"), scrape.sum("asyncjobs_keys_halted")) == (3, 1)
        assert scrape.sum("asyncjobs_breaker_state", service="mail", state="open") == 1
        assert scrape.sum("asyncjobs_breaker_state", service="mail") == 1
        assert scrape.sum("asyncjobs_duty_passes_total", duty=prometheus.DUTY) >= 1
        assert scrape.sum("asyncjobs_lease_terms_total", duty=prometheus.DUTY) == 1
        app.go.set()


async def test_workflows_are_counted_with_their_seconds_by_what_they_ended_in(
    dsn: str,
) -> None:
    app = Exporting(dsn)
    async with app.jobs.runner(), MovableClock(app.jobs) as clock:
        await app.sampled("asyncjobs_workflows", 0, state="running")
        async with app.jobs.workflow("one") as flow:
            flow.add(app.work.using(delay=600).new("fine"))
        async with app.jobs.workflow("other") as other:
            other.add(app.work.new("fine"))
        await app.jobs.workflow_of(other.id).wait(timeout=20)
        await clock.advance(10)
        await app.sampled("asyncjobs_workflow_seconds_count", 1, state="completed")
        await app.sampled("asyncjobs_workflows", 1, state="running")
        scrape = await app.fresh()
        assert scrape.sum("asyncjobs_workflows_enqueued_total") == 2
        assert scrape.sum("asyncjobs_oldest_workflow_age_seconds") > 0
        await app.jobs.admin.cancel_workflow(flow.id)


async def test_no_scrape_asks_the_database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Exporting(dsn)
    async with app.jobs.runner():
        await app.sampled("asyncjobs_keys_halted", 0)
        before = app.scrape().sum("asyncjobs_sampled_at_seconds")

        async def refused(self: Link, name: str, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError(f"{name} was sent")

        with monkeypatch.context() as patched:
            patched.setattr(Link, "fetch", refused)
            # In a thread, as the client's own server makes it, while this loop stands still.
            scrapes: list[Scrape] = []
            thread = threading.Thread(target=lambda: scrapes.append(app.scrape()))
            thread.start()
            thread.join(timeout=30)
        assert scrapes[0].sum("asyncjobs_sampled_at_seconds") >= before > 0


async def test_one_process_of_all_shows_the_samples_until_its_term_ends(dsn: str) -> None:
    first, second = Exporting(dsn), Exporting(dsn)
    async with second.jobs.runner():
        await second.sampled("asyncjobs_lease_held", 1, duty=prometheus.DUTY)
        await eventually(lambda: "asyncjobs_dead_letters" in second.scrape().names(), description="it samples", timeout=20.0)
        async with first.jobs.runner():
            assert first.scrape().sum("asyncjobs_lease_held", duty=prometheus.DUTY) == 0
            assert "asyncjobs_dead_letters" not in first.scrape().names()
        second.jobs.events.emit(LeaseEnded(duty="rescue", runner_id=1, reason="lost"))
        assert "asyncjobs_dead_letters" in second.scrape().names()
    assert "asyncjobs_dead_letters" not in second.scrape().names()
    assert second.scrape().sum("asyncjobs_lease_ends_total", duty=prometheus.DUTY, reason="released") == 1
    assert "asyncjobs_lease_held" not in second.scrape().names()


async def test_an_app_that_only_enqueues_exports_what_it_does(dsn: str) -> None:
    app = Exporting(dsn)
    async with app.jobs:
        await asyncio.gather(*(app.work.enqueue("fine") for _ in range(3)))
    scrape = app.scrape()
    assert scrape.sum("asyncjobs_jobs_enqueued_total", queue="default", type="work") == 3
    assert (scrape.sum("asyncjobs_runners"), "asyncjobs_slots" in scrape.names()) == (0, False)


async def test_it_is_set_up_before_the_first_open(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    async with jobs:
        pass
    with pytest.raises(AlreadyOpen):
        prometheus.setup(jobs, registry=CollectorRegistry())


def test_two_apps_in_one_registry_have_namespaces_of_their_own() -> None:
    registry = CollectorRegistry()
    prometheus.setup(AsyncJobs(), registry=registry)
    with pytest.raises(ConfigurationError, match="another registry= or namespace="):
        prometheus.setup(AsyncJobs(), registry=registry)
    prometheus.setup(AsyncJobs(), registry=registry, namespace="archive")
    assert {"asyncjobs_runners", "archive_runners"} <= Scrape(registry).names()


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_sample_is_made_now_and_then(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="sample_every"):
        prometheus.setup(AsyncJobs(), registry=CollectorRegistry(), sample_every=seconds)


def test_nobody_who_does_not_ask_for_metrics_pays_for_them() -> None:
    jobs = AsyncJobs()
    kinds = {count.kind for count in prometheus._COUNTS}
    assert not any(jobs.events.wants(kind) for kind in kinds)
    prometheus.setup(jobs, registry=CollectorRegistry())
    assert all(jobs.events.wants(kind) for kind in kinds)


async def test_halted_keys_are_counted_by_the_index_of_heads(dsn: str, database: Database) -> None:
    app = Exporting(dsn)
    async with app.jobs:
        await app.jobs.enqueue_many([app.keyed.new("k") for _ in range(2_000)])
        link = database.link("test")
        try:
            connection = await link.connection()
            await connection.execute("ANALYZE asyncjobs.serialized_jobs")
            plan = await connection.fetch("EXPLAIN " + database.sql("halted_keys"))
        finally:
            await link.close()
    assert any("serialized_jobs_head" in row[0] for row in plan), plan


async def test_a_schedule_that_the_database_refuses_is_in_health_and_in_the_metric_until_it_ticks_again(
    dsn: str, connection: Connection
) -> None:
    app = Exporting(dsn, schedule_interval=0.3)

    @app.jobs.job("bad")
    async def bad() -> None: ...

    app.jobs.schedule("nightly", bad.new(), every=0.2)
    await connection.execute("ALTER TABLE asyncjobs.jobs ADD CONSTRAINT not_bad CHECK (type <> 'bad')")
    async with app.jobs.runner():
        await app.sampled("asyncjobs_schedules_failed", 1)
        await eventually(lambda: app.jobs.health().runners[0].failed_schedules == ["nightly"], description="it is in health")
        await connection.execute("ALTER TABLE asyncjobs.jobs DROP CONSTRAINT not_bad")
        await eventually(lambda: app.jobs.health().runners[0].failed_schedules == [], description="health is well again")
        await app.sampled("asyncjobs_schedules_failed", 0)
