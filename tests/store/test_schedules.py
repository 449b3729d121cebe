"""The rows of schedules: what declaring does to them, and what a tick does, however many runners see it come."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from asyncjobs.model.schedule import Due, Overlap, Schedule, Timing
from asyncjobs.store import schedules as store
from asyncjobs.store.database import Connection, Database, Link
from tests.support.factories import a_row, insert_runner

EVERY = timedelta(seconds=1)


def a_schedule(name: str = "nightly", *, every: float = 1.0, overlap: Overlap = "allow", **fields: Any) -> Schedule:
    return Schedule(name=name, timing=Timing(every=every), misfire="one", overlap=overlap, row=a_row("email", **fields))


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("test")
    yield made
    await made.close()


async def declare(connection: Connection, link: Link, runner_id: int, *schedules: Schedule) -> store.ScheduleChanges:
    if not await connection.fetchval("SELECT count(*) FROM asyncjobs.runners WHERE id = $1", runner_id):
        await insert_runner(connection, id=runner_id)
    return await store.declare(link, runner_id, schedules)


async def leave(connection: Connection, runner_id: int) -> None:
    await connection.execute("DELETE FROM asyncjobs.runners WHERE id = $1", runner_id)


async def past(connection: Connection, name: str = "nightly", seconds: float = 3600.0) -> datetime:
    """Put the schedule's last tick into the past, and return it."""
    at: datetime = await connection.fetchval(
        "UPDATE asyncjobs.schedules SET last_tick = now() - make_interval(secs => $2) WHERE name = $1 RETURNING last_tick",
        name,
        seconds,
    )
    return at


def due(last_tick: datetime, count: int = 1) -> Due:
    made = [last_tick + EVERY * number for number in range(1, count + 1)]
    return Due(made, made[-1], is_skipping=False)


async def count(connection: Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs"))


# Declaring.


async def test_a_new_schedule_begins_now_and_owes_nothing(connection: Connection, link: Link) -> None:
    declared = await declare(connection, link, 1, a_schedule())
    assert declared.added == ["nightly"]
    seen = await store.look(link, 1)
    assert (seen.declared, seen.is_stale) == (1, False)
    assert timedelta() <= seen.now - seen.last_ticks["nightly"] < timedelta(seconds=5)
    assert await declare(connection, link, 1, a_schedule()) == store.ScheduleChanges(registered=True)


async def test_a_changed_job_keeps_the_last_tick_and_changed_times_begin_now(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule())
    before = await past(connection)
    assert (await declare(connection, link, 1, a_schedule(priority=5))).changed == ["nightly"]
    assert (await store.look(link, 1)).last_ticks == {"nightly": before}
    assert (await declare(connection, link, 1, a_schedule(every=2.0, priority=5))).changed == ["nightly"]
    assert (await store.look(link, 1)).last_ticks["nightly"] > before


async def test_a_schedule_that_no_runner_declares_is_disabled_and_kept(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule(), a_schedule("hourly"))
    before = await past(connection)
    assert (await declare(connection, link, 1, a_schedule("hourly"))).removed == ["nightly"]
    [state] = await store.listed(link, "nightly")
    assert (state.enabled, state.disabled_because, state.runners) == (False, "removed", 0)
    assert state.next_tick_at is None
    # A program that was away for a while comes back, and makes up for what it missed.
    assert (await declare(connection, link, 2, a_schedule())).enabled == ["nightly"]
    assert (await store.look(link, 2)).last_ticks == {"nightly": before}


async def test_what_another_live_runner_declares_is_not_removed(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule())
    assert (await declare(connection, link, 2)).removed == []
    assert not (await store.look(link, 2)).is_stale
    await leave(connection, 1)
    assert (await store.look(link, 2)).is_stale
    assert (await declare(connection, link, 2)).removed == ["nightly"]


async def test_old_and_new_programs_do_not_undo_each_others_work(connection: Connection, link: Link) -> None:
    old, new = a_schedule(), a_schedule(priority=5)
    await declare(connection, link, 1, old)
    assert (await declare(connection, link, 2, new)).changed == ["nightly"]
    # The old one goes on, and another old one restarts: the newer definition stays, and only its program fires it.
    for runner_id in (1, 3, 1):
        declared = await declare(connection, link, runner_id, old)
        assert (declared.changed, declared.differing) == ([], ["nightly"])
        assert (await store.look(link, runner_id)).last_ticks == {}
    assert "nightly" in (await store.look(link, 2)).last_ticks
    last_tick = await past(connection)
    assert (await store.tick(link, 1, "nightly", last_tick, due(last_tick))).outcome == "taken"
    # Rolled back: no new program is left.
    await leave(connection, 2)
    assert (await store.look(link, 1)).is_stale
    assert (await declare(connection, link, 1, old)).changed == ["nightly"]
    assert (await declare(connection, link, 3, old)) == store.ScheduleChanges(registered=True)


async def test_enabling_makes_no_tick_come_twice_after_the_clock_was_put_back(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule())
    await store.disable(link, "nightly", because="operator", reason=None)
    until = await past(connection, seconds=-600.0)
    assert await store.enable(link, "nightly")
    last_tick = (await store.look(link, 1)).last_ticks["nightly"]
    await connection.execute(
        "CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE RETURN now() + interval '1 hour'"
    )
    owed = [last_tick + EVERY, until - EVERY, until + EVERY]
    ticked = await store.tick(link, 1, "nightly", last_tick, Due(owed, owed[-1], is_skipping=False))
    assert ticked.outcome == "fired"
    assert await connection.fetchval("SELECT array_agg(scheduled_at) FROM asyncjobs.jobs") == [until + EVERY]


async def test_an_operators_no_outlives_deployments_and_a_failure_does_not(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule(), a_schedule("bad"))
    assert await store.disable(link, "nightly", because="operator", reason="holidays")
    assert not await store.disable(link, "nightly", because="failed", reason="why")
    assert await store.disable(link, "bad", because="failed", reason="why")
    declared = await declare(connection, link, 1, a_schedule(priority=5), a_schedule("bad", priority=5))
    assert declared.changed == ["bad", "nightly"]
    assert list((await store.look(link, 1)).last_ticks) == ["bad"]
    [state] = await store.listed(link, "nightly")
    assert (state.disabled_because, state.disabled_reason) == ("operator", "holidays")
    await past(connection)
    assert await store.enable(link, "nightly")
    seen = await store.look(link, 1)
    assert seen.now - seen.last_ticks["nightly"] < timedelta(seconds=5), "what came meanwhile was not missed"


async def test_a_runner_that_is_gone_declares_nothing(connection: Connection, link: Link) -> None:
    assert not (await store.declare(link, 77, [a_schedule()])).registered
    assert await store.listed(link) == []


async def test_runners_that_start_at_once_agree(connection: Connection, database: Database) -> None:
    names = [f"s{number}" for number in range(5)]
    for runner_id in range(1, 9):
        await insert_runner(connection, id=runner_id)
    async with AsyncExitStack() as stack:
        links = [database.link(f"test {number}") for number in range(8)]
        for one in links:
            stack.push_async_callback(one.close)

        async def start(number: int) -> store.ScheduleChanges:
            ordered = names if number % 2 else names[::-1]
            return await store.declare(links[number], number + 1, [a_schedule(name, priority=number % 2) for name in ordered])

        answers = await asyncio.gather(*(start(number) for number in range(8)))
        added = sorted(name for answer in answers for name in answer.added)
        assert added == names
        states = await store.listed(links[0])
    assert [(state.enabled, state.runners) for state in states] == [(True, 4)] * 5


# Ticking.


async def test_a_tick_makes_its_job_once_for_eight_runners(connection: Connection, database: Database) -> None:
    async with AsyncExitStack() as stack:
        links = [database.link(f"test {number}") for number in range(8)]
        for number, one in enumerate(links):
            stack.push_async_callback(one.close)
            await declare(connection, one, number + 1, a_schedule())
        start = await past(connection)

        async def run(number: int) -> list[int]:
            """Take each tick in turn, as soon as this runner sees it owed."""
            made: list[int] = []
            for step in range(60):
                last_tick = start + EVERY * step
                made += (await store.tick(links[number], number + 1, "nightly", last_tick, due(last_tick))).job_ids
                await asyncio.sleep(0)
            return made

        made = [job_id for ids in await asyncio.gather(*(run(number) for number in range(8))) for job_id in ids]
        while len(made) < 60:  # whoever had found a row locked is not asked again by the others' loop
            seen = await store.look(links[0], 1)
            last_tick = seen.last_ticks["nightly"]
            made += (await store.tick(links[0], 1, "nightly", last_tick, due(last_tick))).job_ids
    rows = await connection.fetch("SELECT id, scheduled_at, created_by FROM asyncjobs.jobs ORDER BY scheduled_at")
    assert [row["scheduled_at"] for row in rows] == [start + EVERY * step for step in range(1, 61)]
    assert sorted(row["id"] for row in rows) == sorted(made)
    assert {row["created_by"] for row in rows} == {"schedule nightly"}


async def test_a_tick_that_is_yet_to_come_or_was_taken_makes_nothing(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule())
    last_tick = await past(connection)
    owed = due(last_tick)
    assert (await store.tick(link, 1, "nightly", last_tick, owed)).outcome == "fired"
    assert (await store.tick(link, 1, "nightly", last_tick, owed)).outcome == "taken"
    future = Due([datetime.now(UTC) + timedelta(hours=1)], datetime.now(UTC) + timedelta(hours=1), is_skipping=False)
    assert (await store.tick(link, 1, "nightly", owed.reached, future)).outcome == "taken"
    assert (await store.tick(link, 2, "nightly", owed.reached, due(owed.reached))).outcome == "taken", "not declared"
    assert await store.disable(link, "nightly", because="operator", reason=None)
    assert (await store.tick(link, 1, "nightly", owed.reached, due(owed.reached))).outcome == "taken"
    assert await count(connection) == 1


async def test_a_job_gets_all_that_was_declared(connection: Connection, link: Link) -> None:
    fields: dict[str, Any] = {
        "queue": "mail", "lane": "fast", "version": 3, "payload": '{"to":"a\\"b","n":[1,null]}', "priority": 7, "max_attempts": 9,
        "timeout_seconds": 2.5, "correlation_id": "c", "serialization_key": "k", "on_dead": "halt", "created_by": "me",
    }  # fmt: skip
    await declare(connection, link, 1, a_schedule(**fields))
    last_tick = await past(connection)
    [job_id] = (await store.tick(link, 1, "nightly", last_tick, due(last_tick))).job_ids
    row = await connection.fetchrow("SELECT *, extract(epoch FROM timeout)::float8 AS timeout_seconds FROM asyncjobs.jobs")
    assert row is not None
    assert row["id"] == job_id
    assert {name: row[name] for name in fields if name != "payload"} == {k: v for k, v in fields.items() if k != "payload"}
    assert row["payload"] == '{"n": [1, null], "to": "a\\"b"}'
    assert (row["type"], row["status"], row["scheduled_at"]) == ("email", "pending", last_tick + EVERY)


async def end(connection: Connection, job_id: int) -> None:
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now() WHERE id = $1", job_id)


async def begin(connection: Connection, job_id: int) -> None:
    await connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'processing', started_at = now(), claim_token = 1, runner_id = 1, attempts = 1"
        " WHERE id = $1",
        job_id,
    )


async def ticked(link: Link, last_tick: datetime, step: int, count: int = 1) -> store.Ticked:
    at = last_tick + EVERY * step
    return await store.tick(link, 1, "nightly", at, due(at, count))


async def test_overlap_skip_makes_no_job_until_the_last_one_has_ended(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule(overlap="skip"))
    last_tick = await past(connection)
    [first] = (await ticked(link, last_tick, 0)).job_ids
    assert (await ticked(link, last_tick, 1)).outcome == "overlapped"
    await begin(connection, first)
    assert (await ticked(link, last_tick, 2, 3)).outcome == "overlapped"
    await end(connection, first)
    assert (await ticked(link, last_tick, 5)).outcome == "fired"
    await connection.execute("DELETE FROM asyncjobs.jobs")  # pruned
    assert (await ticked(link, last_tick, 6)).outcome == "fired"
    await connection.execute("DELETE FROM asyncjobs.jobs")


async def test_overlap_queue_lets_one_job_wait(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule(overlap="queue", serialization_key="nightly"))
    last_tick = await past(connection)
    [first] = (await ticked(link, last_tick, 0, 3)).job_ids
    assert (await ticked(link, last_tick, 3)).outcome == "overlapped"
    await begin(connection, first)
    [second] = (await ticked(link, last_tick, 4)).job_ids
    assert await connection.fetchval("SELECT dispatched_at IS NULL FROM asyncjobs.serialized_jobs WHERE id = $1", second)
    assert [(await ticked(link, last_tick, step)).outcome for step in (5, 6)] == ["overlapped"] * 2
    await connection.execute("DELETE FROM asyncjobs.jobs")
    await connection.execute("DELETE FROM asyncjobs.serialized_jobs")


async def test_a_dedup_key_is_honoured_and_no_error(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule(dedup_key="d", on_duplicate="raise"))
    last_tick = await past(connection)
    assert (await ticked(link, last_tick, 0)).outcome == "fired"
    assert (await ticked(link, last_tick, 1)).outcome == "duplicate"
    await declare(connection, link, 1, a_schedule(dedup_key="d"))
    assert (await ticked(link, last_tick, 2)).outcome == "duplicate"
    assert (await store.run_now(link, "nightly")) == store.RunNow(
        (await store.listed(link))[0].last_job_id or 0, False, "default"
    )
    assert await count(connection) == 1


async def test_a_strangers_lock_is_not_waited_for_long(connection: Connection, database: Database, link: Link) -> None:
    await declare(connection, link, 1, a_schedule(serialization_key="k"))
    last_tick = await past(connection)
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys(ARRAY['k'])")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await ticked(link, last_tick, 0)
    assert (await ticked(link, last_tick, 0)).outcome == "fired"


async def test_a_start_makes_no_job_of_what_is_disabled_or_was_declared_otherwise_since(
    connection: Connection, link: Link
) -> None:
    await declare(connection, link, 1, a_schedule())
    await declare(connection, link, 2, a_schedule(priority=5))
    assert await store.start(link, 1, "nightly") == [], "its definition is not the one that holds"
    await store.disable(link, "nightly", because="operator", reason=None)
    assert await store.start(link, 2, "nightly") == []
    assert await store.enable(link, "nightly")
    assert len(await store.start(link, 2, "nightly")) == 1


async def test_run_now_runs_also_what_is_disabled_and_leaves_the_ticks_alone(connection: Connection, link: Link) -> None:
    await declare(connection, link, 1, a_schedule())
    last_tick = await past(connection)
    await store.disable(link, "nightly", because="operator", reason=None)
    made = await store.run_now(link, "nightly")
    assert made is not None
    assert made.created
    [state] = await store.listed(link)
    assert (state.last_tick_at, state.last_job_id, state.enabled) == (last_tick, made.id, False)
    assert await store.run_now(link, "nigthly") is None
