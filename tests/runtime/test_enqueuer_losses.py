"""Enqueues whose answer is lost: the row is there exactly once, and its caller gets its id."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs.errors import DatabaseUnavailable
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import Proxy
from tests.support.enqueuing import Enqueuing, enqueuing
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row, insert_job

KINDS = {
    "plain": {},
    "keyed": {"serialization_key": "k"},
    "dedup": {"dedup_key": "d"},
    "keyed and dedup": {"serialization_key": "k", "dedup_key": "d"},
}


@pytest.fixture
async def proxy(database: Database) -> AsyncGenerator[Proxy]:
    async with Proxy(database.dsn) as made:
        yield made


def through(proxy: Proxy, database: Database, *, command_timeout: float = 10.0) -> Database:
    return Database(proxy.dsn, schema=database.schema, command_timeout=command_timeout, connect_timeout=2.0)


def rows_of(kind: str, count: int) -> list[NewRow]:
    """Rows whose payload says which they are; with dedup keys of their own."""
    fields = KINDS[kind]
    return [a_row(payload={"n": n}, **(fields | ({"dedup_key": f"d{n}"} if "dedup_key" in fields else {}))) for n in range(count)]


async def written(connection: Connection) -> dict[int, int]:
    """The number in the payload of each job, by id."""
    rows = await connection.fetch("SELECT id, (payload ->> 'n')::integer AS n FROM asyncjobs.jobs")
    return {row["id"]: row["n"] for row in rows}


async def terminate(connection: Connection, application_name: str) -> None:
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1 AND datname = current_database()",
        application_name,
    )


def by_id(answers: list[Enqueued | BaseException]) -> dict[int, int]:
    return {answer.id: n for n, answer in enumerate(answers) if isinstance(answer, Enqueued)}


async def warm(enqueuing: Enqueuing, connection: Connection, rows: list[NewRow]) -> None:
    """Open the line's connection, and forget what that wrote."""
    await enqueuing.enqueue(rows[0])
    for table in ("jobs", "serialized_jobs", "dedup_keys"):
        await connection.execute(f"DELETE FROM asyncjobs.{table}")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lost_answer_makes_neither_two_jobs_nor_none(
    kind: str, proxy: Proxy, database: Database, connection: Connection
) -> None:
    rows = rows_of(kind, 50)
    async with enqueuing(through(proxy, database)) as line:
        await warm(line, connection, rows)
        for turn in range(3):
            proxy.drop_next_response()
            answers = await line.gather(rows[turn * 10 : turn * 10 + 10])
            found = await written(connection)
            assert {
                answer.id: turn * 10 + n for n, answer in enumerate(answers) if isinstance(answer, Enqueued)
            }.items() <= found.items()
            assert all(isinstance(answer, Enqueued) and answer.created for answer in answers)
            assert len(found) == turn * 10 + 10


@pytest.mark.parametrize("kind", KINDS)
async def test_a_statement_that_never_arrived_is_sent_again(
    kind: str, proxy: Proxy, database: Database, connection: Connection
) -> None:
    rows = rows_of(kind, 5)
    lost = 0

    async def lose(name: str) -> None:
        nonlocal lost
        if name == "enqueue.send" and lost < 2:
            lost += 1
            proxy.reset()

    async with enqueuing(through(proxy, database)) as line:
        await warm(line, connection, rows)
        with points.installed(lose):
            answers = await line.gather(rows)
        assert lost == 2
        assert by_id(answers) == await written(connection)
        assert len(by_id(answers)) == 5


async def test_a_lost_answer_of_enqueue_many_makes_each_job_once(
    proxy: Proxy, database: Database, connection: Connection
) -> None:
    rows = [*rows_of("plain", 20), *rows_of("keyed and dedup", 20)]
    async with enqueuing(through(proxy, database)) as line:
        await line.enqueuer.enqueue_many([a_row(payload={"n": 0})])
        await connection.execute("DELETE FROM asyncjobs.jobs")
        lost = 0

        async def lose(name: str) -> None:
            nonlocal lost
            if name == "enqueue.send" and lost < 2:
                lost += 1
                proxy.drop_next_response("pool")

        with points.installed(lose):
            enqueued = await line.enqueuer.enqueue_many(rows)
        assert lost == 2
    assert {one.id: row.payload for one, row in zip(enqueued, rows, strict=True)} == {
        job_id: f'{{"n": {n}}}' for job_id, n in (await written(connection)).items()
    }


async def test_after_a_time_out_the_statement_that_may_still_run_is_not_doubled(
    proxy: Proxy, database: Database, connection: Connection
) -> None:
    """The first try waits behind a lock for longer than its time-out, and commits in the end, after the second was sent."""
    async with enqueuing(through(proxy, database, command_timeout=0.3)) as line:
        await warm(line, connection, [a_row()])
        async with connection.transaction():
            await connection.execute("LOCK TABLE asyncjobs.jobs IN SHARE ROW EXCLUSIVE MODE")
            task = asyncio.create_task(line.gather(rows_of("plain", 10)))
            await eventually(lambda: proxy.accepted >= 2, description="the time-out is over, and a second try began")
        answers = await task
        assert by_id(answers) == await written(connection)
        assert len(by_id(answers)) == 10


#: What a commit waits for whose answer is lost, once: whoever wants the same ids or keys waits for that transaction meanwhile.
SLOW_COMMIT = """
CREATE SEQUENCE public.slow_seq;
CREATE FUNCTION public.slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('application_name') LIKE 'asyncjobs %' AND nextval('public.slow_seq') = 1 THEN
        PERFORM pg_sleep(1.0); END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON asyncjobs.jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.slow_commit();
"""
ASKED = {**KINDS, "raise": {"dedup_key": "d", "on_duplicate": "raise"}, "return": {"dedup_key": "d", "on_duplicate": "return"}}


async def cut_during_commit(proxy: Proxy, connection: Connection) -> None:
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    while not await connection.fetchval(sleeps):
        await asyncio.sleep(0.01)
    proxy.reset()


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("way", ["alone", "batch", "many"])
async def test_lost_answer_of_a_commit_that_takes_long_makes_each_job_once(
    way: str, kind: str, proxy: Proxy, database: Database, connection: Connection
) -> None:
    """The second try waits in vain for a lock that the first one's transaction holds: that is no other's."""
    fields = ASKED[kind]
    count = 1 if way == "alone" else 4
    rows = [a_row(payload={"n": n}, **(fields | ({"dedup_key": f"d{n}"} if "dedup_key" in fields else {}))) for n in range(count)]
    async with enqueuing(through(proxy, database)) as line:
        if way == "many":
            await line.enqueuer.enqueue_many([a_row()])
            await connection.execute("DELETE FROM asyncjobs.jobs")
        else:
            await warm(line, connection, rows)
        await connection.execute(SLOW_COMMIT)
        call = line.enqueuer.enqueue_many if way == "many" else line.gather
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(cut_during_commit(proxy, connection))
            answers = list(await call(rows))
        assert all(isinstance(answer, Enqueued) and answer.created for answer in answers), answers
        assert by_id(answers) == await written(connection)
        assert len(by_id(answers)) == count


async def test_lock_that_stays_held_after_a_lost_answer_is_reported_as_such(
    proxy: Proxy, database: Database, connection: Connection
) -> None:
    """Whether it is the first try's or a stranger's is not to be told: the row is never sent with another id."""
    row = a_row(payload={"n": 1}, serialization_key="k")
    lost = False

    async def lose(name: str) -> None:
        nonlocal lost
        if name == "enqueue.send" and not lost:
            lost = True
            raise ConnectionResetError("cut")

    async with enqueuing(through(proxy, database), retry_seconds=0.5) as line, connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys(ARRAY['k'])")
        with points.installed(lose), pytest.raises(DatabaseUnavailable, match="may have been written"):
            await line.enqueue(row)


async def test_ids_that_went_to_others_in_a_fail_over_are_not_ours(database: Database, connection: Connection) -> None:
    """The answer is lost, and so is the commit: the server that goes on has forgotten the rows and hands out their ids again."""
    lost = False

    async def fail_over(name: str) -> None:
        nonlocal lost
        if name != "enqueue.sent" or lost:
            return
        lost = True
        ids = await connection.fetch("DELETE FROM asyncjobs.jobs RETURNING id")
        await connection.execute("DELETE FROM asyncjobs.dedup_keys; DELETE FROM asyncjobs.audit_lives")
        await insert_job(connection, id=ids[1]["id"], enqueue_token=1, payload='{"n": 99}')
        raise ConnectionResetError("failed over")

    async with enqueuing(database) as line:
        with points.installed(fail_over):
            enqueued = await line.enqueuer.enqueue_many(rows_of("dedup", 3))
        found = await written(connection)
        assert {one.id: n for n, one in enumerate(enqueued)}.items() <= found.items()
        assert sorted(found.values()) == [0, 1, 2, 99]
        assert (
            await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys JOIN asyncjobs.jobs AS j ON j.id = job_id") == 3
        )


async def test_a_database_that_stays_away_is_reported_with_what_that_means(proxy: Proxy, database: Database) -> None:
    async with enqueuing(through(proxy, database), retry_seconds=0.3) as line:
        proxy.refuse()
        with pytest.raises(DatabaseUnavailable, match="nothing was written"):
            await line.enqueue(a_row())
        proxy.heal()
        await line.enqueue(a_row())

        async def lose(name: str) -> None:
            if name == "enqueue.send":
                proxy.drop_next_response()
                proxy.refuse()

        with points.installed(lose), pytest.raises(DatabaseUnavailable, match="may have been written"):
            await line.enqueue(a_row())
        proxy.heal()
        await line.enqueue(a_row())


async def test_a_server_that_rolled_back_is_asked_again(database: Database, connection: Connection) -> None:
    """40001, 40P01 and the like pass by themselves."""
    errors: list[Exception] = [
        asyncpg.DeadlockDetectedError("d"),
        asyncpg.SerializationError("s"),
        asyncpg.TooManyConnectionsError("t"),
    ]

    async def fail(name: str) -> None:
        if name == "enqueue.send" and errors:
            raise errors.pop()

    async with enqueuing(database) as line:
        with points.installed(fail):
            await line.enqueue(a_row(payload={"n": 1}))
    assert errors == []
    assert list((await written(connection)).values()) == [1]


async def test_an_enqueue_in_the_moment_in_which_its_session_is_ended_is_sent_again(
    database: Database, connection: Connection
) -> None:
    """The server's good-bye may have been read while the socket is still open: asyncpg calls that an internal error."""
    async with enqueuing(database) as line:
        await line.enqueue(a_row(payload={"n": -1}))
        for n in range(40):
            await terminate(connection, "asyncjobs enqueue plain")
            for _ in range(n % 4):
                await asyncio.sleep(0)
            await line.enqueue(a_row(payload={"n": n}))
    assert sorted((await written(connection)).values()) == list(range(-1, 40))


async def test_a_server_that_became_a_standby_is_left(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on answering on the connections it has: read only."""
    name = await connection.fetchval("SELECT quote_ident(current_database())")
    opened = 0
    connect = database.connect

    async def count(role: str, *, command_timeout: float | None = None) -> Connection:
        nonlocal opened
        opened += role == "enqueue plain"
        return await connect(role, command_timeout=command_timeout)

    async with enqueuing(database) as line:
        await line.enqueue(a_row(payload={"n": 1}))
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await terminate(connection, "asyncjobs enqueue %")
        monkeypatch.setattr(database, "connect", count)
        enqueueing = asyncio.create_task(line.enqueue(a_row(payload={"n": 2})))
        await eventually(lambda: opened >= 3, description="it was refused, and another connection was tried")
        await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await terminate(connection, "asyncjobs enqueue %")  # a pooler keeps those that began so
        await enqueueing
    assert sorted((await written(connection)).values()) == [1, 2]


async def test_a_live_migration_disturbs_nobody(database: Database, connection: Connection) -> None:
    async with enqueuing(database) as line:
        rows = [a_row(payload={"n": 0}), a_row(dedup_key="a"), a_row(serialization_key="k")]
        await line.gather(rows)
        await connection.execute("ALTER TABLE asyncjobs.jobs ADD COLUMN x integer")
        await connection.execute(
            "ALTER TABLE asyncjobs.dedup_keys DROP CONSTRAINT dedup_keys_pkey, ADD PRIMARY KEY (type, dedup_key)"
        )
        answers = await line.gather([*rows[:1], a_row(dedup_key="b"), a_row(serialization_key="k")])
        assert all(isinstance(answer, Enqueued) and answer.created for answer in answers)
        await line.enqueuer.enqueue_many(rows)


async def test_callers_that_are_cancelled_at_any_moment_leave_no_connection_and_no_transaction_behind(
    database: Database, connection: Connection
) -> None:
    async with enqueuing(database) as line:
        for turn in range(60):
            many = asyncio.create_task(line.enqueuer.enqueue_many([a_row(payload={"n": turn}), a_row(dedup_key="d")]))
            one = asyncio.create_task(line.enqueue(a_row(dedup_key=f"d{turn % 3}", payload={"n": turn})))
            await asyncio.sleep(turn / 20_000)
            many.cancel()
            one.cancel()
            await asyncio.gather(many, one, return_exceptions=True)
        async with patience(5):
            await line.enqueuer.enqueue_many([a_row(), a_row()])
            await line.enqueue(a_row(dedup_key="last"))
        assert len(line.pool._free) == 2
        assert line.enqueuer._held == {}
        states = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        assert await connection.fetchval(states) == 0
