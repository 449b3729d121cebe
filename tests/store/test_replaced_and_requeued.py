"""What a caller's transaction replaces may die and be requeued before its commit: what was made of it is replaced, too."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store import dead_letters, serialized
from asyncjobs.store.database import Connection, Database
from tests.support.peers import Peer, Peers, peers, spawn


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.promote()
        await made.drain()


async def _requeued(pair: Peers) -> int:
    dead_letter = await pair.admin.fetchval("SELECT max(id) FROM asyncjobs.dead_letter_jobs")
    [done], _ = await dead_letters.requeue(pair.a.link, [dead_letter], "ada", force=False)
    assert done.new_id is not None
    return done.new_id


async def _payload(pair: Peers, job_id: int) -> object:
    return json.loads(await pair.admin.fetchval("SELECT payload FROM asyncjobs.jobs WHERE id = $1", job_id))


async def test_job_that_was_retried_before_has_the_new_payload(pair: Peers) -> None:
    """Its dead letter names itself."""
    old = await pair.a.enqueue(dedup_key="d", payload='{"n": 1}')
    for _ in range(2):
        await serialized.end(pair.a.link, old, "dead", "no")
        await serialized.retry(pair.a.link, old, "ada")
    await pair.b.begin()
    assert await pair.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}') == old
    await serialized.end(pair.a.link, old, "dead", "no")
    again = await _requeued(pair)
    await serialized.end(pair.a.link, again, "dead", "no")
    last = await _requeued(pair)
    await pair.b.commit()
    assert [await _payload(pair, job_id) for job_id in (old, again, last)] == [{"n": 2}] * 3


@pytest.mark.parametrize("place", ["head", "behind", "started"])
async def test_what_was_made_of_it_has_the_new_payload_unless_it_has_started(pair: Peers, place: str) -> None:
    if place == "behind":
        await pair.a.enqueue()
    old = await pair.a.enqueue(dedup_key="d", payload='{"n": 1}')
    await pair.b.begin()
    assert await pair.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}') == old
    await serialized.end(pair.a.link, old, "dead", "no")
    new = await _requeued(pair)
    started = await pair.a.claim_one() if place == "started" else None
    await pair.b.commit()
    assert await _payload(pair, old) == {"n": 2}
    assert await _payload(pair, new) == ({"n": 1} if started else {"n": 2})
    if started:
        await pair.a.ack(started)


async def test_what_is_requeued_while_the_commit_waits_for_the_key_is_replaced_too(pair: Peers, database: Database) -> None:
    old = await pair.a.enqueue(dedup_key="d", payload='{"n": 1}')
    await pair.b.begin()
    await pair.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}')
    await serialized.end(pair.a.link, old, "dead", "no")
    await pair.a.begin()
    new = await _requeued(pair)
    committing = spawn(pair.b.commit())
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    await committing
    assert await _payload(pair, new) == {"n": 2}


@pytest.mark.parametrize("first", ["retry", "requeue"])
async def test_retry_and_requeue_of_the_same_dead_letter_never_wait_in_a_circle(
    pair: Peers, database: Database, first: str
) -> None:
    old = await pair.a.enqueue()
    await serialized.end(pair.a.link, old, "dead", "no")
    dead_letter = await pair.admin.fetchval("SELECT id FROM asyncjobs.dead_letter_jobs")
    for name in ("retry_job", "requeue_dead_letters"):
        await pair.admin.execute(f"ALTER ROUTINE asyncjobs.{name} SET lock_timeout = '30s'")
    holder = database.link("holder")
    connection = await holder.connection()
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{k}')")
        verbs: list[tuple[Peer, Callable[[], Awaitable[Any]]]] = [
            (pair.a, lambda: serialized.retry(pair.a.link, old, "ada")),
            (pair.b, lambda: dead_letters.requeue(pair.b.link, [dead_letter], "ada", force=False)),
        ]
        tasks: list[asyncio.Task[Any]] = []
        for peer, verb in verbs if first == "retry" else verbs[::-1]:
            tasks.append(spawn(verb()))
            await pair.waits_for_lock(peer)
    await asyncio.gather(*tasks)
    await holder.close()
    await pair.promises_hold()


async def test_a_commit_with_many_replacements_looks_for_them_once(dsn: str, connection: Connection) -> None:
    """Each deferred trigger looks where its own row stood: those that looked for any walked over all that were done."""
    jobs = AsyncJobs(dsn)

    @jobs.job("work", serialize_by="k{number}", dedup_by="{number}")
    async def work(number: int, text: str = "") -> None: ...

    replacing = work.using(on_duplicate="replace")
    async with jobs:
        await jobs.enqueue_many([work.new(n) for n in range(300)])
        async with connection.transaction():
            handles = await jobs.enqueue_many([replacing.new(n, "new") for n in range(300)], connection=connection)
            await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as the commit does, after which it could not be counted
            scans = await connection.fetchval(
                "SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'replacements'"
            )
        assert {handle.did for handle in handles} == {"replaced"}
        payloads = await connection.fetch("SELECT DISTINCT payload ->> 'text' AS text FROM asyncjobs.jobs")
        assert [row["text"] for row in payloads] == ["new"]
        assert 0 < scans < 20
