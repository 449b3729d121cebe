"""What is told about keys and their lines."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store import serialized
from asyncjobs.store.database import Database
from tests.support.holding import pause_key
from tests.support.peers import Peers, peers


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


async def test_state_of_keys_is_told(world: Peers) -> None:
    await world.a.enqueue(on_dead="halt")
    await world.a.ack(await world.a.claim_one(), "dead", message="no")
    await world.a.enqueue(times=2)
    await world.a.enqueue("b")
    await world.b.claim_one()
    await pause_key(world.a.link, "c", "busy", "me")
    await world.a.enqueue("c")
    await world.a.enqueue("d")
    await world.b.ack(await world.b.claim_one(), "retry", delay_seconds=60.0)
    states = {state.key: state for state in await serialized.keys(world.a.link, "", 10)}
    assert list(states) == ["b", "c", "d", "k"]
    told = {key: (state.depth, state.head_status, state.blocked) for key, state in states.items()}
    head = states["k"].head_id
    assert told == {
        "b": (1, "processing", None),
        "c": (1, "waiting", "paused: busy"),
        "d": (1, "failed", f"job {states['d'].head_id} failed and is to be retried"),
        "k": (3, "dead", f"halted by job {head}: no"),
    }
    assert states["b"].runner_id == 2


async def test_keys_are_paged_by_name(world: Peers) -> None:
    for key in ("b", "a", "c"):
        await world.a.enqueue(key)
    assert [state.key for state in await serialized.keys(world.a.link, "", 2)] == ["a", "b"]
    assert [state.key for state in await serialized.keys(world.a.link, "b", 2)] == ["c"]
    assert [state.key for state in await serialized.keys(world.a.link, "", 9, "b")] == ["b"]
    assert await serialized.keys(world.a.link, "", 9, "nobody") == []


async def test_line_of_a_key_is_told_in_its_order(world: Peers) -> None:
    last = await world.a.enqueue(times=3)
    line = await serialized.line(world.a.link, "k", 2)
    assert [(place.id, place.dispatched) for place in line] == [(last - 2, True), (last - 1, False)]
