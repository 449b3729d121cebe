"""Rows that differ by their payloads alone have a statement of their own: when it is sent, and what it writes."""

import json
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, cast

import asyncpg
import pytest

from asyncjobs.model.claim import FRONT
from asyncjobs.model.new_row import NewRow
from asyncjobs.store import jobs, plain, sequences
from asyncjobs.store.database import Connection, Database, Link
from tests.support.factories import a_row, insert, insert_job

#: One value of each column that rows may differ by.
OTHERS: dict[str, Any] = {
    "type": "other", "queue": "mail", "lane": "fast", "version": 3, "priority": 7, "max_attempts": 9, "timeout_seconds": 2.5,
    "run_at": datetime(2040, 2, 29, tzinfo=UTC), "delay_seconds": 60.0, "correlation_id": "c", "parent_job_id": 5,
    "created_by": "me", "dedup_key": "d", "serialization_key": "k", "on_dead": "halt", "trace_context": "00-1",
    "tags": ("a", "b"), "limit_key": "api",
    "keep_payload": False, "expires_seconds": 30.0,
}  # fmt: skip
#: What is not written, and what only matters for a row with a dedup key, or of a workflow.
NO_COLUMNS = {"payload", "notify", "dedup_for_seconds", "on_duplicate", "dedup_until", "at_most_seconds", "waits", "takes"}
KEYS = {"dedup_key", "serialization_key", "limit_key"}


class Told:
    """A link that only notes which statement was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.database = Database("postgresql://nowhere")

    async def fetch_often(self, name: str, *_args: object, timeout: float | None) -> list[dict[str, list[int]]]:
        del timeout
        self.sent.append(name)
        return [{"reserved": [], "later": [], "is_due": [True]}]

    async def fetch_row(self, name: str, *_args: object, timeout: float | None) -> dict[str, list[int]]:
        del timeout
        self.sent.append(name)
        return {"ids": [1, 2, 3]} | {
            column: [] for column in ("existing", "did", "refused", "statuses", "taken", "reserved", "later")
        }


async def sent_for(rows: Sequence[NewRow], *, tokens: Sequence[int] = (5, 5, 5), again: bool = False) -> list[str]:
    told = Told()
    await jobs.enqueue(cast("Link", told), rows, [1, 2, 3], tokens, again=again)
    return told.sent


def a_row_of(values: dict[str, Any]) -> NewRow:
    return a_row(values.get("type", "email"), **{name: value for name, value in values.items() if name != "type"})


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("test enqueue")
    yield made
    await made.close()


async def test_rows_that_differ_by_their_payloads_alone_have_a_statement_of_their_own() -> None:
    assert await sent_for([a_row(payload={"n": n}, notify=n == 1) for n in range(3)]) == ["enqueue_alike"]
    alike = {name: value for name, value in OTHERS.items() if name not in KEYS}
    assert await sent_for([a_row_of(alike)] * 3) == ["enqueue_alike"]


def test_each_column_of_a_row_is_one_that_rows_may_differ_by() -> None:
    assert set(NewRow.__struct_fields__) == OTHERS.keys() | NO_COLUMNS


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_one_row_that_differs_is_enough_for_another_statement(name: str, at: int) -> None:
    rows = [a_row() for _ in range(3)]
    rows[at] = a_row_of({name: OTHERS[name]})
    assert await sent_for(rows) == ["enqueue" if name in KEYS else "enqueue_plain"]


async def test_rows_that_differ_by_what_is_not_written_are_alike_and_by_more_are_not() -> None:
    assert await sent_for([a_row(notify=False), a_row(), a_row(notify=False)]) == ["enqueue_alike"]
    assert await sent_for([a_row(), a_row(notify=False, tags=("a",)), a_row()]) == ["enqueue_plain"]


@pytest.mark.parametrize("name", sorted(KEYS))
async def test_rows_with_keys_are_left_to_the_function_for_all(name: str) -> None:
    assert await sent_for([a_row_of({name: "k"})] * 3) == ["enqueue"]


async def test_rows_of_several_calls_and_rows_that_are_sent_again_are_not_alike() -> None:
    assert await sent_for([a_row()] * 3, tokens=[5, 6, 5]) == ["enqueue_plain"]
    assert await sent_for([a_row()] * 3, again=True) == ["enqueue"]


async def test_beyond_what_is_compared_at_a_time_rows_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MANY", 1)
    assert await sent_for([a_row()] * 3) == ["enqueue_alike"]
    assert await sent_for([a_row(), a_row(priority=1), a_row()]) == ["enqueue_plain"]


#: All of a row but what differs between any two calls; of instants how far they are from the call, or what was asked for.
WRITTEN = """
    SELECT to_jsonb(j) - '{id,place,enqueue_token,created_at,updated_at,run_at,scheduled_at,start_before}'::text[] AS row,
        updated_at = created_at, scheduled_at = run_at, start_before - run_at,
        CASE WHEN run_at BETWEEN '2026-01-01' AND '2035-01-01' THEN (run_at - created_at)::text ELSE run_at::text END
    FROM asyncjobs.jobs AS j WHERE id BETWEEN $1 AND $1 + 2 ORDER BY id
"""
VALUES: list[dict[str, Any]] = [
    {},
    {name: value for name, value in OTHERS.items() if name not in {"run_at", *KEYS}},
    {"run_at": OTHERS["run_at"]},
    {"run_at": datetime(2020, 1, 1, tzinfo=UTC)},
    {"delay_seconds": 0.0},
    {"type": "paused"},
    {"type": "paused", "delay_seconds": 60.0},
]


async def test_every_statement_writes_the_same(link: Link, connection: Connection) -> None:
    await insert(connection, "pauses", kind="type", name="paused")
    first = 0
    for values in VALUES:
        rows = [a_row_of(values | {"payload": json.dumps({"n": n, "text": 'ä "],[{'})}) for n in range(3)]
        written: list[list[tuple[Any, ...]]] = []
        for tokens, again in (([5, 5, 5], False), ([5, 6, 7], False), ([5, 5, 5], True)):
            first += 1000
            answer = await jobs.enqueue(link, rows, [first, first + 1, first + 2], tokens, again=again)
            assert [(one.id, one.created) for one in answer.enqueued] == [(first + at, True) for at in range(3)]
            kept = await connection.fetch("SELECT enqueue_token FROM asyncjobs.jobs WHERE id >= $1 ORDER BY place", first)
            assert [row["enqueue_token"] for row in kept] == tokens
            written.append([tuple(row) for row in await connection.fetch(WRITTEN, first)])
        first += 1000
        await jobs.enqueue(link, rows[:1], [first], [5])
        assert [tuple(row) for row in await connection.fetch(WRITTEN, first)] == written[0][:1], values
        assert written[0] == written[1] == written[2], values


async def test_ids_belong_to_rows_however_lists_are_cut(
    link: Link, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, characters in ((1000, 1 << 20), (2, 1 << 20), (3, 1 << 20), (1000, 16), (1000, 1)):
        monkeypatch.setattr(plain, "LIST", size)
        monkeypatch.setattr(plain, "_LIST_CHARACTERS", characters)
        for ids in ([1000 + n for n in range(7)], [1000 - 7 * n for n in range(7)]):
            answer = await jobs.enqueue(link, [a_row(payload={"n": n}) for n in range(7)], ids, [5] * 7, reserve=3)
            assert [one.id for one in answer.enqueued] == ids
            assert len(set(answer.reserved)) == 3
            found = await connection.fetch("DELETE FROM asyncjobs.jobs RETURNING id, place, (payload ->> 'n')::integer AS n")
            assert [row["id"] for row in sorted(found, key=itemgetter("n"))] == ids, (size, characters)
            assert [row["id"] for row in sorted(found, key=itemgetter("place"))] == ids, (size, characters)


async def test_a_list_has_the_places_that_lead_up_to_the_one_it_draws(
    link: Link, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = await connection.fetchval(
        "SELECT seqincrement FROM pg_catalog.pg_sequence WHERE seqrelid = 'asyncjobs.place_seq'::regclass"
    )
    assert apart >= plain.LIST
    monkeypatch.setattr(plain, "LIST", 2)
    await jobs.enqueue(link, [a_row()], [1], [5])
    await jobs.enqueue(link, [a_row(payload={"n": n}) for n in range(5)], [2, 3, 4, 5, 6], [5] * 5)
    await jobs.enqueue(link, [a_row()], [7], [5])
    first, *drawn, last = [row["place"] for row in await connection.fetch("SELECT place FROM asyncjobs.jobs ORDER BY id")]
    assert [place - first for place in drawn] == [apart - 1, apart, 2 * apart - 1, 2 * apart, 3 * apart]
    assert last - first == 4 * apart
    moved = await sequences.move_on(link, surely=True)
    assert "place_seq" not in [one.name for one in moved]  # no row is beyond what was drawn


async def test_places_of_the_first_list_of_all_come_behind_the_front(link: Link, connection: Connection) -> None:
    await jobs.enqueue(link, [a_row()] * plain.LIST, range(1, plain.LIST + 1), [5] * plain.LIST)
    assert await connection.fetchval("SELECT min(place) FROM asyncjobs.jobs") > FRONT[1]


async def test_a_payload_that_is_none_writes_nothing(link: Link, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in ("{", "", "1,2", "1],[2"):
        with pytest.raises((asyncpg.DataError, asyncpg.NotNullViolationError)):
            await jobs.enqueue(link, [a_row(), a_row(payload=bad), a_row()], [1, 2, 3], [5] * 3)
    monkeypatch.setattr(plain, "LIST", 1)
    with pytest.raises(asyncpg.NotNullViolationError):  # a list of nothing
        await jobs.enqueue(link, [a_row(), a_row(payload="")], [1, 2], [5] * 2)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 0


async def test_an_id_that_another_job_has_makes_the_call_fail_as_one_to_be_made_again(link: Link, connection: Connection) -> None:
    await insert_job(connection, id=2)
    with pytest.raises(asyncpg.SerializationError):
        await jobs.enqueue(link, [a_row()] * 3, [1, 2, 3], [5] * 3)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1


@pytest.mark.parametrize(
    ("rows", "begins"),
    [
        ([a_row()], "%INSERT INTO%.jobs (%VALUES%"),
        ([a_row()] * 3, "%WITH due AS%INSERT INTO%"),
        ([a_row(), a_row(priority=1)], "%WITH written AS%INSERT INTO%"),
    ],
    ids=["one", "alike", "plain"],
)
async def test_the_server_keeps_a_plan_instead_of_making_one_for_each_call(link: Link, rows: list[NewRow], begins: str) -> None:
    for call in range(12):
        await jobs.enqueue(link, rows, [1000 + 10 * call + at for at in range(len(rows))], [5] * len(rows), reserve=7)
    connection = await link.connection()
    plans = await connection.fetchrow(
        "SELECT custom_plans, generic_plans FROM pg_catalog.pg_prepared_statements WHERE statement LIKE $1", begins
    )
    assert plans is not None
    assert tuple(plans) == (5, 7)  # it looks at five before it decides
