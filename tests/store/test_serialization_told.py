"""What is told about keys and their lines."""

from asyncjobs.store import serialized
from tests.support.holding import pause_key
from tests.support.peers import Peers


async def test_state_of_keys_is_told(pair: Peers) -> None:
    await pair.a.enqueue(on_dead="halt")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    await pair.a.enqueue(times=2)
    await pair.a.enqueue("b")
    await pair.b.claim_one()
    await pause_key(pair.a.link, "c", "busy", "me")
    await pair.a.enqueue("c")
    await pair.a.enqueue("d")
    await pair.b.ack(await pair.b.claim_one(), "retry", delay_seconds=60.0)
    states = {state.key: state for state in await serialized.keys(pair.a.link, "", 10)}
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


async def test_keys_are_paged_by_name(pair: Peers) -> None:
    for key in ("b", "a", "c"):
        await pair.a.enqueue(key)
    assert [state.key for state in await serialized.keys(pair.a.link, "", 2)] == ["a", "b"]
    assert [state.key for state in await serialized.keys(pair.a.link, "b", 2)] == ["c"]
    assert [state.key for state in await serialized.keys(pair.a.link, "", 9, "b")] == ["b"]
    assert await serialized.keys(pair.a.link, "", 9, "nobody") == []


async def test_line_of_a_key_is_told_in_its_order(pair: Peers) -> None:
    last = await pair.a.enqueue(times=3)
    line = await serialized.line(pair.a.link, "k", 2)
    assert [(place.id, place.dispatched) for place in line] == [(last - 2, True), (last - 1, False)]
