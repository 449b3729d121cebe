"""Enqueues while the sequence of ids is behind its rows: each has its answer soon, and an id of its own."""

import time
from typing import Any

import pytest

from asyncjobs.errors import EnqueueError
from asyncjobs.model.new_row import Enqueued
from asyncjobs.store import sequences
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import SequenceMoved
from tests.support.enqueuing import enqueuing
from tests.support.factories import a_row
from tests.support.sequences import fill, reset_sequences

pytestmark = pytest.mark.unaudited("rows are made by hand, and sequences reset")
KINDS: dict[str, dict[str, Any]] = {"plain": {}, "keyed": {"serialization_key": "k"}, "dedup": {"dedup_key": "d"}}


@pytest.mark.parametrize("count", [3_000, pytest.param(1_000_000, marks=pytest.mark.proof)])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_enqueue_answers_within_two_seconds_with_rows_ahead_of_the_sequence(
    database: Database, connection: Connection, kind: str, count: int
) -> None:
    async with enqueuing(database) as line:
        await line.enqueue(a_row(**KINDS[kind] | {"dedup_key": "another" if kind == "dedup" else None}))
        await connection.execute("DELETE FROM asyncjobs.jobs")
        await fill(connection, count)
        await reset_sequences(connection)
        line.enqueuer._lines[kind].sender._ids._blocks.clear()  # they are a second old
        told: list[SequenceMoved] = []
        line.events.subscribe(lambda event: told.append(event) if isinstance(event, SequenceMoved) else None)
        began = time.monotonic()
        enqueued = await line.enqueue(a_row(**KINDS[kind]))
        assert time.monotonic() - began < 2.0
        assert enqueued.id > count
        assert told[0].name == "jobs_id_seq"


async def test_many_rows_and_many_callers_all_get_ids_of_their_own(database: Database, connection: Connection) -> None:
    await fill(connection, 3_000)
    async with enqueuing(database) as line:
        await line.enqueuer.enqueue_many([a_row()] * 2)
        await reset_sequences(connection)
        for sender in line.enqueuer._many.values():
            sender._ids._blocks.clear()
        many = await line.enqueuer.enqueue_many([a_row(serialization_key="k")] * 200)
        await reset_sequences(connection)
        each = await line.gather([a_row(payload={"n": n}) for n in range(200)])
    ids = [one.id for one in (*many, *each) if isinstance(one, Enqueued)]
    assert len(set(ids)) == 400
    assert min(ids) > 3_000


async def test_a_new_connection_looks_before_it_draws_an_id(database: Database, connection: Connection) -> None:
    """What has the id may wait in the other table, where the INSERT would not meet it."""
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (id, serialization_key, type, enqueue_token, status) "
        "SELECT n, 'k', 'email', n, 'waiting' FROM generate_series(1, 50) AS n"
    )
    await reset_sequences(connection)
    async with enqueuing(database) as line:
        assert (await line.enqueue(a_row())).id > 50


async def test_a_sequence_that_cannot_be_moved_on_is_named(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object, surely: bool) -> list[sequences.Moved]:
        del surely
        return []

    monkeypatch.setattr(sequences, "move_on", nothing)
    await fill(connection, 500)
    await reset_sequences(connection)
    async with enqueuing(database) as line:
        with pytest.raises(EnqueueError, match=r"jobs_id_seq .* asyncjobs\.move_sequences"):
            await line.enqueue(a_row(serialization_key="k"))
