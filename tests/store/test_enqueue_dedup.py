"""Dedup keys: who gets one, what happens to the others, and when it is free again.

`on_duplicate` has no "earliest" and there is no debounce with a longest wait: `replace` with a delay is what there is.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.store import callers, jobs, runners, serialized
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.testing.clock import MovableClock
from tests.support.backends import waits_for_lock
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row, insert, insert_job
from tests.support.rows import each

TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
LATER = TOMORROW + timedelta(days=1)


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("test enqueue")
    await made.connection()
    yield made
    await made.close()


async def write(link: Link, rows: Sequence[NewRow]) -> jobs.EnqueueAnswer:
    ids = await jobs.reserve_ids(link, len(rows))
    return await jobs.enqueue(link, rows, ids, [-number for number in ids])


async def look(connection: Connection, job_id: int) -> tuple[str, str, datetime | None]:
    """Status, payload and time of a job, wherever it is."""
    row = await connection.fetchrow(
        """
        SELECT j.status, j.payload ->> 'n' AS n, j.run_at FROM asyncjobs.jobs AS j
        WHERE j.id = $1
        """,
        job_id,
    )
    assert row is not None
    return row["status"], row["n"], row["run_at"] if row["run_at"] > datetime.now(UTC) else None


class Case(NamedTuple):
    """A job with the dedup key is there already; another is enqueued. What is the first like afterwards?"""

    first: dict[str, Any]
    then: str | None  # SQL that makes of the first what it is to be
    second: dict[str, Any]
    expected: tuple[str, str, datetime | None]


STARTED = "UPDATE asyncjobs.jobs SET status = 'processing', attempts = 1, started_at = now(), runner_id = 1, claim_token = 1"
FAILED = "UPDATE asyncjobs.jobs SET status = 'failed', attempts = 1, started_at = now(), run_at = now()"
SNOOZED = "UPDATE asyncjobs.jobs SET status = 'scheduled', started_at = now(), snoozes = 1"
ENDED = """
    UPDATE asyncjobs.dedup_keys SET live = false, expires_at = now() + interval '1 day';
    UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), attempts = 1, started_at = now();
"""
PAUSE = "INSERT INTO asyncjobs.pauses (kind, name) VALUES ('type', 'email')"
PAUSED = PAUSE + "; UPDATE asyncjobs.jobs SET status = 'paused'"
RETURN: dict[str, Any] = {"on_duplicate": "return"}
REPLACE: dict[str, Any] = {"on_duplicate": "replace"}
KEYED: dict[str, Any] = {"serialization_key": "k"}
HEAD = "before"  # put another job of the key in front

CASES = {
    # what is due tomorrow, and the same key now or later
    "scheduled, return now": Case({"run_at": TOMORROW}, None, RETURN, ("scheduled", "1", TOMORROW)),
    "scheduled, return later": Case({"run_at": TOMORROW}, None, RETURN | {"run_at": LATER}, ("scheduled", "1", TOMORROW)),
    "scheduled, replace now": Case({"run_at": TOMORROW}, None, REPLACE, ("pending", "2", None)),
    "scheduled, replace later": Case({"run_at": TOMORROW}, None, REPLACE | {"run_at": LATER}, ("scheduled", "2", LATER)),
    "scheduled, replace now, paused": Case({"run_at": TOMORROW}, PAUSE, REPLACE, ("paused", "2", None)),
    "pending, return": Case({}, None, RETURN, ("pending", "1", None)),
    "pending, replace now": Case({}, None, REPLACE, ("pending", "2", None)),
    "pending, replace later": Case({}, None, REPLACE | {"run_at": LATER}, ("scheduled", "2", LATER)),
    "paused, replace now": Case({}, PAUSED, REPLACE, ("paused", "2", None)),
    "paused, replace later": Case({}, PAUSED, REPLACE | {"run_at": LATER}, ("scheduled", "2", LATER)),
    # what has started stays as it is
    "processing, replace": Case({}, STARTED, REPLACE | {"run_at": LATER}, ("processing", "1", None)),
    "failed, replace": Case({}, FAILED, REPLACE | {"run_at": LATER}, ("failed", "1", None)),
    "snoozed, replace": Case({"run_at": TOMORROW}, SNOOZED, REPLACE, ("scheduled", "1", TOMORROW)),
    "ended and not expired, replace": Case({"dedup_for_seconds": 60.0}, ENDED, REPLACE, ("completed", "1", None)),
    # with a serialization key
    "head, return": Case(KEYED, None, RETURN, ("pending", "1", None)),
    "head, replace now": Case(KEYED, None, REPLACE, ("pending", "2", None)),
    "head, replace later": Case(KEYED, None, REPLACE | {"run_at": LATER}, ("scheduled", "2", LATER)),
    "head processing, replace": Case(KEYED, STARTED, REPLACE | {"run_at": LATER}, ("processing", "1", None)),
    "waiting, return": Case(KEYED, HEAD, RETURN, ("waiting", "1", None)),
    "waiting, replace now": Case(KEYED, HEAD, REPLACE, ("waiting", "2", None)),
    "waiting, replace later": Case(KEYED, HEAD, REPLACE | {"run_at": LATER}, ("scheduled", "2", LATER)),
    "delayed, replace later": Case(KEYED | {"run_at": TOMORROW}, None, REPLACE | {"run_at": LATER}, ("scheduled", "2", LATER)),
    "delayed, replace now": Case(KEYED | {"run_at": TOMORROW}, None, REPLACE, ("scheduled", "2", None)),  # a promoter's to do
}


@pytest.mark.unaudited("rows are processing without a runner")
@pytest.mark.parametrize("way", ["own", "caller"])
@each("name", CASES, audited=False)
async def test_what_a_second_enqueue_does_to_the_first(
    name: str, way: str, link: Link, database: Database, connection: Connection
) -> None:
    case = CASES[name]
    if case.then == HEAD:
        await write(link, [a_row(serialization_key="k")])
    (first,) = (await write(link, [a_row(dedup_key="d", payload={"n": 1}, **case.first)])).enqueued
    if case.then not in {None, HEAD}:
        await connection.execute(str(case.then))
    keyed = {"serialization_key": "k"} if "serialization_key" in case.first else {}
    second = a_row(dedup_key="d", payload={"n": 2}, **keyed, **case.second)
    if way == "own":
        answer = await write(link, [second])
    else:
        async with connection.transaction():
            answer = await callers.enqueue(connection, database, [second], [5])
    assert (answer.refused, answer.enqueued[0].id, answer.enqueued[0].created) == ([], first.id, False)
    assert await look(connection, first.id) == case.expected
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.replacements") == 0


async def test_replacing_takes_the_version_along_with_the_payload(link: Link, connection: Connection) -> None:
    keyed = [a_row(dedup_key="k", serialization_key="k"), a_row(dedup_key="w", serialization_key="k")]
    await write(link, [a_row(dedup_key="d"), *keyed])
    again = {"version": 2, "payload": '{"n": 2}', "on_duplicate": "replace"}
    await write(link, [a_row(dedup_key="d", **again)])
    await write(link, [a_row(dedup_key=name, serialization_key="k", **again) for name in "kw"])
    versions = "SELECT DISTINCT version, payload ->> 'n' AS n FROM asyncjobs.jobs"
    assert [tuple(row) for row in await connection.fetch(versions)] == [(2, "2")]


async def test_replacing_a_head_by_a_later_one_lets_its_key_go_on(link: Link, connection: Connection) -> None:
    (first,) = (await write(link, [a_row(dedup_key="d", serialization_key="k")])).enqueued
    (second,) = (await write(link, [a_row(serialization_key="k")])).enqueued
    heard: list[str] = []
    await connection.add_listener(link.database.channel, lambda *args: heard.append(str(args[-1])))
    later = a_row(dedup_key="d", serialization_key="k", on_duplicate="replace", run_at=LATER)
    await write(link, [later])
    assert (await look(connection, first.id))[::2] == ("scheduled", LATER)
    assert (await look(connection, second.id))[0] == "pending"
    assert await connection.fetchval("SELECT array_agg(id) FROM asyncjobs.serialized_jobs") == [second.id]
    await eventually(lambda: heard == ["f:default"], description="the queue of the next head is notified")


async def test_replacing_keeps_the_place_of_a_waiting_job(link: Link, connection: Connection) -> None:
    await write(link, [a_row(serialization_key="k", dedup_key=str(n)) for n in range(3)])
    places = await connection.fetch("SELECT id, place FROM asyncjobs.serialized_jobs ORDER BY id")
    await write(link, [a_row(serialization_key="k", dedup_key=str(n), on_duplicate="replace") for n in (2, 1, 0)])
    assert await connection.fetch("SELECT id, place FROM asyncjobs.serialized_jobs ORDER BY id") == places


@pytest.mark.parametrize("first_key", [None, "k", "waiting"])
@pytest.mark.parametrize("second_key", [None, "other"])
async def test_replacing_does_not_move_a_job_to_another_line(
    link: Link, connection: Connection, first_key: str | None, second_key: str | None
) -> None:
    if first_key == "waiting":
        await write(link, [a_row(serialization_key="waiting")])
    (first,) = (await write(link, [a_row(dedup_key="d", payload={"n": 1}, serialization_key=first_key)])).enqueued
    second = a_row(dedup_key="d", payload={"n": 2}, serialization_key=second_key, on_duplicate="replace")
    answer = await write(link, [a_row(payload={"n": 3}), second])
    moves = first_key != second_key
    assert [one.at for one in answer.refused] == ([1] if moves else [])
    assert (await look(connection, first.id))[1] == ("1" if moves else "2")
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE payload ->> 'n' = '3'") == (0 if moves else 1)


async def test_a_later_row_of_the_same_call_replaces_the_earlier(link: Link, connection: Connection) -> None:
    rows = [
        a_row(payload={"n": 0}),
        a_row(dedup_key="d", payload={"n": 1}),
        a_row(dedup_key="d", payload={"n": 2}, on_duplicate="replace", run_at=LATER, version=2),
        a_row(dedup_key="k", payload={"n": 3}, serialization_key="k"),
        a_row(dedup_key="k", payload={"n": 4}, serialization_key="k", on_duplicate="replace"),
        a_row(dedup_key="d", payload={"n": 5}),
    ]
    enqueued = (await write(link, rows)).enqueued
    assert [one.created for one in enqueued] == [True, True, False, True, False, False]
    assert enqueued[1].id == enqueued[2].id == enqueued[5].id
    assert await look(connection, enqueued[1].id) == ("scheduled", "2", LATER)
    assert await look(connection, enqueued[3].id) == ("pending", "4", None)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 3


async def test_raise_refuses_the_whole_call_and_leaves_no_key_behind(link: Link, connection: Connection) -> None:
    await write(link, [a_row(dedup_key="b")])
    rows = [a_row(dedup_key="a"), a_row(dedup_key="b", on_duplicate="raise"), a_row(dedup_key="c", serialization_key="k")]
    answer = await write(link, rows)
    assert [(one.at, one.status) for one in answer.refused] == [(1, "pending")]
    assert await connection.fetchval("SELECT array_agg(dedup_key) FROM asyncjobs.dedup_keys") == ["b"]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1


async def test_raise_says_when_another_row_of_the_call_was_first(link: Link) -> None:
    rows = [a_row(dedup_key="a", on_duplicate="raise"), a_row(dedup_key="a", on_duplicate="raise")]
    assert [(one.at, one.status) for one in (await write(link, rows)).refused] == [(1, None)]


async def test_a_refused_call_does_not_free_a_key_whose_job_was_pruned(link: Link, connection: Connection) -> None:
    await write(link, [a_row(dedup_key="d", dedup_for_seconds=3600.0)])
    await connection.execute("UPDATE asyncjobs.dedup_keys SET live = false; DELETE FROM asyncjobs.jobs")
    answer = await write(link, [a_row(dedup_key="d", on_duplicate="raise")])
    assert [one.status for one in answer.refused] == ["gone"]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 1


async def test_types_have_dedup_keys_of_their_own(link: Link) -> None:
    answer = await write(link, [a_row("a", dedup_key="d"), a_row("b", dedup_key="d")])
    assert [one.created for one in answer.enqueued] == [True, True]


async def ack(link: Link, job_id: int, kind: OutcomeKind) -> None:
    """End the attempt that STARTED began."""
    outcome = Outcome(kind=kind, message="m", error={"message": "m"} if kind == "dead" else None)
    answer = await jobs.finish(link, 1, [Ack(job_id, 1, outcome)], [], [], suspects=[], token_base=0, token_seq=0, max_errors=10)
    assert answer.lost == []


async def complete_in_transaction(link: Link, job_id: int) -> None:
    await link.fetch("complete_in_transaction", str(job_id), "1", None, None, None, "false")
    assert await jobs.verify_completed(link, job_id, 1) is not None


async def die_with_the_runner(link: Link, job_id: int) -> None:
    await (await link.connection()).execute("UPDATE asyncjobs.jobs SET max_attempts = 1")
    assert job_id in (await runners.rescue(link, 10, max_errors=10)).dead


async def cancel_pending(link: Link, job_id: int) -> None:
    await (await link.connection()).execute(
        "UPDATE asyncjobs.jobs SET status = 'pending', attempts = 0, runner_id = NULL, claim_token = NULL"
    )
    await serialized.cancel(link, job_id, "m")


ENDS: dict[str, Callable[[Link, int], Coroutine[Any, Any, None]]] = {
    "completed": lambda link, job_id: ack(link, job_id, "completed"),
    "dead": lambda link, job_id: ack(link, job_id, "dead"),
    "cancelled by its handler": lambda link, job_id: ack(link, job_id, "cancel"),
    "completed in its handler's transaction": complete_in_transaction,
    "dead with its runner": die_with_the_runner,
    "cancelled by an operator": cancel_pending,
}


@pytest.mark.parametrize("key", [None, "k"])
@each("end", ENDS)
async def test_the_end_of_a_job_frees_its_key(link: Link, connection: Connection, end: str, key: str | None) -> None:
    (first,) = (await write(link, [a_row(dedup_key="d", serialization_key=key)])).enqueued
    await connection.execute(STARTED)
    assert not (await write(link, [a_row(dedup_key="d", serialization_key=key)])).enqueued[0].created
    await ENDS[end](link, first.id)
    (second,) = (await write(link, [a_row(dedup_key="d", serialization_key=key)])).enqueued
    assert second.created


async def test_a_waiting_job_that_is_cancelled_frees_its_key(link: Link) -> None:
    rows = [a_row(serialization_key="k"), a_row(dedup_key="d", serialization_key="k")]
    waiting = (await write(link, rows)).enqueued[1]
    await serialized.cancel(link, waiting.id, "m")
    assert (await write(link, [a_row(dedup_key="d", serialization_key="k")])).enqueued[0].created


@pytest.mark.parametrize("kind", ["retry", "snooze", "interrupted"])
async def test_a_job_that_is_not_over_keeps_its_key(link: Link, connection: Connection, kind: OutcomeKind) -> None:
    (first,) = (await write(link, [a_row(dedup_key="d")])).enqueued
    await connection.execute(STARTED)
    await ack(link, first.id, kind)
    assert not (await write(link, [a_row(dedup_key="d")])).enqueued[0].created


async def test_dedup_for_keeps_the_key_until_then_and_a_longer_job_until_it_ends(database: Database, link: Link) -> None:
    async with MovableClock(database) as clock:
        (first,) = (await write(link, [a_row(dedup_key="d", dedup_for_seconds=60.0)])).enqueued
        connection = await link.connection()

        async def enqueue() -> bool:
            return (await write(link, [a_row(dedup_key="d", dedup_for_seconds=60.0)])).enqueued[0].created

        await clock.advance(61)
        assert not await enqueue(), "it is live still"
        await clock.advance(-30)
        await connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = asyncjobs.clock();"
            f"SELECT asyncjobs.end_dedup(ARRAY[{first.id}::bigint])"
        )
        assert not await enqueue(), "it has ended, but not 60 s ago"
        await clock.advance(30)
        assert await enqueue()
        assert not await enqueue()


async def test_a_winner_that_commits_is_seen_by_the_waiter_and_one_that_rolls_back_leaves_the_key(
    link: Link, connection: Connection, database: Database
) -> None:
    for commits in (True, False):
        row = a_row(dedup_key=f"d{commits}")
        transaction = connection.transaction()
        await transaction.start()
        winner = (await callers.enqueue(connection, database, [row], [1])).enqueued[0]
        waiter = asyncio.create_task(write(link, [row]))
        await waits_for_lock(link, connection)
        await (transaction.commit() if commits else transaction.rollback())
        (enqueued,) = (await waiter).enqueued
        assert enqueued.created is not commits
        assert (enqueued.id == winner.id) is commits
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE id = $1", enqueued.id) == 1


async def test_a_duplicate_in_an_open_transaction_does_not_hold_up_the_end_of_the_job(
    link: Link, connection: Connection, database: Database
) -> None:
    for on_duplicate in ("return", "raise", "replace"):
        await write(link, [a_row(serialization_key="k"), a_row(serialization_key="k", dedup_key="w")])
        (first,) = (await write(link, [a_row(dedup_key="d")])).enqueued
        await connection.execute(STARTED + " WHERE status = 'pending'")
        head = await connection.fetchval("SELECT min(id) FROM asyncjobs.jobs WHERE status = 'processing'")
        async with connection.transaction():
            row = a_row(dedup_key="d", on_duplicate=on_duplicate)
            waiting = a_row(dedup_key="w", serialization_key="k", on_duplicate=on_duplicate)
            await callers.enqueue(connection, database, [row], [1])
            await callers.enqueue(connection, database, [waiting], [1])
            async with patience(2):
                outcome = Outcome(kind="completed")
                acks = [Ack(job_id, 1, outcome) for job_id in (first.id, head)]
                await jobs.finish(link, 1, acks, [], [], suspects=[], token_base=0, token_seq=0, max_errors=10)
        await connection.execute(
            "DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.jobs; DELETE FROM asyncjobs.dedup_keys"
        )


async def test_a_hundred_at_once_make_one_job(database: Database, connection: Connection) -> None:
    links = [database.link(f"test {number}") for number in range(10)]
    answers = await asyncio.gather(*(write(link, [a_row(dedup_key="d") for _ in range(10)]) for link in links))
    enqueued = [one for answer in answers for one in answer.enqueued]
    assert sum(one.created for one in enqueued) == 1
    assert len({one.id for one in enqueued}) == 1
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1
    for link in links:
        await link.close()


async def test_a_key_that_is_taken_again_and_again_leaves_no_rows_behind(link: Link, connection: Connection) -> None:
    """A duplicate writes nothing: no dead rows, however often it is enqueued."""
    await insert_job(connection, dedup_key="d", id=1 << 40)
    await insert(connection, "dedup_keys", type="email", dedup_key="d", job_id=1 << 40)
    size = "SELECT pg_relation_size('asyncjobs.dedup_keys') + pg_relation_size('asyncjobs.jobs')"
    before = await connection.fetchval(size)
    for _ in range(5):
        await write(link, [a_row(dedup_key="d") for _ in range(200)])
    assert await connection.fetchval(size) == before


async def test_dedup_keys_are_compared_as_they_were_written(link: Link) -> None:
    keys = ["é", "e\u0301", "E", "e", "1", "1.0", "01", " 1", "true", "\u212b", "Å", "ß", "ss"]
    answer = await write(link, [a_row(dedup_key=key) for key in keys])
    assert [one.created for one in answer.enqueued] == [True] * len(keys)
    again = await write(link, [a_row(dedup_key=key) for key in keys])
    assert [one.id for one in again.enqueued] == [one.id for one in answer.enqueued]
