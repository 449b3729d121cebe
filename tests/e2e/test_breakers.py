"""Circuit breakers in apps: who is let through, what counts, what becomes of jobs. Several apps stand for several processes."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from asyncjobs import (
    AsyncJobs,
    CircuitOpen,
    JobRouter,
    NotIncluded,
    NotOpen,
    Retry,
    WouldBlock,
    WrongLoop,
)
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import BreakerOpened
from asyncjobs.testing import Proxy, Recorder, perform
from tests.support.breaker_app import App, DownError, enter, fail
from tests.support.eventually import eventually

pytestmark = pytest.mark.usefixtures("patient_breakers")


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


def raised_for(verdict: Retry, error: Exception) -> Retry:
    verdict.__cause__ = error
    return verdict


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
        (Retry(5), (Exception,), False),
        (raised_for(Retry(5), DownError()), (DownError,), True),
    ],
    ids=str,
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
        free = app.jobs.open_breakers("the test").free_probes
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


async def test_a_handler_that_is_performed_in_memory_is_let_through() -> None:
    jobs = AsyncJobs()
    breaker = jobs.circuit_breaker("mail")

    @jobs.job("dead_letter", breaker="mail")
    async def dead_letter() -> str:
        async with breaker:
            return "sent"

    @jobs.job("parcel")
    def parcel() -> str:
        with breaker.sync():
            return "sent"

    assert [await perform(dead_letter.new()), await perform(parcel.new())] == ["sent", "sent"]


def test_a_thread_that_leaves_it_when_the_loop_has_ended_is_told_so(dsn: str) -> None:
    jobs, inside, go, told = AsyncJobs(dsn), threading.Event(), threading.Event(), list[str]()
    breaker = jobs.circuit_breaker("mail")

    def use() -> None:
        try:
            with breaker.sync():
                inside.set()
                go.wait(10)
        except NotOpen as error:
            told.append(str(error))

    async def open_meanwhile() -> threading.Thread:
        async with jobs:
            thread = threading.Thread(target=use)
            thread.start()
            assert await asyncio.to_thread(inside.wait, 10)
        return thread

    thread = asyncio.run(open_meanwhile())
    go.set()
    thread.join(10)
    assert told == ["the event loop that AsyncJobs was opened in has ended: what was asked of it may have been done, or not."]


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
