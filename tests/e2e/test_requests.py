"""The end of a job that runs, asked for by an operator: in this process, in another one, and with its listener cut off."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, Queue
from asyncjobs.model.request import Request
from asyncjobs.runtime import attempts
from asyncjobs.store import requests
from asyncjobs.store.database import Connection, Link
from asyncjobs.telemetry.events import AttemptStarted, HandlerStuck, OutcomeWritten
from asyncjobs.testing import Proxy, Recorder
from tests.programs import worker
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

POLL_SECONDS = 2.0


class Office:
    """An app whose handlers wait: until they are cancelled, or (obstinate ones) until they are let go."""

    def __init__(self, dsn: str, *, prefetch: int = 0) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue("default", concurrency=1, prefetch=prefetch)], poll_interval=300.0)
        self.go = asyncio.Event()

        @self.app.job("wait", max_attempts=2)
        async def wait() -> str:
            await self.go.wait()
            return "late"

        @self.app.job("obstinate", serialize_by="k")
        async def obstinate() -> str:
            while not self.go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await self.go.wait()
            return "late"

        @self.app.job("plain")
        def plain(ctx: JobContext) -> str:
            while not ctx.cancelled:
                time.sleep(0.01)
            return "late"

        self.wait, self.obstinate, self.plain = wait, obstinate, plain


@pytest.fixture
async def office(dsn: str) -> AsyncGenerator[Office]:
    made = Office(dsn)
    yield made
    made.go.set()


@pytest.fixture
async def running(office: Office) -> AsyncGenerator[Office]:
    async with office.app.runner(grace=0):
        yield office
        office.go.set()


async def started(recorder: Recorder, job_id: int) -> None:
    await recorder.wait_for(AttemptStarted, lambda event: event.job_id == job_id, timeout=10)


async def test_job_that_runs_is_cancelled(running: Office, recorder: Recorder) -> None:
    handle = await running.wait.enqueue()
    await started(recorder, handle.id)
    verb = await running.app.admin.cancel(handle.id, "not any more")
    assert (verb.outcome, verb.was) == ("requested", "processing")
    job = await handle.wait(timeout=10)
    assert (job.status, job.error_message, job.result) == ("cancelled", "not any more", None)


async def test_job_that_runs_is_killed(running: Office, recorder: Recorder) -> None:
    handle = await running.wait.enqueue()
    await started(recorder, handle.id)
    assert (await running.app.admin.kill(handle.id, "poison")).outcome == "requested"
    job = await handle.wait(timeout=10)
    assert (job.status, job.error_message, job.errors[-1]["type"]) == ("dead", "poison", "Killed")


async def test_attempt_that_is_failed_by_hand_is_retried_and_dead_after_the_last(running: Office, recorder: Recorder) -> None:
    handle = await running.wait.enqueue()
    await started(recorder, handle.id)
    assert (await running.app.admin.fail(handle.id, "stuck", will_retry=True)).outcome == "requested"
    await recorder.wait_for(OutcomeWritten, lambda event: event.status == "failed", timeout=10)
    job = await running.app.admin.get(handle.id)
    assert job is not None
    assert (job.attempts, job.last_error) == (1, "stuck")
    assert job.run_at > job.updated_at  # after its back-off
    await recorder.wait_for(AttemptStarted, lambda event: event.attempt == 2, timeout=15)
    await running.app.admin.fail(handle.id, "stuck again", will_retry=True)
    job = await handle.wait(timeout=10)
    assert (job.status, job.error_message) == ("dead", "asyncjobs.errors.FailedByHand: stuck again")
    assert [error["message"] for error in job.errors] == ["stuck", "stuck again"]


async def test_handler_that_swallows_its_cancellation_is_reported_keeps_slot_and_key_and_its_result_is_fenced(
    running: Office, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "STUCK_SECONDS", 0.1)
    handle = await running.obstinate.enqueue()
    behind, other = await running.obstinate.enqueue(), await running.wait.enqueue()
    await started(recorder, handle.id)
    await running.app.admin.cancel(handle.id, "by me")
    stuck = await recorder.wait_for(HandlerStuck, timeout=10)
    assert (stuck.job_id, stuck.reason) == (handle.id, "cancel requested")
    statuses = [job.status for one in (handle, behind, other) if (job := await running.app.get(one.id))]
    assert statuses == ["processing", "waiting", "pending"]  # its key, and the only slot
    running.go.set()
    job = await handle.wait(timeout=10)
    assert (job.status, job.result, job.error_message) == ("cancelled", None, "by me")
    assert [await behind.result(timeout=10), await other.result(timeout=10)] == ["late", "late"]


async def test_plain_function_sees_that_it_should_end(running: Office, recorder: Recorder) -> None:
    handle = await running.plain.enqueue()
    await started(recorder, handle.id)
    await running.app.admin.cancel(handle.id)
    assert (await handle.wait(timeout=10)).status == "cancelled"


async def test_job_that_waits_for_a_slot_is_cancelled_without_being_started(dsn: str, recorder: Recorder) -> None:
    office = Office(dsn, prefetch=2)
    async with office.app.runner(grace=0):
        first, second = await office.wait.enqueue(), await office.wait.enqueue()
        await started(recorder, first.id)
        await eventually(lambda: is_processing(office, second.id), description="the second is claimed")
        assert (await office.app.admin.cancel(second.id, "by me")).outcome == "requested"
        assert (await second.wait(timeout=10)).status == "cancelled"
        assert (await office.app.get(first.id) or await first.wait()).status == "processing"
        office.go.set()
        await first.result(timeout=10)
    assert [event.job_id for event in recorder.of(AttemptStarted)] == [first.id]


async def is_processing(office: Office, job_id: int) -> bool:
    job = await office.app.get(job_id)
    return job is not None and job.status == "processing"


async def test_job_that_completed_in_its_own_transaction_is_completed(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    app = AsyncJobs(dsn)
    completed = asyncio.Event()

    @app.job("both")
    async def both(ctx: JobContext) -> None:
        await ctx.complete(connection, "mine")
        completed.set()
        await asyncio.Event().wait()

    async with app.runner(grace=0):
        handle = await both.enqueue()
        await asyncio.wait_for(completed.wait(), 10)
        verb = await app.admin.cancel(handle.id)
        assert (verb.outcome, verb.was) == ("final", "completed")


def a_worker(dsn: str, poll_seconds: float) -> Program:
    """A runner in a process of its own, which does not notice for five minutes that its listener is cut off."""
    env = {"ASYNCJOBS_DSN": dsn, "POLL_INTERVAL": str(poll_seconds), "LISTENER_KEEPALIVE": "300"}
    return Program.python("-m", "tests.programs.worker", env=env)


async def test_job_that_runs_in_another_process_is_cancelled_at_once(worker_app: AsyncJobs, dsn: str) -> None:
    async with a_worker(dsn, 300) as program:
        await program.line("registered")
        handle = await worker.sleep.enqueue(600.0)
        await program.line(f"started job {handle.id}")
        assert (await worker_app.admin.cancel(handle.id, "by me")).outcome == "requested"
        await program.line(f"ended job {handle.id} cancel")
        assert (await handle.wait(timeout=20)).error_message == "by me"
        program.terminate()
        await program.wait()


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_job_of_a_process_whose_listener_is_cut_off_stops_within_the_poll_interval(
    worker_app: AsyncJobs, dsn: str, record_property: Any
) -> None:
    async with Proxy(dsn) as proxy, a_worker(proxy.dsn, POLL_SECONDS) as program:
        await program.line("registered")
        handle = await worker.sleep.enqueue(600.0)
        await program.line(f"started job {handle.id}")
        await eventually(lambda: proxy.having("listener"), description="it listens")
        proxy.black_hole("listener")
        watch = Stopwatch()
        await worker_app.admin.cancel(handle.id, "by me")
        await program.line(f"ended job {handle.id} cancel")
        # Nothing else than a look within the interval could have told it; the rest is what a busy machine takes.
        seconds = watch.stop()
        record_property("seconds", seconds)
        assert seconds < POLL_SECONDS + 5
        assert (await handle.wait(timeout=20)).status == "cancelled"
        program.kill()


async def test_looks_cost_nothing_while_nothing_runs(office: Office, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    async def look(_link: Link, runner_id: int) -> list[Request]:
        looks.append(runner_id)
        return []

    monkeypatch.setattr(requests, "look", look)
    async with office.app.runner(grace=0) as runner:
        runner.wake()
        await runner.parts.requests.wait_passed()
        assert looks == []
        handle = await office.wait.enqueue()
        await started(recorder, handle.id)
        runner.wake()
        await runner.parts.requests.wait_passed()
        assert looks == [runner.id]
        office.go.set()
        await handle.result(timeout=10)
