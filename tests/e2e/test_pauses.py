"""Pause, resume and drain, as operators use them on apps that run."""

import asyncio
from typing import Any, Literal

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.errors import InvalidName, UsageError
from asyncjobs.store.database import Connection
from asyncjobs.store.pauses import Paused
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually

Notify = Literal["auto", "listen", "poll"]


class Shop:
    """Two types in two queues, and a handler that ends when it may."""

    def __init__(self, dsn: str, *, notify: Notify = "auto", schema: str = "asyncjobs") -> None:
        self.app = AsyncJobs(
            dsn, schema=schema, notify=notify, queues=[Queue(concurrency=4), Queue("other", concurrency=4)], poll_interval=0.2
        )
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.email = self.app.job("email")(self._email)
        self.sms = self.app.job("sms")(self._sms)

    async def _email(self, number: int = 0) -> int:
        await self.may_end.wait()
        return number

    async def _sms(self, number: int = 0) -> int:
        return number


@pytest.mark.matrix("notify", "schema", "loop")
async def test_a_paused_type_rests_in_every_process_and_others_go_on(dsn: str, schema: str, notify: Notify) -> None:
    here, there = Shop(dsn, notify=notify, schema=schema), Shop(dsn, notify=notify, schema=schema)
    async with here.app.runner(), there.app.runner():
        paused = await here.app.admin.pause(type="email", reason="too many", by="ada")
        assert (paused.is_new, paused.served) == (True, True)
        held = [await shop.email.enqueue(1) for shop in (here, there) for _ in range(3)]
        await there.email.using(priority=1).enqueue(2)
        assert [await (await there.sms.enqueue(n)).result(timeout=10) for n in range(5)] == list(range(5))
        assert {(await here.app.get(one.id)).status for one in held} == {"paused"}  # type: ignore[union-attr]
        assert [(one.kind, one.name, one.paused_by) for one in await there.app.admin.pauses()] == [("type", "email", "ada")]
        assert await there.app.admin.resume(type="email")
        assert not await here.app.admin.resume(type="email")
        assert [await one.result(timeout=10) for one in held] == [1] * 6


@pytest.mark.matrix("notify")
async def test_a_paused_queue_rests_and_its_jobs_stay_as_they_are(dsn: str, notify: Notify, recorder: Recorder) -> None:
    shop = Shop(dsn, notify=notify)
    async with shop.app.runner():
        await shop.app.admin.pause(queue="other")
        held = await shop.email.using(queue="other").enqueue(1)
        assert await (await shop.email.enqueue(2)).result(timeout=10) == 2
        job = await shop.app.get(held.id)
        assert job is not None
        assert job.status == "pending"
        assert [event.queue for event in recorder.of(AttemptStarted)] == ["default"]
        await shop.app.admin.resume(queue="other")
        assert await held.result(timeout=10) == 1


async def test_a_pause_outlives_the_processes(dsn: str) -> None:
    async with Shop(dsn).app as app:
        await app.admin.pause(type="email")
        await app.admin.pause(queue="other")
    shop = Shop(dsn)
    async with shop.app.runner():
        held = [await shop.email.enqueue(), await shop.sms.using(queue="other").enqueue()]
        await (await shop.sms.enqueue()).result(timeout=10)
        assert [one.name for one in await shop.app.admin.pauses()] == ["email", "other"]
        jobs = [await shop.app.get(one.id) for one in held]
        assert [job.status for job in jobs if job is not None] == ["paused", "pending"]


async def test_a_backlog_that_a_pause_found_is_moved_by_the_duty(dsn: str, connection: Connection) -> None:
    shop = Shop(dsn)
    async with shop.app as app:
        await app.enqueue_many([shop.email.new(n) for n in range(3_000)])
        await app.admin.pause(type="email")

    async def pending() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending'")

    async with shop.app.runner():
        await eventually(pending, description="all of it is paused", timeout=30)
        await shop.app.admin.resume(type="email")

        async def ended() -> bool:
            return bool(await connection.fetchval("SELECT count(*) = 3000 FROM asyncjobs.jobs WHERE status = 'completed'"))

        await eventually(ended, description="all of it was done", timeout=30)


async def test_drain_waits_for_what_runs_and_lets_nothing_new_start(dsn: str, recorder: Recorder) -> None:
    shop = Shop(dsn)
    shop.may_end.clear()
    async with shop.app.runner():
        running = [await shop.email.enqueue(n) for n in range(2)]
        await recorder.wait_for(AttemptStarted, lambda event: event.job_id == running[1].id)
        assert await shop.app.admin.drain(type="email", timeout=0.3) == 2
        draining = asyncio.create_task(shop.app.admin.drain(type="email"))
        held = await shop.email.enqueue(9)
        shop.may_end.set()
        assert await asyncio.wait_for(draining, 10) == 0
        job = await shop.app.get(held.id)
        assert job is not None
        assert job.status == "paused"
        assert await shop.app.admin.drain(queue="default", timeout=10) == 0
        for what in ({"type": "email"}, {"queue": "default"}):
            assert await shop.app.admin.resume(**what)
        assert await held.result(timeout=10) == 9


async def test_a_key_is_paused_like_the_others(dsn: str) -> None:
    shop = Shop(dsn)
    async with shop.app.runner():
        assert (await shop.app.admin.pause(key="k")).is_new
        held = await shop.email.using(serialization_key="k").enqueue(1)
        await (await shop.email.using(serialization_key="another").enqueue(2)).result(timeout=10)
        assert await shop.app.admin.drain(key="k", timeout=5) == 0
        assert await shop.app.admin.resume(key="k")
        assert await held.result(timeout=10) == 1


async def test_one_thing_at_a_time_and_by_a_name_that_can_be(dsn: str) -> None:
    async with Shop(dsn).app as app:
        with pytest.raises(UsageError, match=r"admin.pause takes one of queue=, type= and key=, and got 0"):
            await app.admin.pause()
        with pytest.raises(UsageError, match=r"admin.resume takes one of queue=, type= and key=, and got 2"):
            await app.admin.resume(queue="a", type="b")
        with pytest.raises(InvalidName):
            await app.admin.pause(queue="")
        assert not (await app.admin.pause(type="emial")).served
        assert await app.admin.resume(type="emial")


@pytest.mark.matrix("notify")
async def test_everything_rests_at_once_also_a_queue_that_comes_later_and_goes_on(dsn: str, notify: Notify) -> None:
    shop, other = Shop(dsn, notify=notify), AsyncJobs(dsn, queues=[Queue("new")], notify=notify, poll_interval=0.2)

    @other.job("late", queue="new", serialize_by="{key}")
    async def late(key: str) -> str:
        return key

    admin = shop.app.admin
    async with shop.app.runner():
        await admin.pause(queue="other", by="ada")
        assert (await admin.pause_all(reason="upgrade", by="eve")).is_new
        assert (await admin.pause_all()) == Paused(is_new=False, served=True)
        told = await admin.explain((await shop.email.enqueue(0)).id)
        assert told.sentence.endswith(": everything is paused by eve: upgrade.")
        held: list[Any] = [await shop.email.enqueue(1), await shop.sms.enqueue(2)]
        async with other.runner():
            held += [await late.enqueue("k"), await late.enqueue("k")]
            await asyncio.sleep(0.5)
            assert {(await shop.app.get(one.id)).status for one in held} <= {"pending", "waiting"}  # type: ignore[union-attr]
            elsewhere = await shop.email.using(queue="other").enqueue(3)
            assert await admin.resume_all()
            assert not await admin.resume_all()
            assert [await one.result(timeout=10) for one in held] == [1, 2, "k", "k"]
            assert [(one.kind, one.name) for one in await admin.pauses()] == [("queue", "other")]
            assert (await shop.app.get(elsewhere.id)).status == "pending"  # type: ignore[union-attr]


async def test_after_a_resume_of_everything_a_runner_that_hardly_polls_goes_on_at_once(dsn: str) -> None:
    jobs, other = (AsyncJobs(dsn, poll_interval=60, pauses_interval=60) for _ in range(2))

    @jobs.job("echo")
    async def echo(number: int) -> int:
        return number

    async with other, jobs.runner():
        await other.admin.pause_all()
        handles = await jobs.enqueue_many(echo.new(number) for number in range(3))
        await asyncio.sleep(0.3)
        await other.admin.resume_all()
        assert [await one.result(timeout=5) for one in handles] == [0, 1, 2]


async def test_drain_of_everything_waits_for_what_runs(dsn: str) -> None:
    shop = Shop(dsn)
    async with shop.app.runner():
        shop.may_end.clear()
        handle = await shop.email.enqueue(1)
        await eventually(lambda: bool(shop.app.health().runners[0].running), description="it runs")
        assert await shop.app.admin.drain_all(timeout=0.3) == 1
        shop.may_end.set()
        assert await shop.app.admin.drain_all(timeout=10) == 0
        assert await handle.result(timeout=5) == 1


async def test_what_was_claimed_ahead_is_given_back_when_everything_is_paused(dsn: str) -> None:
    jobs, may_end = AsyncJobs(dsn, queues=[Queue(concurrency=1, prefetch=5)]), asyncio.Event()

    @jobs.job("slow")
    async def slow() -> None:
        await may_end.wait()

    async with jobs.runner():
        handles = await jobs.enqueue_many(slow.new() for _ in range(4))
        await eventually(lambda: jobs.health().runners[0].waiting == 3, description="three wait")
        await jobs.admin.pause_all()
        await eventually(lambda: jobs.health().runners[0].waiting == 0, description="they were given back")
        may_end.set()
        assert await jobs.admin.drain_all(timeout=5) == 0
        assert sorted([(await jobs.get(one.id)).status for one in handles]) == ["completed", *["pending"] * 3]  # type: ignore[union-attr]
        await jobs.admin.resume_all()
        for one in handles:
            await one.wait(timeout=5)


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_an_operators_own_delete_of_a_pause_lets_its_jobs_go_at_once(dsn: str, connection: Connection) -> None:
    """The row that is gone notifies, and the runner that hears it looks: nobody waits for the next pass, minutes away."""
    shop = Shop(dsn, notify="listen")
    shop.app = AsyncJobs(dsn, notify="listen", pauses_interval=300)
    email = shop.app.job("email")(shop._email)
    async with shop.app.runner():
        await shop.app.admin.pause(type="email")
        held = await email.enqueue(1)
        await eventually(lambda: _is_paused(shop.app, held.id), description="it is held")
        await asyncio.sleep(0.5)  # the passes that the pause itself asked for are over
        await connection.execute("DELETE FROM asyncjobs.pauses")
        assert await held.result(timeout=5) == 1


async def _is_paused(app: AsyncJobs, job_id: int) -> bool:
    job = await app.get(job_id)
    return job is not None and job.status == "paused"
