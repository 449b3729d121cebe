"""What a handle makes of the job's final row."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from asyncjobs import (
    AsyncJobs,
    InvalidOption,
    Job,
    JobCancelled,
    JobDied,
    JobHandle,
    JobNotFound,
    JobRouter,
    ResultUnavailable,
    WaitTimeout,
)
from asyncjobs.handles import ended

NOW = datetime.now(UTC)
router = JobRouter()


@router.job("sum")
async def total(numbers: list[int]) -> int:
    return sum(numbers)


class Finished:
    """An app in which the job has ended."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.waits: list[float | None] = []

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        self.waits.append(timeout)
        return self.job


def a_job(**fields: Any) -> Job:
    defaults: dict[str, Any] = {"id": 812, "type": "sum", "status": "completed", "queue": "default", "attempts": 3}
    times: dict[str, Any] = {"scheduled_at": NOW, "run_at": NOW, "created_at": NOW, "updated_at": NOW}
    return Job(**(defaults | times | fields))


def handle_of(job: Job) -> tuple[JobHandle[int], Finished]:
    app = Finished(job)
    return JobHandle(job.id, lambda: cast("AsyncJobs", app), total.declaration.decode_result), app


async def test_a_completed_job_has_its_result_in_the_declared_type() -> None:
    handle, app = handle_of(a_job(result=5))
    assert await handle.result(timeout=timedelta(seconds=2)) == 5
    assert (await handle.wait()).id == 812
    assert app.waits == [2.0, None]


ENDINGS = [
    ({"status": "dead", "error_message": "ValueError: no"}, JobDied, 'job 812 "sum" died after 3 attempts: ValueError: no'),
    ({"status": "cancelled", "error_message": "no need"}, JobCancelled, 'job 812 "sum" was cancelled: no need'),
    (
        {"result_dropped": "too large: 2097152 bytes"},
        ResultUnavailable,
        'job 812 "sum" completed, its result was dropped: too large: 2097152 bytes',
    ),
    (
        {"result": "x"},
        ResultUnavailable,
        'job 812 "sum" completed, its result does not fit the declared type: expected int, got str - at $',
    ),
]


@pytest.mark.parametrize(("fields", "kind", "message"), ENDINGS, ids=[kind.__name__ for _, kind, _ in ENDINGS])
async def test_a_job_without_a_result_raises_what_it_ended_in(fields: Any, kind: type[Exception], message: str) -> None:
    handle, _ = handle_of(a_job(**fields))
    with pytest.raises(kind) as caught:
        await handle.result()
    assert (str(caught.value), cast("JobDied", caught.value).job_id) == (message, 812)


async def test_a_timeout_that_is_none_is_refused() -> None:
    handle, _ = handle_of(a_job())
    with pytest.raises(InvalidOption, match="timeout=-1 must be at least 0 seconds"):
        await handle.wait(timeout=-1)


def test_looking_once_tells_a_job_that_goes_on_from_none() -> None:
    assert ended(812, a_job()).id == 812
    with pytest.raises(WaitTimeout, match="job 812 had not ended yet: it is processing"):
        ended(812, a_job(status="processing"))
    with pytest.raises(JobNotFound, match="there is no job 812"):
        ended(812, None)


@pytest.mark.parametrize("job_id", [0, -1, 2**63, True, "5", None])
def test_an_id_that_cannot_be_one_is_refused(job_id: Any) -> None:
    jobs: Any = AsyncJobs(routers=[router])
    with pytest.raises(InvalidOption, match=f"job_id={job_id!r} is no job's id: give the `id` of a handle"):
        jobs.handle(job_id)
    with pytest.raises(InvalidOption, match="is no job's id"):
        total.handle(job_id)


def test_handles_of_one_job_are_equal() -> None:
    jobs = AsyncJobs()
    assert jobs.handle(5) == total.handle(5)
    assert len({jobs.handle(5), total.handle(5), jobs.handle(6)}) == 2
