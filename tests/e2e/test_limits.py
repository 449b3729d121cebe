"""Limits in whole programs (P15): never exceeded, and no permit idles while a job waits that may have it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from asyncjobs import (
    AsyncJobs,
    Backoff,
    Cancel,
    JobContext,
    Limit,
    LimitNotFound,
    Queue,
    Rate,
    Snooze,
    Throttled,
    gather,
)
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import LimitsDiffer
from tests.support.breaker_app import App
from tests.support.eventually import eventually
from tests.support.program import Program


class Busy:
    """An app whose handlers note how many of a key, and of all, run at once."""

    def __init__(self, dsn: str, limit: Limit, *, queue: Queue | None = None, **settings: Any) -> None:
        given: Any = {"poll_interval": 5, "promote_interval": 1, **settings}
        self.dsn = dsn
        self.app = AsyncJobs(dsn, queues=[queue or Queue(concurrency=10)], **given)
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.starts: list[float] = []
        self.go = asyncio.Event()
        self.attempts: Counter[int] = Counter()

        @self.app.job("work", limit=limit, backoff=Backoff(0.01, maximum=0.01))
        async def work(ctx: JobContext, tenant: str, plan: str = "") -> int | None:
            self.starts.append(time.monotonic())
            self.attempts[ctx.job.id] += 1
            for key in (tenant, "all"):
                self.running[key] += 1
                self.most[key] = max(self.most[key], self.running[key])
            try:
                return await self._do(ctx, plan)
            finally:
                for key in (tenant, "all"):
                    self.running[key] -= 1

        self.work = work

        @self.app.job("plain")
        async def plain() -> None:
            pass

        self.plain = plain

    async def _do(self, ctx: JobContext, plan: str) -> int | None:
        await asyncio.sleep(0.005)
        if plan == "wait":
            await self.go.wait()
        if ctx.attempt == 1 and plan == "fail":
            raise ValueError(plan)
        if not ctx.job.snoozes and plan == "snooze":
            return Snooze(0.01)  # type: ignore[return-value]
        if not ctx.job.snoozes and plan == "throttle":
            raise Throttled(0.2)
        if not ctx.job.snoozes and plan == "throttle long":
            raise Throttled(1.5)
        if plan == "cancel":
            return Cancel("no more")  # type: ignore[return-value]
        if plan.startswith("complete"):
            connection = await asyncpg.connect(self.dsn)
            try:
                async with connection.transaction():
                    await ctx.complete(connection, 1)
            finally:
                await connection.close()
        if plan == "complete and wait":
            await self.go.wait()
        return 1

    async def run(self, *plans: tuple[str, str]) -> None:
        """Enqueue these (tenant, plan), and wait until they have ended as planned."""
        handles = await self.app.enqueue_many([self.work.new(tenant, plan) for tenant, plan in plans])
        ended = await asyncio.wait_for(gather(handles, return_exceptions=True), 30)
        assert [one for (_, plan), one in zip(plans, ended, strict=True) if plan != "cancel" and one != 1] == []


@pytest.fixture
def limit() -> Limit:
    return Limit("api", total=3, each=2, by="{tenant}")


@pytest.fixture
async def busy(dsn: str, limit: Limit) -> AsyncGenerator[Busy]:
    made = Busy(dsn, limit)
    async with made.app.runner(grace=5):
        yield made
        made.go.set()


@pytest.mark.parametrize("plan", ["", "fail", "snooze", "cancel", "complete"])
async def test_whatever_ends_attempts_no_limit_is_exceeded_and_all_is_done(busy: Busy, plan: str) -> None:
    await busy.run(*[(tenant, plan) for tenant in "ab" for _ in range(10)])
    assert max(busy.most["a"], busy.most["b"]) == 2
    assert busy.most["all"] == 3


async def test_a_full_tenant_delays_nobody_else(busy: Busy) -> None:
    held = [await busy.work.enqueue("full", "wait") for _ in range(10)]
    await eventually(lambda: busy.running["full"] == 2, description="the tenant is full")
    await busy.run(*[("other", "")] * 6)
    await asyncio.wait_for((await busy.plain.enqueue()).result(), 10)
    assert busy.running["full"] == 2
    busy.go.set()
    await asyncio.wait_for(gather(held), 30)


async def test_a_second_runner_keeps_the_same_limit(dsn: str, limit: Limit) -> None:
    first, second = Busy(dsn, limit), Busy(dsn, limit)
    async with first.app.runner(grace=5), second.app.runner(grace=5):
        handles = await first.app.enqueue_many([first.work.new("a", "wait") for _ in range(6)])
        await eventually(lambda: first.running["a"] + second.running["a"] == 2, description="two of them run")
        await asyncio.sleep(0.3)
        assert first.running["a"] + second.running["a"] == 2
        first.go.set()
        second.go.set()
        await asyncio.wait_for(gather(handles), 30)
    assert first.most["a"] <= 2
    assert second.most["a"] <= 2


async def test_a_total_of_a_queue_holds_for_every_job_of_it(dsn: str) -> None:
    busy = Busy(dsn, Limit("api", total=100), queue=Queue(concurrency=10, total=3, prefetch=20))
    async with busy.app.runner(grace=5):
        await busy.run(*[("a", "")] * 30)
    assert busy.most["all"] == 3


async def test_what_is_limited_is_not_claimed_ahead(dsn: str, connection: Connection) -> None:
    busy = Busy(dsn, Limit("api", each=100, by="{tenant}"), queue=Queue(concurrency=2, prefetch=50))
    async with busy.app.runner(grace=5):
        for _ in range(10):
            await busy.work.enqueue("a", "wait")
        await eventually(lambda: busy.running["a"] == 2, description="the slots are taken")
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'processing'") == 2
        busy.go.set()


async def test_a_rate_is_kept(dsn: str, connection: Connection) -> None:
    """Five at once, and fifty in the second that follows. (By the database: a process starts late what it was given in time.)"""
    busy = Busy(dsn, Limit("api", rate=Rate(50, per=1, burst=5)))
    async with busy.app.runner(grace=5):
        await busy.run(*[("a", "")] * 55)
    took = await connection.fetchval("SELECT extract(epoch FROM max(started_at) - min(started_at))::float8 FROM asyncjobs.jobs")
    assert took > 0.7


async def test_throttled_closes_the_key_and_spends_no_attempt(dsn: str, connection: Connection) -> None:
    busy = Busy(dsn, Limit("api", each=1, by="{tenant}"))
    async with busy.app.runner(grace=5):
        began = time.monotonic()
        first = await busy.work.enqueue("a", "throttle long")
        await eventually(lambda: busy.attempts[first.id] == 1, description="the service has said so")
        await eventually(
            lambda: connection.fetchval("SELECT closed_until IS NOT NULL FROM asyncjobs.limit_keys"),
            description="the key is closed",
        )
        others = [await busy.work.enqueue(tenant) for tenant in ("a", "b")]
        await asyncio.wait_for(others[1].result(), 10)
        assert len(busy.starts) == 2, "another key is open"
        await asyncio.wait_for(gather([first, others[0]]), 10)
        assert time.monotonic() - began > 1.5
    assert await connection.fetchval("SELECT attempts FROM asyncjobs.jobs WHERE id = $1", first.id) == 1


async def test_a_program_that_declares_otherwise_counts_and_says_so(dsn: str) -> None:
    first, second = Busy(dsn, Limit("api", each=1, by="{tenant}")), Busy(dsn, Limit("api", each=2, by="{tenant}"))
    differing: list[LimitsDiffer] = []
    second.app.events.subscribe(differing.append, LimitsDiffer)
    async with first.app.runner(grace=5), second.app.runner(grace=5):
        assert [event.names for event in differing] == [["api"]]
        handles = [await first.work.enqueue("a", "wait") for _ in range(4)]
        await eventually(lambda: first.running["a"] + second.running["a"] == 2, description="what was declared last counts")
        first.go.set()
        second.go.set()
        await asyncio.wait_for(gather(handles), 30)


async def test_throttled_without_a_limit_is_a_snooze(dsn: str) -> None:
    app = AsyncJobs(dsn)
    starts: list[float] = []

    @app.job("call")
    async def call() -> None:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise Throttled(0.2)

    async with app.runner(grace=5):
        await asyncio.wait_for((await call.enqueue()).result(), 10)
    assert starts[1] - starts[0] >= 0.2


async def test_an_enqueue_gives_the_key_itself_by_which_its_job_is_found(busy: Busy) -> None:
    handle = await busy.work.using(limit_key="mine").enqueue("a")
    await asyncio.wait_for(handle.result(), 10)
    job = await busy.app.get(handle.id)
    assert job is not None
    assert job.limit_key == "api:mine"
    found = await busy.app.admin.find(limit_key="api:mine")
    assert [one.id for one in found.jobs] == [handle.id]
    assert (await busy.app.admin.find(limit_key="api:a")).jobs == []


async def test_jobs_of_a_serialization_key_keep_their_order_within_limits(busy: Busy) -> None:
    handles = [await busy.work.using(serialization_key="k").enqueue("a") for _ in range(6)]
    await asyncio.wait_for(gather(handles), 30)
    assert busy.most["a"] == 1


async def test_a_callers_transaction_opens_its_keys_with_its_commit(busy: Busy, connection: Connection) -> None:
    async with connection.transaction():
        handle = await busy.work.using(connection=connection).enqueue("late")
        await asyncio.sleep(0.1)
        assert busy.running["late"] == 0
    await asyncio.wait_for(handle.result(), 10)


async def test_a_limited_backlog_ends_a_run_until_idle(dsn: str, limit: Limit) -> None:
    busy = Busy(dsn, limit)
    async with busy.app:
        await busy.app.enqueue_many([busy.work.new("a") for _ in range(12)])
    await asyncio.wait_for(busy.app.run(until_idle=True), 30)
    assert len(busy.starts) == 12


async def test_explain_says_what_fills_a_key_and_until_when_it_is_closed(busy: Busy) -> None:
    handles = [await busy.work.enqueue("a", "wait") for _ in range(3)]
    await eventually(lambda: busy.running["a"] == 2, description="the key is full")
    told = await busy.app.admin.explain(handles[2].id)
    assert told.reason == "limit full"
    assert f'its limit key "api:a" has 2 of 2 running (jobs {handles[0].id}, {handles[1].id})' in told.sentence
    busy.go.set()
    await asyncio.wait_for(gather(handles), 30)
    throttled = await busy.work.enqueue("b", "throttle")
    await eventually(lambda: busy.attempts[throttled.id] == 1, description="the service has said so")
    await eventually(lambda: _reason(busy, throttled.id, "limit closed"), description="it says that the key is closed")
    await asyncio.wait_for(throttled.result(), 10)


async def _reason(busy: Busy, job_id: int, reason: str) -> bool:
    return (await busy.app.admin.explain(job_id)).reason == reason


async def test_an_operators_value_holds_until_it_is_reset(busy: Busy) -> None:
    handles = [await busy.work.enqueue("a", "wait") for _ in range(4)]
    await eventually(lambda: busy.running["a"] == 2, description="the key is full")
    assert (await busy.app.admin.set_limit("api", each=3, by="ada")).set_by == "ada"
    await eventually(lambda: busy.running["a"] == 3, description="one more runs")
    assert (await busy.app.admin.reset_limit("api")).each == 2
    waiting = await busy.app.admin.find(limit_key="api:a", status=["pending", "processing"])
    assert [job.id for job in waiting.jobs] == [handle.id for handle in reversed(handles)]
    [key] = await busy.app.admin.limit_keys("api")
    assert (key.key, key.running, key.waiting) == ("api:a", 3, 1)
    with pytest.raises(LimitNotFound, match='Did you mean "api"'):
        await busy.app.admin.set_limit("apo", each=3)
    busy.go.set()
    await asyncio.wait_for(gather(handles), 30)


async def test_an_enqueue_from_sql_gets_the_key_of_its_type(busy: Busy, connection: Connection) -> None:
    enqueue = "SELECT asyncjobs.enqueue('work', $1, $2)"
    first = await connection.fetchval(enqueue, '{"tenant": "a"}', "{}")
    second = await connection.fetchval(enqueue, '{"tenant": "a"}', '{"limit_key": "mine"}')
    for job_id in (first, second):
        await asyncio.wait_for(busy.app.handle(job_id).result(), 10)
    found = await connection.fetch("SELECT limit_key FROM asyncjobs.jobs ORDER BY id")
    assert [row["limit_key"] for row in found] == ["api:a", "api:mine"]
    with pytest.raises(asyncpg.PostgresError, match='limit_key="k" was given for plain, but it has no limit'):
        await connection.fetchval("SELECT asyncjobs.enqueue('plain', '{}', $1)", '{"limit_key": "k"}')


async def test_an_open_breaker_holds_its_jobs_back_and_they_take_no_permit(dsn: str, connection: Connection) -> None:
    """What waits behind a breaker is not claimed; another type of its limit key, which needs no such service, has the permit."""
    app = App(dsn)
    limit = Limit("api", each=1, by="{tenant}")
    ran: list[str] = []

    @app.jobs.job("send", limit=limit, breaker="mail")
    async def send(tenant: str) -> None:
        ran.append("send")

    @app.jobs.job("note", limit=limit)
    async def note(tenant: str) -> None:
        ran.append("note")

    async with app.jobs.runner(grace=5):
        await app.jobs.admin.open_breaker("mail")
        held = await send.enqueue("a")
        await asyncio.wait_for((await note.enqueue("a")).result(), 10)
        job = await app.jobs.get(held.id)
        assert job is not None
        assert job.status != "completed"
        await app.jobs.admin.reset_breaker("mail")
        await asyncio.wait_for(held.result(), 20)
    assert ran == ["note", "send"]


async def test_a_permit_is_held_until_the_handler_has_ended_although_its_job_is_completed(
    busy: Busy, connection: Connection
) -> None:
    """`ctx.complete` ends the job with its transaction, and the handler goes on: it may still use what is limited."""
    held = [await busy.work.enqueue("a", "complete and wait") for _ in range(4)]
    completed = "SELECT count(*) FROM asyncjobs.jobs WHERE status = 'completed'"
    await eventually(lambda: connection.fetchval(f"SELECT ({completed}) = 2"), description="two are completed")
    other = await busy.work.enqueue("b")
    await asyncio.wait_for(other.result(), 10)
    assert (busy.running["a"], busy.most["a"]) == (2, 2)
    assert len(busy.starts) == 3, "their permits are theirs still"
    busy.go.set()
    await asyncio.wait_for(gather(held), 30)
    assert busy.most["a"] == 2


async def test_what_a_gate_lets_go_waits_for_a_permit(busy: Busy) -> None:
    """Jobs of a workflow, and what they spawn, open their key when they are let go, and are limited as others are."""
    async with busy.app.workflow("import") as flow:
        first = flow.add(busy.work.new("first"))
        for _ in range(8):
            flow.add(busy.work.new("a"), after=first)
    ended = await busy.app.workflow_of(flow.id).wait(timeout=30)
    assert ended.state == "completed"
    assert busy.most["a"] == 2


async def test_a_paused_key_holds_its_job_back_and_takes_no_permit(busy: Busy) -> None:
    """A job that waits in a paused serialization key's line is not pending: its limit key is others'."""
    await busy.app.admin.pause(key="k")
    held = await busy.work.using(serialization_key="k").enqueue("a")
    await busy.run(("a", ""), ("a", ""), ("a", ""))
    assert busy.attempts[held.id] == 0
    await busy.app.admin.resume(key="k")
    await asyncio.wait_for(held.result(), 10)


async def test_a_rate_is_that_of_the_database_although_clocks_of_processes_are_an_hour_apart(
    dsn: str, connection: Connection
) -> None:
    """A burst of 20 in all, not one for each clock: the hundredth starts four seconds after the first, and not two."""
    app = AsyncJobs(dsn)

    @app.job("limited", limit=Limit("api", rate=Rate(20, per=1, burst=20)))
    async def limited() -> None: ...

    async with AsyncExitStack() as stack:
        for shift in (3600, -3600, 0):
            env = {"ASYNCJOBS_DSN": dsn, "CLOCK_SHIFT": str(shift)}
            program = await stack.enter_async_context(Program.python("-m", "tests.programs.limited", env=env))
            await program.line("started")
        async with app:
            await app.enqueue_many([limited.new() for _ in range(100)])
            left = "SELECT count(*) = 0 FROM asyncjobs.jobs WHERE status <> 'completed'"
            await eventually(lambda: connection.fetchval(left), description="all have run", timeout=20)
    took = await connection.fetchval("SELECT extract(epoch FROM max(started_at) - min(started_at))::float8 FROM asyncjobs.jobs")
    assert took > 3.0
