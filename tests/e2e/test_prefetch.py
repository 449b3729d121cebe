"""`Queue(prefetch=N)`: what is claimed ahead of the free slots, and how it is given back when it may not run."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.programs import worker
from tests.support.breaker_app import App as Guarded
from tests.support.eventually import eventually
from tests.support.program import Program

Notify = Literal["auto", "listen", "poll"]


class Press:
    """A queue with one slot, which claims five ahead. `stop` holds the slot until `go` is set."""

    def __init__(self, dsn: str, *, notify: Notify = "auto", poll_interval: float = 300.0, prefetch: int = 5) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=1, prefetch=prefetch)], notify=notify, poll_interval=poll_interval)
        self.go = asyncio.Event()
        self.ran: list[int] = []

        @self.app.job("stop")
        async def stop() -> None:
            await self.go.wait()

        @self.app.job("page")
        async def page(number: int) -> None:
            self.ran.append(number)

        @self.app.job("cover")
        async def cover(number: int) -> None:
            self.ran.append(number)

        self.stop, self.page, self.cover = stop, page, cover


async def statuses(connection: Connection) -> Mapping[str, list[tuple[str, int]]]:
    """By type: status and attempts of its jobs that do not wait for others, in the order in which they were made."""
    rows = await connection.fetch("SELECT type, status, attempts FROM asyncjobs.jobs WHERE status <> 'waiting' ORDER BY id")
    found: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        found.setdefault(row["type"], []).append((row["status"], row["attempts"]))
    return found


async def until(connection: Connection, type: str, expected: list[tuple[str, int]]) -> None:
    async def is_so() -> bool:
        return (await statuses(connection)).get(type) == expected

    await eventually(is_so, description=f"{type} is {expected}", timeout=10)


PENDING, CLAIMED, PAUSED, COMPLETED = ("pending", 0), ("processing", 1), ("paused", 0), ("completed", 1)


@pytest.fixture
async def press(dsn: str) -> AsyncGenerator[Press]:
    """It runs, and its slot is taken."""
    made = Press(dsn)
    async with made.app.runner(grace=5):
        await made.stop.enqueue()
        yield made
        made.go.set()


async def test_claims_so_many_ahead_and_no_more(press: Press, connection: Connection) -> None:
    await press.app.enqueue_many([press.page.new(number) for number in range(8)])
    await until(connection, "page", [CLAIMED] * 5 + [PENDING] * 3)
    await eventually(lambda: press.app.health().runners[0].waiting == 5, description="the answer of the claim is there")
    [health] = press.app.health().runners
    assert (health.running, health.waiting, health.free_slots) == (1, 5, 0)
    press.go.set()
    await until(connection, "page", [COMPLETED] * 8)
    assert press.ran == list(range(8))


@pytest.mark.matrix("notify")
@pytest.mark.parametrize("kind", ["queue", "type", "key"])
async def test_what_is_paused_before_it_started_is_given_back(
    dsn: str, connection: Connection, kind: str, notify: Notify
) -> None:
    press = Press(dsn, notify=notify, poll_interval=0.2 if notify == "poll" else 300.0, prefetch=20)
    office = Press(dsn)
    pause: Any = {kind: {"queue": "default", "type": "page", "key": "k"}[kind]}
    async with press.app.runner(grace=5), office.app:
        await press.stop.enqueue()
        for number in range(3):
            await press.page.using(serialization_key="k").enqueue(number)
        await press.cover.enqueue(9)
        await until(connection, "cover", [CLAIMED])
        draining = asyncio.create_task(office.app.admin.drain(**pause, timeout=20))
        await until(connection, "page", [PENDING if kind == "queue" else PAUSED])
        await until(connection, "cover", [PENDING if kind == "queue" else CLAIMED])
        press.go.set()
        assert await draining == 0
        if kind != "queue":
            await until(connection, "cover", [COMPLETED])
        assert press.ran == ([] if kind == "queue" else [9])
        assert await office.app.admin.resume(**pause)
        await until(connection, "page", [COMPLETED] * 3)
        assert [number for number in press.ran if number != 9] == [0, 1, 2]


async def test_what_a_claim_brings_that_was_sent_before_the_pause_is_given_back(
    press: Press, connection: Connection, dsn: str
) -> None:
    await until(connection, "stop", [CLAIMED])
    sent, answer = asyncio.Event(), asyncio.Event()

    async def hold(point: str) -> None:
        if point == "finish.sent":
            sent.set()
            await answer.wait()

    with points.installed(hold):
        await press.page.enqueue(1)
        await sent.wait()
        giving_back = press.app.runners[0].parts.giving_back
        before = giving_back.started_passes
        await press.app.admin.pause(type="page")
        await eventually(lambda: giving_back.started_passes > before, description="the runner was told")
        answer.set()
        await until(connection, "page", [PAUSED])


async def test_what_an_open_breaker_holds_back_is_given_back_and_the_rest_is_not(dsn: str, connection: Connection) -> None:
    guarded = Guarded(dsn, settings={"queues": [Queue(concurrency=1, prefetch=5)], "poll_interval": 300.0})
    go = asyncio.Event()

    @guarded.jobs.job("stop")
    async def stop() -> None:
        await go.wait()

    @guarded.jobs.job("parcel", breaker="mail")
    async def parcel() -> None: ...

    async with guarded.jobs.runner(grace=5):
        await stop.enqueue()
        for job in (parcel, stop, parcel):
            await job.enqueue()
        await until(connection, "parcel", [CLAIMED] * 2)
        await guarded.open_up()
        await until(connection, "parcel", [PENDING] * 2)
        assert (await statuses(connection))["stop"] == [CLAIMED] * 2
        go.set()
        await until(connection, "stop", [COMPLETED] * 2)
        assert (await statuses(connection))["parcel"] == [PENDING] * 2
        await guarded.jobs.admin.reset_breaker("mail")
        await until(connection, "parcel", [COMPLETED] * 2)


async def test_head_that_is_claimed_ahead_holds_its_key(dsn: str, connection: Connection) -> None:
    press, other = Press(dsn), Press(dsn)
    async with press.app.runner(grace=5) as runner:
        await press.stop.enqueue()
        for number in range(3):
            await press.page.using(serialization_key="k").enqueue(number)
        await press.app.enqueue_many([press.cover.new(number) for number in range(10, 14)])
        await eventually(lambda: runner.health().waiting >= 3, description="more than half of what it may claim ahead is there")
        async with other.app.runner():
            await (await other.page.enqueue(9)).result(timeout=10)
            assert 9 in other.ran
            assert not {0, 1, 2} & {*other.ran}
            press.go.set()
            await until(connection, "page", [COMPLETED] * 4)
            assert press.ran[0] == 0


async def test_explain_says_that_it_waits_for_a_slot_of_its_runner(press: Press, connection: Connection) -> None:
    handle = await press.page.enqueue(1)
    await until(connection, "page", [CLAIMED])
    [runner] = press.app.health().runners
    found = await press.app.admin.explain(handle.id)
    assert found.reason == "claimed ahead"
    assert found.sentence == f"Job {handle.id} (page): it is claimed ahead by runner {runner.id}, waiting for a slot."
    stopping = await connection.fetchval("SELECT id FROM asyncjobs.jobs WHERE type = 'stop'")
    assert (await press.app.admin.explain(stopping)).reason == "running"
    [use] = (await press.app.admin.stats()).lanes
    assert (use.slots, use.in_use, use.ahead) == (1, 1, 1)


@pytest.mark.proof
async def test_what_a_killed_runner_had_claimed_ahead_is_rescued(
    dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    monkeypatch.setenv("ASYNCJOBS_DSN", dsn)
    env = {"ASYNCJOBS_DSN": dsn, "PREFETCH": "4"}
    async with worker.jobs as app, Program.python("-m", "tests.programs.worker", env=env) as first:
        await first.line("registered")
        handles = [await worker.sleep.enqueue(seconds=60.0) for _ in range(8)]
        await until(connection, "sleep", [CLAIMED] * 8)
        await first.line(f"started job {handles[4].id} attempt 1")
        first.kill()
        async with Program.python("-m", "tests.programs.worker", env=env):
            jobs = [await app.handle(handle.id).wait(timeout=20) for handle in handles]
    assert [(job.status, job.attempts, job.rescues) for job in jobs] == [("completed", 2, 1)] * 8
    assert recorder.of(AttemptStarted) == []
