"""Jobs whose service has a circuit breaker, and what operators do with it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from asyncjobs import (
    AsyncJobs,
    Backoff,
    BreakerNotFound,
    ConfigurationError,
    Queue,
)
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import BreakerMoved
from asyncjobs.telemetry.logs import line
from asyncjobs.testing import Recorder
from tests.support.breaker_app import App, DownError, enter
from tests.support.eventually import eventually

pytestmark = pytest.mark.usefixtures("patient_breakers")


@pytest.fixture
def app(dsn: str, schema: str) -> App:
    return App(dsn, schema)


# Jobs.


async def test_a_job_that_meets_an_open_breaker_is_snoozed_without_spending_an_attempt(dsn: str, connection: Connection) -> None:
    app = App(dsn)

    @app.jobs.job("parcel", max_attempts=1)
    async def parcel(*, together: bool) -> None:
        if not together:
            async with app.breaker:
                return
        async with asyncio.TaskGroup() as group:
            group.create_task(enter(app.breaker))
            group.create_task(enter(app.breaker))

    async with app.jobs.runner():
        await app.open_up()
        handles = [await parcel.enqueue(together=together) for together in (False, True)]

        async def snoozed() -> Any:
            rows = [await app.jobs.get(handle.id) for handle in handles]
            return all(row is not None and row.status == "scheduled" for row in rows) and rows

        for row in await eventually(snoozed, description="both are snoozed"):
            assert (row.attempts, row.snoozes, row.errors) == (0, 1, [])
            assert row.error_message.startswith('circuit breaker "mail" is open')
            delay = (row.run_at - row.updated_at).total_seconds()
            assert 15 < delay <= 30 * 1.1


async def state(app: App, job_id: int, *, after: Callable[[], Coroutine[Any, Any, object]]) -> tuple[str, int, int]:
    """What the job is after something else has happened."""
    await after()
    job = await app.jobs.get(job_id)
    assert job is not None
    return job.status, job.attempts, job.snoozes


async def test_a_type_is_not_claimed_while_its_breaker_is_open_and_at_once_when_it_is_reset(dsn: str) -> None:
    app = App(dsn, settings={"poll_interval": 0.1})

    @app.jobs.job("letter", breaker="mail", aliases=("note",))
    async def letter() -> str:
        async with app.breaker:
            return "sent"

    @app.jobs.job("other")
    async def other() -> None: ...

    async def others_run() -> None:
        for _ in range(3):
            await (await other.enqueue()).wait(timeout=10)

    async with app.jobs.runner():
        await app.open_up()
        await others_run()  # a claim that was sent before may still take letters: they are snoozed
        waiting = [await letter.enqueue(), await app.jobs.enqueue("note", {})]
        for handle in waiting:
            assert await state(app, handle.id, after=others_run) == ("pending", 0, 0)
        assert await app.jobs.admin.reset_breaker("mail")
        assert [await handle.result(timeout=10) for handle in waiting] == ["sent", "sent"]


async def test_one_job_finds_out_whether_the_service_is_back_and_then_all_run(dsn: str, recorder: Recorder) -> None:
    app = App(dsn, open_for=0.5)
    calls = list[int]()

    @app.jobs.job("letter", breaker="mail", max_attempts=1)
    async def letter(number: int) -> None:
        async with app.breaker:
            calls.append(number)
            if len(calls) <= 2:
                raise DownError

    async with app.jobs.runner():
        await app.open_up()
        handles = [await letter.enqueue(number) for number in range(20)]
        jobs = [await handle.wait(timeout=20) for handle in handles]
    assert len(calls) == 20, "those that were refused have not called"
    assert {(job.status, job.attempts) for job in jobs} == {("completed", 1), ("dead", 1)}
    assert [number for number, job in enumerate(jobs) if job.status == "dead"] == sorted(calls[:2]), "one at a time"
    # A probe that takes longer than the breaker stays open lets another job in, which meets CircuitOpen, and comes back later.
    kept = [number for number in calls if not jobs[number].snoozes]
    assert kept == sorted(kept), "the others keep their places"


class Post:
    """A service, its calls, and runners whose jobs call it: letters wait for its breaker, parcels are claimed and snoozed."""

    def __init__(self, dsn: str, *, runners: int, open_for: float) -> None:
        self.is_up = False
        self.calls: dict[bool, list[float]] = {False: [], True: []}
        options: dict[str, Any] = {"failure_threshold": 3, "open_for": open_for}
        settings: dict[str, Any] = {"promote_interval": 0.5, "queues": [Queue(concurrency=4)]}
        self.apps = [App(dsn, settings=settings, **options) for _ in range(runners)]
        for app in self.apps:
            app.jobs.job("letter", breaker="mail", max_attempts=50, backoff=Backoff(0.05, maximum=0.05))(self.caller(app))
            app.jobs.job("parcel", max_attempts=50, backoff=Backoff(0.05, maximum=0.05))(self.caller(app))

    def caller(self, app: App) -> Callable[[int], Coroutine[Any, Any, None]]:
        async def call(number: int) -> None:
            async with app.breaker:
                self.calls[self.is_up].append(time.time())
                if not self.is_up:
                    raise DownError

        return call


async def test_a_service_that_fails_is_left_alone_by_all_runners_and_asked_by_one(dsn: str, connection: Connection) -> None:
    post, count, seconds = Post(dsn, runners=3, open_for=1.0), 20, 1.0
    query = "SELECT extract(epoch FROM opened_at)::float8 FROM asyncjobs.circuit_breakers WHERE state <> 'closed'"
    async with AsyncExitStack() as stack:
        for app in post.apps:
            await stack.enter_async_context(app.jobs.runner())
        handles = [await post.apps[0].jobs.enqueue(kind, {"number": n}) for n in range(count) for kind in ("letter", "parcel")]
        opened_at = await eventually(lambda: connection.fetchval(query), description="the breaker is open", timeout=20)

        def probes() -> list[float]:
            """Those that were under way when it opened, or had not heard of it yet, are none."""
            return [at for at in post.calls[False] if at > opened_at + seconds / 2]

        await eventually(lambda: len(probes()) >= 2, description="two probes", timeout=30)
        assert all(later - earlier >= seconds for earlier, later in pairwise(probes())), probes()
        waiting = await connection.fetch("SELECT type, status, attempts, snoozes FROM asyncjobs.jobs")
        letters = [row for row in waiting if row["type"] == "letter" and row["attempts"] == 0]
        assert {row["status"] for row in letters} <= {"pending", "scheduled"}  # never claimed, or met another's probe
        assert any(row["snoozes"] == 0 for row in letters)
        assert sum(row["type"] == "parcel" and row["snoozes"] > 0 for row in waiting) >= count / 2
        post.is_up, back_at = True, time.time()
        assert {(await handle.wait(timeout=40)).status for handle in handles} == {"completed"}
        assert post.calls[True][0] - max(post.calls[False][-1], back_at) < seconds + 10, "one window, and a busy machine"
        # No attempt was spent without a call.
        assert await connection.fetchval("SELECT sum(attempts) FROM asyncjobs.jobs") == len(post.calls[False]) + 2 * count
        assert not await connection.fetchval(query)


async def test_a_handler_that_never_asks_its_breaker_does_not_keep_its_type_shut(dsn: str) -> None:
    app = App(dsn, open_for=0.2)

    @app.jobs.job("letter", breaker="mail")
    async def letter() -> str:
        return "it does not matter"

    async with app.jobs.runner():
        await app.open_up()
        handles = [await letter.enqueue() for _ in range(5)]
        assert [await handle.result(timeout=20) for handle in handles] == ["it does not matter"] * 5
        assert (await app.jobs.admin.breaker("mail")).state == "open", "nobody has found out anything"


# Operators.


@pytest.fixture
async def apps(dsn: str) -> AsyncGenerator[tuple[App, App]]:
    """Two processes, of which the first runs jobs."""
    one, two = App(dsn), App(dsn)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(one.jobs.runner())
        await stack.enter_async_context(two.jobs)
        yield one, two


async def test_an_operator_opens_a_breaker_until_it_is_reset_and_all_obey(apps: tuple[App, App], recorder: Recorder) -> None:
    one, two = apps
    assert [await one.call(), await two.call()] == ["well", "well"]
    assert await two.jobs.admin.open_breaker("mail", reason="they asked for it") is True
    assert await two.call() == "refused"

    async def is_refused() -> bool:
        return await one.call() == "refused"

    await eventually(is_refused, description="the other process has heard of it")
    state = await one.jobs.admin.breaker("mail")
    assert (state.state, state.reason, state.half_opens_at) == ("open", "they asked for it", None)
    assert await one.jobs.admin.open_breaker("mail") is False, "it was open"
    assert await one.jobs.admin.reset_breaker("mail") is True
    assert await one.jobs.admin.reset_breaker("mail") is False
    assert await one.call() == "well"
    moved = recorder.of(BreakerMoved)
    assert [(event.formerly, event.state, event.reason) for event in moved[:1]] == [("closed", "open", "they asked for it")]
    assert line(moved[0])[:2] == ("warning", "asyncjobs.breaker.moved")


async def test_an_operators_opening_lapses_after_its_time(app: App) -> None:
    async with app.jobs:
        await app.jobs.admin.open_breaker("mail", for_=timedelta(seconds=0.3))
        assert await app.call() == "refused"
        await eventually(app.is_well, description="a probe was let through")
        assert (await app.jobs.admin.breaker("mail")).state == "closed"


async def test_what_an_operator_cannot_mean_is_refused(app: App) -> None:
    async with app.jobs:
        await app.call()
        with pytest.raises(BreakerNotFound, match=r'^there is no circuit breaker "mial" \(mail\)\. Did you mean "mail"\?$'):
            await app.jobs.admin.reset_breaker("mial")
        with pytest.raises(BreakerNotFound):
            await app.jobs.admin.open_breaker("mial")
        with pytest.raises(ConfigurationError, match="for_=0 must be more than 0 seconds"):
            await app.jobs.admin.open_breaker("mail", for_=0)
        assert (await app.jobs.admin.breaker("mail")).state == "closed"


async def test_a_breaker_that_nobody_declares_any_more_is_listed_and_can_be_reset(dsn: str) -> None:
    former = App(dsn)
    async with former.jobs:
        await former.open_up()
    async with AsyncJobs(dsn) as jobs:
        [state] = await jobs.admin.breakers()
        assert (state.service, state.state, state.declared) == ("mail", "open", False)
        assert await jobs.admin.reset_breaker("mail")
