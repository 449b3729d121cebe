"""Payloads: what arrives is what was sent, or nothing is sent."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyHttpUrl, BaseModel, Field

from asyncjobs import InvalidPayload, JobContext, JobRouter, Snooze, UndecodablePayload, UnstorableResult

router = JobRouter()


@dataclass
class Point:
    x: int
    note: str | None = None


@attrs.define
class Box:
    width: float


class Event(msgspec.Struct):
    kind: str
    tags: frozenset[str] = frozenset()


class Model(BaseModel):
    amount: Decimal
    url: AnyHttpUrl | None = None
    made: datetime | None = Field(default=None, alias="madeAt")
    inner: "Model | None" = None


class Row(TypedDict):
    a: int


class Pair(NamedTuple):
    left: int
    right: str


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@router.job("free")
async def free(ctx: JobContext, value: Any) -> None: ...


@router.job("typed")
async def typed(
    *,
    flag: bool,
    count: int,
    ratio: float,
    text: str,
    raw: bytes,
    at: datetime,
    span: timedelta,
    price: Decimal,
    who: UUID,
    colour: Colour,
    mode: Literal["fast", "slow"],
    scores: dict[int, float],
    unique: set[int],
    pair: tuple[int, str],
    point: Point,
    event: Event,
    maybe: list[Point | None] | None,
) -> None: ...


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=4),
    max_leaves=20,
)
MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
POINTS = st.builds(Point, st.integers(), st.none() | TEXT)
TYPED = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "count": st.integers(-(2**100), 2**100),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "text": TEXT,
        "raw": st.binary(),
        "at": MOMENTS,
        "span": st.timedeltas(min_value=timedelta(days=-9999), max_value=timedelta(days=9999)),
        "price": st.decimals(allow_nan=False, allow_infinity=False),
        "who": st.uuids(),
        "colour": st.sampled_from(Colour),
        "mode": st.sampled_from(["fast", "slow"]),
        "scores": st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)),
        "unique": st.sets(st.integers(-(2**63), 2**63 - 1)),
        "pair": st.tuples(st.integers(), TEXT),
        "point": POINTS,
        "event": st.builds(Event, TEXT, st.frozensets(TEXT)),
        "maybe": st.none() | st.lists(st.none() | POINTS, max_size=3),
    }
)


def arrived(job: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments that the handler would be called with."""
    return dict(job.declaration.decode_payload(job.new(*args, **kwargs).row.payload, 1))


def json_can_hold(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and json_can_hold(key) and json_can_hold(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(json_can_hold, value))
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    # (Without a type, jsonb gives back a float that is written with an exponent as an int.)
    return not isinstance(value, float) or (
        math.isfinite(value) and (abs(value) < 1e16 or Decimal(value) == int(Decimal(repr(value))))
    )


@given(JSON)
def test_any_value_arrives_as_it_was_sent_or_is_refused(value: Any) -> None:
    if json_can_hold(value):
        got = arrived(free, value)["value"]
        assert (got, repr(got)) == (value, repr(value))
    else:
        with pytest.raises(InvalidPayload) as caught:
            free.new(value)
        assert caught.value.path.startswith("$.value")


@given(TYPED)
def test_typed_fields_arrive_as_the_types_they_were_sent_as(fields: dict[str, Any]) -> None:
    got = arrived(typed, **fields)
    assert got == fields
    assert {name: type(value) for name, value in got.items()} == {name: type(value) for name, value in fields.items()}


@router.job("models")
async def models(box: Box, model: Model, row: Row, pair: Pair, many: list[Model]) -> Model | Snooze:
    return model


def test_models_of_all_libraries_arrive() -> None:
    model = Model.model_validate(
        {"amount": "1.50", "url": "https://example.com/a", "madeAt": datetime(2027, 1, 1, tzinfo=UTC), "inner": {"amount": 2}}
    )
    sent: dict[str, Any] = {"box": Box(1.5), "model": model, "row": {"a": 1}, "pair": Pair(1, "x"), "many": [model, model]}
    assert arrived(models, **sent) == sent
    assert models.new(**sent).row.payload.count('"1.50"') == 3


def test_by_name_a_payload_is_checked_and_keyed_the_same_way() -> None:
    who = UUID(int=5)
    given_by_name = keyed.declaration.encode((), {"who": str(who).upper()})
    assert given_by_name.arguments == {"who": who}
    assert keyed.declaration.key_for(given_by_name.arguments) == keyed.new(who).row.serialization_key == f"{who}-main"


@router.job("keyed", serialize_by="{who}-{line}")
async def keyed(who: UUID, line: str = "main") -> None: ...


@router.job("defaults")
async def defaults(to: str, copies: int = 2, tags: list[str] | None = None, *, bcc: str = "nobody") -> None: ...


def test_only_what_was_passed_is_stored_so_that_defaults_apply_when_the_job_runs() -> None:
    assert defaults.new("a").row.payload == '{"to":"a"}'
    assert defaults.new("a", 2, bcc="b").row.payload == '{"to":"a","copies":2,"bcc":"b"}'
    assert arrived(defaults, "a") == {"to": "a"}


def test_a_stored_field_that_the_handler_does_not_know_is_ignored() -> None:
    assert defaults.declaration.decode_payload('{"to":"a","subject":"x"}', 1) == {"to": "a"}


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ('{"to":5}', "expected str, got int - at $.to"),
        ("{}", 'missing field "to" - at $.to'),
        ("[]", "expected object, got array"),
    ],
)
def test_a_stored_payload_that_does_not_fit_any_more_says_where(stored: str, problem: str) -> None:
    with pytest.raises(UndecodablePayload) as caught:
        defaults.declaration.decode_payload(stored, 1)
    assert str(caught.value) == f"defaults: stored payload: {problem}"


def rename(fields: dict[str, Any]) -> dict[str, Any]:
    return {"to": fields["recipient"]}


def double(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "to": fields["to"] * 2}


@router.job("versions", version=3, upgrades={1: rename, 2: double})
async def versions(to: str) -> None: ...


def test_an_older_payload_goes_through_every_upgrade() -> None:
    decode = versions.declaration.decode_payload
    assert decode('{"recipient":"a"}', 1) == decode('{"to":"a"}', 2) == decode('{"to":"aa"}', 3) == {"to": "aa"}
    with pytest.raises(UndecodablePayload, match="it has version 4, this program knows 3: deploy the newer one here, too"):
        decode('{"to":"aa"}', 4)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("stored", ["[" * 6000 + "]" * 6000, '{"to":' + "[" * 100_000, "5", "{"])
def test_a_row_that_nobody_of_ours_wrote_fails_by_itself(stored: str, version: int) -> None:
    with pytest.raises(UndecodablePayload):
        versions.declaration.decode_payload(stored, version)


@router.job("limited")
async def limited(count: Annotated[int, msgspec.Meta(ge=1, le=5)]) -> None: ...


def test_a_constraint_of_the_annotation_holds_at_enqueue() -> None:
    assert arrived(limited, 5) == {"count": 5}
    with pytest.raises(InvalidPayload, match=r"limited: expected int <= 5 - at \$\.count"):
        limited.new(6)


def test_results_come_back_as_the_declared_type_without_its_verdicts() -> None:
    model = Model(amount=Decimal("1.5"))
    handler = models.declaration
    assert handler.decode_result(handler.encode_result(model)) == model
    assert handler.encode_result(None) is None
    assert handler.decode_result(None) is None
    with pytest.raises(ValueError, match="amount"):
        handler.decode_result("{}")


@pytest.mark.parametrize(
    ("value", "path"), [({"a": [math.nan]}, "$.a[0]"), ([object()], "$[0]"), ("\x00", "$"), ({(1,): 2}, "$")]
)
def test_a_result_that_json_cannot_hold_says_where(value: Any, path: str) -> None:
    with pytest.raises(UnstorableResult) as caught:
        free.declaration.encode_result(value)
    assert caught.value.path == path


@router.job("mixed")
async def mixed(first: int, second: int = 2, *, third: int, fourth: int = 4) -> None: ...


def test_a_call_is_bound_as_python_binds_it() -> None:
    declared = mixed.declaration
    good: list[tuple[tuple[int, ...], dict[str, int], dict[str, int]]] = [
        ((1,), {"third": 3}, {"first": 1, "third": 3}),
        ((), {"third": 3, "first": 1}, {"first": 1, "third": 3}),
        ((1, 5), {"third": 3, "fourth": 6}, {"first": 1, "second": 5, "third": 3, "fourth": 6}),
    ]
    for args, kwargs, arrives in good:
        assert declared.encode(args, kwargs).arguments == arrives
        assert msgspec.json.decode(declared.encode(args, kwargs).text) == arrives
    bad: list[tuple[tuple[int, ...], dict[str, int], str]] = [
        ((1,), {}, 'missing field "third"'),
        ((1, 2, 3), {"third": 3}, "takes at most 2 positional arguments, got 3"),
        ((1,), {"first": 1, "third": 3}, '"first" is given twice'),
        ((1,), {"third": 3, "fifth": 5}, 'unknown field "fifth"'),
    ]
    for args, kwargs, problem in bad:
        with pytest.raises(InvalidPayload, match=problem):
            declared.encode(args, kwargs)


def test_what_would_look_as_if_it_had_been_left_out_is_refused() -> None:
    """It is what an argument that was left out is told by, within."""
    unset: Any = msgspec.UNSET
    calls: list[Callable[[], object]] = [
        lambda: free.new(unset),
        lambda: mixed.new(1, unset, third=3),
        lambda: mixed.new(first=1, third=3, fourth=unset),
    ]
    for call in calls:
        with pytest.raises(InvalidPayload, match="UnsetType cannot be stored"):
            call()
