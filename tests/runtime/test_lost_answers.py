"""Calls whose answer never comes: outcomes are read back, claims that were made for nobody are given back."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs.runtime import points
from asyncjobs.settings import Queue
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.telemetry.events import ClaimWasLost, DatabaseFailed, JobsGivenBack, OutcomeWritten
from asyncjobs.testing import Auditor, Proxy
from tests.support.at_work import AtWork, at_work
from tests.support.eventually import eventually


@pytest.fixture
async def proxy(database: Database) -> AsyncGenerator[Proxy]:
    async with Proxy(database.dsn) as made:
        yield made


@asynccontextmanager
async def behind(proxy: Proxy, connection: Connection, *, command_timeout: float) -> AsyncGenerator[AtWork]:
    """A call line behind the proxy that has had its first look."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET deadlock_timeout = 100')
    async with at_work(Database(proxy.dsn, command_timeout=command_timeout), connection, Queue(concurrency=5)) as made:
        yield made


@pytest.fixture
async def rig(connection: Connection, proxy: Proxy) -> AsyncGenerator[AtWork]:
    async with behind(proxy, connection, command_timeout=60.0) as made:
        yield made


@pytest.fixture
async def impatient(connection: Connection, proxy: Proxy) -> AsyncGenerator[AtWork]:
    async with behind(proxy, connection, command_timeout=1.0) as made:
        yield made


async def running(rig: AtWork, count: int = 1) -> list[int]:
    job_ids = await rig.enqueue(count, max_attempts=5)
    rig.wake()
    assert sorted(await rig.wait_running(count)) == job_ids
    return job_ids


async def test_outcome_whose_answer_was_lost_is_found_written(rig: AtWork, proxy: Proxy) -> None:
    [job_id] = await running(rig)
    proxy.drop_next_response("finish")
    rig.put(job_id, "retry", delay_seconds=60, error={"message": "no"})
    await rig.wait_idle()
    row = await rig.row(job_id)
    assert (row["status"], len(json.loads(row["errors"]))) == ("failed", 1)
    assert len(rig.of(DatabaseFailed)) == 1
    assert ([event.status for event in rig.of(OutcomeWritten)], rig.of(ClaimWasLost)) == (["failed"], [])
    assert rig.woken.due == [60]


async def test_outcome_that_never_reached_the_server_is_written_after_all(rig: AtWork, proxy: Proxy) -> None:
    [job_id] = await running(rig)
    proxy.reset("finish")
    rig.put(job_id)
    await rig.wait_idle()
    assert (await rig.row(job_id))["status"] == "completed"
    assert (len(rig.of(OutcomeWritten)), rig.of(ClaimWasLost)) == (1, [])


@pytest.mark.parametrize("point", ["finish.send", "finish.sent"])
@pytest.mark.parametrize("error", [ConnectionResetError("cut"), TimeoutError("silent")], ids=["reset", "silence"])
async def test_call_that_fails_at_any_point_writes_each_outcome_once_and_loses_no_job(
    rig: AtWork, point: str, error: Exception
) -> None:
    done, failed = await running(rig, 2)
    later = (await rig.enqueue(2))[0]
    fails = [error]

    async def fail(name: str) -> None:
        if name == point and fails:
            raise fails.pop()

    with points.installed(fail):
        rig.put(done)
        rig.put(failed, "retry", delay_seconds=60, error={"message": "no"})
        rig.wake()
        await rig.wait_running(2)
        await rig.wait_idle()
    assert [(await rig.row(job_id))["status"] for job_id in (done, failed)] == ["completed", "failed"]
    assert len(json.loads((await rig.row(failed))["errors"])) == 1
    assert ((await rig.row(later))["status"], (await rig.row(later))["attempts"]) == ("processing", 1)
    assert (len(rig.of(OutcomeWritten)), rig.of(ClaimWasLost)) == (2, [])


async def test_claim_whose_answer_was_lost_is_given_back_with_its_attempt_and_made_again(rig: AtWork, proxy: Proxy) -> None:
    job_ids = await rig.enqueue(3)
    proxy.drop_next_response("finish")
    rig.wake()
    await rig.wait_running(3)
    [given_back] = rig.of(JobsGivenBack)
    assert sorted(given_back.job_ids) == job_ids
    assert [(await rig.row(job_id))["attempts"] for job_id in job_ids] == [1, 1, 1]
    assert len({job.token for job in rig.host.started}) == 3


async def test_key_whose_next_jobs_claim_was_not_answered_goes_on_with_that_job(rig: AtWork, proxy: Proxy) -> None:
    first, second, third = await rig.enqueue_keyed(3)
    rig.wake()
    await rig.wait_running(1)
    proxy.drop_next_response("finish")
    rig.put(first)
    await rig.wait_idle()
    rig.wake()
    await eventually(lambda: second in rig.host.running, description="the next one runs")
    assert [event.job_ids for event in rig.of(JobsGivenBack)] == [[second]]
    assert [(await rig.row(job_id))["status"] for job_id in (first, second)] == ["completed", "processing"]
    assert (await rig.row(second))["attempts"] == 1
    await rig.wait_idle()
    rig.put(second)
    await eventually(lambda: third in rig.host.running, description="the last one runs")
    assert [job.id for job in rig.host.started] == [first, second, third]
    assert rig.of(ClaimWasLost) == []


async def test_job_that_runs_is_not_given_back_when_an_answer_is_lost(rig: AtWork, proxy: Proxy) -> None:
    [job_id] = await running(rig)
    proxy.drop_next_response("finish")
    rig.wake()
    await eventually(lambda: rig.of(DatabaseFailed), description="the answer is lost")
    await rig.wait_idle()
    assert ((await rig.row(job_id))["status"], rig.of(JobsGivenBack)) == ("processing", [])


async def test_outcome_whose_claim_was_lost_while_its_answer_was_awaited_is_told_as_lost(
    rig: AtWork, proxy: Proxy, connection: Connection
) -> None:
    [job_id] = await running(rig)
    proxy.reset("finish")
    proxy.refuse("finish")
    rig.put(job_id)
    await eventually(lambda: rig.of(DatabaseFailed), description="the call fails")
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL, type = 'other'")
    proxy.heal()
    await rig.wait_idle()
    assert (len(rig.of(ClaimWasLost)), rig.of(OutcomeWritten)) == (1, [])
    assert (await rig.row(job_id))["status"] == "pending"
    await connection.execute("UPDATE asyncjobs.jobs SET runner_id = NULL")


async def test_calls_that_fail_again_and_again_write_an_outcome_once(rig: AtWork) -> None:
    [job_id] = await running(rig)
    failing = ["finish.send", "finish.send", "finish.sent"]

    async def fail(name: str) -> None:
        if failing and name == failing[0]:
            failing.pop(0)
            raise ConnectionResetError("cut")

    with points.installed(fail):
        rig.put(job_id, "retry", delay_seconds=60, error={"message": "no"})
        await rig.wait_idle()
    assert failing == []
    assert len(json.loads((await rig.row(job_id))["errors"])) == 1
    assert (len(rig.of(OutcomeWritten)), rig.of(ClaimWasLost)) == (1, [])


async def test_silence_is_noticed_and_nothing_is_lost_in_it(impatient: AtWork, proxy: Proxy) -> None:
    [job_id] = await running(impatient)
    [later] = await impatient.enqueue()
    proxy.black_hole("finish")
    impatient.put(job_id)
    impatient.wake()
    await eventually(lambda: impatient.of(DatabaseFailed), description="the command's time-out")
    proxy.heal()
    await impatient.wait_idle()
    assert (await impatient.row(job_id))["status"] == "completed"
    await impatient.wait_running(1)
    assert list(impatient.host.running) == [later]
    assert impatient.of(ClaimWasLost) == []


async def test_bisection_of_a_refused_batch_survives_lost_answers(rig: AtWork) -> None:
    good, bad, other = await running(rig, 3)
    calls = 0

    async def lose(name: str) -> None:
        nonlocal calls
        if name == "finish.sent":
            calls += 1
            if calls in (1, 2):
                raise ConnectionResetError("cut")

    hold = asyncio.Event()

    async def wait(name: str) -> None:
        await hold.wait()

    with points.installed(wait):
        rig.put(good)
        await asyncio.sleep(0.01)
        rig.put(bad, result='"\\u0000"')
        rig.put(other)
        hold.set()
        points._hook = lose
        await rig.wait_idle()
    assert [(await rig.row(job_id))["status"] for job_id in (good, bad, other)] == ["completed", "dead", "completed"]
    assert (len(rig.of(OutcomeWritten)), rig.of(ClaimWasLost)) == (3, [])


@pytest.mark.parametrize("error", [TypeError("odd"), ValueError("odd"), KeyError("odd"), ZeroDivisionError("odd")])
async def test_answer_that_cannot_be_taken_in_leaves_outcomes_and_claims_in_doubt(rig: AtWork, error: Exception) -> None:
    """The server has carried the call out: its outcomes are written, and what it claimed comes back."""
    first, *_ = await running(rig, 5)
    [later] = await rig.enqueue()
    errors = [error]

    async def fail(name: str) -> None:
        if name == "finish.sent" and errors:
            raise errors.pop()

    with points.installed(fail):
        rig.put(first)
        await rig.wait_idle()
    assert (await rig.row(first))["status"] == "completed"
    assert ([event.job_id for event in rig.of(OutcomeWritten)].count(first), rig.of(ClaimWasLost)) == (1, [])
    assert [event.job_ids for event in rig.of(JobsGivenBack)] == [[later]]
    assert [event.error for event in rig.of(DatabaseFailed)] == [error], "it is no refusal: nothing is isolated"
    await eventually(lambda: later in rig.host.running, description="it is claimed again")


async def test_answer_with_a_row_that_cannot_be_read_leaves_them_in_doubt(
    rig: AtWork, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job_id] = await running(rig)
    read, answers = jobs._read, [TypeError("a column too many")]

    def fail(rows: Any) -> Any:
        if answers:
            raise answers.pop()
        return read(rows)

    monkeypatch.setattr(jobs, "_read", fail)
    rig.put(job_id, "retry", delay_seconds=60, error={"message": "no"})
    await rig.wait_idle()
    assert (await rig.row(job_id))["status"] == "failed"
    assert (len(rig.of(OutcomeWritten)), rig.of(ClaimWasLost)) == (1, [])


async def test_deadlock_with_a_stranger_is_tried_again(rig: AtWork, connection: Connection, auditor: Auditor) -> None:
    auditor.deadlocks = 1
    first, second = await running(rig, 2)
    await connection.execute("ALTER FUNCTION asyncjobs.finish_completed SET lock_timeout = '30s'")  # else it gives up before
    async with connection.transaction():
        await connection.execute("SET LOCAL deadlock_timeout = '10s'")  # the call line is who finds the deadlock
        await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", second)
        hold = asyncio.Event()

        async def wait(name: str) -> None:
            await hold.wait()

        with points.installed(wait):
            rig.put(first)
            rig.put(second)
            hold.set()
            blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            await eventually(lambda: connection.fetchval(blocked), description="the line holds one row and waits for the other")
            await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", first)
    await rig.wait_idle()
    assert [(await rig.row(job_id))["status"] for job_id in (first, second)] == ["completed", "completed"]
    assert (len(rig.of(OutcomeWritten)), rig.of(ClaimWasLost)) == (2, [])
    assert [getattr(event.error, "sqlstate", None) for event in rig.of(DatabaseFailed)] == ["40P01"]


async def test_giving_back_that_comes_late_leaves_newer_claims_alone(rig: AtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    give_back, late = jobs.give_back, list[Callable[[], Awaitable[list[tuple[int, str]]]]]()

    async def lost(link: Link, *args: Any, **kwargs: Any) -> list[tuple[int, str]]:
        monkeypatch.setattr(jobs, "give_back", give_back)
        late.append(lambda: give_back(link, *args, **kwargs))
        raise ConnectionResetError

    monkeypatch.setattr(jobs, "give_back", lost)
    rig.line._doubt.raised_by(())
    rig.line._alarm.wake()
    await eventually(lambda: late, description="the call was sent")
    [job_id] = await running(rig)
    claimed = await rig.row(job_id)
    assert await late[0]() == []
    assert await rig.row(job_id) == claimed
