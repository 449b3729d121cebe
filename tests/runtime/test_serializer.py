"""The sweep, and the actors of keys that carry out what it finds."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from asyncjobs.runtime import points
from asyncjobs.runtime.keys import PARTITIONS, KeyActors
from asyncjobs.runtime.serializer import Serializer
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import serialized
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events, KeysAdvanced
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually
from tests.support.holding import pause_key
from tests.support.limiting import declare
from tests.support.peers import Peers, peers
from tests.support.services import Woken, running


class Setup:
    """A serializer and whom it wakes."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.pool = Pool(database, 2)
        self.notified: list[str] = []
        wakes = Wakes(self.notified.append)
        self.woken = Woken()
        wakes.add(self.woken)
        options.setdefault("interval_seconds", 3600.0)
        nobody: Any = None  # no outcomes are put here
        partitions = options.pop("partitions", PARTITIONS)
        self.keys = KeyActors(nobody, nobody, nobody, self.pool, wakes, events=Events(), partitions=partitions)
        self.serializer = Serializer(self.pool, wakes, self.keys, events=Events(), **options)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[Serializer]:
        try:
            async with running(self.serializer, *self.keys.actors):
                await self.serializer.wait_passed()
                yield self.serializer
        finally:
            await self.pool.close()


Make = Callable[..., Setup]


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


@pytest.fixture
def make(database: Database, recorder: Recorder) -> Make:
    return lambda **options: Setup(database, **options)


async def stall(pair: Peers, key: str = "k", *, times: int = 1) -> int:
    """Jobs whose key has no head, and nobody was told: as after a crash. Returns the id of the first."""
    await pair.a.begin("repeatable_read")
    ids = [await pair.a.enqueue_in_transaction(key, notify=False) for _ in range(times)]
    await pair.a.commit()
    await pair.admin.execute("DELETE FROM asyncjobs.dispatch_requests")
    return ids[0]


async def has_head(pair: Peers, key: str = "k") -> bool:
    return bool(
        await pair.admin.fetchval(
            "SELECT count(*) FROM asyncjobs.serialized_jobs WHERE serialization_key = $1 AND dispatched_at IS NOT NULL", key
        )
    )


async def count_calls(counted: list[str]) -> Any:
    async def hook(name: str) -> None:
        counted.append(name)

    return hook


async def test_key_that_is_put_gets_its_head_and_its_queue_is_told(pair: Peers, make: Make) -> None:
    setup = make()
    async with setup.running():
        job_id = await stall(pair)
        setup.keys.advance("k")
        await eventually(lambda: has_head(pair), description="the key has a head")
        await eventually(lambda: setup.woken.queues, description="the queue is woken")
    assert await pair.line() == [(job_id, "pending")]
    assert (setup.woken.queues, setup.notified) == ([("default", True)], ["f1:default"])


async def test_request_that_no_notification_tells_of_is_found_by_the_next_look(pair: Peers, make: Make) -> None:
    """Without `unheard_seconds` it is found by the sweep."""
    async with make(unheard_seconds=lambda: 0.02).running():
        await pair.a.begin("repeatable_read")
        await pair.a.enqueue_in_transaction(notify=False)
        await pair.a.commit()
        await eventually(lambda: has_head(pair), description="the key has a head")


async def test_key_that_has_a_head_or_no_jobs_wakes_nobody(pair: Peers, make: Make, recorder: Recorder) -> None:
    await pair.a.enqueue(times=2)
    setup = make(partitions=1)
    counted: list[str] = []
    with points.installed(await count_calls(counted)):
        async with setup.running():
            setup.keys.advance("k")
            setup.keys.advance("nobody's")
            await eventually(lambda: counted.count("advance.sent") >= 1, description="both were looked at")
    assert setup.woken.queues == []
    assert not [each for each in recorder.recorded if isinstance(each.event, KeysAdvanced)]


async def test_partition_takes_all_that_wait_at_once_and_each_key_once(pair: Peers, make: Make, recorder: Recorder) -> None:
    keys = [f"key {number}" for number in range(50)]
    for key in keys:
        await stall(pair, key)
    setup = make(partitions=1, page=1_000_000)
    counted: list[str] = []
    for key in keys * 3:
        setup.keys.advance(key)
    with points.installed(await count_calls(counted)):
        async with setup.running():
            await recorder.wait_for(KeysAdvanced)
    assert counted.count("advance.send") <= 2  # the second: what the first sweep found meanwhile
    assert sum(each.event.count for each in recorder.recorded if isinstance(each.event, KeysAdvanced)) == 50


async def test_keys_are_spread_over_partitions_and_a_key_is_always_of_the_same(make: Make) -> None:
    setup = make(partitions=4)
    for number in range(100):
        setup.keys.advance(f"key {number % 50}")
    waiting = [{actor.items.get_nowait().key for _ in range(actor.items.qsize())} for actor in setup.keys.actors]  # type: ignore[union-attr]
    assert sum(map(len, waiting)) == 50
    assert all(waiting)


async def test_locked_key_is_tried_again_and_delays_no_other_key_of_its_partition(pair: Peers, make: Make) -> None:
    blocked, free = await stall(pair, "k"), await stall(pair, "other")
    await pair.b.begin()
    await (await pair.b.link.connection()).fetch("SELECT asyncjobs.lock_keys(ARRAY['k'])")
    setup = make(partitions=1)
    async with setup.running():
        setup.keys.advance("k")
        setup.keys.advance("other")
        await eventually(lambda: has_head(pair, "other"), description="the other key has a head")
        assert not await has_head(pair)
        await pair.b.commit()
        await eventually(lambda: has_head(pair), description="the key has a head, too")
    assert sorted(await pair.drain()) == [blocked, free]


async def test_request_of_a_snapshot_transaction_is_carried_out_when_notified(pair: Peers, make: Make) -> None:
    setup = make()
    async with setup.running() as serializer:
        await pair.a.begin("serializable")
        job_id = await pair.a.enqueue_in_transaction()
        await pair.a.commit()
        serializer.wake()  # as the NOTIFY does
        await eventually(lambda: has_head(pair), description="the key has a head")
    assert await pair.line() == [(job_id, "pending")]
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.dispatch_requests") == 0


async def test_wake_up_looks_at_the_requests_and_not_through_all_keys(pair: Peers, make: Make) -> None:
    setup = make()
    async with setup.running() as serializer:
        await stall(pair)
        serializer.wake()
        await serializer.wait_passed()
        assert not await has_head(pair)  # found by the next round only
    async with make().running():
        await eventually(lambda: has_head(pair), description="found at a start")


async def test_more_requests_than_one_look_takes_are_all_carried_out(
    pair: Peers, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serialized, "MOST_REQUESTS", 3)
    await pair.a.begin("repeatable_read")
    for number in range(10):
        await pair.a.enqueue_in_transaction(f"key {number}")
    await pair.a.commit()
    count = "SELECT count(*) FROM asyncjobs.serialized_jobs WHERE dispatched_at IS NULL"

    async def all_dispatched() -> bool:
        return not await pair.admin.fetchval(count)

    async with make(page=1).running():
        await eventually(all_dispatched, description="all have heads")


async def test_round_goes_through_all_pages_at_once(pair: Peers, make: Make) -> None:
    for number in range(20):
        await stall(pair, f"key {number}")

    async def all_dispatched() -> bool:
        return not await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs WHERE dispatched_at IS NULL")

    async with make(page=3).running():
        await eventually(all_dispatched, description="all pages were looked at, long before the next round")


async def test_round_is_repeated_every_interval(pair: Peers, make: Make) -> None:
    async with make(interval_seconds=0.05).running():
        await stall(pair)
        await eventually(lambda: has_head(pair), description="the key has a head")


async def test_key_of_a_job_that_ended_and_whose_runner_is_gone_is_let_go(pair: Peers, make: Make) -> None:
    second = await pair.a.enqueue(times=2)
    head = await pair.a.claim_one()
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now() WHERE id = $1", head.id)
    setup = make(interval_seconds=0.05)
    async with setup.running() as serializer:
        await serializer.wait_passed()
        assert (await pair.line())[0][1] == "completed"  # its handler may still run
        await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
        await eventually(lambda: setup.woken.queues, description="the next head is told of")
    assert await pair.line() == [(second, "pending")]


async def test_job_that_waits_in_no_line_is_promoted_into_it_anew(pair: Peers, make: Make) -> None:
    await pair.a.enqueue()
    delayed = await pair.a.enqueue(delay_seconds=3600.0)
    await pair.promote()
    await pair.admin.execute("DELETE FROM asyncjobs.serialized_jobs WHERE id = $1", delayed)
    setup = make()
    async with setup.running():
        await eventually(lambda: setup.woken.due, description="the promoter is told")
    assert await pair.status(delayed) == "scheduled"
    await pair.promote()
    assert await pair.line() == [(delayed - 1, "pending"), (delayed, "waiting")]


async def test_row_that_somebody_holds_does_not_hold_up_the_sweep(pair: Peers, make: Make) -> None:
    await pair.a.enqueue("held", times=2)
    await pair.a.enqueue("other", times=2)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now() WHERE status = 'pending'")
    await pair.b.begin()
    await (await pair.b.link.connection()).fetch("SELECT FROM asyncjobs.jobs WHERE serialization_key = 'held' FOR UPDATE")
    states = "SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending' AND serialization_key = $1"

    async def goes_on(key: str) -> bool:
        return bool(await pair.admin.fetchval(states, key))

    async with make(interval_seconds=0.05).running():
        await eventually(lambda: goes_on("other"), description="the other key goes on")
        await pair.b.commit()
        await eventually(lambda: goes_on("held"), description="the held key goes on")


async def test_failed_call_is_told_and_its_keys_are_found_by_the_next_round(pair: Peers, make: Make, recorder: Recorder) -> None:
    failures = iter([ConnectionError("gone")])

    async def hook(name: str) -> None:
        if name == "advance.send" and (error := next(failures, None)):
            raise error

    with points.installed(hook):
        setup = make(interval_seconds=0.05)
        async with setup.running():
            await stall(pair)
            setup.keys.advance("k")
            failed = await recorder.wait_for(DatabaseFailed)
            await eventually(lambda: has_head(pair), description="the key has a head")
    assert failed.during == "advance keys"


async def test_two_serializers_at_the_same_keys_make_no_second_head(pair: Peers, make: Make) -> None:
    keys = [f"key {number}" for number in range(30)]
    for key in keys:
        await stall(pair, key, times=2)
    one, other = make(interval_seconds=0.02), make(interval_seconds=0.02)
    async with one.running(), other.running():
        for key in keys:
            one.keys.advance(key)
            other.keys.advance(key)

        async def all_dispatched() -> bool:
            return bool(
                await pair.admin.fetchval("SELECT count(*) = 30 FROM asyncjobs.serialized_jobs WHERE dispatched_at IS NOT NULL")
            )

        await eventually(all_dispatched, description="every key has a head")
    await pair.promises_hold()
    assert len(await pair.drain()) == 60


#: Where a process may be lost, and what has happened by then.
CRASHES: dict[str, Callable[[Peers], Awaitable[Any]]] = {
    "enqueue": lambda pair: pair.a.enqueue(),
    "enqueue in a caller's transaction": lambda pair: pair.a.enqueue_in_transaction(),
    "claim": lambda pair: pair.a.claim(),
    "dispatch": lambda pair: serialized.advance(pair.a.link, ["k", "stalled"], []),
    "cancel": lambda pair: serialized.purge_key(pair.a.link, "k", "no", 10),
    "pause": lambda pair: pause_key(pair.a.link, "k", None, None),
}


@pytest.mark.parametrize("during", CRASHES)
async def test_backend_that_is_lost_before_its_commit_leaves_the_key_as_it_was(pair: Peers, during: str) -> None:
    await pair.b.enqueue(times=2)
    await stall(pair, "stalled")
    before = [await pair.line("k"), await pair.line("stalled")]
    await pair.a.begin()
    await CRASHES[during](pair)
    await pair.lose(pair.a)
    pair.a.link.abort()
    assert [await pair.line("k"), await pair.line("stalled")] == before
    await pair.b.enqueue("stalled")
    assert len(await pair.drain(pair.b)) == 4


async def test_backend_that_is_lost_in_an_ack_leaves_its_job_to_the_rescue(pair: Peers) -> None:
    second = await pair.b.enqueue(times=2)
    head = await pair.a.claim_one()
    await pair.a.begin()
    await pair.a.ack(head)
    await pair.lose(pair.a)
    pair.a.link.abort()
    assert await pair.line() == [(head.id, "processing"), (second, "waiting")]
    await pair.a.ack(head)
    assert await pair.line() == [(second, "pending")]


async def test_backend_that_is_lost_while_its_commit_waits_for_a_key_leaves_no_row(pair: Peers) -> None:
    await pair.b.begin()
    await pair.b.enqueue()
    await pair.a.begin()
    await pair.a.enqueue_in_transaction()
    commit = asyncio.get_running_loop().create_task(pair.a.commit())
    await pair.waits_for_lock(pair.a)
    await pair.lose(pair.a)
    with pytest.raises((asyncpg.PostgresError, ConnectionError)):
        await commit
    pair.a.link.abort()
    await pair.b.commit()
    assert len(await pair.line()) == 1
    assert len(await pair.drain()) == 1


async def test_sweep_asks_nothing_of_limits_and_workflows_where_there_are_none(
    make: Make, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetch, fetch_behind = Link.fetch, Link.fetch_behind

    def noted(link: Link, name: str, *args: Any, **options: Any) -> Any:
        asked.append(name)
        return fetch(link, name, *args, **options)

    def noted_behind(link: Link, guard: str, guard_args: Any, name: str, *args: Any, **options: Any) -> Any:
        asked.append(name)
        return fetch_behind(link, guard, guard_args, name, *args, **options)

    monkeypatch.setattr(Link, "fetch", noted)
    monkeypatch.setattr(Link, "fetch_behind", noted_behind)
    setup = make()
    async with setup.running():
        assert asked == ["move_sequences", "sweep_keys"]
        await declare(connection, total=1)
        setup.serializer._sweep_at = 0.0
        asked.clear()
        setup.serializer.wake()
        await setup.serializer.wait_passed()
        assert asked == ["move_sequences", "sweep_keys", "sweep_limits"]
