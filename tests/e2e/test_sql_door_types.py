"""What SQL knows of a type: which payloads it refuses, in which words, and its keys. As Python, or not at all."""

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict, cast
from uuid import UUID

import asyncpg
import msgspec
import pytest

from asyncjobs import AsyncJobs, InvalidPayload, JobContext
from asyncjobs.store.database import Connection
from tests.support.sql_door import declared, refused, sql


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Item(msgspec.Struct):
    sku: str
    count: int = 1
    below: "list[Item] | None" = None


@dataclass
class Place:
    city: str
    lines: list[str]


class Choice(TypedDict):
    kind: str
    weight: float


class Point(NamedTuple):
    x: int
    y: int


@pytest.fixture
def jobs(dsn: str) -> AsyncJobs:
    return AsyncJobs(dsn, poll_interval=300)


HINTS: list[Any] = [
    int, str, bool, float, bytes, None, Any, datetime, timedelta, Decimal, UUID, Colour, Level, Literal["a", "b"],
    Literal[1, "a"] | None, int | None, int | str | None, list[int], list[int] | None, dict[str, int], set[str],
    tuple[int, ...], tuple[int, str], Point,
    Item, Item | None, list[Item], dict[str, Item], Place, Choice, list[Choice] | dict[str, int], Colour | None, int | float,
    datetime | None,
]  # fmt: skip
VALUES: list[str] = [
    "null", "true", "5", "-7", "5.5", "1.0", "12345678901234567890123", '"x"', '""', '"a"', '"red"', '"1.0"', "1", "[]",
    '[1, "a"]', "[1.0]", '["1.0"]', "{}", '{"a": 5}', '{"a": "x"}', '{"sku": "a"}', '{"sku": 5}', '{"count": 5}',
    '{"sku": "a", "count": 1.0}', '{"sku": "a", "below": [{"sku": 5}]}', '[{"sku": "a"}, {"sku": 7}]', '{"b": {"count": 1}}',
    '{"city": "x", "lines": ["y", 5]}', '{"city": "x", "lines": ["y"]}', '{"kind": "x", "weight": 5}',
    '[{"kind": "x", "weight": "y"}]', '"2027-01-01T00:00:00Z"', '"PT5S"', '"aabbccddeeff00112233445566778899"',
    '{"a.b": "\\u00e4"}', '{"sku": null}', '{"extra": 1, "sku": "a"}',
]  # fmt: skip
#: What msgspec says of types and fields, which SQL can say; the rest is the runner's to say.
SAID = ("expected ", "missing ", "invalid enum value ")


def said_by_python(hint: Any, text: str) -> str | None:
    """What is wrong with the value, as the enqueue tells it, without its place."""
    try:
        msgspec.json.decode(text, type=hint)
    except msgspec.ValidationError as error:
        words = str(error).partition(" - at ")[0].replace("Object missing required field", "missing field").replace("`", "")
        return words[:1].lower() + words[1:]
    return None


async def test_sql_refuses_what_python_refuses_of_types_in_its_words_and_nothing_else(
    jobs: AsyncJobs, connection: Connection
) -> None:
    """All types in one database: a database each took four times as long."""
    for hint in HINTS:

        async def handler(ctx: JobContext, x: Any) -> None: ...

        handler.__annotations__["x"] = hint
        jobs.job(str(hint))(handler)
    await declared(jobs)
    for hint in HINTS:
        for value in VALUES:
            await says_the_same(connection, hint, value)


async def says_the_same(connection: Connection, hint: Any, value: str) -> None:
    """Python and SQL, of a value for a parameter of that type; and SQL's two ways to say it."""
    python = said_by_python(hint, value)
    problem = await connection.fetchval(
        "SELECT asyncjobs.payload_problem(t.schema, jsonb_build_object('x', $1::text::jsonb))"
        " FROM asyncjobs.types AS t WHERE t.type = $2",
        value,
        str(hint),
    )
    try:
        await connection.fetchval("SELECT asyncjobs.enqueue($2, jsonb_build_object('x', $1::text::jsonb))", value, str(hint))
        told = None
    except asyncpg.PostgresError as error:
        told = str(error).partition("\n")[0].removeprefix(f"{hint}: ")
    assert told == problem, f"{hint} of {value}: the sieve and the checks differ"
    if problem is not None:
        assert python is not None, f"{hint} of {value}: {problem}, and Python takes it"
    known = python is not None and len(value) < 20 and python.startswith(SAID) and not is_beyond_sql(hint, python)
    if known:
        assert problem is not None, f"{hint} of {value}: Python says {python}"
        words = problem.partition(" - at ")[0].replace('"', "")
        assert words == cast("str", python).replace('"', ""), f"{hint} of {value}"


def is_beyond_sql(hint: Any, words: str) -> bool:
    """Of members of a union that are both arrays or objects, and of places in a tuple, only the runner knows."""
    if hint not in (tuple[int, str], Point, list[Choice] | dict[str, int]):
        return False
    return not words.startswith(("expected array, got", "expected object | array"))


KEYS: list[tuple[str, Any, list[str]]] = [
    ("inbox_{x}", str, ['"a"', '"{y} and }"', '""', '"\\u00e4\\u20ac"', f'"{"k" * 255}"', "null", "5"]),
    ("{x}", str, ['""', '"5"', '" "']),
    ("{{{x}}}", str, ['"a"', '"{{"']),
    ("n{x}", int, ["5", "-7", "0", "12345678901234567890123", "1.5", "true"]),
    ("b{x}", bool, ["true", "false"]),
    ("u{x}", UUID, ['"AABBCCDD-EEFF-0011-2233-445566778899"', '"aabbccddeeff00112233445566778899"', '"no"', f'"{{{"a" * 32}}}"']),
    ("o{x}", str | None, ['"a"', "null"]),
    ("s{x}", int | str, ["5", '"5"']),
    ("c{x}", Colour, ['"red"', '"green"']),
    ("l{x}", Level, ["1", "2"]),
    ("t{x}", Literal["a", 1], ['"a"', "1", '"b"']),
    ("a{x}", Any, ['"a"', "5", "true"]),
]  # fmt: skip


@pytest.mark.parametrize(("template", "hint", "values"), KEYS, ids=str)
async def test_a_template_is_expanded_as_in_python(
    template: str, hint: Any, values: list[str], jobs: AsyncJobs, connection: Connection
) -> None:
    async def handler(y: int, x: Any) -> None: ...

    handler.__annotations__["x"] = hint
    jobs.job("work", serialize_by=template)(handler)
    await declared(jobs)

    def in_python(value: str) -> str | None:
        try:
            return jobs.handlers["work"].key_for({"x": msgspec.json.decode(value, type=hint)})
        except (msgspec.ValidationError, InvalidPayload):
            return None

    async def in_sql(value: str) -> Any:
        try:
            job_id = await connection.fetchval(
                "SELECT asyncjobs.enqueue('work', jsonb_build_object('y', 1, 'x', $1::text::jsonb))", value
            )
        except asyncpg.PostgresError as error:
            return None if error.sqlstate == "JOB02" else error
        return await connection.fetchval("SELECT serialization_key FROM asyncjobs.jobs WHERE id = $1", job_id)

    for value in values:
        assert await in_sql(value) == in_python(value), value


async def test_a_default_fills_a_template_and_none_is_refused_in_the_same_words(jobs: AsyncJobs, connection: Connection) -> None:
    @jobs.job("of a default", serialize_by="k_{x}_{y}")
    async def of_a_default(x: str = "usual", y: float = 1.5) -> None: ...

    @jobs.job("of none", serialize_by="k_{x}")
    async def of_none(x: str | None = None) -> None: ...

    await declared(jobs)
    said = "serialize_by failed: ValueError: a value is None: decide what that means with the decorator "
    assert "serialization key is made by Python" in await refused(connection, "of a default", {}), "since y is a float"
    for payload in ({}, {"x": None}):
        assert said in await refused(connection, "of none", payload)
        with pytest.raises(InvalidPayload, match=said):
            of_none.new(**cast("Any", payload))


@pytest.mark.parametrize("template", ["{x!r}", "{x:>5}", "{x.real}", "{y}", "{z}"])
async def test_a_key_that_only_python_can_make_has_to_be_given(template: str, jobs: AsyncJobs, connection: Connection) -> None:
    @jobs.job("work", serialize_by=template)
    async def work(x: int, y: float = 1.5, z: datetime | None = None) -> None: ...

    @jobs.job("by a function")
    async def by_a_function(x: int) -> None: ...

    @by_a_function.serialize_by
    def key(x: int) -> str | None:
        return f"n{x}"

    await declared(jobs)
    for type in ("work", "by a function"):
        said = await refused(connection, type, {"x": 1})
        assert said == f'{type}: its serialization key is made by Python (serialize_by): give "serialization_key".'
        job_id = await sql(connection, type, {"x": 1}, {"serialization_key": "k"})
        assert await connection.fetchval("SELECT serialization_key FROM asyncjobs.jobs WHERE id = $1", job_id) == "k"
    del work, key
