"""The doctor on real databases, each with one thing wrong that really is."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Retry
from asyncjobs.model import symptom
from asyncjobs.model.symptom import Symptom
from asyncjobs.store import doctoring, migrate
from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import MovableClock
from tests.support.backends import fill
from tests.support.eventually import eventually
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting

#: What depends on the machine that runs the tests, and not on the database of the test.
OF_THE_MACHINE = {"clocks differ", "connections run out", "autovacuum is off"}


async def found(dsn: str, **settings: Any) -> dict[str, Symptom]:
    symptoms = await AsyncJobs(dsn, **settings).admin.doctor()
    assert all(one.remedy for one in symptoms)
    return {one.what: one for one in symptoms if one.what not in OF_THE_MACHINE}


@pytest.mark.direct("a doctor who finds no pooler")
async def test_a_new_schema_is_healthy_open_or_closed(dsn: str) -> None:
    assert await found(dsn) == {}
    async with AsyncJobs(dsn) as jobs:
        assert {one.what for one in await jobs.admin.doctor()} <= OF_THE_MACHINE


@pytest.mark.direct("a doctor who finds no pooler")
async def test_an_outdated_schema_is_diagnosed_by_its_numbers(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await AsyncJobs(empty_dsn).migrate()
    newest, more = migrate.newest(), migrate.Migration(9000, "9000_more.sql", False, "hash")
    known = (*migrate.known(), more)
    monkeypatch.setattr(migrate, "known", lambda: known)
    symptoms = await found(empty_dsn)
    assert list(symptoms) == ["the schema is outdated"]
    only = symptoms["the schema is outdated"]
    assert only.severity == "critical"
    assert only.evidence.startswith(f"schema {newest}, wants {more.number}: without {more.name}")
    assert only.remedy.startswith("run asyncjobs migrate")


@pytest.mark.direct("a doctor who finds no pooler")
async def test_functions_of_another_program_are_diagnosed(dsn: str, connection: Connection) -> None:
    await connection.execute("UPDATE asyncjobs.routines SET hash = 'another' WHERE name = 'finish'")
    only = (await found(dsn))["the schema is outdated"]
    assert only.evidence == f"schema {migrate.newest()}, wants {migrate.newest()}: without routines"


@pytest.mark.direct("a doctor who finds no pooler")
async def test_a_schema_of_before_the_first_release_is_diagnosed(dsn: str, connection: Connection) -> None:
    await insert(connection, "migrations", number=1, name="0001_tables.sql", breaking=False)
    only = (await found(dsn))["the schema is of before the first release"]
    assert (only.severity, only.evidence) == ("critical", 'schema "asyncjobs" has 0001_tables.sql')


async def test_a_schema_that_is_missing_or_too_new_is_diagnosed(
    empty_dsn: str, dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = (await found(empty_dsn))["there is no schema"]
    assert (missing.severity, missing.evidence) == ("critical", 'schema "asyncjobs" has no tables of asyncjobs')
    await insert(connection, "migrations", number=9999, name="9999_future.sql", breaking=True)
    newer = (await found(dsn))["the schema is newer than this program"]
    assert (newer.severity, "9999_future.sql" in newer.evidence) == ("critical", True)


async def test_a_schema_that_was_renamed_is_diagnosed(dsn: str, connection: Connection) -> None:
    await connection.execute("ALTER SCHEMA asyncjobs RENAME TO renamed")
    renamed = (await found(dsn, schema="renamed"))["the schema was renamed or copied"]
    await connection.execute("ALTER SCHEMA renamed RENAME TO asyncjobs")
    assert (renamed.severity, '"asyncjobs"' in renamed.evidence) == ("critical", True)


@pytest.mark.direct("a doctor who finds no pooler")
async def test_another_isolation_level_is_diagnosed_where_nothing_sets_the_right_one(dsn: str, connection: Connection) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'")
    what = "the default isolation level is another"
    assert what not in await found(dsn)
    other = (await found(dsn, connect_kwargs={"server_settings": {}, "statement_cache_size": 0}))[what]
    assert (other.severity, "serializable" in other.evidence) == ("critical", True)


@pytest.mark.direct("a doctor who finds no pooler")
async def test_what_needs_no_tables_is_seen_on_an_outdated_schema(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctoring, "LONG_TRANSACTION", -1.0)
    other = await asyncpg.connect(empty_dsn)
    try:
        async with other.transaction():
            await other.execute("SELECT 1")
            assert {"there is no schema", "a transaction is open for long"} == (await found(empty_dsn)).keys()
    finally:
        await other.close()


async def test_an_index_that_is_missing_or_invalid_is_named(dsn: str, connection: Connection) -> None:
    for _ in range(2):
        await insert_job(connection)
    await connection.execute("DROP INDEX asyncjobs.jobs_due")
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute("CREATE UNIQUE INDEX CONCURRENTLY half_made ON asyncjobs.jobs (type)")
    symptoms = await found(dsn)
    missing, invalid = symptoms["an index is missing"], symptoms["an index is invalid"]
    assert (missing.severity, missing.evidence) == ("critical", "jobs_due")
    assert (invalid.severity, invalid.evidence) == ("critical", "half_made")


async def test_sequences_that_are_behind_their_rows_are_named(dsn: str, connection: Connection) -> None:
    await connection.execute("SELECT setval('asyncjobs.jobs_id_seq', 50)")
    await insert_job(connection, status="completed")
    await connection.execute("SELECT setval('asyncjobs.jobs_id_seq', 3)")
    symptom = (await found(dsn))["a sequence is behind its rows"]
    assert (symptom.severity, symptom.evidence.startswith("jobs_id_seq is at 3, its rows at 51")) == ("critical", True)
    await connection.execute(symptom.remedy.removeprefix("move it on: "))
    assert "a sequence is behind its rows" not in await found(dsn)


async def test_every_index_of_the_migrations_is_known(database: Database) -> None:
    assert {"jobs_claim", "serialized_jobs_head", "jobs_ended"} <= doctoring.expected_indexes(database)


async def test_dead_rows_and_tables_left_out_of_vacuum_are_told(dsn: str, connection: Connection) -> None:
    many = "SELECT 'type', n::text FROM generate_series(1, 11000) AS n"
    await connection.execute(f"INSERT INTO asyncjobs.pauses (kind, name) {many}")
    await connection.execute("DELETE FROM asyncjobs.pauses")
    await connection.execute("ALTER TABLE asyncjobs.jobs SET (autovacuum_enabled = false)")
    await connection.close()  # a session that ends hands in its statistics
    symptoms: dict[str, Symptom] = {}

    async def is_counted() -> bool:  # before version 15 by another process, some time later
        symptoms.update(await found(dsn))
        return "a table is bloated" in symptoms

    await eventually(is_counted, description="the server has counted the dead rows")
    assert symptoms["a table is bloated"].evidence == "pauses: 11,000 dead rows, 0 live ones"
    assert symptoms["autovacuum leaves a table out"].evidence == "jobs"


async def test_a_long_transaction_is_told_with_pid_age_and_query_start(
    dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctoring, "LONG_TRANSACTION", -1.0)
    async with connection.transaction():
        await connection.execute("SELECT 1")
        (one,) = [one for one in (await found(dsn)).values() if one.what == "a transaction is open for long"]
    pid = connection.get_server_pid()
    assert one.evidence.startswith(f"pid {pid} (test, idle in transaction): open for ")
    assert f"query since {datetime.now(UTC):%Y-}" in one.evidence
    assert f"pg_terminate_backend({pid})" in one.remedy
    assert "a transaction is open for long" not in await found(dsn)


@pytest.mark.direct("a backend of one's own")
async def test_session_whose_client_does_not_read_is_told_by_its_snapshot(
    dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a runner whose loop stands still: it is idle, and keeps vacuum from every table."""
    monkeypatch.setattr(doctoring, "LONG_TRANSACTION", -1.0)
    deaf = await asyncpg.connect(dsn, server_settings={"application_name": "asyncjobs listener"})
    await deaf.add_listener("news", lambda *_: None)
    await deaf.fetchval("SELECT 1")
    assert "a session is not read from" not in await found(dsn)
    pid = deaf.get_server_pid()
    deaf._transport.pause_reading()  # type: ignore[attr-defined]
    try:
        await fill(connection, pid)
        one = (await found(dsn))["a session is not read from"]
    finally:
        deaf.terminate()
    assert one.evidence.startswith(f"pid {pid} (asyncjobs listener, idle): for ")
    assert "vacuum stands back" in one.evidence


@pytest.mark.direct("a doctor who finds no pooler")
async def test_duties_that_nobody_does_and_that_hang_are_told(dsn: str, connection: Connection) -> None:
    now = await connection.fetchval("SELECT now()")
    await insert(connection, "background_job_leases", job_name="rescue", held_by_worker_id="none")
    assert await found(dsn) == {}
    await insert_runner(connection, id=1)
    assert "nobody holds it" in (await found(dsn))["a duty is not done"].evidence
    await connection.execute(
        "UPDATE asyncjobs.background_job_leases SET held_by_worker_id = '1', lease_acquired_at = $1, heartbeat_at = $1, "
        "metadata = jsonb_build_object('last_run', $1::timestamptz - interval '10 minutes')",
        now,
    )
    hangs = (await found(dsn))["a duty hangs"]
    assert (hangs.severity, "runner 1 renews, but last turned 6" in hangs.evidence) == ("critical", True)


async def test_runners_that_are_silent_or_died_are_told(dsn: str, connection: Connection) -> None:
    now = await connection.fetchval("SELECT now()")
    await insert_runner(connection, id=1, beat_at=now - timedelta(seconds=70), host="web1", pid=22)
    gone: dict[str, Any] = {"started_at": now, "version": "0", "queues": [], "types": []}
    await insert(connection, "former_runners", id=2, host="web2", pid=33, died_at=now - timedelta(hours=2), **gone)
    await insert(connection, "former_runners", id=3, host="web3", pid=44, died_at=now - timedelta(minutes=30), **gone)
    await insert(connection, "former_runners", id=4, host="web4", pid=55, **gone)
    symptoms = await found(dsn)
    assert symptoms["a runner is silent"].evidence.startswith("runner 1 (web1, pid 22) last beat ")
    assert symptoms["runners died"].evidence.startswith("1 within an hour; the last: runner 3 (web3, pid 44) at ")
    assert "a runner is silent" not in await found(dsn, runner_timeout=60)


async def test_jobs_that_nobody_runs_are_told(dsn: str, connection: Connection) -> None:
    await insert_job(connection, type="nobodys")
    assert (await found(dsn))["no runner lives"].severity == "critical"
    await insert_runner(connection, id=1)
    what = "jobs of a type that nobody declares wait"
    assert (await found(dsn))[what].evidence == "1 of nobodys in default; no runner ever did"
    await insert_runner(connection, id=2, types=["nobodys"], queues=["other"])
    assert (await found(dsn))["jobs that nobody would run wait"].evidence == "1 of nobodys in default"


async def test_jobs_of_types_that_no_program_declares_any_more_are_told_also_before_they_are_due(dsn: str) -> None:
    former, now = AsyncJobs(dsn), AsyncJobs(dsn)

    @former.job("fax")
    async def fax() -> None: ...

    @now.job("email")
    async def email() -> None: ...

    async with former.runner():
        handle = await fax.using(delay=3600).enqueue()
    async with now.runner():
        connection = await asyncpg.connect(dsn)
        await connection.execute("""SELECT asyncjobs.enqueue('yet to come', '{}', '{"undeclared": true, "delay": 60}')""")
        declared_at = await connection.fetchval("SELECT max(declared_at) FROM asyncjobs.types WHERE name = 'fax'")
        await connection.close()
        told = [one for one in await now.admin.doctor() if one.what == "jobs of a type that nobody declares wait"]
        assert [one.evidence for one in told] == [
            f"1 of fax in default; one did last at {declared_at:%Y-%m-%d %H:%M:%S}",
            "1 of yet to come in default; no runner ever did",
        ]
        sentence = (await now.admin.explain(handle.id)).sentence
        assert sentence.endswith(
            'Then it waits all the same: no runner that lives has a handler for "fax", '
            f"one declared it last at {declared_at:%Y-%m-%d %H:%M:%S} UTC."
        )
        found = (await now.admin.find(type="yet to come")).jobs
        await now.admin.retry(found[0].id)
        explained = await now.admin.explain(found[0].id)
        assert explained.reason == "no handler"
        assert explained.sentence.endswith('no runner that lives has a handler for "yet to come", none ever had.')
    async with now.runner(), former.runner():
        assert not [one for one in await now.admin.doctor() if "of fax" in one.evidence]


async def has_failed(jobs: AsyncJobs, key: str) -> bool:
    return (await jobs.admin.key(key)).head_status == "failed"


@pytest.mark.direct("a doctor who finds no pooler")
async def test_keys_that_wait_for_a_retry_or_for_an_operator_are_told_when_that_is_long(dsn: str, database: Database) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.job("sync", serialize_by="{key}")
    async def sync(key: str) -> Retry:
        return Retry(delay=7200)

    async with jobs.runner():
        await jobs.admin.pause(key="held")
        late = await jobs.enqueue("sync", {"key": "late"})
        for key in ("late", "alone"):
            await sync.enqueue(key)
        await sync.enqueue("held")
        await jobs.admin.pause(key="nothing waits")
        for key in ("late", "alone"):
            await eventually(partial(has_failed, jobs, key), description=f"the head of {key} is to be tried again")
    assert (await found(dsn)).keys() == {"no runner lives"}
    async with MovableClock(database) as clock:
        await clock.advance(3700)
        symptoms = await found(dsn)
    later, paused = symptoms["keys wait for a job that is to run later"], symptoms["keys are paused for long"]
    assert later.evidence.startswith(f"1; longest late by job {late.id}, for 1:0")
    assert paused.evidence.startswith("1; longest held, for 1:0")
    assert {later.severity, paused.severity} == {"warning"}


@pytest.mark.unaudited("a runner that does not exist runs jobs")
async def test_keys_of_runners_that_are_gone_are_told(dsn: str, connection: Connection) -> None:
    long_ago = await connection.fetchval("SELECT now() - interval '10 minutes'")
    head = await insert_job(connection, status="processing", runner_id=77, started_at=long_ago, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    assert "keys are held by a runner that is gone" not in await found(dsn)
    await insert_waiting(connection, "k")
    gone = (await found(dsn))["keys are held by a runner that is gone"]
    assert (gone.severity, gone.evidence.startswith(f"1; longest k by job {head}, for 0:1")) == ("critical", True)
    await insert_runner(connection, id=77)
    assert "keys are held by a runner that is gone" not in await found(dsn)


async def test_keys_that_dead_jobs_halted_are_told_at_once(dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.job("sync", serialize_by="{key}", on_dead="halt", max_attempts=1)
    async def sync(key: str) -> None:
        raise ValueError("no")

    async with jobs.runner():
        dead = await sync.enqueue("k")
        await dead.wait(timeout=20)
    assert (await found(dsn))["keys are halted by dead jobs"].evidence.startswith(f"1; longest k by job {dead.id}, for 0:00:")


async def test_a_clock_that_is_wrong_is_told(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(hours=1)

    monkeypatch.setattr(doctoring, "datetime", Late)
    (one,) = [one for one in await AsyncJobs(dsn).admin.doctor() if one.what == "clocks differ"]
    assert one.evidence.startswith("this host is -3")


async def test_connections_that_run_out_are_told(dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    most = int(await connection.fetchval("SHOW max_connections"))
    for number in range(1, most // 10 + 2):
        await insert_runner(connection, id=number)
    may = (await found(dsn))["connections may run out"]
    assert may.evidence == f"{most // 10 + 1} runners may need {10 * (most // 10 + 1)}, max_connections is {most}"
    monkeypatch.setattr(symptom, "_FULL", 0.0)
    (out,) = [one for one in await AsyncJobs(dsn).admin.doctor() if one.what == "connections run out"]
    assert out.evidence.endswith(f"of {most} connections are in use")
    assert not out.evidence.startswith("0 ")


@pytest.mark.direct("a doctor who finds no pooler")
async def test_workflows_that_broke_or_do_not_end_are_told(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.job("step")
    async def step() -> None: ...

    async def build() -> int:
        async with jobs.workflow("import") as flow:
            node = flow.add(step.new())
            flow.add(step.new(), after=node)
        return flow.id

    async with jobs:
        broken, open_one, cancelled = await build(), await build(), await build()
        [first, _] = await jobs.admin.members(broken)
        await jobs.admin.kill(first.id)
        await connection.execute("SELECT asyncjobs.fold_left_over(200)")  # as runners do
        await jobs.workflow_of(broken).wait(timeout=20)
        await connection.execute(
            "UPDATE asyncjobs.workflows SET cancel_requested_at = now() - interval '1 h' WHERE id = $1", cancelled
        )
        sample = (await jobs.admin.sample()).workflows
        assert (sample.running, sample.cancelling) == (1, 1)
        await connection.execute("UPDATE asyncjobs.workflows SET ended_at = now() - interval '10 s' WHERE id = $1", broken)
        ended = await jobs.admin.workflows_ended(datetime.now(UTC) - timedelta(hours=1))
        assert [one.state for one in ended[1]] == ["broken"]
        assert (await jobs.admin.workflows_ended(ended[0]))[1] == []
    told = await found(dsn)
    assert told["workflows broke"].evidence == f"1 in the last hour, the last one workflow {broken} (import)"
    one = told["a workflow does not end although it was cancelled"]
    assert one.evidence.startswith(f"workflow {cancelled} (import) was cancelled 36")
    assert open_one not in {broken, cancelled}
