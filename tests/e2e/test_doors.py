"""Every option through every door: the same row, the same refusals, nothing after a rollback, a runner told once afterwards.

A door is a way to enqueue in a transaction of the caller's. One more is one more line in DOORS: the tests are made of the tables.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, cast

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from asyncjobs import AsyncJobs, Debounce, DuplicateJob, EnqueueError, JobContext, JobType, Lane, Queue
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually

Options = Mapping[str, Any]


class Door(Protocol):
    """A transaction of a caller's in which jobs are enqueued."""

    async def enqueue(self, shop: "Shop", payload: Any, options: Options) -> int: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...


class Refused(Exception):
    """What a door says instead of an id: the name of the error, and its text."""


class Shop:
    """An app with one type of which everything is declared."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.ran: list[int] = []
        self.jobs = AsyncJobs(
            dsn,
            poll_interval=300,
            queues=[Queue("default"), Queue("mail", lanes={"fast": Lane(3, timeout=7), "slow": 2}), Queue("other")],
        )

        @self.jobs.job(
            "email", queue="mail", lane="fast", priority=40, max_attempts=5, on_dead="halt", serialize_by="inbox_{to}", version=2,
            upgrades={1: lambda fields: fields},
        )  # fmt: skip
        async def email(ctx: JobContext, to: str, number: int = 5, tags: list[str] | None = None) -> int:
            self.ran.append(ctx.job.id)
            return number

        self.email: JobType[Any, int] = email


class OfPython:
    """`connection=`, whatever the driver."""

    def __init__(self, connection: Any, commit: Callable[[], Any], rollback: Callable[[], Any]) -> None:
        self.connection, self.commit, self.rollback = connection, commit, rollback

    async def enqueue(self, shop: Shop, payload: Any, options: Options) -> int:
        try:
            handle = await shop.jobs.enqueue("email", payload, connection=self.connection, **options)
        except EnqueueError as error:
            raise Refused(type(error).__name__, str(error)) from error
        if options.get("on_duplicate") == "raise" and not handle.created:
            raise AssertionError
        return handle.id


#: SQLSTATEs of the door for SQL.
ERRORS = {
    "JOB01": "UnknownType", "JOB02": "InvalidPayload", "JOB03": "PayloadTooLarge", "JOB04": "InvalidOption",
    "JOB05": "DuplicateJob", "JOB06": "UnknownQueue", "JOB07": "UnknownLane",
}  # fmt: skip


class OfSql:
    """`asyncjobs.enqueue`."""

    def __init__(self, connection: Connection, commit: Callable[[], Any], rollback: Callable[[], Any]) -> None:
        self.connection, self.commit, self.rollback = connection, commit, rollback

    async def enqueue(self, shop: Shop, payload: Any, options: Options) -> int:
        said = {name: _in_sql(value) for name, value in options.items()}
        try:
            async with self.connection.transaction():  # a savepoint, which saves the caller's transaction
                return cast(
                    "int",
                    await self.connection.fetchval(
                        "SELECT asyncjobs.enqueue('email', $1, $2)", json.dumps(payload), json.dumps(said)
                    ),
                )
        except asyncpg.PostgresError as error:
            name = ERRORS[error.sqlstate or ""] if error.hint else "refused without a hint"
            raise Refused(name, str(error).partition("\n")[0]) from error


def _in_sql(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Debounce):
        return {"quiet": value.quiet, "at_most": value.at_most}
    return f"{value.total_seconds()} seconds" if isinstance(value, timedelta) else value


@asynccontextmanager
async def asyncpg_door(dsn: str, door: type[Any] = OfPython) -> AsyncGenerator[Door]:
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    yield door(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def psycopg_door(dsn: str) -> AsyncGenerator[Door]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield OfPython(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def sqlalchemy_door(dsn: str) -> AsyncGenerator[Door]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        yield OfPython(session, session.commit, session.rollback)
    await engine.dispose()


DOORS: dict[str, Callable[[str], AbstractAsyncContextManager[Door]]] = {
    "asyncpg": asyncpg_door,
    "psycopg": psycopg_door,
    "SQLAlchemy": sqlalchemy_door,
    "SQL": lambda dsn: asyncpg_door(dsn, OfSql),
}

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
#: Every option with values that are taken: a row for each.
TAKEN: dict[str, list[Options]] = {
    "nothing": [{}],
    "queue": [{"queue": "other"}, {"queue": "mail"}, {"queue": None}],
    "lane": [{"lane": "slow"}, {"lane": "fast"}],
    "priority": [{"priority": 0}, {"priority": 32_767}],
    "run_at": [{"run_at": SOON}, {"run_at": SOON.astimezone(None)}, {"run_at": SOON - timedelta(days=2)}],
    "delay": [{"delay": 60}, {"delay": 0.5}, {"delay": 0}, {"delay": timedelta(minutes=5)}, {"delay": None}],
    "max_attempts": [{"max_attempts": 1}, {"max_attempts": 2**31 - 1}],
    "timeout": [{"timeout": 0.25}, {"timeout": timedelta(hours=1)}],
    "correlation_id": [{"correlation_id": "order-77"}],
    "parent_job_id": [{"parent_job_id": 2**63 - 1}],
    "created_by": [{"created_by": "the \"import\" of 'x'"}],
    "dedup_key": [{"dedup_key": "k" * 255}],
    "dedup_for": [{"dedup_key": "a", "dedup_for": 60}, {"dedup_key": "b", "dedup_for": timedelta(days=1)}],
    "on_duplicate": [{"dedup_key": one, "on_duplicate": one} for one in ("return", "replace", "raise")],
    "serialization_key": [{"serialization_key": "of one's own"}],
    "expires": [{"expires": 30}, {"expires": timedelta(minutes=5), "delay": 60}],
    "dedup_until": [{"dedup_key": one, "dedup_until": one} for one in ("start", "end")],
    "debounce": [
        {"dedup_key": "a", "debounce": Debounce(quiet=600, at_most=3600)},
        {"dedup_key": "b", "debounce": Debounce(quiet=timedelta(hours=1), at_most=3600), "dedup_until": "end"},
    ],
    "tags": [{"tags": ["a"]}, {"tags": ["b", "a", "b"]}, {"tags": []}],
    "notify": [{"notify": True}, {"notify": False}],
}
#: What is refused, with the error and what it says: the same words through each door, but for what SQL writes in another way.
REFUSED: list[tuple[Options, str, str]] = [
    ({"priorty": 5}, "InvalidOption", "no option 'priorty'."),
    ({"queue": "mial"}, "UnknownQueue", 'email: queue "mial" is not in queues= (default, mail, other).'),
    ({"queue": ""}, "InvalidOption", 'queue name "" is empty: give it a name.'),
    ({"queue": " mail"}, "InvalidOption", 'queue name " mail" begins or ends with a space: leave it out.'),
    ({"queue": "asyncjobs.x"}, "InvalidOption", "is reserved: names that begin with"),
    ({"queue": "ä" * 32}, "InvalidOption", "is 64 bytes, at most 63."),
    ({"queue": "a\nb"}, "InvalidOption", "has characters that cannot be printed: leave them out."),
    ({"queue": 5}, "InvalidOption", "queue name 5 is an int, not a str: give it a name in quotes."),
    ({"lane": "fats"}, "UnknownLane", 'email: lane "fats" is not a lane of queue "mail" (fast, slow).'),
    ({"queue": "other", "lane": "slow"}, "UnknownLane", 'email: lane "slow" is not a lane of queue "other" (none).'),
    ({"priority": -1}, "InvalidOption", "priority=-1 is out of range: give 0 to 32,767 (lower runs first)."),
    ({"priority": "5"}, "InvalidOption", 'priority="5" is a str: give a whole number.'),
    ({"priority": 5.0}, "InvalidOption", "priority=5.0 is a float: give a whole number."),
    ({"priority": 2**70}, "InvalidOption", "is out of range: give 0 to 32,767"),
    ({"max_attempts": 0}, "InvalidOption", "max_attempts=0 is out of range: give 1 to 2,147,483,647."),
    ({"parent_job_id": 0}, "InvalidOption", "parent_job_id=0 is out of range: give 1 to 9,223,372,036,854,775,807."),
    ({"delay": -1}, "InvalidOption", "delay=-1 must be at least 0 seconds."),
    ({"delay": 4e9}, "InvalidOption", "is longer than 100 years."),
    ({"delay": [1]}, "InvalidOption", "delay=[1] is a list: give seconds or a"),
    ({"timeout": 0}, "InvalidOption", "timeout=0 must be more than 0 seconds."),
    ({"dedup_key": "a", "dedup_for": -5}, "InvalidOption", "dedup_for=-5 must be more than 0 seconds."),
    ({"dedup_for": 5}, "InvalidOption", " needs a dedup_key: give one."),
    ({"on_duplicate": "replace"}, "InvalidOption", "on_duplicate='replace' needs a dedup_key: give one."),
    (
        {"dedup_key": "a", "on_duplicate": "ignore"},
        "InvalidOption",
        'on_duplicate="ignore": give "return", "replace" or "raise".',
    ),
    ({"run_at": SOON, "delay": 5}, "InvalidOption", "give run_at or delay, not both."),
    ({"run_at": SOON.replace(tzinfo=None)}, "InvalidOption", " has no time zone: "),
    ({"run_at": datetime(2926, 1, 1, tzinfo=UTC)}, "InvalidOption", "is out of range: give an instant from 10 years ago to"),
    ({"run_at": "tomorrow"}, "InvalidOption", 'run_at="tomorrow" is a str: give a'),
    ({"notify": 1}, "InvalidOption", "notify=1 is an int: give "),
    ({"dedup_key": ""}, "InvalidOption", 'dedup_key="" is empty.'),
    ({"dedup_key": "k" * 256}, "InvalidOption", "has 256 characters, at most 255."),
    ({"serialization_key": 7}, "InvalidOption", "serialization_key=7 is an int, not a str."),
    ({"expires": 0}, "InvalidOption", "expires=0 must be more than 0 seconds."),
    ({"dedup_until": "start"}, "InvalidOption", "dedup_until='start' needs a dedup_key: give one."),
    ({"dedup_key": "a", "dedup_until": "now"}, "InvalidOption", 'dedup_until="now": give "start" or "end".'),
    (
        {"dedup_key": "a", "debounce": Debounce(1, 2), "on_duplicate": "raise"},
        "InvalidOption",
        "on_duplicate='raise' was given with a debounce, which decides that.",
    ),
    ({"tags": "a"}, "InvalidOption", 'tags="a" is a str: give a list, as in tags=["nightly"].'),
    ({"tags": [5]}, "InvalidOption", "tags= has 5, which is an int, not a str."),
    ({"tags": [" a"]}, "InvalidOption", 'tags= has " a", which begins or ends with a space.'),
    ({"tags": [str(n) for n in range(21)]}, "InvalidOption", "tags= has 21 tags, at most 20."),
    ({"correlation_id": "a\tb"}, "InvalidOption", "has characters that cannot be printed."),
]
#: Payloads that are refused.
UNFIT: list[tuple[Any, str, str]] = [
    ([], "InvalidPayload", 'email: the payload is a list: give its fields by name, as in {"field": value}'),
    ({}, "InvalidPayload", 'email: missing field "to" - at $.to'),
    ({"to": 5}, "InvalidPayload", "email: expected str, got int - at $.to"),
    ({"to": "a", "number": 1.5}, "InvalidPayload", "email: expected int, got float - at $.number"),
    ({"to": "a", "number": 1.0}, "InvalidPayload", "email: expected int, got float - at $.number"),
    ({"to": "a", "tags": {}}, "InvalidPayload", "email: expected array | null, got object - at $.tags"),
    ({"to": "a", "tags": ["b", 5]}, "InvalidPayload", "email: expected str, got int - at $.tags["),
    ({"to": "a", "cc": "b"}, "InvalidPayload", 'email: unknown field "cc"'),
    ({"to": "k" * 256}, "InvalidPayload", "has 262 characters, at most 255"),
    ({"to": "a", "tags": ["b" * 2**20]}, "PayloadTooLarge", ", at most 1,048,576 (max_payload_bytes)."),
]

#: What each row has of its own.
OWN = {"id", "place", "enqueue_token", "created_at", "updated_at", "run_at", "scheduled_at", "start_before", "parent_place"}


@pytest.fixture
async def shop(dsn: str) -> AsyncGenerator[Shop]:
    """Open, and declared by a runner that has ended: nothing runs."""
    made = Shop(dsn)
    async with made.jobs:
        async with made.jobs.runner():
            pass
        yield made


@pytest.fixture(params=DOORS)
async def door(request: pytest.FixtureRequest, shop: Shop) -> AsyncGenerator[Door]:
    async with DOORS[request.param](shop.dsn) as made:
        yield made


async def row_of(connection: Connection, job_id: int) -> dict[str, Any]:
    row = await connection.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job_id)
    assert row is not None
    dedup = await connection.fetchrow("SELECT live, expires_at FROM asyncjobs.dedup_keys WHERE job_id = $1", job_id)
    return {
        **{name: value for name, value in row.items() if name not in OWN},
        "due in": round((row["run_at"] - row["created_at"]).total_seconds(), -1 if row["run_at"] > row["created_at"] else None),
        "expires in": row["start_before"] and round((row["start_before"] - row["run_at"]).total_seconds()),
        "dedup": dedup
        and (dedup["live"], dedup["expires_at"] and round((dedup["expires_at"] - row["created_at"]).total_seconds())),
    }


async def test_every_door_writes_the_same_row(shop: Shop, door: Door, connection: Connection) -> None:
    for options in (one for several in TAKEN.values() for one in several):
        payload = {"to": "a", "tags": ["x"]}
        own = await shop.jobs.enqueue("email", payload, **cast("Any", options))
        expected = await row_of(connection, own.id)
        await connection.execute(
            "DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.dedup_keys; DELETE FROM asyncjobs.jobs"
        )
        job_id = await door.enqueue(shop, payload, options)
        await door.commit()
        made = await row_of(connection, job_id)
        assert made == expected, options
        await connection.execute(
            "DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.dedup_keys; DELETE FROM asyncjobs.jobs"
        )
        await _anew(door)


async def _anew(door: Door) -> None:
    """asyncpg's transactions are objects; other drivers begin the next by themselves."""
    connection = getattr(door, "connection", None)
    if isinstance(connection, asyncpg.Connection):
        transaction = connection.transaction()
        await transaction.start()
        cast("Any", door).commit, cast("Any", door).rollback = transaction.commit, transaction.rollback


async def test_every_door_refuses_the_same_options_and_payloads(shop: Shop, door: Door, connection: Connection) -> None:
    for options, *expected in REFUSED:
        await _refused(shop, door, {"to": "a"}, options, expected)
    for payload, *expected in UNFIT:
        await _refused(shop, door, payload, {}, expected)
    await door.commit()
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 0


async def _refused(shop: Shop, door: Door, payload: Any, options: Options, expected: Sequence[str]) -> None:
    with pytest.raises(Refused) as refused:
        await door.enqueue(shop, payload, options)
    name, text = refused.value.args
    assert name == expected[0], (payload, options)
    assert expected[1] in text, (payload, options)


async def test_every_door_returns_replaces_and_refuses_duplicates(shop: Shop, door: Door, connection: Connection) -> None:
    first = await shop.email.using(dedup_key="d", delay=60).enqueue("a", 1)
    assert await door.enqueue(shop, {"to": "a", "number": 2}, {"dedup_key": "d"}) == first.id
    assert await door.enqueue(shop, {"to": "a", "number": 3}, {"dedup_key": "d", "on_duplicate": "replace"}) == first.id
    with pytest.raises(DuplicateJob) as python:
        await shop.email.using(dedup_key="d", on_duplicate="raise").enqueue("a")
    await _refused(shop, door, {"to": "a"}, {"dedup_key": "d", "on_duplicate": "raise"}, ("DuplicateJob", str(python.value)))
    moved = f"email \"d\" is job {first.id}, which has another serialization key than 'inbox_b'"
    await _refused(shop, door, {"to": "b"}, {"dedup_key": "d", "on_duplicate": "replace"}, ("InvalidOption", moved))
    await door.commit()
    payloads = await connection.fetch("SELECT payload ->> 'number' AS number FROM asyncjobs.jobs")
    assert [row["number"] for row in payloads] == ["3"]


async def test_nothing_is_left_after_a_rollback_through_every_door(shop: Shop, door: Door, connection: Connection) -> None:
    heard: list[str] = []
    await connection.add_listener(shop.jobs.lifecycle.database().channel, lambda *args: heard.append(str(args[-1])))
    for options in (one for every in TAKEN.values() for one in every):
        await door.enqueue(shop, {"to": "a"}, options)
    await door.rollback()
    for table in ("jobs", "serialized_jobs", "dedup_keys", "replacements", "dispatch_requests"):
        assert await connection.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0
    await connection.execute("SELECT 1")
    assert heard == []
    await connection.reset()


async def test_a_runner_is_told_once_after_the_commit_through_every_door(shop: Shop, door: Door, connection: Connection) -> None:
    heard: list[str] = []
    async with shop.jobs.runner():
        await connection.add_listener(shop.jobs.lifecycle.database().channel, lambda *args: heard.append(str(args[-1])))
        ids = [await door.enqueue(shop, {"to": f"a{number}"}, {"priority": 200}) for number in range(3)]
        await connection.execute("SELECT 1")
        assert shop.ran == []
        told = len(heard)
        await door.commit()
        await eventually(lambda: sorted(shop.ran) == sorted(ids), description="all of them ran, long before a poll")
        assert heard[told:].count("q:mail") == 1
        await connection.reset()
