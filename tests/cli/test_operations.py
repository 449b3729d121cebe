"""Keys, queues, pauses, schedules, leases, circuit breakers and pruning by the command line."""

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.cli import failures
from asyncjobs.store.database import Connection
from tests.support.cli import Keyboard, cli
from tests.support.factories import insert, insert_job, insert_runner


@pytest.fixture
def app(dsn: str) -> AsyncJobs:
    made = AsyncJobs(dsn)
    made.circuit_breaker("mailer")

    @made.job("sync", serialize_by="customer {number}", on_dead="halt", max_attempts=1)
    async def sync(number: int) -> None:
        raise ValueError("no")

    @made.cron("nightly", "0 3 * * *")
    async def nightly() -> None: ...

    return made


async def test_a_halted_key_is_shown_and_released(app: AsyncJobs, dsn: str) -> None:
    async with app.runner():
        first = await app.enqueue("sync", {"number": 1})
        await app.enqueue("sync", {"number": 1})
        await first.wait(timeout=20)
    listed = await cli("keys", "list", dsn=dsn)
    assert f"halted by job {first.id}" in listed.out
    assert (await cli("keys", "show", "customer 1", "--json", dsn=dsn)).data["state"]["depth"] == 2
    assert (await cli("keys", "release", "customer 1", dsn=dsn)).code == failures.BAD_INPUT
    said = await cli("keys", "release", "customer 1", dsn=dsn, stdin=Keyboard("y\n"))
    assert said.out == f"key customer 1 goes on; job {first.id} stays dead\n"
    again = await cli("keys", "release", "customer 1", "--yes", dsn=dsn)
    assert (again.code, "is not halted" in again.err) == (failures.NOT_DONE, True)
    purged = await cli("keys", "purge", "customer 1", "--yes", dsn=dsn)
    assert purged.out == "1 jobs cancelled\n"
    assert (await cli("keys", "show", "customer 1", dsn=dsn)).code == failures.NOT_FOUND


async def test_a_key_is_paused_and_resumed(dsn: str) -> None:
    assert (await cli("keys", "pause", "k", "--reason", "why", "--by", "ada", dsn=dsn)).out == "key k is paused\n"
    assert (await cli("keys", "pause", "k", dsn=dsn)).out == "key k was paused before\n"
    assert (await cli("pauses", "--json", dsn=dsn)).data[0]["paused_by"] == "ada"
    assert (await cli("keys", "resume", "k", dsn=dsn)).out == "key k goes on\n"
    assert (await cli("keys", "resume", "k", dsn=dsn)).out == "key k was not paused\n"


async def test_a_queue_is_paused_shown_and_resumed(dsn: str, connection: Connection) -> None:
    await insert_job(connection)
    paused = await cli("pause", "--queue", "default", "--reason", "full", dsn=dsn)
    assert paused.out == "default is paused\n"
    assert "no runner that lives serves default" in paused.err
    row = (await cli("queues", dsn=dsn)).out.splitlines()[2].split()
    assert (row[0], row[1], row[-1]) == ("default", "1", "full")
    assert (await cli("resume", "--queue", "default", dsn=dsn)).out == "default goes on\n"
    assert (await cli("resume", "--queue", "default", dsn=dsn)).out == "default was not paused\n"
    assert (await cli("pause", dsn=dsn)).code == failures.BAD_INPUT
    assert (await cli("pause", "--queue", "a", "--type", "b", dsn=dsn)).code == failures.BAD_INPUT


@pytest.mark.unaudited("a runner that does not exist runs a job")
async def test_a_drain_says_how_many_still_run(dsn: str, connection: Connection) -> None:
    assert (await cli("drain", "--queue", "default", dsn=dsn)).out == "default: nothing runs any more\n"
    await insert_runner(connection, id=1)
    await insert_job(connection, status="processing")
    said = await cli("drain", "--queue", "default", "--timeout", "0", dsn=dsn)
    assert (said.code, said.out) == (failures.NOT_DONE, "default: 1 still run after 0:00:00\n")
    assert "`asyncjobs jobs running` says which" in said.err
    assert (await cli("runners", "--json", dsn=dsn)).data[0]["host"] == "test"


async def test_runners_whose_sessions_have_ended_are_marked(dsn: str, connection: Connection) -> None:
    await insert_runner(connection, id=1, session=connection.get_server_pid())
    await insert_runner(connection, id=2, session=2**30)
    rows = [line.split() for line in (await cli("runners", dsn=dsn)).out.splitlines()[2:]]
    assert {row[0]: row[-1] == "yes" for row in rows} == {"1": False, "2": True}


async def test_schedules_are_listed_run_disabled_and_enabled(app: AsyncJobs, dsn: str) -> None:
    async with app.runner():
        pass
    assert "0 3 * * *" in (await cli("schedules", "list", dsn=dsn)).out
    assert (
        await cli("schedules", "disable", "nightly", "--reason", "tax season", "--by", "ada", dsn=dsn)
    ).out == "nightly ticks no more\n"
    assert (await cli("schedules", "show", "nightly", "--json", dsn=dsn)).data["disabled_reason"] == "tax season (by ada)"
    assert (await cli("schedules", "enable", "nightly", dsn=dsn)).out == "nightly ticks again\n"
    assert (await cli("schedules", "run", "nightly", dsn=dsn)).out.endswith(": enqueued\n")
    wrong = await cli("schedules", "run", "nightyl", dsn=dsn)
    assert (wrong.code, 'Did you mean "nightly"?' in wrong.err) == (failures.NOT_FOUND, True)


async def test_a_breaker_is_opened_and_reset(app: AsyncJobs, dsn: str) -> None:
    async with app:
        await app.admin.breakers()
    assert (
        await cli("breakers", "open", "mailer", "--reason", "maintenance", dsn=dsn)
    ).out == "mailer is open, now until it is reset\n"
    assert "maintenance" in (await cli("breakers", "list", dsn=dsn)).out
    assert (await cli("breakers", "open", "mailer", "--for", "60", dsn=dsn)).out == "mailer was open, now for 60 s\n"
    assert (await cli("breakers", "reset", "mailer", dsn=dsn)).out == "mailer is closed\n"
    assert (await cli("breakers", "show", "mailer", "--json", dsn=dsn)).data["state"] == "closed"
    assert (await cli("breakers", "reset", "mialer", dsn=dsn)).code == failures.NOT_FOUND


async def test_leases_are_listed(dsn: str, connection: Connection) -> None:
    empty = await cli("leases", dsn=dsn)
    assert (empty.code, empty.err) == (0, "asyncjobs: there are no leases.\n")
    await insert(connection, "background_job_leases", job_name="rescue", held_by_worker_id="none")
    assert [one["duty"] for one in (await cli("leases", "--json", dsn=dsn)).data] == ["rescue"]
    assert (await cli("leases", dsn=dsn)).out.splitlines()[2].split()[:2] == ["rescue", "-"]


async def test_what_was_kept_for_long_is_pruned(dsn: str, connection: Connection) -> None:
    long_ago = await connection.fetchval("SELECT now() - interval '10 days'")
    old = await insert_job(connection, status="completed", completed_at=long_ago)
    await insert_job(connection, status="completed")
    await insert(connection, "dedup_keys", type="a", dedup_key="b", job_id=old, live=False, expires_at=long_ago)
    gone = "1 ended jobs, 0 acknowledged dead letters, 0 former runners, 1 dedup keys, 0 entries of the audit"
    would = await cli("prune", "--dry-run", dsn=dsn)
    assert would.out == f"would delete {gone}\n"
    assert (await cli("prune", dsn=dsn)).code == failures.BAD_INPUT
    assert (await cli("prune", "--yes", dsn=dsn)).out == f"deleted {gone}\n"
    assert (await cli("prune", dsn=dsn)).out == "nothing has been kept for long enough\n"
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1
