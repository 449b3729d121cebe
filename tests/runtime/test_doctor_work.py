"""What an operator is told of work that is not done: the doctor's rules, each on a database with that fault."""

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.model.symptom import Symptom
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.eventually import eventually
from tests.support.factories import insert, insert_job, insert_runner

pytestmark = pytest.mark.unaudited("rows that no runner made")

NOW = datetime.now(UTC)


async def told(dsn: str) -> dict[str, Symptom]:
    """What the doctor and those who look often say of work: the same."""
    async with AsyncJobs(dsn) as jobs:
        worries = {one.what: one for one in await jobs.admin.worries()}
        doctors = {one.what: one for one in await jobs.admin.doctor()}
        assert worries.keys() <= doctors.keys()
        assert {one.what for one in await jobs.admin.worries(await jobs.admin.glance())} == worries.keys()
        for what, one in worries.items():
            assert (one.severity, one.remedy) == (doctors[what].severity, doctors[what].remedy)
    return worries


async def test_where_nothing_is_wrong_nothing_is_told(dsn: str, connection: Connection) -> None:
    await insert_runner(connection)
    await insert_job(connection)
    assert await told(dsn) == {}


async def test_duty_that_fails_each_time_is_told(dsn: str, connection: Connection) -> None:
    await insert_runner(connection)
    lease: dict[str, Any] = {"held_by_worker_id": "1", "heartbeat_at": NOW, "token": 1}
    await insert(connection, "background_job_leases", job_name="report", metadata='{"failures": 30, "errors": 90}', **lease)
    await insert(connection, "background_job_leases", job_name="well", metadata='{"failures": 0, "errors": 90}', **lease)
    one = (await told(dsn))["a duty fails"]
    assert (one.severity, one.evidence) == ("critical", "report: its last 30 passes failed, on runner 1")


async def test_failures_of_a_duty_are_counted_in_a_row(dsn: str) -> None:
    jobs = AsyncJobs(dsn, heartbeat=0.05, runner_timeout=1.0)
    passes = iter((True, True, True))

    @jobs.duty("report", every=0.02)
    async def report() -> None:
        if next(passes, False):
            raise ValueError("no")

    async def is_over() -> bool:
        return any(one.duty == "report" and (one.errors, one.failures) == (3, 0) for one in await jobs.admin.leases())

    async with jobs.runner():
        await eventually(is_over, description="a pass that succeeded ends the row")


async def test_open_breaker_with_jobs_behind_it_is_told_by_any_program(dsn: str, connection: Connection) -> None:
    app = AsyncJobs(dsn)
    app.circuit_breaker("smtp")

    @app.job("email", breaker="smtp")
    async def email() -> None: ...

    async with app.runner(queues=[Queue("elsewhere")]):
        for _ in range(3):
            await email.enqueue()
        await app.admin.open_breaker("smtp", reason="the provider is down")
        one = (await told(dsn))["a circuit breaker is open"]
    assert one.severity == "warning"
    assert one.evidence.startswith('breaker "smtp" since 2')
    assert one.evidence.endswith("until it is reset: 3 jobs wait; the provider is down")
    await connection.execute("DELETE FROM asyncjobs.jobs")
    assert (await told(dsn))["a circuit breaker is open"].severity == "info"


async def test_pauses_with_jobs_behind_them_are_told(dsn: str, connection: Connection) -> None:
    await insert_runner(connection, queues=["default", "mail"])
    for _ in range(2):
        await insert_job(connection, queue="mail")
    await insert(connection, "pauses", kind="queue", name="mail", paused_by="ada", reason="tax season")
    one = (await told(dsn))["it is paused"]
    assert one.severity == "warning"
    assert one.evidence.startswith('queue "mail" since ')
    assert one.evidence.endswith("2 jobs wait; by ada: tax season")
    await connection.execute("DELETE FROM asyncjobs.pauses")
    await insert(connection, "pauses", kind="all", name="everything")
    assert (await told(dsn))["it is paused"].evidence.startswith("everything since ")


async def test_dead_letters_that_nobody_saw_are_told(dsn: str, connection: Connection) -> None:
    for seen in (False, False, True):
        who: dict[str, Any] = {"acknowledged_by": "ada", "acknowledged_at": NOW} if seen else {}
        await insert(connection, "dead_letter_jobs", job_id=5, original_job='{"type": "email"}', acknowledged=seen, **who)
    one = (await told(dsn))["dead letters wait for somebody"]
    assert one.evidence.startswith("2, the first of ")


async def test_job_that_has_been_due_for_long_is_told_unless_another_rule_says_why(dsn: str, connection: Connection) -> None:
    await insert_runner(connection, queues=["default", "mail"])
    await insert_job(connection, run_at=datetime.now(UTC) - timedelta(minutes=26))
    one = (await told(dsn))["jobs wait for long"]
    assert one.evidence.startswith("one of email in default has been due for 0:26:0")
    await insert(connection, "pauses", kind="queue", name="default")
    assert "jobs wait for long" not in await told(dsn)


async def test_type_of_which_every_attempt_fails_is_told(dsn: str, connection: Connection) -> None:
    empty: list[int] = []
    for type, status, count in (("bad", "failed", 4), ("bad", "dead", 2), ("good", "failed", 9), ("good", "completed", 1),
                                ("rare", "failed", 4)):  # fmt: skip
        await insert(connection, "job_metrics", job_type=type, status=status, minute=NOW, count=count, queue_seconds=0.0,
                     run_seconds=0.0, queue_time=empty, run_time=empty)  # fmt: skip
    long_ago: Any = {"minute": NOW - timedelta(minutes=70), "queue_time": empty, "run_time": empty}
    await insert(connection, "job_metrics", job_type="well again", status="failed", count=9, queue_seconds=0.0, run_seconds=0.0,
                 **long_ago)  # fmt: skip
    one = (await told(dsn))["a type fails each time"]
    assert (one.severity, one.evidence) == ("critical", "bad: 6 attempts within an hour, and none succeeded")
    job_id = await insert_job(connection, type="bad", status="dead")
    command = shlex.split(one.remedy.partition(" says why")[0])
    said = await cli(*command[1:], "--json", dsn=dsn)
    assert [row["id"] for row in said.data] == [job_id], "what is proposed finds what fails, also where one attempt is all"
