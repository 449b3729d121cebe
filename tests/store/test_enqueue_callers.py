"""P12: a job enqueued in the caller's transaction exists with its commit, a rollback leaves nothing, whatever the driver."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import asyncpg
import psycopg
import pytest
from psycopg.rows import class_row, dict_row
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from asyncjobs.errors import UnsupportedConnection
from asyncjobs.model.new_row import NewRow
from asyncjobs.store import callers, jobs
from asyncjobs.store.database import Connection, Database, quote_identifier
from asyncjobs.store.jobs import EnqueueAnswer
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row
from tests.support.notices import without_lot

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


class Caller(NamedTuple):
    """A connection of the user's, and how one ends its transaction."""

    connection: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


@asynccontextmanager
async def asyncpg_caller(dsn: str, level: str) -> AsyncGenerator[Caller]:
    connection = await asyncpg.connect(dsn)
    isolation: Any = level.lower().replace(" ", "_")
    transaction = connection.transaction(isolation=isolation)
    await transaction.start()
    try:
        yield Caller(connection, connection.execute, transaction.commit, transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def psycopg_caller(dsn: str, level: str, **options: Any) -> AsyncGenerator[Caller]:
    connection = await psycopg.AsyncConnection.connect(dsn, **options)
    await connection.set_isolation_level(psycopg.IsolationLevel[level.replace(" ", "_")])
    try:
        yield Caller(connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def sqlalchemy_caller(dsn: str, level: str, *, driver: str, session: bool) -> AsyncGenerator[Caller]:
    engine = create_async_engine(
        dsn.replace("postgresql://", f"postgresql+{driver}://"), poolclass=NullPool, isolation_level=level
    )
    made: AsyncSession | AsyncConnection = AsyncSession(engine) if session else await engine.connect()

    async def execute(sql: str) -> None:
        connection = await made.connection() if isinstance(made, AsyncSession) else made
        await connection.exec_driver_sql(sql)

    try:
        yield Caller(made, execute, made.commit, made.rollback)
    finally:
        await made.close()
        await engine.dispose()


def with_factory(factory: Any) -> Callable[[str, str], AbstractAsyncContextManager[Caller]]:
    return lambda dsn, level: psycopg_caller(dsn, level, row_factory=factory)


def with_cursor(factory: Any) -> Callable[[str, str], AbstractAsyncContextManager[Caller]]:
    return lambda dsn, level: psycopg_caller(dsn, level, cursor_factory=factory)


def with_sqlalchemy(driver: str, *, session: bool) -> Callable[[str, str], AbstractAsyncContextManager[Caller]]:
    return lambda dsn, level: sqlalchemy_caller(dsn, level, driver=driver, session=session)


class Strict:
    """What class_row makes; it takes no column of ours."""

    def __init__(self, *, only_this: int) -> None:
        raise AssertionError(only_this)


DRIVERS: dict[str, Callable[[str, str], AbstractAsyncContextManager[Caller]]] = {
    "asyncpg": asyncpg_caller,
    "psycopg": psycopg_caller,
    "AsyncSession on asyncpg": with_sqlalchemy("asyncpg", session=True),
    "AsyncSession on psycopg": with_sqlalchemy("psycopg", session=True),
    "AsyncConnection on asyncpg": with_sqlalchemy("asyncpg", session=False),
    "AsyncConnection on psycopg": with_sqlalchemy("psycopg", session=False),
}
FACTORIES = {
    "psycopg with dict_row": with_factory(dict_row),
    "psycopg with class_row": with_factory(class_row(Strict)),
    "psycopg with raw cursors": with_cursor(psycopg.AsyncRawCursor),
    "psycopg with client cursors": with_cursor(psycopg.AsyncClientCursor),
}

ROWS = [
    a_row(payload={"n": 1}),
    a_row(payload={"n": 2}, serialization_key="k"),
    a_row(payload={"n": 3}, serialization_key="k", dedup_key="d"),
    a_row(payload={"n": 4}, delay_seconds=1.0, dedup_key="later", queue="mail"),
    a_row(payload={"n": 5}, queue="other", priority=1),
]
TABLES = ("jobs", "serialized_jobs", "dedup_keys", "replacements")


async def enqueue(database: Database, caller: Caller, *rows: NewRow) -> EnqueueAnswer:
    return await callers.enqueue(caller.connection, database, rows, [secrets.randbits(62) for _ in rows])


async def counts(connection: Connection, database: Database) -> list[int]:
    schema = quote_identifier(database.schema)
    return [await connection.fetchval(f"SELECT count(*) FROM {schema}.{table}") for table in TABLES]


@asynccontextmanager
async def hearing(connection: Connection, database: Database) -> AsyncGenerator[list[str]]:
    heard: list[str] = []
    await connection.add_listener(database.channel, lambda *args: heard.append(without_lot(args[-1])))
    yield heard
    await connection.reset()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.usefixtures("_end_of_lines")
async def test_jobs_are_there_with_the_commit(driver: str, level: str, database: Database, connection: Connection) -> None:
    async with hearing(connection, database) as heard, DRIVERS[driver](database.dsn, level) as caller:
        answer = await enqueue(database, caller, *ROWS)
        assert [one.created for one in answer.enqueued] == [True] * 5
        assert await counts(connection, database) == [0, 0, 0, 0], "nothing is visible before the commit"
        await caller.execute("SELECT 1")
        assert heard == []
        await caller.commit()
        found = await connection.fetch("SELECT id, payload ->> 'n' AS n FROM asyncjobs.jobs ORDER BY id")
        assert [(row["id"], row["n"]) for row in found] == [(one.id, str(n)) for n, one in enumerate(answer.enqueued, start=1)]
        expected = {"q:default", "f:other", "d"} | ({"k"} if level != "READ COMMITTED" else set())
        await eventually(lambda: len(heard) >= len(expected), description="the notifications of the commit")
        assert sorted(heard) == sorted(expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_rollback_leaves_nothing(driver: str, level: str, database: Database, connection: Connection, dsn: str) -> None:
    async with hearing(connection, database) as heard, DRIVERS[driver](dsn, level) as caller:
        await enqueue(database, caller, *ROWS)
        await caller.rollback()
        assert await counts(connection, database) == [0, 0, 0, 0]
        await connection.execute("SELECT pg_notify($1, 'end')", database.channel)
        await eventually(lambda: "end" in heard, description="what was notified")
        assert heard == ["end"]


@pytest.fixture
async def _end_of_lines(connection: Connection, database: Database) -> AsyncGenerator[None]:
    """Under a snapshot heads are dispatched by a serializer, and none runs here."""
    yield
    await connection.execute("SELECT asyncjobs.advance_keys('{k}', ARRAY(SELECT id FROM asyncjobs.dispatch_requests))")


@pytest.mark.parametrize("driver", FACTORIES)
async def test_what_the_connection_makes_of_rows_does_not_matter(
    driver: str, database: Database, connection: Connection, dsn: str
) -> None:
    async with FACTORIES[driver](dsn, "READ COMMITTED") as caller:
        answer = await enqueue(database, caller, *ROWS)
        await caller.commit()
    assert [one.created for one in answer.enqueued] == [True] * 5
    assert await counts(connection, database) == [5, 2, 2, 0]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_refusal_leaves_the_transaction_usable(driver: str, database: Database, connection: Connection, dsn: str) -> None:
    async with DRIVERS[driver](dsn, "READ COMMITTED") as caller:
        await caller.execute("CREATE TABLE public.mine (n integer)")
        await enqueue(database, caller, a_row(dedup_key="d"))
        refused = await enqueue(database, caller, a_row(), a_row(dedup_key="d", on_duplicate="raise"))
        assert [(one.at, one.status) for one in refused.refused] == [(1, "pending")]
        await caller.execute("INSERT INTO public.mine VALUES (1)")
        await caller.commit()
    assert await counts(connection, database) == [1, 0, 1, 0]
    assert await connection.fetchval("SELECT count(*) FROM public.mine") == 1


@pytest.mark.parametrize("key", [None, "k"])
async def test_outside_of_a_transaction_a_job_is_committed_at_once(
    key: str | None, database: Database, connection: Connection, dsn: str
) -> None:
    row = a_row(serialization_key=key)
    one: Any = await asyncpg.connect(dsn)
    two: Any = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    for number, theirs in enumerate((one, two), start=1):
        await callers.enqueue(theirs, database, [row], [1])
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == number
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == (number if key else 0)
    await one.close()
    await two.close()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_after_a_savepoint_was_rolled_back_its_job_is_gone_and_the_others_are_there(
    driver: str, database: Database, connection: Connection, dsn: str
) -> None:
    async with DRIVERS[driver](dsn, "READ COMMITTED") as caller:
        await enqueue(database, caller, a_row(serialization_key="k", dedup_key="a"))
        await caller.execute("SAVEPOINT s")
        await enqueue(database, caller, a_row(serialization_key="k", dedup_key="b"), a_row())
        await caller.execute("ROLLBACK TO s")
        await enqueue(database, caller, a_row(dedup_key="b"))
        await caller.commit()
    assert await counts(connection, database) == [2, 1, 2, 0]


async def test_serializable_transactions_that_have_nothing_in_common_both_commit(
    database: Database, connection: Connection, dsn: str
) -> None:
    for number in range(5):
        async with asyncpg_caller(dsn, "SERIALIZABLE") as one, asyncpg_caller(dsn, "SERIALIZABLE") as two:
            for name, caller in (("a", one), ("b", two), ("c", one), ("d", two)):
                await enqueue(database, caller, a_row(), a_row(dedup_key=f"{name}{number}"), a_row(delay_seconds=60.0))
            await one.commit()
            await two.commit()
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 60


async def test_an_open_transaction_holds_up_no_other_enqueue(database: Database, connection: Connection, dsn: str) -> None:
    async with asyncpg_caller(dsn, "READ COMMITTED") as one, psycopg_caller(dsn, "READ COMMITTED") as two:
        await enqueue(database, one, a_row(serialization_key="k"), a_row(dedup_key="d"))
        async with patience(2):
            await enqueue(database, two, a_row(serialization_key="k"), a_row(dedup_key="e"), a_row())
            await two.commit()
        await one.commit()
    found = await connection.fetch("SELECT dispatched_at IS NOT NULL AS head FROM asyncjobs.serialized_jobs ORDER BY place")
    assert [row["head"] for row in found] == [True, False]


async def test_keyed_jobs_join_in_the_order_of_commits(database: Database, connection: Connection, dsn: str) -> None:
    async with asyncpg_caller(dsn, "READ COMMITTED") as one, asyncpg_caller(dsn, "READ COMMITTED") as two:
        first = (await enqueue(database, one, a_row(serialization_key="k"))).enqueued[0].id
        second = (await enqueue(database, two, a_row(serialization_key="k"))).enqueued[0].id
        await two.commit()
        await one.commit()
    assert await connection.fetchval("SELECT array_agg(id ORDER BY place) FROM asyncjobs.serialized_jobs") == [second, first]


async def test_two_that_join_and_replace_in_opposite_orders_both_commit(
    database: Database, connection: Connection, dsn: str
) -> None:
    async with asyncpg_caller(dsn, "READ COMMITTED") as setup:
        await enqueue(database, setup, *(a_row(serialization_key=key, dedup_key=key) for key in ("a", "b", "c")))
        await setup.commit()

    async def join_and_replace(joined: str, replaced: str) -> None:
        async with asyncpg_caller(dsn, "READ COMMITTED") as caller:
            await enqueue(database, caller, a_row(serialization_key=joined), a_row(serialization_key="b"))
            row = a_row(serialization_key=replaced, dedup_key=replaced, on_duplicate="replace", payload={"n": 1})
            await enqueue(database, caller, row)
            await caller.commit()

    async with connection.transaction():  # both of them get stuck halfway
        await connection.execute("SELECT asyncjobs.lock_keys('{b}')")
        both = asyncio.gather(join_and_replace("a", "c"), join_and_replace("c", "a"))
        blocked = """
            SELECT count(*) = 2 FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
            WHERE NOT l.granted AND l.locktype = 'advisory' AND d.datname = current_database()
        """
        await eventually(lambda: connection.fetchval(blocked), description="both wait for a lock")
    await both
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE payload = '{\"n\": 1}'") == 2
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 7


async def test_a_job_of_the_same_transaction_can_be_replaced(database: Database, connection: Connection, dsn: str) -> None:
    async with asyncpg_caller(dsn, "READ COMMITTED") as caller:
        several: list[dict[str, Any]] = [{}, {"on_duplicate": "replace"}, {"on_duplicate": "replace", "delay_seconds": 60.0}]
        for n, options in enumerate(several):
            await enqueue(database, caller, a_row(dedup_key="d", payload={"n": n}, **options))
            await enqueue(database, caller, a_row(dedup_key="k", serialization_key="k", payload={"n": n}, **options))
        await enqueue(database, caller, a_row(serialization_key="k", payload={"n": 9}))
        await caller.commit()
    rows = await connection.fetch("SELECT status, payload ->> 'n' AS n FROM asyncjobs.jobs ORDER BY id")
    assert [tuple(row) for row in rows] == [("scheduled", "2"), ("scheduled", "2"), ("pending", "9")]
    assert await counts(connection, database) == [3, 1, 2, 0]


async def test_a_database_or_a_driver_that_is_not_known_is_refused() -> None:
    class Fake:
        dialect: Any
        exec_driver_sql = None

    for name, driver, told in (
        ("sqlite", "aiosqlite", "a connection to sqlite"),
        ("postgresql", "pg8000", "through pg8000: use"),
    ):
        fake = Fake()
        fake.dialect = SimpleNamespace(name=name, driver=driver)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(callers, "check_async", lambda _: "sqlalchemy_connection")
            patch.setattr(callers, "check_sync", lambda _: "sqlalchemy_connection sync")
            with pytest.raises(UnsupportedConnection, match=told):
                await callers.call(fake, "SELECT 1")
            with pytest.raises(UnsupportedConnection, match=told):
                callers.call_sync(fake, "SELECT 1")


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_connection_to_another_database_is_refused_by_name(driver: str, database: Database, empty_dsn: str) -> None:
    async with DRIVERS[driver](empty_dsn, "READ COMMITTED") as caller:
        with pytest.raises(UnsupportedConnection, match=r'^this \S+ leads to .* \(.*schema "asyncjobs" does not exist'):
            await enqueue(database, caller, a_row())


@pytest.mark.parametrize("way", ["own", "caller"])
async def test_numbers_beyond_what_json_readers_keep_are_exact(way: str, database: Database, connection: Connection) -> None:
    large = 2**53 + 1
    await connection.execute(f"SELECT setval('asyncjobs.jobs_id_seq', {large + 100}), setval('asyncjobs.place_seq', {2**62})")
    row = a_row(parent_job_id=large, payload='{"n": 123456789012345678901234567890, "f": 1.10}')
    if way == "own":
        link = database.link("own")
        ids = await jobs.reserve_ids(link, 1)
        enqueued = (await jobs.enqueue(link, [row], ids, [large])).enqueued
        await link.close()
    else:
        enqueued = (await callers.enqueue(connection, database, [row], [large])).enqueued
    found = await connection.fetchrow("SELECT id, parent_job_id, enqueue_token, payload::text AS payload FROM asyncjobs.jobs")
    assert found is not None
    assert enqueued[0].id == large + 101
    payload = '{"f": 1.10, "n": 123456789012345678901234567890}'
    assert tuple(found) == (large + 101, large, large, payload)


async def test_queues_with_the_longest_names_are_announced(database: Database, connection: Connection) -> None:
    """Three hundred in one transaction: each has a notification of its own, which is never too long."""
    queues = [f"{number:03}" + "😀" * 15 for number in range(300)]
    assert {len(queue.encode()) for queue in queues} == {63}
    heard: set[str] = set()
    await connection.add_listener(database.channel, lambda *args: heard.add(without_lot(args[3])))
    caller = await asyncpg.connect(database.dsn)
    async with caller.transaction():
        await callers.enqueue(caller, database, [a_row(queue=queue) for queue in queues], list(range(300)))
    await caller.close()
    await eventually(lambda: heard == {f"q:{queue}" for queue in queues}, description="all were announced")
