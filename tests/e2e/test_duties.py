"""Duties that an application declares, and the built-in ones, on runners."""

import asyncio
from collections.abc import Callable
from itertools import groupby
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, ConfigurationError, DuplicateName, DutyContext, InvalidHandler, JobRouter, LeaseLost
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import LeaseAcquired, LeaseEnded, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience
from tests.support.factories import insert_job

SHORT: dict[str, Any] = {"heartbeat": 0.3, "lease_expiry": 1.5}


class Log:
    """What a duty did, and where."""

    def __init__(self) -> None:
        self.passes: list[str] = []
        self.begun = asyncio.Event()
        self.ended: list[str] = []

    def at_least(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.passes) >= count


@pytest.fixture
def log() -> Log:
    return Log()


def an_app(dsn: str, log: Log, name: str = "a", **options: Any) -> AsyncJobs:
    """An app whose duty writes its app's name into the log."""
    jobs = AsyncJobs(dsn, **(SHORT | options))

    @jobs.duty("report", every=0.05)
    async def report(ctx: DutyContext) -> int:
        ctx.log.debug("reporting")
        log.passes.append(name)
        return 7

    return jobs


@pytest.mark.matrix("notify", "schema")
async def test_declared_duty_is_done_by_a_runner_and_shown(dsn: str, schema: str, notify: Any, log: Log) -> None:
    jobs = an_app(dsn, log, schema=schema, notify=notify)
    async with jobs.runner() as runner:
        await eventually(log.at_least(3), description="three passes")

        async def shown() -> bool:
            return any(one.duty == "report" and one.items == 7 for one in await jobs.admin.leases())

        await eventually(shown, description="its lease says what it did")
        leases = {one.duty: one.runner_id for one in await jobs.admin.leases()}
        assert leases == dict.fromkeys(("pauses", "prune", "report", "rescue", "rollup", "sweep"), runner.id)


async def test_app_that_only_enqueues_does_no_duties(dsn: str, log: Log) -> None:
    async with an_app(dsn, log):
        await asyncio.sleep(0.2)
    assert log.passes == []


async def test_duty_may_take_nothing_and_enqueue_jobs(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, **SHORT)
    done = asyncio.Event()

    @jobs.job("mail")
    async def mail() -> None:
        done.set()

    @jobs.duty("remind", every=3600, strategy="everyone")
    async def remind() -> None:
        await mail.enqueue()

    async with jobs.runner():
        await asyncio.wait_for(done.wait(), 5)


@pytest.mark.direct("is about a lock or a backend of its own session")
async def test_of_two_runners_one_does_it_and_the_other_follows_within_a_second_of_a_clean_stop(dsn: str, log: Log) -> None:
    first, second = an_app(dsn, log, "first"), an_app(dsn, log, "second")
    async with second.runner() as heir, first.runner() as other:
        await eventually(lambda: heir.duties.leader.term("report"), description="a holder")
        async with patience(5):
            await other.listening.wait_decided()
        await eventually(log.at_least(5), description="passes")
        assert set(log.passes) == {"second"}
        await heir.stop()
        before = len(log.passes)
        async with patience(1.0):
            await eventually(log.at_least(before + 1), description="the other does it")
    assert log.passes[-1] == "first"


async def test_successor_takes_every_lease_of_a_runner_that_stops(dsn: str, log: Log, recorder: Recorder) -> None:
    first, second = an_app(dsn, log, "first"), an_app(dsn, log, "second")
    async with first.runner() as holder:
        await eventually(lambda: len(holder.duties.leader._leases.held) == 6, description="it holds all")
        async with second.runner() as heir:
            await heir.listening.wait_decided()
            await holder.stop()
            await eventually(lambda: len(heir.duties.leader._leases.held) == 6, description="the successor holds all")
            released = [event for event in recorder.of(LeaseEnded) if event.reason == "released"]
            assert {event.successor for event in released} == {heir.id}
    assert {event.runner_id for event in recorder.of(LeaseAcquired)} == {holder.id, heir.id}


async def test_two_runners_take_turns_when_duties_rotate(dsn: str, log: Log, recorder: Recorder) -> None:
    first, second = an_app(dsn, log, "first", lease_rotation=0.5), an_app(dsn, log, "second", lease_rotation=0.5)
    async with first.runner(), second.runner():

        def turns() -> list[str]:
            return [name for name, _ in groupby(log.passes)]

        await eventually(lambda: len(turns()) >= 4, description="each had two terms", timeout=20)
    terms = [event for event in recorder.of(LeaseEnded) if event.duty == "report"]
    assert len(terms) >= 3
    assert {event.reason for event in terms} == {"released"}, "nobody waits for an expiry"


async def test_runner_that_is_alone_keeps_its_duties_when_they_rotate(dsn: str, log: Log, recorder: Recorder) -> None:
    jobs = an_app(dsn, log, lease_rotation=0.2)
    async with jobs.runner() as runner:
        await eventually(log.at_least(10), description="passes of more than one turn")
        leader = runner.duties.leader

        def held() -> bool:
            fence = leader.term("report")
            return fence is not None and leader.held_seconds(fence) > 0.4

        await eventually(held, description="a term of two turns")
    handed_over = [event.successor for event in recorder.of(LeaseEnded) if event.reason == "released"]
    assert set(handed_over) <= {None}, "at its end, to nobody"


async def test_pass_that_runs_at_a_stop_has_the_grace(dsn: str) -> None:
    jobs, log = AsyncJobs(dsn, grace=5), Log()

    @jobs.duty("slow", every=0.01)
    async def slow() -> None:
        log.begun.set()
        await asyncio.sleep(0.3)
        log.ended.append("well")

    async with jobs.runner():
        await log.begun.wait()
    assert log.ended == ["well"]


async def test_pass_that_outlasts_the_grace_is_cancelled_before_its_lease_is_free(dsn: str, connection: Connection) -> None:
    jobs, log = AsyncJobs(dsn, grace=0.1, **SHORT), Log()

    @jobs.duty("slow", every=0.01)
    async def slow() -> None:
        log.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            log.ended.append(await held_by(connection))

    async with jobs.runner() as runner:
        await log.begun.wait()
    assert log.ended == [str(runner.id)]
    assert await held_by(connection) == "none"


async def held_by(connection: Connection, duty: str = "slow") -> str:
    query = "SELECT held_by_worker_id FROM asyncjobs.background_job_leases WHERE job_name = $1"
    return str(await connection.fetchval(query, duty))


async def test_failing_duty_harms_nobody(dsn: str, log: Log, recorder: Recorder) -> None:
    jobs = an_app(dsn, log)

    @jobs.duty("broken", every=0.05)
    async def broken() -> None:
        raise ValueError("no")

    async with jobs.runner():
        await eventually(log.at_least(3), description="the other duty is done")
        await eventually(lambda: len(recorder.of(ServicePassFailed)) >= 2, description="it is tried again")

        async def shown() -> bool:
            return any(one.duty == "broken" and (one.errors or 0) > 0 for one in await jobs.admin.leases())

        await eventually(shown, description="the errors are counted")


async def test_hold_lets_writes_through_while_the_term_lasts_only(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, **SHORT)
    log = Log()
    answers: list[str] = []
    own = await asyncpg.connect(dsn, server_settings={"application_name": "test"})

    @jobs.duty("roll up", every=0.01)
    async def roll_up(ctx: DutyContext) -> None:
        if answers:
            return
        async with own.transaction():
            await ctx.hold(own)
        answers.append("held")
        await connection.execute("UPDATE asyncjobs.background_job_leases SET token = 1 WHERE job_name = 'roll up'")
        try:
            async with own.transaction():
                await ctx.hold(own)
        except LeaseLost:
            answers.append("lost")
        log.begun.set()

    async with jobs.runner(), patience(5):
        await log.begun.wait()
    await own.close()
    assert answers == ["held", "lost"]


async def test_pruning_is_done_by_a_runner(dsn: str, connection: Connection) -> None:
    job_id = await insert_job(connection, status="completed")
    kept = await insert_job(connection, status="completed", type="kept")
    await connection.execute("UPDATE asyncjobs.jobs SET completed_at = now() - interval '2 seconds'")
    jobs = AsyncJobs(dsn, prune_interval=0.1, keep_completed=1, keep_types={"kept": 3600}, **SHORT)
    async with jobs.runner():

        async def is_gone() -> bool:
            return await jobs.get(job_id) is None

        await eventually(is_gone, description="it is pruned")
        assert await jobs.get(kept) is not None


async def test_registry_shows_who_runs_what_and_who_did(dsn: str, log: Log) -> None:
    jobs = an_app(dsn, log)
    async with jobs:
        async with jobs.runner() as runner:
            [shown] = await jobs.admin.runners()
            assert (shown.id, shown.queues, shown.duties, shown.ended_at) == (
                runner.id, ["default"], ["pauses", "promote", "prune", "report", "rescue", "rollup", "sweep"], None,
            )  # fmt: skip
        [shown] = await jobs.admin.runners()
        assert (shown.id, shown.beat_at, shown.died_at) == (runner.id, None, None)
        assert shown.ended_at is not None
        assert await jobs.admin.runners(former=0) == []


@pytest.mark.direct("is about a lock or a backend of its own session")
@pytest.mark.parametrize("strategy", ["lease", "advisory", "everyone", "share"])
async def test_built_in_duties_work_under_each_strategy(dsn: str, connection: Connection, strategy: Any) -> None:
    names = ("promote", "rescue", "sweep", "prune")
    jobs = AsyncJobs(dsn, strategies=dict.fromkeys(names, strategy), rescue_interval=0.2, **SHORT)
    done = asyncio.Event()

    @jobs.job("email")
    async def email() -> None:
        done.set()

    await insert_job(connection, status="processing", runner_id=99)
    async with jobs.runner():
        handle = await email.using(delay=0.3).enqueue()
        await handle.wait(timeout=5)

        async def none_left() -> bool:
            return not await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status <> 'completed'")

        await eventually(none_left, description="the orphan was taken back and run", timeout=8.0)


# Bad input.


async def test_advisory_lock_through_a_pooler_is_refused_at_open(dsn: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a pooler looks like from here: another process answers than the one that greeted.
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda _: 1)
    jobs = an_app(dsn, log, strategies={"prune": "advisory"})
    with pytest.raises(
        ConfigurationError, match=r'^duty "prune": strategy="advisory" .* a pooler .* listen_dsn= .* strategy="lease"'
    ):
        async with jobs.runner():
            pass
    assert log.passes == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategies": {"corn": "lease"}},
            'names "corn": the duties that are built in are cron, pauses, promote, prune, rescue, rollup, sweep',
        ),
        ({"strategies": {"prune": "leader"}}, "strategy='leader'"),
        ({"lease_renew": 3.0, "lease_trust": 5.0}, "lease_trust=5 must be at least twice lease_renew=3"),
        ({"lease_trust": 6.0, "lease_observe": 6.0}, "lease_observe=6 must be at least 1.2 times lease_trust=6"),
        ({"lease_observe": 11.0}, "lease_expiry=10 must be at least lease_observe=11"),
        ({"lease_expiry": 0}, "lease_expiry"),
        ({"prune_interval": 0}, "prune_interval"),
        ({"schedule_interval": 0}, "schedule_interval"),
        ({"keep_types": {"mail": -1}}, "keep_types"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        AsyncJobs("postgresql://h/d", **options)


async def one_argument_too_many(ctx: DutyContext, more: int) -> None: ...


async def only_by_name(*, ctx: DutyContext) -> None: ...


def not_async() -> None: ...


@pytest.mark.parametrize("function", [one_argument_too_many, only_by_name, not_async])
def test_function_that_cannot_be_a_duty_is_refused(function: Any) -> None:
    with pytest.raises(InvalidHandler):
        JobRouter().duty("report", every=1)(function)


def test_names_of_built_in_duties_and_names_given_twice_are_refused() -> None:
    router = JobRouter()
    with pytest.raises(ConfigurationError, match='duty "prune" is built in'):
        router.duty("prune", every=1)

    @router.duty("report", every=1)
    async def report() -> None: ...

    with pytest.raises(DuplicateName):
        router.duty("report", every=1)(report)
