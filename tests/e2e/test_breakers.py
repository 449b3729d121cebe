"""Circuit breakers in apps: who is let through, what counts, what becomes of jobs. Several apps stand for several processes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from asyncjobs import (
    AsyncJobs,
    BreakerNotFound,
    CircuitBreaker,
    CircuitOpen,
    ConfigurationError,
    JobRouter,
    NotIncluded,
    NotOpen,
    WouldBlock,
    WrongLoop,
)
from asyncjobs.store.database import Connection, Link
from asyncjobs.telemetry.events import BreakerMoved, BreakerOpened
from asyncjobs.telemetry.logs import line
from asyncjobs.testing import Recorder, perform
from tests.support.eventually import eventually
from tests.support.proxy import Proxy


class DownError(Exception):
    """The service is down."""


class App:
    """An app with a breaker, and calls of its service."""

    def __init__(self, dsn: str, schema: str = "asyncjobs", *, settings: dict[str, Any] | None = None, **options: Any) -> None:
        more: Any = settings or {}
        self.jobs = AsyncJobs(dsn, schema=schema, **more)
        given: dict[str, Any] = {"failure_threshold": 2, "open_for": 30, **options}
        self.breaker = self.jobs.circuit_breaker("mail", **given)

    async def call(self, error: BaseException | None = None) -> str:
        """Call the service: "well", "failed", or "refused"."""
        try:
            async with self.breaker:
                fail(error)
        except CircuitOpen:
            return "refused"
        except BaseException as raised:
            if raised is not error:
                raise
            return "failed"
        return "well"

    async def is_well(self) -> bool:
        """Call the service, which is up: whether that was let through."""
        return await self.call() == "well"

    async def open_up(self) -> None:
        """Let the breaker open."""
        while await self.call(DownError()) == "failed":
            pass


def fail(error: BaseException | None) -> None:
    if error is not None:
        raise error


@pytest.fixture
def app(dsn: str, schema: str) -> App:
    return App(dsn, schema)


# Who is let through, and what counts.


@pytest.mark.matrix("loop", "notify", "schema")
async def test_it_opens_after_so_many_failures_in_a_row_and_refuses_at_once(
    dsn: str, schema: str, notify: Literal["auto", "listen", "poll"]
) -> None:
    app = App(dsn, schema, settings={"notify": notify})
    async with app.jobs:
        assert [await app.call(DownError()), await app.call(), await app.call(DownError())] == ["failed", "well", "failed"]
        assert [await app.call(DownError()), await app.call()] == ["failed", "refused"]
        [state] = await app.jobs.admin.breakers()
        assert (state.service, state.state, state.reason, state.declared) == ("mail", "open", "2 failures in a row", True)


async def test_a_call_while_it_is_closed_costs_no_statement_at_all(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    fetch = Link.fetch

    async def counted(self: Link, name: str, *args: Any, **kwargs: Any) -> Any:
        sent.append(name)
        return await fetch(self, name, *args, **kwargs)

    async with app.jobs:
        await app.call()
        monkeypatch.setattr(Link, "fetch", counted)
        began = asyncio.get_running_loop().time()
        for _ in range(1000):
            await app.call()
        seconds = asyncio.get_running_loop().time() - began
    assert set(sent) <= {"look_at_breakers"}
    assert len(sent) <= 1 + seconds, "each interval one, whatever is called"


async def test_a_refusal_says_until_when(app: App) -> None:
    async with app.jobs:
        await app.open_up()
        with pytest.raises(CircuitOpen, match=r'^circuit breaker "mail" is open for (30|29\.\d*) s\.$') as caught:
            async with app.breaker:
                pass
    assert caught.value.service == "mail"
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 30
    assert caught.value.retry_at is not None
    assert caught.value.retry_at <= datetime.now(UTC) + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("error", "counts", "opens"),
    [
        (DownError(), (Exception,), True),
        (DownError(), (OSError, DownError), True),
        (ValueError("no such address"), (OSError,), False),
        (asyncio.CancelledError(), (Exception,), False),
        (asyncio.CancelledError(), (BaseException,), True),
        (SystemExit(), (Exception,), False),
        (CircuitOpen("another service's"), (Exception,), False),
    ],
    ids=repr,
)
async def test_what_counts_as_a_failure(
    dsn: str, error: BaseException, counts: tuple[type[BaseException], ...], *, opens: bool
) -> None:
    app = App(dsn, counts=counts)
    async with app.jobs:
        assert [await app.call(error), await app.call(error)] == [outcome_of(error)] * 2
        assert await app.call() == ("refused" if opens else "well")


def outcome_of(error: BaseException) -> str:
    return "refused" if isinstance(error, CircuitOpen) else "failed"


async def test_an_exception_that_does_not_count_says_that_the_service_answered(dsn: str) -> None:
    app = App(dsn, counts=(DownError,))
    async with app.jobs:
        assert [await app.call(error) for error in (DownError(), ValueError(), DownError())] == ["failed"] * 3
        assert await app.call() == "well"


async def test_a_cancelled_probe_is_given_back_and_nothing_is_counted(dsn: str) -> None:
    app = App(dsn, open_for=0.2)
    entered = asyncio.Event()

    async def hang() -> None:
        async with app.breaker:
            entered.set()
            await asyncio.Event().wait()

    async with app.jobs:
        await app.open_up()
        free = app.jobs.breakers_here("the test").free_probes
        await eventually(lambda: free("mail"), description="its time is over")
        probing = asyncio.create_task(hang())
        await entered.wait()
        probing.cancel()
        await asyncio.wait([probing])
        assert probing.cancelled()
        await eventually(app.is_well, description="another is let through")


async def test_inside_of_itself_it_counts_once_as_the_outermost(app: App) -> None:
    async with app.jobs:
        for _ in range(3):
            async with app.breaker:
                assert await app.call(DownError()) == "failed"
                async with asyncio.TaskGroup() as group:
                    inner = group.create_task(app.call(DownError()))
            assert inner.result() == "failed"
        assert await app.call() == "well"
        with pytest.raises(DownError):
            async with app.breaker, app.breaker:
                fail(DownError())
        assert (await app.jobs.admin.breaker("mail")).failure_count == 1


async def test_breakers_of_several_services_nest_and_count_apart(dsn: str) -> None:
    app = App(dsn)
    other = app.jobs.circuit_breaker("sms", failure_threshold=1)
    async with app.jobs:
        with pytest.raises(DownError):
            async with other:
                fail(DownError())
        for _ in range(3):
            with pytest.raises(CircuitOpen, match="sms"):
                async with app.breaker, other:
                    pass
        states = {one.service: one.state for one in await app.jobs.admin.breakers()}
        assert states == {"mail": "closed", "sms": "open"}


async def test_a_task_that_outlives_the_block_in_which_it_was_started_counts_by_itself(app: App) -> None:
    async with app.jobs:
        go = asyncio.Event()

        async def later() -> list[str]:
            await go.wait()
            return [await app.call(DownError()) for _ in range(3)]

        async with app.breaker:
            started = asyncio.create_task(later())
        go.set()
        assert await started == ["failed", "failed", "refused"]


async def test_in_a_thread_it_is_used_by_sync(app: App) -> None:
    def call(error: BaseException | None) -> None:
        with app.breaker.sync(), app.breaker.sync():
            fail(error)

    async with app.jobs:
        await asyncio.to_thread(call, None)
        for _ in range(2):
            with pytest.raises(DownError):
                await asyncio.to_thread(call, DownError())
        with pytest.raises(CircuitOpen):
            await asyncio.to_thread(call, None)
        with pytest.raises(WouldBlock, match=r"breaker.sync\(\) called in the event loop's own thread .*: async with breaker\.$"):
            call(None)

        async def use() -> None:
            async with app.breaker:
                pass

        with pytest.raises(WrongLoop, match=r"use breaker.sync\(\) there"):
            await asyncio.to_thread(lambda: asyncio.run(use()))


# Which app.


async def test_a_breaker_of_a_router_works_for_the_app_that_is_open(dsn: str) -> None:
    router = JobRouter()
    breaker = router.circuit_breaker("mail")
    with pytest.raises(NotIncluded, match=r'^circuit breaker "mail" belongs to a JobRouter .* that no AsyncJobs includes'):
        await enter(breaker)
    jobs = AsyncJobs(dsn, routers=[router])
    with pytest.raises(NotOpen, match=r'^circuit breaker "mail" was used before AsyncJobs was opened'):
        await enter(breaker)
    async with jobs:
        await enter(breaker)
    with pytest.raises(NotOpen, match=r'^circuit breaker "mail" was used after AsyncJobs was closed'):
        await enter(breaker)
    assert repr(breaker) == "<CircuitBreaker 'mail'>"


async def enter(breaker: CircuitBreaker) -> None:
    async with breaker:
        pass


async def test_a_handler_that_is_performed_in_memory_is_let_through() -> None:
    jobs = AsyncJobs()
    breaker = jobs.circuit_breaker("mail")

    @jobs.job("letter", breaker="mail")
    async def letter() -> str:
        async with breaker:
            return "sent"

    @jobs.job("parcel")
    def parcel() -> str:
        with breaker.sync():
            return "sent"

    assert [await perform(letter.new()), await perform(parcel.new())] == ["sent", "sent"]


# Several processes with different declarations.


async def test_each_process_goes_by_its_own_thresholds_on_counts_that_are_shared(dsn: str) -> None:
    patient, hasty = App(dsn, failure_threshold=10), App(dsn, failure_threshold=3, open_for=300)
    async with patient.jobs, hasty.jobs:
        assert [await patient.call(DownError()) for _ in range(4)] == ["failed"] * 4
        assert await hasty.call(DownError()) == "failed"
        state = await patient.jobs.admin.breaker("mail")
        assert (state.state, state.failure_count) == ("open", 5)
        assert state.half_opens_at is not None
        assert state.opened_at is not None
        assert state.half_opens_at - state.opened_at == timedelta(seconds=300)


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


async def is_pending(app: App, job_id: int, *, and_stays: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    """Whether the job is pending and stays so while something else happens."""
    await and_stays()
    job = await app.jobs.get(job_id)
    return job is not None and (job.status, job.attempts, job.snoozes) == ("pending", 0, 0)


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
        waiting = [await letter.enqueue(), await app.jobs.enqueue("note", {})]
        for handle in waiting:
            assert await is_pending(app, handle.id, and_stays=others_run)
        assert await app.jobs.admin.reset_breaker("mail")
        assert [await handle.result(timeout=10) for handle in waiting] == ["sent", "sent"]


async def test_one_job_finds_out_whether_the_service_is_back_and_then_all_run(dsn: str, recorder: Recorder) -> None:
    app = App(dsn, open_for=0.5)
    is_down, calls = True, list[int]()

    @app.jobs.job("letter", breaker="mail", max_attempts=1)
    async def letter(number: int) -> None:
        async with app.breaker:
            calls.append(number)
            if is_down:
                raise DownError

    async with app.jobs.runner():
        await app.open_up()
        handles = [await letter.enqueue(number) for number in range(20)]
        await eventually(lambda: len(calls) >= 2, description="two probes failed", timeout=20)
        is_down = False
        jobs = [await handle.wait(timeout=20) for handle in handles]
    failed = sum(job.status == "dead" for job in jobs)
    assert failed <= len(calls) - (20 - failed)
    assert calls[:2] == [0, 1], "the first in line first, one at a time"
    assert {(job.status, job.attempts) for job in jobs} <= {("completed", 1), ("dead", 1)}


async def test_a_handler_that_never_asks_its_breaker_does_not_shut_the_gate(dsn: str) -> None:
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


# Without the database.


async def test_the_database_being_away_stops_no_call_of_the_service(dsn: str, recorder: Recorder) -> None:
    async with Proxy(dsn) as proxy:
        app = App(proxy.dsn, open_for=0.3)
        async with app.jobs:
            assert await app.call() == "well"
            proxy.refuse()
            proxy.reset()
            assert [await app.call(), await app.call(DownError()), await app.call(DownError())] == ["well", "failed", "failed"]
            assert await app.call() == "refused"
            await eventually(app.is_well, description="it is let through when its time is over")
            proxy.heal()
            opened = recorder.of(BreakerOpened)
            assert [event.alone for event in opened] == [True]
