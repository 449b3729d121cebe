"""Ids that were reserved by an earlier call: in which order they are taken, and when they are not used any more."""

from typing import Any

from asyncjobs.runtime.sender import Ids
from asyncjobs.store import jobs
from asyncjobs.store.database import Database


async def take(ids: Ids, count: int) -> list[int]:
    return ids.take(count) or await ids.reserve(count)


async def test_ids_are_used_only_while_they_are_fresh_and_from_the_same_connection(database: Database) -> None:
    link = database.link("ids")
    now = 100.0
    ids = Ids(link, monotonic=lambda: now)
    first = await take(ids, 3)
    assert ids.missing(1) == 0, "no other has come within a second"
    ids.put(await jobs.reserve_ids(link, 4))
    now += 0.9
    second = await take(ids, 2)
    assert second == [first[-1] + 1, first[-1] + 2]
    assert ids.missing(1) == 14
    now += 0.2
    third = await take(ids, 2)
    assert third == [first[-1] + 5, first[-1] + 6], "two were older than a second"
    ids.put(await jobs.reserve_ids(link, 4))
    link.abort()
    await link.connection()
    assert min(await take(ids, 1)) > third[-1] + 4, "they came from a connection that is gone"
    await link.close()


async def test_ids_are_taken_in_the_order_in_which_they_were_reserved(database: Database) -> None:
    link = database.link("ids")
    now = 100.0
    ids = Ids(link, monotonic=lambda: now)
    ids.put([1, 2])
    ids.put([])
    now += 0.6
    ids.put([3, 4, 5])
    ids.put_one(6)
    assert ids.take(7) is None
    assert (ids.take_one(), ids.take(3), ids.take_one()) == (1, [2, 3, 4], 5)
    ids.put([7, 8])
    now += 0.6  # those of the first call are older than a second now
    assert (ids.take_one(), ids.take(2), ids.take_one()) == (6, [7, 8], None)
    await link.close()


async def test_ids_that_become_stale_while_more_are_reserved_are_replaced(database: Database) -> None:
    link = database.link("ids")
    now = 100.0
    ids = Ids(link, monotonic=lambda: now)
    ids.put(await jobs.reserve_ids(link, 2))

    async def slowly(name: str, *args: Any) -> list[Any]:
        nonlocal now
        now += 2.0 if args == (3,) else 0.0
        return await fetch(name, *args)

    fetch, link.fetch = link.fetch, slowly  # type: ignore[method-assign,assignment]
    assert len(set(await take(ids, 5))) == 5
    await link.close()


async def test_ids_of_a_connection_that_is_replaced_while_more_are_reserved_are_replaced(database: Database) -> None:
    link = database.link("ids")
    ids = Ids(link)
    ids.put(await jobs.reserve_ids(link, 1))
    link.abort()  # it is opened again by the call that reserves the second
    assert len(set(await take(ids, 2))) == 2
    await link.close()
