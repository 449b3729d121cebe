"""Every option of an enqueue through every door: the same row, the same refusals, nothing after a rollback, one notification.

What is the same is what the app's own connections do. The cells are the product of two lists: a new door or a new option is one
line, and an option that no line has fails a test.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import (
    AsyncJobs,
    Debounce,
    DuplicateJob,
    InvalidOption,
    InvalidPayload,
    Lane,
    Queue,
    UnknownLane,
    UnknownQueue,
    UnknownType,
)
from asyncjobs.declare.options import KNOWN
from asyncjobs.store.database import Connection, quote_identifier
from tests.support.doors import DOORS
from tests.support.eventually import eventually

LATER = datetime(2030, 1, 1, 9, tzinfo=UTC)
MARKS = "100 % of $1, 'x' or \"y\" \\ ö 😀 %s %(to)s"

#: Name; the options; what is notified with the commit.
OPTIONS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("nothing", {}, {"q:default"}),
    ("queue", {"queue": "mail"}, {"q:mail"}),
    ("lane", {"queue": "mail", "lane": "fast"}, {"q:mail"}),
    ("priority", {"priority": 7}, {"f:default"}),
    ("a worse priority", {"priority": 1_000}, {"q:default"}),
    ("run_at", {"run_at": LATER}, set()),
    ("run_at in the past", {"run_at": datetime.now(UTC) - timedelta(days=1)}, {"q:default"}),
    ("delay", {"delay": 3600}, set()),
    ("a short delay", {"delay": 5}, {"d"}),
    ("max_attempts", {"max_attempts": 9}, {"q:default"}),
    ("timeout", {"timeout": timedelta(seconds=2.5)}, {"q:default"}),
    ("tracing", {"correlation_id": MARKS, "parent_job_id": 2**62, "created_by": "ada"}, {"q:default"}),
    ("dedup_key", {"dedup_key": MARKS}, {"q:default"}),
    ("dedup_for", {"dedup_key": "d", "dedup_for": 3600}, {"q:default"}),
    ("replace", {"dedup_key": "d", "on_duplicate": "replace", "delay": 3600}, set()),
    ("dedup_until", {"dedup_key": "d", "dedup_until": "start"}, {"q:default"}),
    ("debounce", {"dedup_key": "d", "debounce": Debounce(quiet=600, at_most=3600)}, set()),
    ("expires", {"expires": 3600}, {"q:default"}),
    ("expires soon", {"expires": 9}, {"q:default", "d"}),
    ("tags", {"tags": ["nightly", MARKS[:63]]}, {"q:default"}),
    ("serialization_key", {"serialization_key": MARKS}, {"q:default"}),
    ("quiet", {"notify": False}, set()),
    ("a quiet key", {"notify": False, "serialization_key": "k", "dedup_key": "d"}, set()),
]

#: Name; type, payload, options; what is raised.
REFUSALS: list[tuple[str, tuple[str, dict[str, Any], dict[str, Any]], type[Exception]]] = [
    ("type", ("emial", {"to": "a"}, {}), UnknownType),
    ("payload", ("email", {"to": 5}, {}), InvalidPayload),
    ("missing field", ("email", {}, {}), InvalidPayload),
    ("queue", ("email", {"to": "a"}, {"queue": "mial"}), UnknownQueue),
    ("lane", ("email", {"to": "a"}, {"lane": "fast"}), UnknownLane),
    ("option", ("email", {"to": "a"}, {"prio": 1}), InvalidOption),
    ("priority", ("email", {"to": "a"}, {"priority": -1}), InvalidOption),
    ("both times", ("email", {"to": "a"}, {"delay": 1, "run_at": LATER}), InvalidOption),
    ("naive time", ("email", {"to": "a"}, {"run_at": LATER.replace(tzinfo=None)}), InvalidOption),
    ("tags", ("email", {"to": "a"}, {"tags": ["a", ""]}), InvalidOption),
    ("a debounce alone", ("email", {"to": "a"}, {"debounce": Debounce(1, 2)}), InvalidOption),
    ("a debounce and a delay", ("email", {"to": "a"}, {"dedup_key": "k", "debounce": Debounce(1, 2), "delay": 1}), InvalidOption),
    ("dedup_for alone", ("email", {"to": "a"}, {"dedup_for": 1}), InvalidOption),
    ("duplicate", ("email", {"to": "a"}, {"dedup_key": "taken", "on_duplicate": "raise"}), DuplicateJob),
    (
        "another line",
        ("email", {"to": "a"}, {"dedup_key": "taken", "on_duplicate": "replace", "serialization_key": "k"}),
        InvalidOption,
    ),
]

TABLES = ("jobs", "serialized_jobs", "dedup_keys", "replacements")
#: What is another with each enqueue.
FRESH = {"id", "job_id", "place", "enqueue_token", "updated_at", "created_at", "dispatched_at"}

pytestmark = pytest.mark.direct("it listens")


def test_every_option_is_in_the_table() -> None:
    assert {name for _, options, _ in OPTIONS for name in options} == KNOWN - {"connection"}


@pytest.fixture
def jobs(dsn: str, schema: str) -> AsyncJobs:
    made = AsyncJobs(dsn, schema=schema, queues=[Queue("default"), Queue("mail", lanes={"fast": Lane(1, timeout=9)})])

    @made.job("email", max_attempts=4)
    async def email(to: str, note: str = "") -> None: ...

    return made


async def written(connection: Connection, jobs: AsyncJobs) -> dict[str, list[dict[str, Any]]]:
    schema = quote_identifier(jobs.settings.schema)
    return {
        table: [dict(row) for row in await connection.fetch(f"SELECT * FROM {schema}.{table} ORDER BY 1")] for table in TABLES
    }


def alike(tables: Mapping[str, Sequence[Mapping[str, Any]]], options: Mapping[str, Any]) -> list[Any]:
    """The rows without what differs from one enqueue to the next; instants as the time since the enqueue."""
    began = next((row["created_at"] for row in tables["jobs"]), None)

    def plain(name: str, value: Any) -> Any:
        if not isinstance(value, datetime) or value == options.get("run_at"):
            return value
        assert began is not None, name
        return round((value - began).total_seconds())

    return [
        {name: plain(name, value) for name, value in row.items() if name not in FRESH} for rows in tables.values() for row in rows
    ]


async def empty(connection: Connection, jobs: AsyncJobs) -> None:
    for table in TABLES:
        await connection.execute(f"DELETE FROM {quote_identifier(jobs.settings.schema)}.{table}")


@asynccontextmanager
async def hearing(connection: Connection, jobs: AsyncJobs) -> AsyncGenerator[list[str]]:
    heard: list[str] = []
    await connection.add_listener(jobs.lifecycle.texts().channel, lambda *args: heard.append(str(args[-1])))
    yield heard
    await connection.reset()


async def all_heard(connection: Connection, jobs: AsyncJobs, heard: list[str]) -> list[str]:
    """What was heard until now: notifications come in the order of their commits."""
    await connection.execute("SELECT pg_notify($1, 'end')", jobs.lifecycle.texts().channel)
    await eventually(lambda: "end" in heard, description="what was notified")
    found = heard[: heard.index("end")]
    heard.clear()
    return found


@pytest.mark.parametrize("door", DOORS)
async def test_each_option_through_each_door(door: str, jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    for name, options, told in OPTIONS:
        try:
            await _check_option(door, options, told, jobs, connection, dsn)
        except AssertionError as error:
            error.add_note(name)
            raise


async def _check_option(  # noqa: PLR0917 - a cell of the table
    door: str, options: dict[str, Any], told: set[str], jobs: AsyncJobs, connection: Connection, dsn: str
) -> None:
    payloads: list[dict[str, Any]] = [{"to": "a", "note": MARKS}, {"to": "b"}]
    async with hearing(connection, jobs) as heard:
        async with DOORS[door](jobs, dsn) as one:
            for payload in payloads:
                await one.enqueue("email", payload, options)
            await one.rollback()
        assert not any((await written(connection, jobs)).values()), "a rollback leaves nothing"
        async with DOORS[door](jobs, dsn) as one:
            handles = [await one.enqueue("email", payload, options) for payload in payloads]
            assert not any((await written(connection, jobs)).values()), "nothing is there before the commit"
            assert await all_heard(connection, jobs, heard) == []
            await one.commit()
        assert sorted(await all_heard(connection, jobs, heard)) == sorted(told), "each queue is told once, with the commit"
    through = await written(connection, jobs)
    assert {row["id"] for row in through["jobs"]} | {row["id"] for row in through["serialized_jobs"]} == {
        one.id for one in handles
    }
    await empty(connection, jobs)
    async with jobs:
        own = [await jobs.enqueue("email", payload, **options) for payload in payloads]
    assert [one.created for one in handles] == [one.created for one in own]
    assert alike(through, options) == alike(await written(connection, jobs), options)
    await empty(connection, jobs)


@pytest.mark.parametrize("door", DOORS)
async def test_each_refusal_through_each_door(door: str, jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    own: dict[str, str] = {}
    async with jobs:
        taken = await jobs.enqueue("email", {"to": "first"}, dedup_key="taken")
        for name, (type, payload, options), error in REFUSALS:
            with pytest.raises(error) as raised:
                await jobs.enqueue(type, payload, **options)
            own[name] = str(raised.value)
    before = await written(connection, jobs)
    async with DOORS[door](jobs, dsn) as one:
        await one.execute("CREATE TABLE public.mine (n integer)")
        for name, (type, payload, options), error in REFUSALS:
            with pytest.raises(error) as refused:
                await one.enqueue(type, payload, options)
            assert str(refused.value) == own[name], name
            assert getattr(refused.value, "job_id", taken.id) == taken.id
        await one.execute("INSERT INTO public.mine VALUES (1)")
        await one.commit()
    assert await written(connection, jobs) == before, "nothing was written"
    assert await connection.fetchval("SELECT count(*) FROM public.mine") == 1, "the transaction went on"


@pytest.mark.parametrize("door", DOORS)
async def test_keyed_jobs_join_in_the_order_of_commits_through_each_door(
    door: str, jobs: AsyncJobs, connection: Connection, dsn: str
) -> None:
    async with DOORS[door](jobs, dsn) as one, DOORS["Session on psycopg"](jobs, dsn) as two:
        first = (await one.enqueue("email", {"to": "a"}, {"serialization_key": "k"})).id
        second = (await two.enqueue("email", {"to": "b"}, {"serialization_key": "k"})).id
        await two.commit()
        await one.commit()
    found = await connection.fetchval("SELECT array_agg(id ORDER BY place) FROM asyncjobs.serialized_jobs")
    assert found == [second, first]
