"""Every line that ends in `# E` is an error in mypy --strict and in pyright strict, and no other line is. Checked, never run."""

import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session

from asyncjobs import (
    AsyncJobs,
    Backoff,
    DutyContext,
    Hook,
    JobContext,
    JobHandle,
    JobRouter,
    JobType,
    Lane,
    NewJob,
    Queue,
    Results,
    Retry,
    Snooze,
    as_completed,
    gather,
    resource,
)
from asyncjobs.testing import assert_enqueued, captured, in_memory, override, perform, run_until_idle

router = JobRouter()
jobs = AsyncJobs()


@jobs.job("send")
async def send(ctx: JobContext, to: str, template: str) -> int:
    return 1


@jobs.job("plain")
def plain(n: int) -> None: ...


# -- declarations


@jobs.job("misspelt", serialise_by="x")  # E
async def misspelt(to: str) -> None: ...


@jobs.job  # E
async def bare(to: str) -> None: ...


@jobs.job()  # E
async def nameless(to: str) -> None: ...


@jobs.job("unstorable")  # E
async def unstorable(to: str) -> threading.Lock:
    raise NotImplementedError


@jobs.job("unstorable plain")  # E
def unstorable_plain(to: str) -> threading.Lock:
    raise NotImplementedError


@jobs.job("generator")  # E
async def generator(to: str) -> AsyncGenerator[int, None]:
    yield 1


@jobs.job("plain generator")  # E
def plain_generator(to: str) -> Generator[int, None, None]:
    yield 1


@jobs.job("object")  # E
async def returns_object(to: str) -> object:
    return to


@jobs.job("template", serialize_by=lambda to: "x")  # E
async def template(to: str) -> None: ...


@jobs.job("halts", on_dead="stop")  # E
async def halts(to: str) -> None: ...


def impatient(attempt: int) -> float:
    return 1.0


def wordy(attempt: int, error: BaseException) -> str:
    return "soon"


@jobs.job("backoff function", backoff=impatient)  # E
async def backoff_function(to: str) -> None: ...


@jobs.job("wordy backoff", backoff=wordy)  # E
async def wordy_backoff(to: str) -> None: ...


@jobs.job("retry on a name", retry_on="ConnectionError")  # E
async def retry_on_a_name(to: str) -> None: ...


@jobs.job("retry on an error", retry_on=(ConnectionError(),))  # E
async def retry_on_an_error(to: str) -> None: ...


@jobs.job("keeps some", keep_payload="dead")  # E
async def keeps_some(to: str) -> None: ...


AsyncJobs(max_attempts="3")  # E
AsyncJobs(keep_payload=None)  # E
JobRouter(give_up_on=[ValueError])  # E


@jobs.job("backoff", backoff=5)  # E
async def backoff(to: str) -> None: ...


@router.stub("stub", timeout=5)  # E
async def stub(to: str) -> None: ...


@jobs.cron("needs an argument", "* * * * *")  # E
async def needs_an_argument(ctx: JobContext, region: str) -> None: ...


@jobs.cron("* * * * *")  # E
async def nameless_cron() -> None: ...


@jobs.cron("misfire", "* * * * *", misfire="twice")  # E
async def misfire() -> None: ...


@jobs.duty("sync", every=5)  # E
def sync_duty() -> None: ...


@jobs.duty("strategy", every=5, strategy="leese")  # E
async def bad_strategy(ctx: DutyContext) -> None: ...


@jobs.duty("never")  # E
async def never() -> None: ...


jobs.schedule("a job type", send, cron="* * * * *")  # E
jobs.schedule("often", plain.new(1), every="5m")  # E
jobs.circuit_breaker("mail", failure_threshold="5")  # E
jobs.include_router(send)  # E

# -- keys


@send.serialize_by  # E
def too_few(to: str) -> str:
    return to


@send.serialize_by  # E
def wrong_type(to: int, template: str) -> str:
    return ""


@send.serialize_by  # E
def wrong_name(too: str, template: str) -> str:
    return ""


@send.serialize_by  # E
def wrong_return(to: str, template: str) -> int:
    return 1


@send.serialize_by  # E
async def asynchronous(to: str, template: str) -> str:
    return to


send.serialize_by(lambda to: to)  # E
send.serialize_by(lambda to, template: to.nope)  # E

# -- configuration

AsyncJobs("x", queue=[Queue("a")])  # E
AsyncJobs("x", queues=["a"])  # E
AsyncJobs("x", notify="maybe")  # E
AsyncJobs("x", heartbeat="5s")  # E
AsyncJobs("x", hearbeat=5)  # E
Queue("a", concurrency="5")  # E
Queue("a", 5)  # E
Queue("a", lanes=["fast"])  # E
Lane("3")  # E
Backoff(1, 300)  # E
JobRouter("mail")  # E
Snooze()  # E
Retry("later")  # E


# -- enqueueing


async def enqueueing() -> None:
    await send.enqueue(to=5, template="x")  # E
    await send.enqueue(to="a")  # E
    await send.enqueue(to="a", template="b", extra=1)  # E
    await send.enqueue("a", "b", "c")  # E
    await send.enqueue(to=None, template="x")  # E
    await plain.enqueue(n="x")  # E
    send.enqueue_sync(to="a")  # E
    send.new(to=5, template="")  # E
    await send(to="a")  # E
    await send(to=5, template="b")  # E
    await plain(1)  # E
    plain("a")  # E
    shown: str = await send("a", "b")  # E
    at_once: int = send("a", "b")  # E
    done: str = (await gather([send.handle(1)]))[0]  # E
    pair: tuple[int, str] = await gather((send.handle(1), plain.handle(2)))  # E
    await gather(send.handle(1))  # E
    await gather([send])  # E
    async for one in as_completed([send.handle(1)]):
        one.result().upper()  # E
    four: tuple[int, float, int, int] = await gather((send.handle(1), plain.handle(2), send.handle(3), plain.handle(4)))  # E
    children: list[JobHandle[str]] = await send.handle(1).children(5)  # E
    send.handle(1).children_sync(limit="all")  # E
    await jobs.enqueue("send", {"to": 1}, prio=1)  # E
    await jobs.enqueue("send", to="x")  # E
    await jobs.enqueue(send, {"to": "x"})  # E
    await jobs.enqueue(send.new("a", "b"), priority=1)  # E
    await jobs.enqueue_many([send])  # E
    await jobs.enqueue_many(send.new("a", "b"))  # E
    text: str = await (await send.enqueue("a", "b")).result()  # E
    await (await send.enqueue("a", "b")).result(5)  # E
    await jobs.get("5")  # E
    other: JobType[..., str] = send  # E
    jobs.runner(queues=[5])  # E
    jobs.runner(grace="5s")  # E
    async with jobs.runner() as runner:
        await runner.stop(3)  # E
    send.name = "other"  # E
    send.new("a", "b").type = "other"  # E


async def options() -> None:
    await send.using(priority="high").enqueue(to="a", template="b")  # E
    await send.using(prio=1).enqueue(to="a", template="b")  # E
    await send.using(delay="5m").enqueue(to="a", template="b")  # E
    await send.using(run_at="tomorrow").enqueue(to="a", template="b")  # E
    await send.using(on_duplicate="ignore").enqueue(to="a", template="b")  # E
    await send.using(priority=1).enqueue(to="a")  # E
    await send.using(priority=1).enqueue(priority=1, to="a", template="b")  # E
    send.using(5)  # E


async def connections(
    engine: AsyncEngine,
    maker: async_sessionmaker[AsyncSession],
    session: AsyncSession,
    sync: Session,
    sync_engine: Engine,
    pool: asyncpg.Pool[Any],
    pg: asyncpg.Connection[asyncpg.Record],
    syncpg: psycopg.Connection[Any],
) -> None:
    send.using(connection=engine)  # E
    send.using(connection=maker)  # E
    send.using(connection=sync_engine)  # E
    send.using(connection=pool)  # E
    send.using(connection="postgresql://")  # E
    await jobs.enqueue(send.new("a", "b"), connection=sync)  # E
    await jobs.enqueue_many([send.new("a", "b")], connection=syncpg)  # E
    jobs.enqueue_sync(send.new("a", "b"), connection=session)  # E
    jobs.enqueue_many_sync([send.new("a", "b")], connection=pg)  # E
    await jobs.admin.cancel(1, connection=sync)  # E
    jobs.admin.cancel_sync(1, connection=session)  # E
    jobs.admin.retry_sync(1)  # E
    await jobs.get(1, connection=syncpg)  # E
    jobs.get_sync(1, connection=pg)  # E


async def in_a_handler(ctx: JobContext) -> None:
    ctx.attempt = "1"  # E
    ctx.progress("half")  # E
    ctx.cancelled = True  # E
    await ctx.use(engine_of)  # E
    await ctx.jobs.enqueue(send)  # E
    ctx.jobs.nope  # E


def engine_of(ctx: JobContext) -> str:
    return ""


# -- tests of users


async def testing() -> None:
    await perform(send)  # E
    await perform(send.new("a", "b"), attempt="2")  # E
    (await perform(send.new("a", "b"))).upper()  # E
    await assert_enqueued(jobs, send.new("a", "b"))  # E
    await assert_enqueued(jobs, send, prio=1)  # E
    await assert_enqueued(jobs, send, ["a"])  # E
    with override(jobs, queues=[]):  # E
        pass
    with override(jobs, runs="no"):  # E
        pass
    with in_memory(router):  # E
        pass
    with captured(router):  # E
        pass
    await run_until_idle(router)  # E


# -- hooks and resources


class Wrong(Hook):
    async def before_enqueue(self, job: NewJob[Any], /) -> str:  # E
        return ""


AsyncJobs(hooks=[print])  # E
AsyncJobs(hooks=[Hook])  # E
send.new("a", "b").using(prio=1)  # E


@resource  # E
async def unmanaged() -> int:
    return 1


# -- workflows


@jobs.job("a number")
async def a_number(n: int) -> int:
    return n


@jobs.job("add up")
async def add_up(numbers: list[int]) -> str:
    return ""


@jobs.job("pages")
async def pages(some: Results[str]) -> None:
    for _ in some:  # E
        pass


async def workflows() -> None:
    async with jobs.workflow("sums") as flow:
        node = flow.add(a_number.new(1))
        said = flow.add(add_up.new([node.result]))
        flow.add(a_number.new(said.result))  # E
        flow.add(add_up.new(node.result))  # E
        flow.add(a_number.new(flow.add_many([a_number.new(1)]).results))  # E
        flow.add(add_up.new(flow.add_many([a_number.new(1)]).paged))  # E
        flow.add(pages.new(flow.add_many([a_number.new(1)]).results))  # E
        flow.add(pages.new(flow.add_many([a_number.new(1)]).paged))  # E
        flow.add(a_number.new(1), after=said, when="died")  # E
        flow.add(a_number.new(1), after=17)  # E
        flow.add(a_number)  # E
