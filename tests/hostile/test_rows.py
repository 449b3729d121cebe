"""Rows that only a stranger can have written: each is its own affair, and no claim, outcome, list or duty breaks for it."""

import json
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff
from asyncjobs.model.chance import CHANCE
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import OutcomeRefused, RunnerStopped
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually
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
            times = ["scheduled_at", "run_at", "created_at", "updated_at", "last_error_at", "start_before"]
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


async def test_rows_that_have_to_start_at_no_time_at_all_run_beside_the_others(app: AsyncJobs, connection: Connection) -> None:
    never = [await insert_job(connection, payload='{"n": 1}') for _ in INSTANTS]
    for job_id, instant in zip(never, INSTANTS, strict=True):
        await set_times(connection, job_id, instant, "start_before")
    async with app.runner():
        others = [await app.enqueue("email", {"n": 2}) for _ in range(4)]
        assert [await other.result(timeout=10) for other in others] == [2] * 4
        ended = [(await app.handle(job_id).wait(timeout=10)).status for job_id in never]
        assert ended == ["cancelled" if "-i" in at or "BC" in at else "completed" for at in INSTANTS]
        await look_everywhere(app, never)


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'not this one' USING ERRCODE = TG_ARGV[0]; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON asyncjobs.jobs
    FOR EACH ROW WHEN (OLD.priority = 99 AND NEW.status <> 'processing') EXECUTE FUNCTION public.refuse('{state}')
"""


@pytest.mark.unaudited("an outcome that is never written")
@pytest.mark.parametrize("how", ["a key that no index holds", "23514", "P0001", "XX000"])
async def test_outcome_that_can_never_be_written_keeps_no_other_job(
    how: str, recorder: Recorder, app: AsyncJobs, connection: Connection
) -> None:
    odd = await insert_job(connection, type="fails", max_attempts=1, priority=99)
    if how.startswith("a key"):
        key = "".join(chr(33 + CHANCE.randrange(90)) for _ in range(20_000))
        await connection.execute("UPDATE asyncjobs.jobs SET serialization_key = $2 WHERE id = $1", odd, key)
    else:
        await connection.execute(REFUSE.format(state=how))
    async with app.runner(grace=20):
        refused = await recorder.wait_for(OutcomeRefused)
        assert (refused.job_id, refused.refusals) == (odd, 1)
        for n in range(3):
            assert await (await app.enqueue("email", {"n": n})).result(timeout=5) == n
        [health] = app.health().runners
        assert (health.unwritten, health.refused, health.error) == (1, 1, None)
        await eventually(lambda: len(recorder.of(OutcomeRefused)) >= 3, description="it is tried again")
        if not how.startswith("a key"):
            await connection.execute("DROP TRIGGER refuse ON asyncjobs.jobs")
            assert (await app.handle(odd).wait(timeout=10)).status == "dead"
            assert app.health().runners[0].refused == 0
    assert recorder.of(RunnerStopped)[-1].seconds < 5, "a stop does not wait for what is refused"


@pytest.mark.parametrize("column", ["run_at", "created_at"])
async def test_wait_without_a_number_ends_no_roll_up(database: Database, connection: Connection, column: str) -> None:
    jobs = AsyncJobs(database.dsn, schema=database.schema, metrics_interval=0.2)

    @jobs.job("email")
    async def email(n: int = 0) -> int:
        return n

    odd = await insert_job(connection)
    await set_times(connection, odd, "infinity", column)
    async with jobs.runner():
        assert await jobs.handle(odd).result(timeout=10) == 0
        assert await (await jobs.enqueue("email", {"n": 1})).result(timeout=10) == 1

        async def counted() -> bool:
            found = await connection.fetchval("SELECT sum(count) FROM asyncjobs.job_metrics WHERE job_type = 'email'")
            return bool(found == 2)

        await eventually(counted, description="both are in the roll-up")
        await connection.fetch("SELECT * FROM asyncjobs.job_queue_health")
        await jobs.admin.stats()


async def test_rescue_is_not_kept_by_one_odd_row(app: AsyncJobs, connection: Connection) -> None:
    lost: dict[str, Any] = {"status": "processing", "runner_id": 9}
    odd: list[dict[str, Any]] = [{"errors": "5"}, {"errors": "{}"}, {"errors": "null"}, {"rescues": 2**31 - 1}, {}]
    ids = [await insert_job(connection, claim_token=number, **lost, **columns) for number, columns in enumerate(odd)]
    async with app.runner():
        assert [await app.handle(job_id).result(timeout=10) for job_id in ids] == [0] * len(ids)
