"""Waiting rows of several lines are locked in the order of their keys: an ack dispatches without the locks of keys."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import product
from typing import Any, TypeAlias

import pytest

from asyncjobs.store import callers, finding, jobs
from asyncjobs.store.database import Database
from tests.support.factories import a_row
from tests.support.peers import Peers, peers, spawn
from tests.support.rows import each

END_WAITING = "SELECT asyncjobs.end_waiting($1, 'cancelled', 'no', 0)"


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.promote()
        await made.drain()


def _rows(keys: str) -> list[Any]:
    return [a_row("email", serialization_key=key, dedup_key=key, on_duplicate="replace") for key in keys]


async def _replace(pair: Peers, keys: str, ids: list[int]) -> None:
    reserved = await jobs.reserve_ids(pair.b.link, len(keys))
    answer = await jobs.enqueue(pair.b.link, _rows(keys), reserved, [7] * len(keys))
    assert sorted(one.id for one in answer.enqueued) == sorted(ids)


async def _replace_at_commit(pair: Peers, keys: str, ids: list[int]) -> None:
    await pair.b.begin()
    answer = await callers.enqueue(await pair.b.link.connection(), pair.b.link.database, _rows(keys), [7] * len(keys))
    assert sorted(one.id for one in answer.enqueued) == sorted(ids)
    await pair.b.commit()


async def _end(pair: Peers, keys: str, ids: list[int]) -> None:
    done = await finding.end_many(pair.b.link, ids, "cancel", "no", 10)
    assert {verb.outcome for verb in done.values()} <= {"cancelled", "again"}


Verb: TypeAlias = Callable[[Peers, str, list[int]], Awaitable[None]]
VERBS: dict[str, Verb] = {"replace": _replace, "replace at the commit": _replace_at_commit, "cancel of many": _end}


@each(("verb", "enqueued", "named"), product(VERBS, ["abc", "cba", "bca"], ["abc", "cba"]))
async def test_acks_of_several_keys_and_who_changes_their_lines_never_wait_in_a_circle(
    pair: Peers, database: Database, verb: str, enqueued: str, named: str
) -> None:
    await pair.admin.execute("ALTER ROUTINE asyncjobs.end_jobs SET lock_timeout = '30s'")
    for key in "abc":
        await pair.a.enqueue(key)
    heads = await pair.a.claim()
    waiting = {key: await pair.a.enqueue(key, dedup_key=key) for key in enqueued}
    holder = database.link("holder")
    connection = await holder.connection()
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.serialized_jobs WHERE id = ANY ($1) FOR UPDATE", list(waiting.values()))
        changing = spawn(VERBS[verb](pair, named, [waiting[key] for key in named]))
        await pair.waits_for_lock(pair.b)
        ending = spawn(pair.a.finish([pair.a.completion(job) for job in heads]))
        await pair.waits_for_lock(pair.a)
    await asyncio.gather(changing, ending)
    await holder.close()
    await pair.promises_hold()


async def test_places_of_several_keys_are_locked_in_the_order_of_the_keys(pair: Peers, database: Database) -> None:
    for key in "ab":
        await pair.a.enqueue(key)
    waiting = {key: await pair.a.enqueue(key) for key in "ba"}  # so the place of "b" is before that of "a"
    holder = database.link("holder")
    connection = await holder.connection()
    place = "SELECT FROM asyncjobs.serialized_jobs WHERE id = $1 FOR UPDATE"
    async with connection.transaction():
        await connection.execute(place, waiting["a"])
        ending = spawn((await pair.b.link.connection()).fetch(END_WAITING, [*waiting.values()]))
        await pair.waits_for_lock(pair.b)
        await pair.admin.execute(f"{place} NOWAIT", waiting["b"])  # "a" comes before it
    await ending
    await holder.close()
