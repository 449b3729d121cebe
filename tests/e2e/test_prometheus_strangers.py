"""No stranger makes metrics: labels are what was declared, whatever is notified or stands in rows."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from asyncjobs import AsyncJobs
from asyncjobs.integrations import prometheus
from asyncjobs.store.database import Connection, Database
from tests.support.eventually import eventually
from tests.support.factories import insert_job, insert_runner
from tests.support.metrics_app import Exporting


@pytest.mark.direct("hears a notification", only="poll")
async def test_notifications_of_a_stranger_make_no_label_of_their_own(database: Database, connection: Connection) -> None:
    app = Exporting(database.dsn, database.schema)
    async with app.jobs.runner():
        await eventually(lambda: app.scrape().sum("asyncjobs_listening") == 1, description="it listens")
        await connection.execute(
            "SELECT pg_notify($1, payload) FROM (SELECT 'kind' || n || ':x' AS payload FROM generate_series(1, 500) AS n"
            " UNION ALL SELECT 'l:' || repeat('9', 5000) UNION ALL SELECT '' UNION ALL SELECT ':') AS p",
            database.channel,
        )

        async def is_heard() -> bool:
            return app.scrape().sum("asyncjobs_notifications_heard_total", kind="other") == 502

        await eventually(is_heard, description="all were heard")
        kinds = {one.labels["kind"] for one in app.scrape().samples if one.name == "asyncjobs_notifications_heard_total"}
        assert kinds <= {"other", *"qfdlksbpxt"}
        assert app.scrape().sum("asyncjobs_sink_errors_total") == 0


async def test_rows_of_a_stranger_make_no_label_of_their_own(dsn: str, connection: Connection) -> None:
    app = Exporting(dsn)
    await insert_runner(connection, id=5, queues=["theirs"], types=["foreign"])
    ids = [await insert_job(connection, type=f"odd{n}", queue=f"odd{n}") for n in range(30)]
    ids.append(await insert_job(connection, type="foreign", queue="theirs"))
    await connection.execute(
        "INSERT INTO asyncjobs.circuit_breakers (service_name, state) SELECT 'odd' || n, 'open' FROM generate_series(1, 9) AS n"
    )
    async with app.jobs.runner():
        await app.sampled("asyncjobs_jobs", 30, type="other", queue="other")
        scrape = app.scrape()
        assert (
            scrape.sum("asyncjobs_jobs", type="foreign", queue="theirs", status="pending") == 1
        )  # a runner that lives declares them
        assert scrape.sum("asyncjobs_breaker_state", service="other", state="open") == 9
        assert "odd" not in generate_latest(app.registry).decode()
        await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = ANY ($1::bigint[])", ids)


async def test_two_types_of_that_name_are_one_series(dsn: str, connection: Connection) -> None:
    jobs, registry = AsyncJobs(dsn), CollectorRegistry()
    prometheus.setup(jobs, registry=registry, sample_every=0.1)

    @jobs.job("other")
    async def other() -> None: ...

    one = await insert_job(connection, type="unknown", queue="elsewhere")
    async with jobs.runner():
        await other.using(delay=3600).enqueue()

        async def is_sampled() -> bool:
            return 'asyncjobs_jobs{queue="other",status="pending",type="other"} 1.0' in generate_latest(registry).decode()

        await eventually(is_sampled, description="sampled")
        await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", one)
