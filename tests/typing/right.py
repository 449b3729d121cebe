"""Every line passes in mypy --strict and in pyright strict. Checked, never run."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, TypedDict, assert_type
from uuid import UUID

import asyncpg
import attrs
import msgspec
import psycopg
import psycopg2.extensions
from aiohttp import web
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Connection as SyncConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from asyncjobs import (
    AsyncJobs,
    AsyncJobType,
    Backoff,
    Cancel,
    CircuitBreaker,
    Dead,
    DutyContext,
    Ended,
    Group,
    Hook,
    Job,
    JobContext,
    JobError,
    JobHandle,
    JobRouter,
    JobType,
    Lane,
    NewJob,
    Node,
    Outcome,
    Queue,
    Results,
    Retry,
    Runner,
    Snooze,
    SyncJobType,
    Verdict,
    as_completed,
    chain,
    gather,
    resource,
)
from asyncjobs.integrations.aiohttp import JOBS, setup
from asyncjobs.testing import (
    Auditor,
    Captured,
    MovableClock,
    Recorder,
    assert_enqueued,
    assert_enqueued_sync,
    captured,
    clear,
    clear_sync,
    databases,
    in_memory,
    override,
    perform,
    refute_enqueued,
    run_until_idle,
    run_until_idle_sync,
    server,
)


class Event(msgspec.Struct):
    kind: str


@dataclass
class Point:
    x: int


@attrs.define
class Box:
    width: int


class Model(BaseModel):
    a: int


class Row(TypedDict):
    a: int


class Pair(NamedTuple):
    left: int
    right: int


class Colour(Enum):
    RED = "red"


class Stamp(Hook):
    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
        return job.using(created_by="me", priority=1)

    async def after_enqueue(self, job: NewJob[Any], /, handle: JobHandle[Any] | None, error: BaseException | None) -> None:
        pass

    async def before_attempt(self, ctx: JobContext, /) -> None:
        assert_type(await ctx.use(shared), list[int])
        assert_type(ctx.jobs, AsyncJobs)

    async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
        assert_type(outcome.message, str | None)


@resource
@asynccontextmanager
async def shared() -> AsyncGenerator[list[int]]:
    yield [1]


def patience(attempt: int, error: BaseException) -> float | Snooze | Dead:
    return Dead("no such account") if isinstance(error, LookupError) else Snooze(5) if attempt == 1 else 2.0 * attempt


router = JobRouter(queue="mail", lane="fast", timeout=60, max_attempts=5, backoff=Backoff(2), retry_on=ConnectionError)
patient = JobRouter(backoff=patience, retry_on=(ConnectionError, TimeoutError), give_up_on=(ValueError,), timeout=math.inf)
defaults = AsyncJobs(max_attempts=5, timeout=timedelta(minutes=2), backoff=patience, retry_on=OSError, give_up_on=(KeyError,))


@patient.job("patient", backoff=lambda attempt, error: attempt * 2.0, timeout=math.inf)
async def patiently(to: str) -> None: ...


jobs = AsyncJobs(
    "postgresql://x",
    schema="my jobs",
    queues=[
        Queue("default"),
        Queue("mail", concurrency=8, lanes={"fast": 3, "slow": Lane(2, timeout=timedelta(minutes=1))}, prefetch=2),
    ],
    routers=[router],
    grace=timedelta(seconds=3),
    connect_timeout=5,
    poll_interval=None,
    heartbeat=2.5,
    runner_timeout=timedelta(seconds=20),
    hooks=[Stamp()],
)
from_environment = AsyncJobs()

# -- handlers, and what is inferred from them


@router.job("with context", lane="fast", timeout=timedelta(minutes=2), backoff=Backoff(1, maximum=300), serialize_by="inbox_{to}")
async def with_context(ctx: JobContext, to: str, template: str = "x") -> int:
    return 1


@jobs.job(
    "without context", timeout=120, on_dead="halt", aliases=["former", "earlier"], version=3, upgrades={2: lambda fields: fields}
)
async def without_context(to: str) -> str:
    return to


@jobs.job("plain with context", priority=5)
def plain_with_context(ctx: JobContext, n: int) -> bytes:
    return b""


@jobs.job("plain", breaker="mail-service")
def plain(n: int) -> float:
    return 1.0


@jobs.job("nothing")
async def nothing() -> None: ...


@jobs.job("only context")
async def only_context(ctx: JobContext) -> None: ...


@jobs.job("keyword only")
async def keyword_only(*, to: str, copies: int = 1) -> None: ...


@jobs.job("verdicts")
async def verdicts(ctx: JobContext, n: int) -> int | Snooze | Cancel:
    return Snooze(timedelta(minutes=1)) if n else 1


@jobs.job("only verdicts")
async def only_verdicts(n: int) -> Retry | Dead | None:
    return Retry() if n else Dead("no")


@jobs.job("plain verdict")
def plain_verdict(ctx: JobContext, n: int) -> str | Retry:
    return Retry(5) if n else ""


@jobs.job("raised verdict")
async def raised_verdict(n: int) -> int:
    raise Retry(n)


@jobs.job("rich")
async def rich(
    ctx: JobContext, event: Event, point: Point, box: Box, model: Model, row: Row, pair: Pair, who: UUID, c: Colour
) -> Model:
    return model


@jobs.job("results")
async def results() -> dict[str, list[Decimal | datetime | Point | Box | Event]]:
    return {}


@jobs.job("abstract results")
def abstract_results() -> Mapping[str, Sequence[int]]:
    return {}


@jobs.job("any inside")
async def any_inside(ctx: JobContext, data: dict[str, Any]) -> None: ...


@router.stub("elsewhere", queue="orders", serialize_by="order_{order_id}")
async def elsewhere(order_id: int) -> None: ...


general: JobType[..., int] = with_context
of_async: AsyncJobType[[str], str] = without_context
of_plain: SyncJobType[[int], float] = plain


# -- called as functions


async def calling() -> None:
    assert_type(await with_context("a"), int)
    assert_type(await with_context.using(priority=1)("a", template="b"), int)
    assert_type(await without_context(to="a"), str)
    assert_type(await verdicts(1), int)
    assert_type(plain(1), float)
    assert_type(plain_with_context(1), bytes)
    assert_type(plain_verdict(1), str)
    assert_type(await nightly(), int)
    assert_type(await with_context.handler("its own context", "a"), int | Verdict)
    assert_type(plain.handler(1), float | Verdict)


# -- waiting for many


async def waiting(several: list[JobHandle[int]], alike: tuple[JobHandle[int], ...]) -> None:
    assert_type(await gather(several, timeout=5), list[int])
    assert_type(await gather(alike), tuple[int, ...])
    assert_type(await gather((with_context.handle(1),)), tuple[int])
    assert_type(await gather((with_context.handle(1), without_context.handle(2), plain.handle(3))), tuple[int, str, float])
    one, two, three = with_context.handle(1), without_context.handle(2), plain.handle(3)
    assert_type(await gather((one, two, three, one), timeout=5), tuple[int, str, float, int])
    assert_type(await gather((one, two, three, one, two)), tuple[int, str, float, int, str])
    assert_type(await gather((one, two, three, one, two, three)), tuple[int, str, float, int, str, float])
    assert_type(await gather((one, one), return_exceptions=True), tuple[int | JobError, ...])
    assert_type(await gather(handle for handle in several), list[int])
    assert_type(await gather(several, return_exceptions=True), list[int | JobError])
    assert_type(await gather(alike, return_exceptions=True), tuple[int | JobError, ...])
    async for ended in as_completed(several, timeout=timedelta(seconds=1)):
        assert_type(ended, Ended[int])
        assert_type(ended.result(), int)
        assert_type(ended.exception(), JobError | None)
        assert_type(ended.handle, JobHandle[int])
    async for ended in as_completed((one, one)):
        assert_type(ended.result(), int)
    mixed: tuple[JobHandle[int | str], ...] = (one, two)
    async for other in as_completed(mixed):
        assert_type(other.result(), int | str)
    assert_type(await one.children(limit=5), list[JobHandle[Any]])
    assert_type(await gather(await one.children()), list[Any])


# -- keys


@with_context.serialize_by
def key(to: str, template: str = "x") -> str | None:
    return f"inbox_{to}" if to else None


with_context.serialize_by(lambda to, template="x": f"inbox_{to}")
keyword_only.serialize_by(lambda *, to, copies=1: f"inbox_{to}")

# -- schedules, duties, breakers


@jobs.cron("nightly", "0 3 * * *", timezone="Europe/Helsinki", misfire="all", overlap="queue", queue="mail")
async def nightly(ctx: JobContext) -> int:
    return 1


@jobs.cron("hourly", "0 * * * *")
def hourly() -> None: ...


@jobs.cron("with default", "0 * * * *")
async def with_default(ctx: JobContext, region: str = "eu") -> None: ...


jobs.schedule("weekly", with_context.using(priority=1).new("a"), cron="0 0 * * 0")
jobs.schedule("often", nothing.new(), every=timedelta(seconds=30), overlap="skip")


@jobs.duty("aggregate", every=timedelta(seconds=5))
async def aggregate(ctx: DutyContext) -> int:
    ctx.log.info(ctx.name)
    return 1


@router.duty("tick", every=5, strategy="share")
async def tick() -> None: ...


breaker = jobs.circuit_breaker("mail-service", failure_threshold=3, success_threshold=2, probes=1, open_for=30, counts=(OSError,))
assert_type(breaker, CircuitBreaker)


# -- inside a handler


class Client:
    async def get(self, url: str) -> str:
        return url


@asynccontextmanager
async def client(ctx: JobContext) -> AsyncGenerator[Client]:
    yield Client()


@jobs.job("uses")
async def uses(ctx: JobContext, url: str, connection: str = "") -> str:
    http = await ctx.use(client)
    assert_type(http, Client)
    assert_type(ctx.cancelled, bool)
    assert_type(ctx.jobs, AsyncJobs)
    assert_type(await ctx.jobs.enqueue(with_context.new("a")), JobHandle[int])
    assert_type(await ctx.jobs.enqueue("by name", {"to": "a"}, priority=1), JobHandle[Any])
    assert_type(ctx.jobs.settings.schema, str)
    await refute_enqueued(ctx.jobs, "by name")  # it is an app wherever one is asked for
    assert_type(ctx.job, Job)
    ctx.log.info("fetching", attempt=ctx.attempt, of=ctx.max_attempts, trace=ctx.correlation_id)
    ctx.progress(0.5)
    ctx.progress(0.9, "nearly")
    await without_context.enqueue(to=url)
    async with breaker:
        return await http.get(url)


# -- enqueueing


async def enqueueing(
    session: AsyncSession, sa: AsyncConnection, pg: asyncpg.Connection[asyncpg.Record], ps: psycopg.AsyncConnection[Any]
) -> None:
    assert_type(await with_context.enqueue(to="a"), JobHandle[int])
    assert_type(await with_context.enqueue("a", "b"), JobHandle[int])
    assert_type(with_context.enqueue_sync("a"), JobHandle[int])
    assert_type(with_context.new("a", template="b"), NewJob[int])
    handle = await with_context.using(priority=1, delay=5, dedup_key=None).enqueue("a", template="b")
    assert_type(handle.id, int)
    assert_type(handle.created, bool)
    assert_type(await handle.result(timeout=10), int)
    assert_type(await handle.result(timeout=timedelta(seconds=1)), int)
    assert_type(await handle.wait(), Job)
    assert_type(await (await verdicts.enqueue(1)).result(), int)
    assert_type(await (await only_verdicts.enqueue(1)).result(), None)
    assert_type(await (await plain_verdict.enqueue(1)).result(), str)
    assert_type(await (await plain.enqueue(1)).result(), float)
    assert_type(await (await plain_with_context.enqueue(1)).result(), bytes)
    assert_type(await (await nightly.enqueue()).result(), int)
    assert_type(await (await abstract_results.enqueue()).result(), Mapping[str, Sequence[int]])
    assert_type(await with_context.handle(5).result(), int)
    assert_type(with_context.name, str)
    await nothing.enqueue()
    await only_context.enqueue()
    await keyword_only.enqueue(to="a")
    await any_inside.enqueue({"a": 1})
    await elsewhere.enqueue(5)
    await rich.enqueue(Event("x"), Point(1), Box(1), Model(a=1), {"a": 1}, Pair(1, 2), UUID(int=1), c=Colour.RED)


async def options(
    session: AsyncSession,
    sa: AsyncConnection,
    pg: asyncpg.Connection[asyncpg.Record],
    pooled: asyncpg.pool.PoolConnectionProxy[asyncpg.Record],
    ps: psycopg.AsyncConnection[Any],
) -> None:
    await with_context.using(priority=1).using(delay=2).enqueue("a")
    await with_context.using(
        run_at=datetime.now(UTC), max_attempts=1, timeout=timedelta(hours=1), queue="mail", lane=None
    ).enqueue("a")
    await with_context.using(correlation_id="c", parent_job_id=1, created_by="me", notify=False).enqueue("a")
    await with_context.using(dedup_key="k", dedup_for=3600, on_duplicate="replace", serialization_key="s").enqueue("a")
    for connection in (session, sa, pg, pooled, ps):
        await without_context.using(connection=connection).enqueue("x")
    await jobs.enqueue(with_context.new("a"), connection=ps)


async def verbs(
    session: AsyncSession, sa: AsyncConnection, pg: asyncpg.Connection[asyncpg.Record], ps: psycopg.AsyncConnection[Any]
) -> None:
    for connection in (session, sa, pg, ps):
        cancelled: str = (await jobs.admin.cancel(1, "no", connection=connection)).outcome
        changed: str = (await jobs.admin.change(1, priority=5, timeout=timedelta(hours=1), connection=connection)).outcome
        assert_type((await jobs.admin.requeue(1, by="me", connection=connection)).new_id, int | None)
        assert_type(await jobs.get(1, connection=connection), Job | None)
    await jobs.admin.kill(1, connection=pg)
    await jobs.admin.fail(1, "no", will_retry=True, connection=pg)
    await jobs.admin.retry(1, connection=pg)
    await jobs.admin.delete(1, connection=pg)
    await jobs.admin.acknowledge(1, by="me", connection=pg)


class DjangoProxy:
    """As django-stubs has django.db.connection."""

    def __getattr__(self, item: str) -> Any: ...
    def __contains__(self, key: str) -> bool:
        return False


class DjangoWrapper:
    """As it has one of django.db.connections."""

    vendor: str

    def ensure_connection(self) -> None: ...
    def cursor(self) -> Any: ...


def synchronous(
    session: Session,
    scoped: scoped_session[Session],
    sa: SyncConnection,
    ps: psycopg.Connection[Any],
    ps2: psycopg2.extensions.connection,
    proxy: DjangoProxy,
    wrapper: DjangoWrapper,
) -> None:
    for connection in (session, scoped, sa, ps, ps2, proxy, wrapper):
        assert_type(with_context.using(connection=connection).enqueue_sync("a"), JobHandle[int])
        assert_type(jobs.enqueue_sync(with_context.new("a"), connection=connection), JobHandle[int])
        assert_type(jobs.enqueue_many_sync([with_context.new("a")], connection=connection), list[JobHandle[int]])
        assert_type(jobs.get_sync(1, connection=connection), Job | None)
        outcome: str = jobs.admin.cancel_sync(1, connection=connection).outcome
        changed: str = jobs.admin.change_sync(1, delay=0, by="me", connection=connection).outcome
        assert_type(jobs.admin.requeue_sync(1, by="me", connection=connection).new_id, int | None)
    assert_type(jobs.enqueue_sync("with context", {"to": "x"}, priority=1), JobHandle[Any])
    with jobs.sync() as opened:
        assert_type(opened, AsyncJobs)
        assert_type(jobs.get_sync(5), Job | None)
        handle = with_context.enqueue_sync("a")
        assert_type(handle.result_sync(timeout=5), int)
        assert_type(handle.wait_sync(timeout=timedelta(seconds=5)), Job)
        assert_type(handle.children_sync(limit=5), list[JobHandle[Any]])


async def many(session: AsyncSession) -> None:
    assert_type(await jobs.enqueue_many(with_context.new(str(i)) for i in range(1000)), list[JobHandle[int]])
    await jobs.enqueue_many([with_context.new("a"), without_context.new("b"), nothing.new(), plain.using(priority=1).new(1)])
    mixed: list[NewJob[object]] = [with_context.new("a"), without_context.new("b")]
    assert_type(await jobs.enqueue_many(mixed, connection=session), list[JobHandle[object]])
    assert_type(await jobs.enqueue(with_context.new("a"), connection=session), JobHandle[int])
    assert_type(await jobs.enqueue("with context", {"to": "x"}, correlation_id="y", connection=session), JobHandle[Any])
    assert_type(await jobs.enqueue("with context", {}), JobHandle[Any])
    assert_type(await jobs.get(5), Job | None)
    assert_type(jobs.handle(5), JobHandle[Any])
    assert_type(await jobs.migrate(), list[str])


# -- opening


async def opening() -> None:
    async with jobs as opened:
        assert_type(opened, AsyncJobs)
    async with jobs.runner(queues=["mail", Queue("x", concurrency=2)], types=["a"], grace=5) as runner:
        assert_type(runner, Runner)
        runner.wake()
        await runner.stop(timeout=3)
        await runner.stop(timeout=timedelta(seconds=3))
        await runner.wait_stopped()
    async with jobs.runner() if jobs.settings.auto_migrate else jobs:
        pass
    await jobs.run(queues=["mail"])


app = FastAPI(lifespan=jobs.lifespan)


@asynccontextmanager
async def own(app: FastAPI) -> AsyncGenerator[None]:
    async with jobs.lifespan(app):
        yield


composed = FastAPI(lifespan=own)
enqueues_only = FastAPI(lifespan=jobs.lifespan(run=False))
site = web.Application()
setup(site, jobs)
setup(site, jobs, run=False)
site[JOBS].include_router(router)


# -- tests of users


async def testing() -> None:
    assert_type(await perform(with_context.new("a")), int | Verdict)
    assert_type(await perform(with_context.using(priority=1).new("a"), attempt=2, jobs=jobs), int | Verdict)
    assert await perform(plain.new(1)) == 1.5
    with captured(jobs) as enqueued:
        assert_type(enqueued, Captured)
        assert_type(await assert_enqueued(enqueued, with_context, {"to": "a"}, priority=1, count=2), Job)
    await refute_enqueued(jobs, plain_with_context.using(queue="mail"), delay=timedelta(hours=1))
    await assert_enqueued(jobs, "by name")
    with override(
        jobs, stand_ins={shared: shared}, dsn="postgresql://x", schema="y", grace=1, heartbeat=timedelta(seconds=1)
    ) as same:
        assert_type(same, AsyncJobs)
    with override(jobs, runs=False) as resting, in_memory(jobs) as kept:
        assert_type((resting, kept), tuple[AsyncJobs, AsyncJobs])
    async with in_memory(jobs) as kept:
        await clear(kept)
    async with MovableClock(jobs) as clock:
        await clock.advance(timedelta(days=1))
        assert_type(await run_until_idle(jobs, queues=["mail"], types=["a"], timeout=5, clock=clock, ahead=60), list[Job])
    with server() as dsn, databases(dsn) as made, made.fresh("schema") as fresh:
        assert_type(fresh, str)
    async with jobs:
        recorder = Recorder()
        recorder.watch(jobs.events)
        await Auditor(jobs, recorder).check()


# -- workflows


@jobs.job("a number")
async def a_number(n: int) -> int:
    return n


@jobs.job("add up")
async def add_up(numbers: list[int], title: str = "") -> str:
    return title


@jobs.job("add pages up")
async def add_pages_up(numbers: Results[float]) -> float:
    async for page in numbers.pages(500):
        assert_type(page, list[float])
    return sum([one async for one in numbers]) / len(numbers)


async def workflows(session: AsyncSession) -> None:
    async with jobs.workflow("sums", connection=session, correlation_id="c", max_members=5) as flow:
        node = flow.add(a_number.new(1))
        assert_type(node, Node[int])
        assert_type(node.result, int)
        group = flow.add_many(a_number.new(node.result) for _ in range(3))
        assert_type(group, Group[int])
        said = flow.add(add_up.new(group.results, title="x"), after=[node, group], when="ended")
        part = flow.nested("part")
        assert_type(part.add(add_up.new([node.result]), after=said), Node[str])
        flow.add(a_number.new(2), after=part)
        chain(flow, a_number.new(1), add_up.new([]))
        assert_type(group.paged, Results[int])
        flow.add(add_pages_up.new(group.paged))
        flow.add(add_pages_up.new(Results([1.5, 2])))
    assert_type(await said.handle.result(), str)
    assert_type(group.ids, list[int])
    handle = jobs.workflow_of(flow.id)
    assert_type((await handle.wait(timeout=timedelta(seconds=1))).state, Literal["running", "cancelling", "completed", "broken"])
    assert_type(await handle.counts(), dict[str, int])
    await handle.cancel("not wanted")


def testing_in_plain_tests() -> None:
    with in_memory(jobs), MovableClock(jobs) as clock:
        clock.advance_sync(timedelta(days=1))
        assert_type(clock.now_sync(), datetime)
        assert_type(run_until_idle_sync(jobs, timeout=5, clock=clock, ahead=60), list[Job])
        assert_type(assert_enqueued_sync(jobs, with_context, {"to": "a"}, count=1), Job)
    clear_sync(jobs)


# -- payloads that must not stay

discreet = AsyncJobs("postgresql://x", keep_payload=False, routers=[JobRouter(keep_payload=True)])


@discreet.job("discreet", keep_payload=False)
async def is_discreet(token: str) -> None: ...
