"""A stub and its handler in two programs: what the stub does not say is the handler's.

1. Timeout, attempts, priority and what follows a death are filled in when the job is first claimed, before the handler starts.
2. What was said stays: by the enqueue's options, or by the defaults of the stub's router.
3. A runner that cannot write them gives the job back with its attempt, and the next one asks again.
"""

import asyncio
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, JobContext, JobDied, JobRouter, JobType, Lane, Queue
from asyncjobs.store import stubs
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AcksWritten
from asyncjobs.workflow import chain


def service(dsn: str) -> AsyncJobs:
    """The program that has the handlers."""
    jobs = AsyncJobs(dsn, queues=[Queue("default", lanes={"slow": Lane(1, timeout=7)})], poll_interval=0.2)

    @jobs.job("charge", timeout=60, max_attempts=1, priority=10, on_dead="halt", serialize_by="{customer}")
    async def charge(ctx: JobContext, customer: str, *, fails: bool = False) -> list[Any]:
        if fails:
            raise ValueError("no money")
        return [ctx.job.timeout.total_seconds() if ctx.job.timeout else None, ctx.max_attempts, ctx.job.priority]

    @jobs.job("hang", timeout=0.1, max_attempts=1)
    async def hang() -> None:
        await asyncio.Event().wait()

    @jobs.job("slow", lane="slow")
    async def slow(ctx: JobContext) -> float:
        assert ctx.job.timeout is not None
        return ctx.job.timeout.total_seconds()

    return jobs


class Client:
    """The program that only has their stubs."""

    def __init__(self, dsn: str) -> None:
        careful = JobRouter(timeout=30, max_attempts=5)
        self.jobs = AsyncJobs(dsn, routers=[careful])
        self.charge = self.jobs.stub("charge", serialize_by="{customer}")(self._charge)
        self.hang = self.jobs.stub("hang")(self._hang)
        self.slow = careful.stub("slow", lane="slow")(self._slow)

    async def _charge(self, customer: str, *, fails: bool = False) -> list[Any]:
        raise NotImplementedError

    async def _hang(self) -> None:
        raise NotImplementedError

    async def _slow(self) -> float:
        raise NotImplementedError


async def row(connection: Connection, job_id: int) -> list[Any]:
    found = await connection.fetchrow(
        "SELECT extract(epoch FROM timeout)::float8, max_attempts, priority, on_dead FROM asyncjobs.jobs WHERE id = $1",
        job_id,
    )
    assert found is not None
    return list(found.values())


async def test_what_a_stub_does_not_say_is_its_handlers(dsn: str, connection: Connection) -> None:
    client, jobs = Client(dsn), service(dsn)
    async with client.jobs, jobs.runner():
        first, second = await client.charge.enqueue("ada"), await client.charge.enqueue("ada")
        assert [await one.result(timeout=10) for one in (first, second)] == [[60.0, 1, 10]] * 2
        assert await row(connection, second.id) == [60.0, 1, 10, "halt"]


async def test_a_hanging_handler_ends_by_its_own_timeout(dsn: str) -> None:
    client, jobs = Client(dsn), service(dsn)
    async with client.jobs, jobs.runner():
        with pytest.raises(JobDied, match="took longer than its timeout of"):
            await (await client.hang.enqueue()).result(timeout=10)


async def test_a_key_halts_as_the_handler_says(dsn: str) -> None:
    client, jobs = Client(dsn), service(dsn)
    async with client.jobs, jobs.runner():
        died, behind = await client.charge.enqueue("ada", fails=True), await client.charge.enqueue("ada")
        assert (await died.wait(timeout=10)).attempts == 1
        key = await jobs.admin.key("ada")
        assert (key.head_id, key.halt_reason) == (died.id, "ValueError: no money")
        left = await jobs.get(behind.id)
        assert left is not None
        assert left.status == "waiting"


def said(client: Client) -> list[tuple[JobType[..., Any], tuple[Any, ...], list[Any]]]:
    return [
        (client.charge.using(max_attempts=4, timeout=5, priority=7), ("ada",), [5.0, 4, 7, "halt"]),
        (client.charge.using(max_attempts=3), ("bea",), [60.0, 3, 10, "halt"]),
        (client.slow, (), [30.0, 5, 100, "advance"]),
    ]


async def test_what_was_said_stays(dsn: str, connection: Connection) -> None:
    client, jobs = Client(dsn), service(dsn)
    async with client.jobs, jobs.runner():
        for type, arguments, expected in said(client):
            handle = await type.enqueue(*arguments)
            await handle.result(timeout=10)
            assert await row(connection, handle.id) == expected


async def test_a_stub_may_say_its_priority(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.stub("charge", priority=5)
    async def charge(customer: str) -> None: ...

    async with jobs:
        handle = await charge.enqueue("ada")
        assert await row(connection, handle.id) == [None, 3, 5, "ask all"]


async def test_a_lanes_timeout_is_the_handlers_too(dsn: str) -> None:
    client, jobs = AsyncJobs(dsn), service(dsn)

    @client.stub("slow", lane="slow")
    async def slow() -> float: ...  # type: ignore[empty-body]

    async with client, jobs.runner():
        assert await (await slow.enqueue()).result(timeout=10) == 7


async def test_a_runner_that_cannot_write_it_gives_the_job_back(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    fill_in = stubs.fill_in

    async def fails_once(link: Any, asked: Any) -> None:
        tried.append(len(asked))
        if len(tried) == 1:
            raise asyncpg.InternalServerError("not now")
        await fill_in(link, asked)

    monkeypatch.setattr(stubs, "fill_in", fails_once)
    monkeypatch.setattr("asyncjobs.runtime.call_line.ASK_AGAIN_SECONDS", 0.1)
    client, jobs = Client(dsn), service(dsn)
    async with client.jobs, jobs.runner():
        assert await (await client.charge.enqueue("ada")).result(timeout=10) == [60.0, 1, 10]
    assert tried == [1, 1]


async def test_stubs_are_members_of_workflows(dsn: str) -> None:
    jobs, client, calls = service(dsn), Client(dsn), list[AcksWritten]()

    @jobs.job("tell")
    async def tell(ctx: JobContext, earlier: list[Any]) -> list[Any]:
        children = await ctx.spawn(leaf.new())
        return [ctx.job.workflow_id, earlier, len(children)]

    @jobs.job("leaf", timeout=5)
    async def leaf(ctx: JobContext) -> int | None:
        return ctx.job.workflow_id

    @client.jobs.stub("tell")
    async def tell_there(earlier: list[Any]) -> list[Any]:
        raise NotImplementedError

    jobs.events.subscribe(calls.append, AcksWritten)
    async with client.jobs, jobs:
        async with client.jobs.workflow("charges") as flow:
            one = flow.add(client.charge.new("ada"))
            other = flow.add(tell_there.new(one.result))
            flow.add(tell_there.new([0]), after=other)
            failing = flow.add(client.charge.new("eva", fails=True))
            never = flow.add(client.slow.new(), after=failing)
        async with jobs.runner():
            row = await client.jobs.workflow_of(flow.id).wait(timeout=10)
            assert (row.state, row.size, row.dead) == ("broken", 7, 2)
            assert await other.handle.result(timeout=5) == [flow.id, [60.0, 1, 10], 1]
            [child] = await client.jobs.admin.children(other.id)
            assert (await client.jobs.admin.get(child.id)).result == flow.id  # type: ignore[union-attr]
            job = await client.jobs.get(never.id)
            assert job is not None
            assert (job.status, job.error_message) == ("cancelled", f"upstream {failing.id} (charge) died")


async def test_a_chain_of_stubs_goes_on_in_the_call_that_writes_the_end_of_a_link(dsn: str) -> None:
    jobs, client, calls = service(dsn), Client(dsn), list[AcksWritten]()
    jobs.events.subscribe(calls.append, AcksWritten)
    async with client.jobs, jobs:
        async with client.jobs.workflow("chain") as flow:
            chain(flow, *(client.charge.new(f"customer {number}") for number in range(10)))
        async with jobs.runner():
            await client.jobs.workflow_of(flow.id).wait(timeout=10)
    assert sum(len(one.tokens) for one in calls) == 10
