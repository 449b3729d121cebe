"""Rows that only a stranger can have written: each is its own affair, and no claim, outcome, list or duty breaks for it."""

import json
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff
from asyncjobs.store.database import Connection, Database
from tests.support.factories import insert_job, insert_runner

#: Beyond what Python's datetime holds, and at its edges.
INSTANTS = ["infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "9999-12-31 23:59:59.999999-15"]
STATUSES = ["scheduled", "failed", "paused", "processing", "completed", "cancelled", "dead"]


@pytest.fixture
def app(database: Database) -> AsyncJobs:
    jobs = AsyncJobs(database.dsn, schema=database.schema, poll_interval=0.2)

    @jobs.job("email")
    async def email(n: int = 0, deep: str | None = None) -> int:
        return n

    @jobs.job("fails", max_attempts=2, backoff=Backoff(0))
    async def fails() -> None:
        raise ValueError("no")

    return jobs


async def set_times(connection: Connection, job_id: int, instant: str, *columns: str) -> None:
    changes = ", ".join(f"{column} = '{instant}'" for column in columns)
    await connection.execute(f"UPDATE asyncjobs.jobs SET {changes} WHERE id = $1", job_id)


async def look_everywhere(app: AsyncJobs, ids: list[int]) -> None:
    for job_id in ids:
        assert await app.get(job_id) is not None
        await app.admin.explain(job_id)
    assert {job.id for job in (await app.admin.find(limit=100)).jobs} >= set(ids)
    await app.admin.tree("c")
    await app.admin.trace("c")
    for dead_letter in (await app.admin.dead_letters()).dead_letters:
        await app.admin.dead_letter(dead_letter.id)
    await app.admin.stats()
    await app.admin.sample()


@pytest.mark.unaudited("jobs that never end, and a runner that never was")
async def test_rows_of_impossible_times_break_no_look(app: AsyncJobs, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    ids: list[int] = []
    for instant in INSTANTS:
        for status in STATUSES:
            ids.append(await insert_job(connection, status=status, correlation_id="c"))
            times = ["scheduled_at", "run_at", "created_at", "updated_at", "last_error_at"]
            times += ["started_at"] if status == "processing" else []
            times += ["completed_at"] if status in {"completed", "cancelled", "dead"} else []
            await set_times(connection, ids[-1], instant, *times)
        await connection.execute("SELECT asyncjobs.bury(ARRAY[$1::bigint])", ids[-1])
        await connection.execute(f"UPDATE asyncjobs.dead_letter_jobs SET died_at = '{instant}' WHERE job_id = {ids[-1]}")
    ids.append(await insert_job(connection, status="processing"))
    await connection.execute("UPDATE asyncjobs.jobs SET started_at = now() - interval '60 days' WHERE id = $1", ids[-1])
    async with app:
        await look_everywhere(app, ids)


#: Columns of a pending row, and the status it should end in.
ODD: list[tuple[dict[str, Any], str]] = [
    ({"errors": "5"}, "completed"), ({"errors": "{}"}, "completed"), ({"errors": "null"}, "completed"),
    ({"progress": "5"}, "completed"), ({"progress": "[1]"}, "completed"), ({"trace_context": "no trace"}, "completed"),
    ({"timeout": timedelta(days=-1)}, "completed"), ({"timeout": timedelta(days=999_999_999)}, "completed"),
    ({"lane": ""}, "completed"), ({"correlation_id": "\n\x1b[31m"}, "completed"), ({"priority": 32767}, "completed"),
    ({"attempts": 2**31 - 1, "max_attempts": 2**31 - 1}, "completed"), ({"snoozes": 2**63 - 1}, "completed"),
    ({"parent_job_id": -1}, "completed"), ({"version": 0}, "dead"), ({"version": -5}, "dead"), ({"payload": "5"}, "dead"),
    ({"payload": "null"}, "dead"), ({"payload": '{"n": 1e400}'}, "completed"),
    ({"payload": json.dumps({"n": 0, "deep": "x" * 3_000_000})}, "completed"),
    *(({"type": "fails", "errors": errors, "max_attempts": 2}, "dead") for errors in ("5", "{}", "null", '"x"')),
]  # fmt: skip


async def test_odd_rows_run_beside_the_others(app: AsyncJobs, connection: Connection) -> None:
    least: dict[str, Any] = {"max_attempts": 1}
    odd = [await insert_job(connection, **(least | columns)) for columns, _ in ODD]
    late = [await insert_job(connection, payload='{"n": 1}') for _ in INSTANTS]
    for job_id, instant in zip(late, INSTANTS, strict=True):
        await set_times(connection, job_id, instant, "scheduled_at", "run_at", "created_at")
    await connection.execute("UPDATE asyncjobs.jobs SET timeout = interval '100000000 years' WHERE id = $1", late[0])
    async with app.runner():
        assert await (await app.enqueue("email", {"n": 2})).result(timeout=10) == 2
        ended = [(await app.handle(job_id).wait(timeout=10)).status for job_id in odd]
        assert [(columns, status) for (columns, _), status in zip(ODD, ended, strict=True)] == ODD
        assert [await app.handle(job_id).result(timeout=10) for job_id in late] == [1] * len(late)
        await look_everywhere(app, [*odd, *late])


async def test_rescue_is_not_kept_by_one_odd_row(app: AsyncJobs, connection: Connection) -> None:
    lost: dict[str, Any] = {"status": "processing", "runner_id": 9}
    odd: list[dict[str, Any]] = [{"errors": "5"}, {"errors": "{}"}, {"errors": "null"}, {"rescues": 2**31 - 1}, {}]
    ids = [await insert_job(connection, claim_token=number, **lost, **columns) for number, columns in enumerate(odd)]
    async with app.runner():
        assert [await app.handle(job_id).result(timeout=10) for job_id in ids] == [0] * len(ids)
