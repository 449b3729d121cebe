"""What an enqueue refuses, before anything is written: the error's class, and its message word for word."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from asyncjobs import (
    AsyncJobsError,
    EnqueueError,
    InvalidOption,
    InvalidPayload,
    JobContext,
    JobRouter,
    PayloadTooLarge,
)

router = JobRouter()


class Model(BaseModel):
    a: int
    f: float = 0.0


class Event(msgspec.Struct):
    kind: str


@dataclass
class Point:
    x: int
    data: Any = None


class Colour(Enum):
    RED = "red"


@router.job("email")
async def _email(ctx: JobContext, to: str, template: str = "x") -> None: ...


@router.job("rich")
async def _rich(  # noqa: PLR0917 - one field a kind
    ctx: JobContext,
    any: Any = None,
    f: float = 0,
    n: int = 0,
    model: Model | None = None,
    point: Point | None = None,
    at: datetime | None = None,
) -> None: ...


# Wrong uses are type errors: here the checkers look away.
email: Any = _email
rich: Any = _rich
wrong: Any = "x"


@router.job("keyed", serialize_by="inbox_{to}")
async def keyed(to: str | None) -> None: ...


@router.job("keyed by function")
async def keyed_by_function(to: str) -> None: ...


@keyed_by_function.serialize_by
def _key(to: str) -> str | None:
    if to == "raise":
        raise LookupError("no such inbox")
    if to == "leave":
        raise SystemExit(3)
    return to


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


class Case(NamedTuple):
    call: Callable[[], object]
    message: str


ARRIVES = "annotate the field, or convert the value"

PAYLOADS = [
    # wrong, missing, unknown fields
    Case(lambda: email.new(to=5), "email: expected str, got int - at $.to"),
    Case(lambda: email.new(to=None), "email: expected str, got null - at $.to"),
    Case(lambda: email.new(to=b"x"), f"email: expected str, got bytes (it would arrive as str: {ARRIVES}) - at $.to"),
    Case(email.new, 'email: missing field "to" - at $.to'),
    Case(lambda: email.new("a", "b", "c"), "email: takes at most 2 positional arguments, got 3"),
    Case(lambda: email.new("a", to="b"), 'email: "to" is given twice - at $.to'),
    Case(lambda: email.new("a", extra=1), 'email: unknown field "extra". - at $.extra'),
    Case(
        lambda: email.new("a", delay=3),
        'email: unknown field "delay". That is an option: use .using(delay=3).enqueue(...). - at $.delay',
    ),
    Case(
        lambda: email.new("a", tempalte="b"),
        'email: unknown field "tempalte". Did you mean "template"? - at $.tempalte',
    ),
    Case(lambda: rich.new(n=True), "rich: expected int, got bool - at $.n"),
    Case(lambda: rich.new(n=1.0), "rich: expected int, got float - at $.n"),
    Case(lambda: rich.new(f=2**53 + 1), "rich: 9007199254740993 would arrive as 9007199254740992.0 - at $.f"),
    Case(lambda: rich.new(at="yesterday"), "rich: invalid RFC3339 encoded datetime - at $.at"),
    Case(lambda: rich.new(point=Point(wrong)), "rich: expected int, got str - at $.point.x"),
    Case(lambda: rich.new(model={"a": []}), "rich: a: Input should be a valid integer - at $.model"),
    # what JSON or jsonb cannot hold
    Case(lambda: rich.new(f=math.nan), "rich: nan is not a number that JSON can hold - at $.f"),
    Case(lambda: rich.new(any=[1, {"a": -math.inf}]), "rich: -inf is not a number that JSON can hold - at $.any[1].a"),
    Case(lambda: rich.new(model=Model(a=1, f=math.inf)), "rich: inf is not a number that JSON can hold - at $.model.f"),
    Case(lambda: email.new("\ud800"), "email: a lone surrogate, which UTF-8 cannot hold - at $.to"),
    Case(lambda: rich.new(any={"\udfff": 1}), "rich: a lone surrogate, which UTF-8 cannot hold - at $.any"),
    Case(lambda: email.new("a\x00"), "email: a NUL character, which PostgreSQL cannot store - at $.to"),
    Case(lambda: rich.new(any={"a\x00": 1}), "rich: a NUL character, which PostgreSQL cannot store - at $.any"),
    Case(lambda: rich.new(point=Point(1, "\x00")), "rich: a NUL character, which PostgreSQL cannot store - at $.point.data"),
    Case(lambda: rich.new(any={1: 2}), "rich: the key 1 is an int: JSON's keys are str - at $.any"),
    Case(lambda: rich.new(any={"a": {(1, 2): 3}}), "rich: the key (1, 2) is a tuple: JSON's keys are str - at $.any.a"),
    Case(lambda: rich.new(point=Point(1, {None: 1})), "rich: the key None is None: JSON's keys are str - at $.point.data"),
    Case(lambda: rich.new(any=nested(200)), "rich: nested deeper than 200 levels (max_depth)"),
    Case(lambda: rich.new(any=nested(5000)), "rich: nested deeper than 200 levels (max_depth)"),
    Case(lambda: rich.new(any=10**5000), "rich: an integer with more digits than Python turns into text - at $.any"),
    Case(lambda: rich.new(any=[object()]), "rich: object cannot be stored as JSON - at $.any[0]"),
    # what would arrive as something else
    Case(lambda: rich.new(any={1, 2}), f"rich: expected list, got set (it would arrive as list: {ARRIVES}) - at $.any"),
    Case(lambda: rich.new(any=[UUID(int=1)]), f"rich: expected str, got UUID (it would arrive as str: {ARRIVES}) - at $.any[0]"),
    Case(lambda: rich.new(any=Event("x")), f"rich: expected dict, got Event (it would arrive as dict: {ARRIVES}) - at $.any"),
    Case(lambda: rich.new(any=Colour.RED), f"rich: expected str, got Colour (it would arrive as str: {ARRIVES}) - at $.any"),
    # serialization keys
    Case(
        lambda: keyed.new(None),
        "keyed: serialize_by failed: ValueError: a value is None: decide what that means with the decorator",
    ),
    Case(lambda: keyed.new("x" * 250), f'keyed: the serialization key "inbox_{"x" * 54}…" has 256 characters, at most 255'),
    Case(lambda: keyed_by_function.new("raise"), "keyed by function: serialize_by failed: LookupError: no such inbox"),
    Case(lambda: keyed_by_function.new("leave"), "keyed by function: serialize_by failed: SystemExit: 3"),
    Case(lambda: keyed_by_function.new(""), 'keyed by function: the serialization key "" is empty'),
]

NOW = datetime.now(UTC)

OPTIONS = [
    Case(lambda: email.using(run_at=datetime(2027, 1, 1)), "run_at=2027-01-01T00:00:00 has no time zone: use datetime.now(UTC)."),  # noqa: DTZ001
    Case(
        lambda: email.using(run_at=datetime(2227, 1, 1, tzinfo=UTC)),
        "run_at=2227-01-01T00:00:00+00:00 is out of range: give an instant from 10 years ago to 100 years ahead.",
    ),
    Case(
        lambda: email.using(run_at=datetime(1970, 1, 1, tzinfo=UTC)),
        "run_at=1970-01-01T00:00:00+00:00 is out of range: give an instant from 10 years ago to 100 years ahead.",
    ),
    Case(lambda: email.using(run_at=date(2027, 1, 1)), "run_at=datetime.date(2027, 1, 1) is a date: give a datetime."),
    Case(lambda: email.using(run_at=NOW, delay=5), "give run_at or delay, not both."),
    Case(lambda: email.using(run_at=NOW).using(delay=5), "give run_at or delay, not both."),
    Case(lambda: email.using(delay=-1), "delay=-1 must be at least 0 seconds."),
    Case(lambda: email.using(delay=math.nan), "delay=nan is not a finite number of seconds."),
    Case(lambda: email.using(delay=True), "delay=True is a bool: give seconds or a timedelta."),
    Case(lambda: email.using(delay="5m"), 'delay="5m" is a str: give seconds or a timedelta.'),
    Case(lambda: email.using(delay=timedelta(days=50_000)), "delay=datetime.timedelta(days=50000) is longer than 100 years."),
    Case(lambda: email.using(timeout=0), "timeout=0 must be more than 0 seconds."),
    Case(lambda: email.using(timeout=-math.inf), "timeout=-inf is not a finite number of seconds."),
    Case(lambda: email.using(priority=-1), "priority=-1 is out of range: give 0 to 32,767 (lower runs first)."),
    Case(lambda: email.using(priority=32768), "priority=32768 is out of range: give 0 to 32,767 (lower runs first)."),
    Case(lambda: email.using(priority=True), "priority=True is a bool: give a whole number."),
    Case(lambda: email.using(priority="high"), 'priority="high" is a str: give a whole number.'),
    Case(lambda: email.using(max_attempts=0), "max_attempts=0 is out of range: give 1 to 2,147,483,647."),
    Case(lambda: email.using(max_attempts=2**31), "max_attempts=2147483648 is out of range: give 1 to 2,147,483,647."),
    Case(lambda: email.using(parent_job_id=0), "parent_job_id=0 is out of range: give 1 to 9,223,372,036,854,775,807."),
    Case(lambda: email.using(notify=1), "notify=1 is an int: give True or False."),
    Case(lambda: email.using(on_duplicate="ignore"), 'on_duplicate="ignore": give "return", "replace" or "raise".'),
    Case(lambda: email.using(dedup_key=""), 'dedup_key="" is empty.'),
    Case(lambda: email.using(dedup_key="x" * 256), f'dedup_key="{"x" * 60}…" has 256 characters, at most 255.'),
    Case(lambda: email.using(dedup_key="a\x00"), r"dedup_key='a\x00' has a NUL character, which PostgreSQL cannot store."),
    Case(lambda: email.using(dedup_key=5), "dedup_key=5 is an int, not a str."),
    Case(
        lambda: email.using(serialization_key="\ud800"),
        r"serialization_key='\ud800' has a lone surrogate, which UTF-8 cannot hold.",
    ),
    Case(lambda: email.using(correlation_id="a\n"), r"correlation_id='a\n' has characters that cannot be printed."),
    Case(lambda: email.using(correlation_id="x" * 300), f'correlation_id="{"x" * 60}…" has 300 characters, at most 255.'),
    Case(lambda: email.using(dedup_for=5).new("a"), "dedup_for=5.0 needs a dedup_key: give one."),
    Case(lambda: email.using(on_duplicate="raise").new("a"), "on_duplicate='raise' needs a dedup_key: give one."),
    Case(lambda: email.using(queue=""), 'queue name "" is empty: give it a name.'),
    Case(lambda: email.using(lane="ä" * 35), f'lane name "{"ä" * 35}" is 70 bytes, at most 63.'),
    Case(lambda: email.using(prio=1), "no option 'prio'. Did you mean \"priority\"?"),
]


def refusal(case: Case) -> AsyncJobsError:
    with pytest.raises(AsyncJobsError) as caught:
        case.call()
    return caught.value


@pytest.mark.parametrize("case", PAYLOADS, ids=lambda case: case.message[:60])
def test_a_payload_that_does_not_fit_names_the_field(case: Case) -> None:
    error = refusal(case)
    assert type(error) is InvalidPayload
    assert str(error).startswith(case.message) if "decorator" in case.message else str(error) == case.message
    assert str(error).endswith(error.path) or error.path == "$"
    assert str(error).startswith(error.type)


@pytest.mark.parametrize("case", OPTIONS, ids=lambda case: case.message[:60])
def test_an_option_that_cannot_be_meant_names_its_value(case: Case) -> None:
    error = refusal(case)
    assert (type(error), str(error)) == (InvalidOption, case.message)


def test_a_payload_over_the_limit_names_both_sizes() -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        email.new("ü" * (1 << 19))
    assert str(caught.value) == "email: 1,048,585 bytes, at most 1,048,576 (max_payload_bytes)."
    assert (caught.value.type, caught.value.size, caught.value.limit) == ("email", 1_048_585, 1 << 20)


def test_every_refusal_says_that_nothing_was_written() -> None:
    assert all(isinstance(refusal(case), EnqueueError) and isinstance(refusal(case), ValueError) for case in (PAYLOADS + OPTIONS))


def test_what_json_holds_is_taken() -> None:
    values: list[Any] = [None, True, 0, -(2**70), 1.5, "", "\\u0000", "null", "\U0001f600", [], {"a": [{}]}, nested(199), (1, 2)]
    for value in values:
        assert rich.new(any=value).type == "rich"
