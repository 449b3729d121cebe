"""Enqueue from SQL: what only this door has to keep. What every door does alike: test_doors.py. Types: test_sql_door_types.py."""

import math
import time
import unicodedata
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, InvalidOption
from asyncjobs.declare.options import KNOWN
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually
from tests.support.notices import without_lot
from tests.support.rows import each
from tests.support.sql_door import declared, refused, sql


@pytest.fixture
def jobs(dsn: str) -> AsyncJobs:
    return AsyncJobs(dsn, poll_interval=300)


@pytest.fixture
async def shop(jobs: AsyncJobs) -> AsyncGenerator[AsyncJobs]:
    """An app with plain types, which runs nothing."""

    @jobs.job("work", aliases=["labour"])
    async def work(n: int = 0) -> int:
        return n

    @jobs.job("keyed", serialize_by="k_{n}")
    async def keyed(n: int) -> int:
        return n

    @jobs.job("order")
    async def order(number: int, name: str, note: str | None = None) -> None: ...

    await declared(jobs)
    async with jobs:
        yield jobs


@pytest.mark.usefixtures("shop")
async def test_a_type_that_nobody_declared_is_refused_unless_that_is_meant(connection: Connection) -> None:
    known = 'no job "wrok" in this schema. Known: keyed, labour, order, work.'
    assert await refused(connection, "wrok", {}) == known
    assert await refused(connection, "wrok", {}, {"undeclared": False}) == known
    job_id = await sql(connection, "wrok", {"any": ["thing"]}, {"undeclared": True, "max_attempts": 2})
    other = await sql(connection, "wrok", {}, {"undeclared": True})
    rows = await connection.fetch("SELECT id, type, on_dead, max_attempts, payload FROM asyncjobs.jobs ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (job_id, "wrok", "ask", 2, '{"any": ["thing"]}'),
        (other, "wrok", "ask all", 3, "{}"),
    ]
    assert "is None, not a str" in await refused(connection, None, {}, {"undeclared": True})
    assert "begins or ends with a space" in await refused(connection, " wrok", {}, {"undeclared": True})
    declared = await sql(connection, "work", {"n": 1}, {"undeclared": True})
    assert await connection.fetchval("SELECT on_dead FROM asyncjobs.jobs WHERE id = $1", declared) == "advance"


@pytest.mark.usefixtures("shop")
async def test_the_options_of_sql_are_those_of_python(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError) as error:
        await sql(connection, "work", {}, {"connection": 1})
    assert error.value.hint == f"Options: {', '.join(sorted({*KNOWN, 'undeclared'} - {'connection'}))}."
    for option in KNOWN - {"connection"}:
        assert await sql(connection, "work", {}, {option: None})


@pytest.mark.usefixtures("shop")
async def test_a_former_name_makes_a_job_of_the_type(connection: Connection) -> None:
    job_id = await sql(connection, "labour", {"n": 1})
    assert await connection.fetchval("SELECT type FROM asyncjobs.jobs WHERE id = $1", job_id) == "work"


@pytest.mark.usefixtures("shop")
async def test_what_is_null_is_as_if_it_were_not_given(connection: Connection) -> None:
    assert await connection.fetchval("SELECT asyncjobs.enqueue('work')") == 1
    assert await connection.fetchval("SELECT asyncjobs.enqueue('work', '{}', NULL)") == 2
    assert await connection.fetchval("SELECT asyncjobs.enqueue(type => 'work', options => '{\"delay\": null}')") == 3
    assert "the payload is None" in await refused(connection, "work", None)
    assert "the options are a list" in await refused(connection, "work", {}, [1])
    assert "no option" in await refused(connection, "work", {}, {"x": None})


@pytest.mark.usefixtures("shop")
@each(
    ("said", "seconds"),
    [
        ("5 min", 300),
        ("1 day 2 hours", 93_600),
        ("PT5M", 300),
        ("00:00:10.5", 10.5),
        (90, 90),
        ("1 month", 2_592_000),
        ("300", 300),
    ],
    cleared=False,
)
async def test_a_delay_is_seconds_or_an_interval(said: object, seconds: float, connection: Connection) -> None:
    await connection.execute("SET intervalstyle = 'sql_standard'; SET datestyle = 'German'; SET timezone = 'Asia/Kolkata'")
    job_id = await sql(connection, "work", {}, {"delay": said})
    due = await connection.fetchval("SELECT run_at - created_at FROM asyncjobs.jobs WHERE id = $1", job_id)
    assert due.total_seconds() == seconds


@pytest.mark.usefixtures("shop")
@each("said", ["soon", "5 mni", "-5 min", "infinity", "200 years", True, {}], cleared=False)
async def test_what_is_no_delay_is_refused(said: object, connection: Connection) -> None:
    assert (await refused(connection, "work", {}, {"delay": said})).startswith("delay=")


@pytest.mark.usefixtures("shop")
async def test_an_instant_of_sql_is_one(connection: Connection) -> None:
    await connection.execute("SET datestyle = 'German'; SET timezone = 'Asia/Kolkata'")
    for text in ("now() + interval '1 day'", "date_trunc('second', now() + interval '1 day')"):
        job_id = await connection.fetchval(f"SELECT asyncjobs.enqueue('work', '{{}}', jsonb_build_object('run_at', {text}))")
        due = await connection.fetchval("SELECT run_at - created_at FROM asyncjobs.jobs WHERE id = $1", job_id)
        assert abs(due.total_seconds() - 86_400) < 10
    for text in ("2027-02-30T00:00:00Z", "2027-01-01", "2027-01-01 10:00", "infinity", "2027-01-01T10:00 Europe/Berlin"):
        assert (await refused(connection, "work", {}, {"run_at": text})).startswith("run_at=")


@pytest.mark.usefixtures("shop")
async def test_many_answer_their_ids_in_order_all_or_none(connection: Connection) -> None:
    ids = await sql(connection, "work", [{"n": n} for n in range(5)], call="enqueue_many")
    rows = await connection.fetch("SELECT id, (payload ->> 'n')::integer AS n FROM asyncjobs.jobs ORDER BY n")
    assert [(row["id"], row["n"]) for row in rows] == [(one, n) for n, one in enumerate(ids)]
    each: list[Mapping[str, Any]] = [{"dedup_key": "a"}, {"priority": 7}, {"dedup_key": "a"}]
    first, second, third = await sql(connection, "work", [{}, {}, {}], each, call="enqueue_many")
    assert first == third != second
    assert await connection.fetchval("SELECT priority FROM asyncjobs.jobs WHERE id = $1", second) == 7
    count = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs")
    with pytest.raises(asyncpg.PostgresError, match="expected int, got str") as error:
        await sql(connection, "work", [{"n": 1}, {"n": "x"}], call="enqueue_many")
    assert (error.value.hint or "").startswith("Payload 2 of 2.")
    assert "2 options for 1 payloads" in await refused(connection, "work", [{}], [{}, {}], call="enqueue_many")
    assert "the payloads are a dict" in await refused(connection, "work", {"n": 1}, call="enqueue_many")
    assert await sql(connection, "work", None, call="enqueue_many") == []
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == count


@pytest.mark.usefixtures("shop")
async def test_a_refusal_aborts_the_transaction_and_a_savepoint_saves_it(connection: Connection) -> None:
    async with connection.transaction():
        await sql(connection, "work", {"n": 1})
        await connection.execute("SAVEPOINT before")
        await refused(connection, "work", {"n": "x"})
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await connection.execute("SELECT 1")
        await connection.execute("ROLLBACK TO before")
        await connection.execute(
            """DO $$ BEGIN
                PERFORM asyncjobs.enqueue('work', '{"n": "x"}');
            EXCEPTION WHEN SQLSTATE 'JOB02' THEN
                PERFORM asyncjobs.enqueue('work', '{"n": 2}');
            END $$"""
        )
    assert await connection.fetchval("SELECT array_agg(payload ->> 'n' ORDER BY id) FROM asyncjobs.jobs") == ["1", "2"]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_jobs_run_that_any_isolation_level_enqueued(level: str, shop: AsyncJobs, connection: Connection) -> None:
    await connection.execute(f"BEGIN ISOLATION LEVEL {level}")
    ids = [await sql(connection, "work", {"n": 1}), *[await sql(connection, "keyed", {"n": n % 2}) for n in range(4)]]
    ids.append(await sql(connection, "work", {"n": 1}, {"dedup_key": "d"}))
    await connection.execute("COMMIT")
    async with shop.runner():
        ended = [await shop.handle(job_id).wait(timeout=10) for job_id in ids]
    assert {job.status for job in ended} == {"completed"}


async def test_a_transaction_can_be_prepared_that_notifies_nobody(shop: AsyncJobs, connection: Connection) -> None:
    await connection.execute("BEGIN")
    ids = [await sql(connection, "work", {}, {"notify": False}), await sql(connection, "work", {"n": 1})]
    await connection.execute("PREPARE TRANSACTION 'of sql'")
    async with shop.runner() as runner:
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 0
        await connection.execute("COMMIT PREPARED 'of sql'")
        runner.wake()
        for job_id in ids:
            await shop.handle(job_id).wait(timeout=10)


@pytest.mark.usefixtures("shop")
async def test_a_plain_call_in_a_database_of_a_strangers_names_is_not_misled(connection: Connection) -> None:
    await connection.execute(
        "CREATE SCHEMA stranger; CREATE FUNCTION stranger.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS $$ SELECT 'array' $$;"
        "SET search_path = stranger, pg_catalog"
    )
    assert await connection.fetchval("SELECT asyncjobs.enqueue('work')") == 1


async def test_what_is_printable_is_so_in_python(connection: Connection) -> None:
    numbers = [number for number in range(1, 0x10000) if unicodedata.category(chr(number)) not in {"Cn", "Cs"}]
    said = await connection.fetchval(
        "SELECT array_agg(n) FROM unnest($1::integer[]) AS n WHERE asyncjobs.is_printable(chr(n))", numbers
    )
    assert set(said) == {number for number in numbers if chr(number).isprintable()}


async def test_ten_thousand_rows_of_one_insert_notify_once(shop: AsyncJobs, connection: Connection) -> None:
    await connection.execute(
        """
        CREATE TABLE orders (id bigint);
        CREATE FUNCTION enqueue_orders() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM asyncjobs.enqueue_many('work', (SELECT jsonb_agg(jsonb_build_object('n', o.id)) FROM new_orders AS o));
            RETURN NULL;
        END $$;
        CREATE TRIGGER orders_enqueue AFTER INSERT ON orders REFERENCING NEW TABLE AS new_orders
            FOR EACH STATEMENT EXECUTE FUNCTION enqueue_orders();
        """
    )
    heard: list[str] = []
    channel = shop.lifecycle.database().channel
    await connection.add_listener(channel, lambda *args: heard.append(without_lot(args[-1])))
    await connection.execute("INSERT INTO orders SELECT generate_series(1, 10000)")
    await connection.execute("INSERT INTO orders SELECT 1 WHERE false")
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 10_000
    await eventually(lambda: heard == ["q:default"], description="one notification")
    await connection.execute(
        """
        CREATE TRIGGER each_enqueue AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION enqueue_orders();
        DROP TRIGGER each_enqueue ON orders;
        CREATE FUNCTION enqueue_order() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM asyncjobs.enqueue('work', jsonb_build_object('n', NEW.id));
            RETURN NULL;
        END $$;
        DROP TRIGGER orders_enqueue ON orders;
        CREATE TRIGGER each_enqueue AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION enqueue_order();
        INSERT INTO orders SELECT generate_series(1, 100);
        """
    )
    await eventually(lambda: heard == ["q:default"] * 3, description="two more, however many calls there were")
    await connection.reset()


@pytest.mark.proof
@pytest.mark.usefixtures("shop")
async def test_a_trigger_for_ten_thousand_rows_takes_25_us_a_row(connection: Connection) -> None:
    """Above what the same INSERT takes where there is no trigger."""
    await connection.execute(
        """
        CREATE TABLE plain (id bigint, name text);
        CREATE TABLE orders (LIKE plain);
        CREATE FUNCTION enqueue_orders() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM asyncjobs.enqueue_many('order', (
                SELECT jsonb_agg(jsonb_build_object('number', o.id, 'name', o.name)) FROM new_orders AS o));
            RETURN NULL;
        END $$;
        CREATE TRIGGER orders_enqueue AFTER INSERT ON orders REFERENCING NEW TABLE AS new_orders
            FOR EACH STATEMENT EXECUTE FUNCTION enqueue_orders();
        """
    )

    async def seconds(table: str) -> float:
        began = time.perf_counter()
        await connection.execute(f"INSERT INTO {table} SELECT n, 'customer ' || n FROM generate_series(1, 10000) AS n")
        return time.perf_counter() - began

    rounds = [await seconds("orders") - await seconds("plain") for _ in range(5)]
    each = min(rounds) / 10_000 * 1e6
    assert each <= 25, f"{each:.1f} us a row"


@pytest.fixture
async def told(dsn: str) -> AsyncGenerator[AsyncJobs]:
    """An app and types that say more of their jobs."""
    jobs = AsyncJobs(dsn, poll_interval=300, timeout=77)

    @jobs.job("tagged", tags=["a", "b"], expires=60)
    async def tagged() -> None: ...

    @jobs.job("endless", timeout=math.inf)
    async def endless() -> None: ...

    @jobs.job("once", dedup_by="once_{n}")
    async def once(n: int | None) -> None: ...

    @jobs.job("by a function")
    async def by_a_function(n: int) -> None: ...

    @by_a_function.dedup_by
    def key(n: int) -> str:
        return str(n)

    await declared(jobs)
    async with jobs:
        yield jobs


@pytest.mark.usefixtures("told")
async def test_expiry_tags_and_timeout_are_the_types_and_the_apps(connection: Connection) -> None:
    row = (
        "SELECT tags, extract(epoch FROM timeout)::int, extract(epoch FROM start_before - run_at)::int "
        "FROM asyncjobs.jobs WHERE id = $1"
    )
    plain = await sql(connection, "tagged", {})
    assert tuple(await connection.fetchrow(row, plain) or ()) == (["a", "b"], 77, 60)
    own = await sql(connection, "tagged", {}, {"tags": ["c", "a"], "expires": "5 s", "timeout": 3, "delay": 9})
    assert tuple(await connection.fetchrow(row, own) or ()) == (["a", "b", "c"], 3, 5)
    assert tuple(await connection.fetchrow(row, await sql(connection, "endless", {})) or ()) == (None, None, None)
    assert (
        await connection.fetchval(
            "SELECT timeout FROM asyncjobs.jobs WHERE id = $1", await sql(connection, "tagged", {}, {"timeout": "infinity"})
        )
    ) is None
    assert "cannot be lifted here" in await refused(connection, "nobody's", {}, {"undeclared": True, "timeout": "infinity"})


@pytest.mark.usefixtures("told")
@each(
    "tags",
    ["x", 1, [1], [""], ["x" * 64], [" x"], ["a\tb"], [str(n) for n in range(19)], {"a": 1}, [None], [["x"]]],
    cleared=False,
)
async def test_tags_are_refused_in_pythons_words(tags: Any, told: AsyncJobs, connection: Connection) -> None:
    with pytest.raises(InvalidOption) as error:
        await told.enqueue("tagged", {}, tags=tags)
    why = str(error.value).partition("which")[2] or "give a list" * ("give a list" in str(error.value)) or "tags, at most 20."
    assert why in await refused(connection, "tagged", {}, {"tags": tags})


@pytest.mark.usefixtures("told")
async def test_dedup_by_makes_the_key_or_it_has_to_be_given(connection: Connection) -> None:
    first = await sql(connection, "once", {"n": 1})
    assert await sql(connection, "once", {"n": 1}) == first != await sql(connection, "once", {"n": 2})
    assert await connection.fetchval("SELECT dedup_key FROM asyncjobs.jobs WHERE id = $1", first) == "once_1"
    assert await sql(connection, "once", {"n": 1}, {"dedup_key": "own", "dedup_until": "start"}) not in {first, first + 1}
    assert "dedup_by failed" in await refused(connection, "once", {"n": None})
    assert await refused(connection, "by a function", {"n": 1}) == (
        'by a function: its dedup key is made by Python (dedup_by): give "dedup_key".'
    )
    assert "is job" in await refused(connection, "once", {"n": 1}, {"on_duplicate": "raise"})


@pytest.mark.usefixtures("shop")
async def test_enqueues_of_sql_are_debounced(connection: Connection) -> None:
    options = {"dedup_key": "k", "debounce": {"quiet": "1 min", "at_most": 90}}
    first = await sql(connection, "work", {"n": 1}, options)
    assert await sql(connection, "work", {"n": 2}, options) == first
    row = await connection.fetchrow("SELECT payload, status, dedup_until FROM asyncjobs.jobs WHERE id = $1", first)
    assert tuple(row or ()) == ('{"n": 2}', "scheduled", "start")


@pytest.mark.usefixtures("shop")
@each(
    ("options", "said"),
    [
        ({"debounce": {"quiet": 1, "at_most": 2}}, 'debounce={"quiet": 1, "at_most": 2} needs a dedup_key: give one.'),
        ({"dedup_until": "start"}, "dedup_until='start' needs a dedup_key: give one."),
        ({"dedup_until": "x", "dedup_key": "k"}, 'dedup_until="x": give "start" or "end".'),
        ({"on_duplicate": "x", "dedup_key": "k"}, 'on_duplicate="x": give "return", "replace" or "raise".'),
        (
            {"debounce": {"quiet": 3, "at_most": 2}, "dedup_key": "k"},
            "Debounce(quiet=3, at_most=2): quiet is longer than at_most: it would never decide.",
        ),
        ({"debounce": {"quiet": 0, "at_most": 2}, "dedup_key": "k"}, "quiet=0 must be more than 0 seconds."),
        ({"debounce": {"quiet": 1}, "dedup_key": "k"}, 'debounce={"quiet": 1} is a dict: give {"quiet": 5, "at_most": 60}.'),
        (
            {"debounce": {"quiet": 1, "at_most": 2}, "dedup_key": "k", "delay": 5},
            "delay=5 was given with a debounce, which decides that.",
        ),
        ({"expires": 0}, "expires=0 must be more than 0 seconds."),
    ],
    cleared=False,
)
async def test_expiry_and_debounce_are_refused_in_pythons_words(
    options: dict[str, Any], said: str, connection: Connection
) -> None:
    assert await refused(connection, "work", {}, options) == said
