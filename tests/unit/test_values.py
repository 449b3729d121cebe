"""Values of every kind of class, as payload and as result: what is decoded equals what was sent, or it is refused."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest
from pydantic import (
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PrivateAttr,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
)

from asyncjobs import InvalidPayload, JobRouter, UnstorableResult
from asyncjobs.declare.definition import JobDefinition, TypeOptions
from asyncjobs.declare.payload import DEFAULT_DEPTH, ResultCodec

T = TypeVar("T")
HELSINKI = ZoneInfo("Europe/Helsinki")


class Card(BaseModel):
    number: str
    pin: SecretStr = SecretStr("")


class GoldCard(Card):
    limit: int = 0


class Excluding(BaseModel):
    number: str
    hidden: str = Field(default="", exclude=True)


class Rounding(BaseModel):
    price: float

    @field_serializer("price")
    def rounded(self, price: float) -> float:
        return round(price, 1)


class Cents(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def in_cents(cls, amount: int) -> int:
        return amount * 100


class Keeping(BaseModel):
    number: str
    _seen: int = PrivateAttr(default=0)


class Rich(BaseModel):
    model_config = ConfigDict(extra="allow")

    url: AnyHttpUrl
    at: datetime = Field(alias="madeAt")
    inner: "list[Card]" = []
    text: Json[list[int]] = []

    @computed_field
    def size(self) -> int:
        return len(self.inner)


class Boxed(BaseModel, Generic[T]):
    value: T


@dataclass
class Point:
    x: int
    pin: SecretStr | None = None
    note: str = field(default="", compare=False)


@dataclass
class Point3(Point):
    z: int = 0


@dataclass(eq=False)
class Alone:
    x: int


@dataclass
class Doubling:
    x: int

    def __post_init__(self) -> None:
        self.x *= 2


@attrs.define
class Bag:
    size: int
    _private: int = 0


@attrs.define
class LargeBag(Bag):
    label: str = ""


class Event(msgspec.Struct):
    kind: str
    at: datetime | None = None


class LateEvent(Event):
    by: float = 0.0


class Named(msgspec.Struct, rename="camel", omit_defaults=True):
    first_name: str = ""
    sizes: frozenset[int] = frozenset()


class Pair(NamedTuple):
    left: int
    right: Decimal


class Row(TypedDict):
    a: int


class Colour(Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 - an alias


class Size(StrEnum):
    LARGE = "large"


class Level(IntEnum):
    HIGH = 3


class Shape(NamedTuple):
    name: str
    hint: Any
    value: Any
    problem: str | None = None  # what is said of it; None: it arrives
    path: str = ""  # behind that of the value
    is_result: bool = True


ANOTHER = "would arrive: what is stored of it is not all of it"
INSTEAD = "would arrive as"
AT = datetime(2027, 1, 1, tzinfo=UTC)
HUSH = SecretStr("hush")
RICH = Rich.model_validate({"url": "https://a.example", "madeAt": AT, "text": "[1]", "more": {"a": 1}})
SHAPES = [
    # pydantic
    Shape("secret", SecretStr, HUSH, f"another SecretStr {ANOTHER}"),
    Shape("secret in a model", Card, Card(number="1", pin=HUSH), ANOTHER, ".pin"),
    Shape("secret in models in a list", list[Card], [Card(number="1"), Card(number="2", pin=HUSH)], ANOTHER, "[1].pin"),
    Shape("secret in a dict", dict[str, SecretStr], {"a": HUSH}, ANOTHER, ".a"),
    Shape("model without secrets", Card, Card(number="1")),
    Shape("excluded field", Excluding, Excluding(number="1", hidden="x"), "expected|another|got", ".hidden"),
    Shape("excluded field that says nothing", Excluding, Excluding(number="1")),
    Shape("lossy serializer", Rounding, Rounding(price=1.25), f"1.25 {INSTEAD} 1.2", ".price"),
    Shape("validator that is not idempotent", Cents, Cents(amount=3), f"300 {INSTEAD} 30000", ".amount"),
    Shape("subclass of a model", Card, GoldCard(number="1", limit=5), f"got GoldCard .it {INSTEAD} Card"),
    Shape("subclass of a model in a list", list[Card], [GoldCard(number="1")], f"got GoldCard .it {INSTEAD} Card", "[0]"),
    Shape("private attribute", Keeping, Keeping(number="1")),
    Shape("model of all kinds", Rich, RICH),
    Shape("root model", RootModel[list[int]], RootModel[list[int]]([1, 2])),
    Shape("generic model", Boxed[int], Boxed(value=1)),
    Shape("url", AnyHttpUrl, AnyHttpUrl("https://a.example/b?c")),
    # dataclasses
    Shape("dataclass", Point, Point(1, note="by me")),
    Shape("secret in a dataclass", Point, Point(1, HUSH), ANOTHER, ".pin"),
    Shape("subclass of a dataclass", Point, Point3(1, z=5), f"got Point3 .it {INSTEAD} Point"),
    Shape("dataclass without ==", Alone, Alone(1)),
    Shape("dataclass that changes what it is given", Doubling, Doubling(1), f"2 {INSTEAD} 4", ".x"),
    # attrs
    Shape("attrs", Bag, Bag(1)),
    Shape("private attribute of attrs", Bag, Bag(1, 5), f"5 {INSTEAD} 0", "._private"),
    Shape("subclass of attrs", Bag, LargeBag(1, label="x"), f"got LargeBag .it {INSTEAD} Bag"),
    # msgspec
    Shape("struct", Event, Event("a", AT)),
    Shape("subclass of a struct", Event, LateEvent("a", by=2.5), f"got LateEvent .it {INSTEAD} Event"),
    Shape("struct with other names", Named, Named("a", frozenset({1, 2}))),
    # other classes
    Shape("class where anything may be", Any, Event("a"), f"got Event .it {INSTEAD} dict"),
    Shape("named tuple", Pair, Pair(1, Decimal("1.50"))),
    Shape("named tuple where anything may be", Any, [Pair(1, Decimal(1))], f"got Pair .it {INSTEAD} list", "[0]"),
    Shape("typed dict with more", Row, {"a": 1, "extra": 2}, 'unknown field "extra"'),
    Shape("set where anything may be", Any, {1}, f"got set .it {INSTEAD} list"),
    Shape("list with the same twice, as a set", set[int], [1, 1], "the same value twice"),
    Shape("enum's alias", Colour, Colour.CRIMSON),
    Shape("enum where anything may be", Any, Colour.RED, f"got Colour .it {INSTEAD} str"),
    Shape("enum of text", str, Size.LARGE),
    Shape("enum of numbers", int, Level.HIGH),
    Shape("keys that are numbers", dict[int, str], {1: "a"}),
    Shape("keys that are numbers, where anything may be", Any, {1: "a"}, "the key 1 is an int"),
    Shape("ordered dict", dict[str, int], OrderedDict(b=1, a=2)),
    Shape("decimal with its scale", Decimal, Decimal("1.500")),
    Shape("decimal that is no number", Decimal, Decimal("NaN")),
    Shape("float that jsonb writes without an exponent", Any, 1e22),
    Shape("float that jsonb makes another number of", dict[str, Any], {"a": 1e23}, f"{INSTEAD} 100000000000000000000000", ".a"),
    Shape("the same with its type", float, 1e23),
    Shape("the same where it may be an int", int | float, 1e23, f"{INSTEAD} 100000000000000000000000"),
    Shape("text that looks like such a number", Any, '1e23 "1e23"'),
    Shape("negative zero", float, -0.0),
    Shape("datetime of another zone", datetime, datetime(2027, 7, 1, 12, tzinfo=HELSINKI)),
    Shape("datetime of the second three o'clock", datetime, datetime(2026, 10, 25, 3, 30, fold=1, tzinfo=HELSINKI)),
    Shape("offset with seconds", datetime, datetime(1900, 1, 1, tzinfo=timezone(timedelta(seconds=1172))), "another datetime"),
    Shape("datetime without a zone", datetime, datetime(2027, 1, 1), "without a time zone: use datetime.now.UTC.", "", False),  # noqa: DTZ001
    Shape("the same in a struct", list[Event], [Event("a", datetime(2027, 1, 1))], "without a time zone", "[0].at", False),  # noqa: DTZ001
    Shape("time of day", time, time(9)),
    Shape("time with a zone that needs a date", time, time(9, tzinfo=HELSINKI), "another time"),
    Shape("timedelta", timedelta, timedelta(days=-1, microseconds=1)),
    Shape("literal", Literal["a", 1], 1),
]


def handler_of(hint: Any) -> JobDefinition:
    def function(*, value: Any) -> Any:
        return value

    function.__annotations__ = {"value": hint, "return": hint}
    return JobDefinition("typed", function, TypeOptions(), declared_at="here")


def refused(call: Callable[[], object], error: type[InvalidPayload | UnstorableResult], shape: Shape, path: str) -> None:
    with pytest.raises(error, match=shape.problem) as caught:
        call()
    refusal: Any = caught.value
    assert refusal.path == path + shape.path
    assert "hush" not in str(refusal)


def exactly(value: Any) -> Any:
    """What `==` leaves out."""
    if isinstance(value, Alone):
        return Alone, value.x
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return (repr(value), "") if isinstance(value, (Point, Decimal)) else value


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_payload_arrives_as_it_was_sent_or_is_refused(shape: Shape) -> None:
    handler = handler_of(shape.hint)
    if shape.problem is None:
        arrived = handler.decode_payload(handler.encode((), {"value": shape.value}).text, 1)
        assert exactly(arrived["value"]) == exactly(shape.value)
    else:
        refused(lambda: handler.encode((), {"value": shape.value}), InvalidPayload, shape, "$.value")


@pytest.mark.parametrize("shape", [one for one in SHAPES if one.is_result], ids=lambda shape: shape.name)
def test_a_result_comes_back_as_it_was_returned_or_is_refused(shape: Shape) -> None:
    handler = handler_of(shape.hint)
    if shape.problem is None:
        assert exactly(handler.decode_result(handler.encode_result(shape.value))) == exactly(shape.value)
    else:
        refused(lambda: handler.encode_result(shape.value), UnstorableResult, shape, "$")


def test_a_result_that_is_not_what_its_handler_says_is_refused() -> None:
    with pytest.raises(UnstorableResult, match=r"expected str, got int"):
        handler_of(str).encode_result(5)


def test_private_state_that_would_be_lost_is_refused() -> None:
    model = Keeping(number="1")
    model._seen = 5
    with pytest.raises(InvalidPayload, match="its private attributes would not arrive") as caught:
        handler_of(list[Keeping]).encode((), {"value": [model]})
    assert caught.value.path == "$.value[0]"


router = JobRouter()


@router.job("by name")
async def by_name(  # noqa: PLR0917 - one field a kind
    card: Card | None = None,
    point: Point | None = None,
    at: datetime | None = None,
    colour: Colour = Colour.RED,
    sizes: frozenset[int] = frozenset(),
    scores: dict[int, Decimal] | None = None,
    named: Named | None = None,
) -> None: ...


def test_by_name_a_class_is_given_in_its_stored_form() -> None:
    given: dict[str, Any] = {
        "card": {"number": "1", "pin": "hush"},
        "point": {"x": 1},
        "at": "2027-01-01T00:00:00Z",
        "colour": "red",
        "sizes": [1, 2],
        "scores": {"1": "1.50"},
        "named": {"firstName": "a"},
    }
    arrived = by_name.declaration.encode((), given).arguments
    assert arrived["card"].pin.get_secret_value() == "hush"
    assert (arrived["at"], arrived["scores"], arrived["named"]) == (AT, {1: Decimal("1.50")}, Named("a"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"point": {"x": 1, "nte": "a"}}, r'unknown field "nte" - at \$\.point'),
        ({"named": {"first_name": "a"}}, r'unknown field "first_name" - at \$\.named'),
        ({"at": "2027-01-01T00:00:00"}, r"without a time zone: use datetime\.now\(UTC\) - at \$\.at"),
        ({"sizes": [1, 1]}, r"the same value twice, in a set - at \$\.sizes"),
    ],
)
def test_a_stored_form_of_which_something_would_be_lost_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPayload, match=problem):
        by_name.declaration.encode((), given)


def test_plain_payloads_are_not_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """`==` of what a decoder made is enough for them: a second look would be paid by each enqueue."""

    def never(*_args: object) -> None:
        raise AssertionError

    monkeypatch.setattr("asyncjobs.declare.payload.find_changed", never)
    monkeypatch.setattr("asyncjobs.declare.payload.find_naive", never)
    plain: list[tuple[Any, Any]] = [
        (str, "a"),
        (int | None, 5),
        (dict[str, list[float]], {"a": [1.5]}),
        (Any, {"a": [1, "1e2"]}),
        (Size, Size.LARGE),
    ]
    for hint, value in plain:
        assert handler_of(hint).encode((), {"value": value}).arguments == {"value": value}
    assert ResultCodec("typed", str).encode("a", max_depth=DEFAULT_DEPTH) == '"a"'
