"""notify=False: nothing is notified from there to the end of the caller's transaction, so it can be prepared."""

from typing import Any

import pytest

from asyncjobs.store import serialized
from tests.support.notices import without_lot
from tests.support.peers import Isolation, Peers

ISOLATIONS: list[Isolation] = ["read_committed", "repeatable_read", "serializable"]
LATER: dict[str, Any] = {"on_duplicate": "replace", "delay_seconds": 3600.0}

#: What would notify: rows that are due, due soon, replaced; at the commit a key that is left to a serializer, and a next head.
ROWS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "plain": (None, {}),
    "due soon": (None, {"delay_seconds": 1.0}),
    "dedup": (None, {"dedup_key": "d"}),
    "keyed": ("k", {}),
    "head that is replaced": ("h", {"dedup_key": "h", **LATER}),
    "job that is replaced": (None, {"dedup_key": "p", **LATER}),
}


@pytest.fixture
async def heard(pair: Peers) -> list[str]:
    """What was notified, once jobs are there that can be replaced."""
    for key, dedup_key in (("h", "h"), ("h", None), (None, "p")):
        await pair.b.enqueue(key, dedup_key=dedup_key)
    found: list[str] = []
    await pair.admin.add_listener(pair.database.channel, lambda *args: found.append(without_lot(args[3])))
    return found


async def carry_out(pair: Peers) -> None:
    """What a serializer does with the keys that transactions of higher levels leave to it."""
    found = await serialized.sweep(pair.b.link, "", 0)
    for key, numbers in found.requests.items():
        await serialized.advance(pair.b.link, [key], numbers)


async def drained(pair: Peers) -> int:
    """How many jobs ran when all of them were due."""
    await pair.promote()
    return len(await pair.drain())


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("row", ROWS)
async def test_transaction_can_be_prepared_whatever_was_enqueued(
    pair: Peers, heard: list[str], row: str, isolation: Isolation
) -> None:
    key, fields = ROWS[row]
    connection = await pair.a.link.connection()
    assert await connection.fetchval("SHOW max_prepared_transactions") != "0", "the tests' server does not allow it"
    await connection.execute(f"BEGIN ISOLATION LEVEL {isolation.replace('_', ' ')}")
    await pair.a.enqueue_in_transaction(key, notify=False, **fields)
    await connection.execute("PREPARE TRANSACTION 'jobs'")
    await connection.execute("COMMIT PREPARED 'jobs'")
    await pair.admin.fetchval("SELECT 1")
    assert heard == []
    await carry_out(pair)
    assert await drained(pair) == (3 if "replaced" in row else 4)


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_later_enqueues_of_the_transaction_notify_nobody_either(
    pair: Peers, heard: list[str], isolation: Isolation
) -> None:
    await pair.a.begin(isolation)
    await pair.a.enqueue_in_transaction("k", notify=False)
    await pair.a.enqueue_in_transaction("l")
    await pair.a.enqueue_in_transaction(None)
    await pair.a.commit()
    await pair.admin.fetchval("SELECT 1")
    assert heard == []
    await carry_out(pair)
    assert await drained(pair) == 6


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_it_ends_with_the_transaction_and_with_a_savepoint(pair: Peers, heard: list[str], isolation: Isolation) -> None:
    await pair.a.begin(isolation)
    await pair.a.enqueue_in_transaction("k", notify=False)
    await pair.a.commit()
    await carry_out(pair)
    assert heard == []
    connection = await pair.a.link.connection()
    await pair.a.begin(isolation)
    await connection.execute("SAVEPOINT s")
    await pair.a.enqueue_in_transaction("k", notify=False)
    await connection.execute("ROLLBACK TO s")
    await pair.a.enqueue_in_transaction("l")
    await pair.a.commit()
    await pair.admin.fetchval("SELECT 1")
    assert heard == (["q:default"] if isolation == "read_committed" else ["q:default", "k"])
    await carry_out(pair)
    assert await drained(pair) == 5
