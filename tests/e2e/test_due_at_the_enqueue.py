"""A job whose time has come when it is enqueued starts as soon as any other, however that is done; polls are far away here."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, JobRouter
from tests.support.eventually import patience

ROUTER = JobRouter()
PAST = datetime(2020, 2, 29, tzinfo=UTC)
TIMES: dict[str, dict[str, Any]] = {"plain": {}, "delay=0": {"delay": 0}, "past run_at": {"run_at": PAST}}


@ROUTER.job("touch")
async def touch(n: int) -> float:
    return time.perf_counter() + 0 * n


@ROUTER.job("touch_in_line", serialize_by="k")
async def touch_in_line(n: int) -> float:
    return time.perf_counter() + 0 * n


def an_app(dsn: str) -> AsyncJobs:
    return AsyncJobs(dsn, routers=[ROUTER], poll_interval=300, promote_interval=300, grace=1)


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with an_app(dsn) as jobs, jobs.runner():
        await jobs.handle((await jobs.enqueue_many([touch.new(0)]))[0].id).wait()
        yield jobs


async def _alone(dsn: str, options: dict[str, Any]) -> int:
    return (await touch.using(**options).enqueue(0)).id


async def _keyed(dsn: str, options: dict[str, Any]) -> int:
    return (await touch_in_line.using(**options).enqueue(0)).id


async def _dedup(dsn: str, options: dict[str, Any]) -> int:
    return (await touch.using(dedup_key="d", **options).enqueue(0)).id


async def _in_a_transaction(dsn: str, options: dict[str, Any]) -> int:
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        handle = await touch.using(connection=connection, **options).enqueue(0)
    await connection.close()
    return handle.id


async def _replaced_in_a_transaction(dsn: str, options: dict[str, Any]) -> int:
    await touch.using(dedup_key="d", delay=600).enqueue(0)
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        handle = await touch.using(dedup_key="d", on_duplicate="replace", connection=connection, **options).enqueue(0)
    await connection.close()
    return handle.id


async def _by_another_program(dsn: str, options: dict[str, Any]) -> int:
    async with an_app(dsn) as other:
        (handle,) = await other.enqueue_many([touch.new(0).using(**options)])
        return handle.id


WAYS: dict[str, Callable[[str, dict[str, Any]], Awaitable[int]]] = {
    "alone": _alone,
    "keyed": _keyed,
    "dedup": _dedup,
    "in a transaction": _in_a_transaction,
    "replaced in a transaction": _replaced_in_a_transaction,
    "by another program": _by_another_program,
}


@pytest.mark.direct("is about LISTEN", only="poll")
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_due_when_it_is_enqueued_starts_without_a_poll(app: AsyncJobs, dsn: str, way: str) -> None:
    for options in (TIMES["delay=0"], TIMES["past run_at"]):
        async with patience(5):
            await app.handle(await WAYS[way](dsn, options)).wait()


@pytest.mark.proof
@pytest.mark.direct("measures")
async def test_what_is_due_starts_as_soon_as_a_job_without_a_time(app: AsyncJobs, dsn: str) -> None:
    """200 of each kind, one after the other: from the call to the handler's first line, p99 within 1.2 of a plain one's."""
    seconds: dict[str, list[float]] = {kind: [] for kind in TIMES}
    for _ in range(200):
        for kind, options in TIMES.items():
            await asyncio.sleep(0.005)  # all is quiet
            began = time.perf_counter()
            started: float = await (await touch.using(**options).enqueue(0)).result()
            seconds[kind].append(started - began)
    p99 = {kind: sorted(values)[197] for kind, values in seconds.items()}
    p50 = {kind: sorted(values)[100] for kind, values in seconds.items()}
    print({kind: f"p50 {p50[kind] * 1000:.2f} ms, p99 {p99[kind] * 1000:.2f} ms" for kind in TIMES})  # noqa: T201 - the figures are the point
    assert max(p99.values()) <= 1.2 * p99["plain"], p99
