"""What a caller's transaction replaces may die and be requeued before its commit: what was made of it is replaced, too."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from asyncjobs.store import dead_letters, serialized
from asyncjobs.store.database import Database
from tests.support.peers import Peer, Peers, peers, spawn


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.promote()
        await made.drain()


async def _requeued(world: Peers) -> int:
    dead_letter = await world.admin.fetchval("SELECT max(id) FROM asyncjobs.dead_letter_jobs")
    [done], _ = await dead_letters.requeue(world.a.link, [dead_letter], "ada", force=False)
    assert done.new_id is not None
    return done.new_id


async def _payload(world: Peers, job_id: int) -> object:
    return json.loads(await world.admin.fetchval("SELECT payload FROM asyncjobs.jobs WHERE id = $1", job_id))


async def test_job_that_was_retried_before_has_the_new_payload(world: Peers) -> None:
    """Its dead letter names itself."""
    old = await world.a.enqueue(dedup_key="d", payload='{"n": 1}')
    for _ in range(2):
        await serialized.end(world.a.link, old, "dead", "no")
        await serialized.retry(world.a.link, old, "ada")
    await world.b.begin()
    assert await world.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}') == old
    await serialized.end(world.a.link, old, "dead", "no")
    again = await _requeued(world)
    await serialized.end(world.a.link, again, "dead", "no")
    last = await _requeued(world)
    await world.b.commit()
    assert [await _payload(world, job_id) for job_id in (old, again, last)] == [{"n": 2}] * 3


@pytest.mark.parametrize("place", ["head", "behind", "started"])
async def test_what_was_made_of_it_has_the_new_payload_unless_it_has_started(world: Peers, place: str) -> None:
    if place == "behind":
        await world.a.enqueue()
    old = await world.a.enqueue(dedup_key="d", payload='{"n": 1}')
    await world.b.begin()
    assert await world.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}') == old
    await serialized.end(world.a.link, old, "dead", "no")
    new = await _requeued(world)
    started = await world.a.claim_one() if place == "started" else None
    await world.b.commit()
    assert await _payload(world, old) == {"n": 2}
    assert await _payload(world, new) == ({"n": 1} if started else {"n": 2})
    if started:
        await world.a.ack(started)


async def test_what_is_requeued_while_the_commit_waits_for_the_key_is_replaced_too(world: Peers, database: Database) -> None:
    old = await world.a.enqueue(dedup_key="d", payload='{"n": 1}')
    await world.b.begin()
    await world.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}')
    await serialized.end(world.a.link, old, "dead", "no")
    await world.a.begin()
    new = await _requeued(world)
    committing = spawn(world.b.commit())
    await world.waits_for_lock(world.b)
    await world.a.commit()
    await committing
    assert await _payload(world, new) == {"n": 2}


@pytest.mark.parametrize("first", ["retry", "requeue"])
async def test_retry_and_requeue_of_the_same_dead_letter_never_wait_in_a_circle(
    world: Peers, database: Database, first: str
) -> None:
    old = await world.a.enqueue()
    await serialized.end(world.a.link, old, "dead", "no")
    dead_letter = await world.admin.fetchval("SELECT id FROM asyncjobs.dead_letter_jobs")
    for name in ("retry_job", "requeue_dead_letters"):
        await world.admin.execute(f"ALTER ROUTINE asyncjobs.{name} SET lock_timeout = '30s'")
    holder = database.link("holder")
    connection = await holder.connection()
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{k}')")
        verbs: list[tuple[Peer, Callable[[], Awaitable[Any]]]] = [
            (world.a, lambda: serialized.retry(world.a.link, old, "ada")),
            (world.b, lambda: dead_letters.requeue(world.b.link, [dead_letter], "ada", force=False)),
        ]
        tasks: list[asyncio.Task[Any]] = []
        for peer, verb in verbs if first == "retry" else verbs[::-1]:
            tasks.append(spawn(verb()))
            await world.waits_for_lock(peer)
    await asyncio.gather(*tasks)
    await holder.close()
    await world.promises_hold()
