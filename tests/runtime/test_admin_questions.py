"""Questions of an operator's that a list by name or by id does not answer."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, UsageError
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting

pytestmark = pytest.mark.unaudited("rows that no runner made")

NOW = datetime.now(UTC)


@pytest.fixture
async def jobs(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with AsyncJobs(dsn) as app:
        yield app


# Keys.


async def a_key(rows: Connection, key: str, *, depth: int, since: datetime, **head: Any) -> None:
    halted: dict[str, Any] = {"halted_at": since, "halt_reason": "it died"} if head.get("status") == "dead" else {}
    job_id = await insert_job(rows, serialization_key=key, **head)
    await insert_place(rows, key, job_id, dispatched_at=since, place=None, **halted)
    for _ in range(depth - 1):
        await insert_waiting(rows, key)


async def test_stuck_keys_are_found_among_many_by_age_and_by_depth(jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    for number in range(30):
        await a_key(connection, f"busy {number:02}", depth=2, since=NOW - timedelta(days=9), status="processing")
    await a_key(connection, "halted", depth=2, since=NOW - timedelta(hours=1), status="dead")
    await a_key(connection, "deep", depth=5, since=NOW - timedelta(minutes=1), status="failed", run_at=NOW + timedelta(hours=1))
    await a_key(connection, "old", depth=1, since=NOW - timedelta(hours=9), status="paused")
    await insert_waiting(connection, "paused")
    await insert(connection, "pauses", kind="key", name="paused", paused_at=NOW - timedelta(hours=2))
    found = await jobs.admin.stuck_keys()
    assert [(one.key, one.depth) for one in found] == [("old", 1), ("paused", 1), ("halted", 2), ("deep", 5)]
    assert all(one.blocked for one in found)
    assert [one.key for one in await jobs.admin.stuck_keys(order="depth", limit=2)] == ["deep", "halted"]
    said = await cli("keys", "list", "--blocked", "--order", "depth", dsn=dsn)
    assert [line.split()[0] for line in said.out.splitlines()[2:]] == ["deep", "halted", "old", "paused"]


# Dead letters.


async def letter(rows: Connection, error: str, *, type: str = "email", age: timedelta = timedelta(0)) -> int:
    job_id = await insert_job(rows, status="dead", type=type, error_message=error)
    made = await rows.fetchval(
        "INSERT INTO asyncjobs.dead_letter_jobs (job_id, original_job, error_message, died_at) "
        "SELECT j.id, to_jsonb(j), j.error_message, $2 FROM asyncjobs.jobs AS j WHERE j.id = $1 RETURNING id",
        job_id,
        NOW - age,
    )
    return int(made)


async def test_dead_letters_are_told_by_error_and_requeued_by_it(jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    smtp = [await letter(connection, f"ConnectionError: 10.0.0.{n}:25 refused (try {n})\nmore") for n in range(3)]
    await letter(connection, "ValueError: no such customer 0x7f3a12 4711")
    await letter(connection, "ConnectionError: 10.0.0.9:25 refused (try 9)", type="sms")
    old = await letter(connection, "ConnectionError: 10.0.0.9:25 refused (try 9)", age=timedelta(hours=3))
    kinds = await jobs.admin.dead_letter_errors()
    told = [(one.type, one.kind, one.count) for one in kinds]
    refused = "ConnectionError: #.#.#.#:# refused (try #)"
    assert told == [("email", refused, 4), ("email", "ValueError: no such customer # #", 1), ("sms", refused, 1)]
    assert (kinds[0].last_id, kinds[0].last_at - kinds[0].first_at) == (max(old, *smtp), timedelta(hours=3))
    [lately] = await jobs.admin.dead_letter_errors(type="email", died_after=NOW - timedelta(hours=1), limit=1)
    assert lately.count == 3
    said = await cli("dead", "errors", "--since", "1h", "--type", "email", dsn=dsn)
    assert refused in said.out
    done = await cli("dead", "requeue", "--type", "email", "--error-kind", refused, "--since", "1h", "--yes", dsn=dsn)
    assert done.out.splitlines()[-1] == "3 requeued"
    assert [one.count for one in await jobs.admin.dead_letter_errors(type="email")] == [1, 1]


# What runs, and what happened lately.


async def test_what_runs_for_longest_comes_first(jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    await insert_runner(connection, slots='{"default": {"": 9}}')
    ids = [await insert_job(connection, status="processing", started_at=NOW - timedelta(minutes=age)) for age in (1, 90, 20)]
    assert [one.id for one in await jobs.admin.longest_running()] == [ids[1], ids[2], ids[0]]
    assert [one.id for one in await jobs.admin.longest_running(limit=1)] == [ids[1]]
    said = await cli("jobs", "running", dsn=dsn)
    assert [int(line.split()[0]) for line in said.out.splitlines()[2:]] == [ids[1], ids[2], ids[0]]
    await connection.execute('UPDATE asyncjobs.runners SET slots = \'{"default": {"": 2}}\', prefetch = \'{"default": 9}\'')
    assert [one.id for one in await jobs.admin.longest_running()] == [ids[1], ids[2]], "the third waits for a slot"


async def test_jobs_are_found_by_when_something_happened_to_them(jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    now = datetime.now(UTC)
    long_ago, lately = now - timedelta(hours=5), now - timedelta(minutes=10)
    old = await insert_job(connection, status="dead", created_at=long_ago, updated_at=long_ago)
    new = await insert_job(connection, status="failed", created_at=long_ago, updated_at=lately)
    hour = now - timedelta(hours=1)
    assert [one.id for one in (await jobs.admin.find(since=hour)).jobs] == [new]
    assert [one.id for one in (await jobs.admin.find(until=hour)).jobs] == [old]
    assert [one.id for one in (await jobs.admin.rows(since=hour)).jobs] == [new]
    said = await cli("jobs", "list", "--since", "1h", "--json", dsn=dsn)
    assert [int(one["id"]) for one in said.data] == [new]
    until = await cli("jobs", "list", "--until", hour.isoformat(), "--json", dsn=dsn)
    assert [int(one["id"]) for one in until.data] == [old]
    for since, ids in (("301m", [new, old]), ("18060s", [new, old]), ("0.5d", [new, old]), ("599s", [])):
        listed = await cli("jobs", "list", "--since", since, "--json", dsn=dsn)
        assert [int(one["id"]) for one in listed.data] == ids, since
    retried = await cli("jobs", "retry", "--since", "1h", "--yes", dsn=dsn)
    assert retried.out.splitlines()[-1] == "1 retried"
    wrong = await cli("jobs", "list", "--since", "yesterday", dsn=dsn)
    assert (wrong.code, "say how long ago, as 90s, 15m, 1h, 2d" in wrong.err) == (2, True)


async def test_status_that_there_is_not_is_refused(jobs: AsyncJobs) -> None:
    wrong: Any = "complete"
    with pytest.raises(UsageError, match=r'^status="complete" is none of waiting, .*\. Did you mean "completed"\?$'):
        await jobs.admin.find(status=wrong)
    with pytest.raises(UsageError, match="is none of"):
        await jobs.admin.cancel_all(status=["dead", wrong])


# Small ones.


async def test_ids_beyond_what_a_double_holds_are_texts_in_json(connection: Connection, dsn: str) -> None:
    big = 2**53 + 1
    await insert_runner(connection, id=big)
    said = await cli("runners", "--json", dsn=dsn)
    assert [one["id"] for one in said.data] == [str(big)]
    small = await insert_job(connection)
    assert [one["id"] for one in (await cli("jobs", "list", "--json", dsn=dsn)).data] == [small]


async def test_schedule_that_never_ticked_says_so(dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.cron("nightly", "0 3 * * *")
    async def nightly() -> None: ...

    async with jobs.runner():
        assert not (await jobs.admin.schedule("nightly")).has_ticked
        assert "never" in (await cli("schedules", "list", dsn=dsn)).out
        await jobs.admin.run_schedule("nightly")
        assert (await jobs.admin.schedule("nightly")).has_ticked


async def test_types_may_be_called_by_long_dotted_paths(dsn: str, connection: Connection) -> None:
    name = "company.billing.tasks." + "x" * 170
    jobs = AsyncJobs(dsn)

    @jobs.job(name)
    async def task(n: int) -> int:
        return n

    async with jobs.runner():
        assert await (await task.enqueue(3)).result(timeout=20) == 3
        by_sql = await connection.fetchval("SELECT asyncjobs.enqueue($1, '{\"n\": 4}')", name)
        assert await task.handle(by_sql).result(timeout=20) == 4
