"""What operators are told: by verbs on keys and jobs, and by errors that say in which state they are."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs import AsyncJobs, JobType, Queue
from asyncjobs.errors import JobNotFound, KeyNotFound, StateError
from asyncjobs.store import serialized
from asyncjobs.store.database import Connection, Link
from tests.support.eventually import patience


class Shop:
    """An app whose only handler does what it is told."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue("default", concurrency=3)])
        self.ran: list[int] = []
        self.failing = True
        self.gate = asyncio.Event()

        @self.app.job("sync", serialize_by="customer {customer}", on_dead="halt", max_attempts=1)
        async def sync(customer: int, number: int) -> None:
            self.ran.append(number)
            if number == 0 and self.failing:
                raise ValueError("no such customer")
            if number == 100:
                await self.gate.wait()

        self.sync: JobType[..., None] = sync


@pytest.fixture
async def shop(dsn: str) -> Shop:
    return Shop(dsn)


@pytest.fixture
async def running(shop: Shop) -> AsyncGenerator[Shop]:
    async with shop.app.runner():
        yield shop
        shop.gate.set()


async def test_halted_key_is_shown_retried_and_goes_on(running: Shop) -> None:
    admin = running.app.admin
    handles = [await running.sync.enqueue(1, number) for number in range(3)]
    assert (await handles[0].wait(timeout=5)).status == "dead"
    state = await admin.key("customer 1")
    assert (state.depth, state.head_id, state.head_status) == (3, handles[0].id, "dead")
    assert state.blocked == f"halted by job {handles[0].id}: ValueError: no such customer"
    assert [place.id for place in await admin.line("customer 1")] == [handle.id for handle in handles]
    running.failing = False
    assert (await admin.retry(handles[0].id)).outcome == "retried"
    for handle in handles:
        await handle.result(timeout=5)
    assert running.ran == [0, 0, 1, 2]
    assert await admin.keys() == []


async def test_halted_key_that_is_released_goes_on_without_its_head(running: Shop) -> None:
    first, second = await running.sync.enqueue(1, 0), await running.sync.enqueue(1, 1)
    await first.wait(timeout=5)
    assert await running.app.admin.release_key("customer 1") == first.id
    await second.result(timeout=5)
    assert (await running.app.admin.get(first.id) or await first.wait()).status == "dead"


async def test_release_of_a_key_that_is_not_halted_says_what_it_is(shop: Shop) -> None:
    async with shop.app:
        handle = await shop.sync.enqueue(1, 1)
        with pytest.raises(StateError, match=f'key "customer 1" is not halted: its head is job {handle.id}, pending'):
            await shop.app.admin.release_key("customer 1")


async def test_verbs_on_keys_and_jobs_that_nobody_knows(shop: Shop) -> None:
    async with shop.app:
        for verb in (shop.app.admin.key, shop.app.admin.release_key, shop.app.admin.purge_key):
            with pytest.raises(KeyNotFound, match='no job has the serialization key "customer 9" now'):
                await verb("customer 9")
        with pytest.raises(JobNotFound):
            await shop.app.admin.cancel(999)
        with pytest.raises(JobNotFound):
            await shop.app.admin.retry(999)
        assert await shop.app.admin.line("customer 9") == []
        assert await shop.app.admin.resume_key("customer 9") is False


async def test_key_can_be_paused_before_it_has_jobs(running: Shop) -> None:
    assert await running.app.admin.pause_key("customer 1", reason="migration", by="me")
    handle = await running.sync.enqueue(1, 1)
    assert (await running.app.admin.key("customer 1")).blocked == "paused: migration"
    other = await running.sync.enqueue(2, 2)
    await other.result(timeout=5)
    assert running.ran == [2]
    assert await running.app.admin.resume_key("customer 1")
    await handle.result(timeout=5)


async def test_purge_cancels_what_waits_and_asks_what_runs_to_end(running: Shop) -> None:
    running_one = await running.sync.enqueue(1, 100)
    waiting = [await running.sync.enqueue(1, number) for number in range(1, 4)]
    async with patience(5):
        while 100 not in running.ran:
            await asyncio.sleep(0.01)
    cancelled = await running.app.admin.purge_key("customer 1", "customer left")
    assert sorted(cancelled) == [running_one.id, *(handle.id for handle in waiting)]
    assert [(await handle.wait(timeout=5)).error_message for handle in waiting] == ["customer left"] * 3
    running.gate.set()
    await running_one.wait(timeout=5)
    assert running.ran == [100]


async def test_all_dead_jobs_are_retried_in_the_order_of_their_key(running: Shop, connection: Connection) -> None:
    admin = running.app.admin
    first = await running.sync.enqueue(1, 0)
    await first.wait(timeout=5)
    await admin.release_key("customer 1")
    second = await running.sync.enqueue(1, 0)
    await second.wait(timeout=5)
    await admin.release_key("customer 1")
    running.failing = False
    done = await admin.retry_dead(key="customer 1")
    assert {job_id: verb.outcome for job_id, verb in done.items()} == {first.id: "retried", second.id: "retried"}
    await second.result(timeout=5)
    started = await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY started_at")
    assert [row["id"] for row in started] == [first.id, second.id]


async def test_dead_job_that_is_busy_or_gone_keeps_no_other_from_being_retried(
    shop: Shop, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop.app:
        handles = [await shop.sync.enqueue(number, number) for number in range(3)]
        for handle in handles:
            await shop.app.admin.kill(handle.id)
        retry = serialized.retry

        async def retry_all_but_one(link: Link, job_id: int, by: str) -> serialized.Verb:
            if job_id == handles[0].id:
                raise asyncpg.LockNotAvailableError("somebody holds it")
            if job_id == handles[1].id:
                await connection.execute("DELETE FROM asyncjobs.serialized_jobs WHERE id = $1", job_id)
                await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", job_id)
            return await retry(link, job_id, by)

        monkeypatch.setattr(serialized, "retry", retry_all_but_one)
        done = await shop.app.admin.retry_dead(type="sync")
        assert [done[handle.id].outcome for handle in handles] == ["busy", "unknown", "retried"]


async def test_verb_on_a_job_that_a_transaction_holds_gives_up_with_a_word(shop: Shop, connection: Connection) -> None:
    async with shop.app:
        handle = await shop.sync.enqueue(1, 1)
        await connection.execute("ALTER ROUTINE asyncjobs.end_job SET lock_timeout = '0.1s'")  # five times
        async with connection.transaction():
            await connection.execute("SELECT FROM asyncjobs.jobs FOR UPDATE")
            with pytest.raises(StateError, match="cancel: another transaction holds the job or its key for too long"):
                await shop.app.admin.cancel(handle.id)
        assert (await shop.app.admin.cancel(handle.id)).outcome == "cancelled"
