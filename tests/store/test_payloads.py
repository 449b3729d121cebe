"""What jsonb makes of a payload: whatever is sent comes back from the table as it was, or is refused before."""

import contextlib
import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncjobs import InvalidPayload, JobRouter
from asyncjobs.declare.payload import ResultCodec
from asyncjobs.store.database import Connection

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
# Those that are larger are written without a fraction, as a whole number with the same digits: see below.
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
FREE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(-(2.0**53), 2.0**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
router = JobRouter()


@router.job("free")
async def free(*, value: Any, ratios: list[float]) -> None: ...


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Examples to be sent together: a statement each would take minutes."""
    found: list[Any] = []

    @settings(max_examples=count, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


async def through_jsonb(connection: Connection, texts: list[str]) -> list[str]:
    rows = await connection.fetch(
        "SELECT sent::jsonb::text AS got FROM unnest($1::text[]) WITH ORDINALITY AS t (sent, n) ORDER BY n", texts
    )
    return [row["got"] for row in rows]


async def test_payloads_come_back_from_the_table_as_they_were_sent(connection: Connection) -> None:
    sent = drawn(st.fixed_dictionaries({"value": FREE, "ratios": st.lists(FLOATS, max_size=5)}), 300)
    stored = await through_jsonb(connection, [free.new(**fields).row.payload for fields in sent])
    for fields, text in zip(sent, stored, strict=True):
        assert free.declaration.decode_payload(text, 1) == fields


async def test_large_floats_without_a_type_come_back_equal_or_are_refused(connection: Connection) -> None:
    sent: list[float] = [1e22, *drawn(st.floats(2.0**53, 1e300) | st.floats(-1e300, -(2.0**53)), 200)]
    taken: list[tuple[float, str]] = []
    for value in sent:
        with contextlib.suppress(InvalidPayload):
            taken.append((value, free.new(value=value, ratios=[value]).row.payload))
    assert taken
    stored = await through_jsonb(connection, [text for _value, text in taken])
    assert [free.declaration.decode_payload(text, 1)["value"] for text in stored] == [value for value, _text in taken]


async def test_results_come_back_from_the_table_as_they_were_returned(connection: Connection) -> None:
    codec = ResultCodec("free", dict[str, float])
    sent = drawn(st.dictionaries(TEXT, FLOATS, min_size=1), 200)
    stored = await through_jsonb(connection, [codec.encode(value) or "" for value in sent])
    assert [codec.decode(text) for text in stored] == sent


async def test_the_deepest_payload_and_the_longest_number_that_are_taken_fit_into_jsonb(connection: Connection) -> None:
    deep: Any = 1
    for _ in range(199):
        deep = [deep]
    for value in (deep, 10**4299, -(10**4298), math.ulp(0.0)):
        (text,) = await through_jsonb(connection, [free.new(value=value, ratios=[]).row.payload])
        assert free.declaration.decode_payload(text, 1)["value"] == value
