"""Jobs that expire (P18): what is not started in time is not started at all, whatever kept it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff, Debounce, JobCancelled, JobContext, JobExpired, Queue, Snooze
from asyncjobs.errors import ConfigurationError, InvalidOption
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import JobsExpired
from asyncjobs.testing import MovableClock
from tests.support.eventually import eventually


class Office:
    """A queue of two slots that claims some ahead. `hold` holds a slot until `go` is set."""

    def __init__(self, dsn: str, *, prefetch: int = 0, concurrency: int = 2, **settings: Any) -> None:
        queues = [Queue(concurrency=concurrency, prefetch=prefetch), Queue("side", concurrency=2)]
        given: Any = {"poll_interval": 0.2, "promote_interval": 0.2, **settings}
        self.app = AsyncJobs(dsn, queues=queues, **given)
        self.go = asyncio.Event()
        self.ran: list[int] = []
        self.expired: list[JobsExpired] = []
        self.app.events.subscribe(self.expired.append, JobsExpired)

        @self.app.job("hold")
        async def hold() -> None:
            await self.go.wait()

        @self.app.job("note", backoff=Backoff(1, maximum=1))
        async def note(ctx: JobContext, number: int, plan: str = "") -> int:
            self.ran.append(number)
            if plan == "snooze" and not ctx.job.snoozes:
                return Snooze(3600)  # type: ignore[return-value]
            if plan == "fail" and ctx.attempt == 1:
                raise ValueError(number)
            if plan == "complete":
                async with self.app.runners[0]._app.pool.take() as link:  # type: ignore[attr-defined]
                    await ctx.complete(await link.connection(), number)
            return number

        self.hold, self.note = hold, note

    async def is_held(self) -> None:
        """All general slots are taken."""
        await eventually(lambda: self.app.health().runners[0].running >= 2, description="the slots are taken")


@pytest.fixture
async def office(dsn: str) -> AsyncGenerator[Office]:
    made = Office(dsn)
    async with made.app.runner(grace=5):
        yield made
        made.go.set()


async def test_what_is_started_in_time_runs(office: Office) -> None:
    handle = await office.note.using(expires=60).enqueue(1)
    assert await handle.result(timeout=10) == 1
    job = await office.app.get(handle.id)
    assert job is not None
    assert job.start_before is not None
    assert (job.start_before - job.scheduled_at).total_seconds() == 60
    assert not job.has_expired


async def test_a_job_behind_slow_ones_expires_and_its_waiter_is_told(office: Office) -> None:
    await office.app.enqueue_many([office.hold.new() for _ in range(2)])
    await office.is_held()
    handle = await office.note.using(expires=0.3).enqueue(1)
    with pytest.raises(JobExpired, match="was not started before") as caught:
        await handle.result(timeout=10)
    assert isinstance(caught.value, JobCancelled)
    job = caught.value.job
    assert (job.status, job.error_message, job.attempts, job.started_at, job.has_expired) == (
        "cancelled",
        "expired",
        0,
        None,
        True,
    )
    office.go.set()
    assert await (await office.note.enqueue(2)).result(timeout=10) == 2
    assert office.ran == [2]
    assert office.expired == [JobsExpired(type="note", count=1)]


async def test_a_type_and_a_router_say_when_their_jobs_expire(dsn: str) -> None:
    app = AsyncJobs(dsn)
    app.job("own", expires=5)(_nothing)
    from asyncjobs import JobRouter

    router = JobRouter(expires=7)
    of_router = router.job("router")(_nothing)
    own = app.job("other", expires=9)(_nothing)
    app.include_router(router)
    async with app:
        for job_type, expected in ((of_router, 7), (own, 9), (own.using(expires=11), 11)):
            handle = await job_type.enqueue()
            job = await app.get(handle.id)
            assert job is not None
            assert job.start_before is not None
            assert (job.start_before - job.run_at).total_seconds() == expected
            await app.admin.cancel(handle.id)


async def _nothing() -> None: ...


async def test_expiry_counts_from_the_time_of_a_delayed_job(dsn: str, connection: Connection) -> None:
    office = Office(dsn)
    async with office.app, MovableClock(office.app) as clock:
        handle = await office.note.using(delay=7200, expires=3600).enqueue(1)
        job = await office.app.get(handle.id)
        assert job is not None
        assert job.start_before is not None
        assert (job.start_before - job.created_at).total_seconds() == 3 * 3600
        await clock.advance(2.5 * 3600)
        async with office.app.runner():
            assert await handle.result(timeout=10) == 1
        del connection


async def test_a_delayed_job_that_nobody_ran_in_time_has_expired(dsn: str) -> None:
    office = Office(dsn)
    async with office.app, MovableClock(office.app) as clock:
        handle = await office.note.using(delay=7200, expires=3600).enqueue(1)
        await clock.advance(3 * 3600 + 1)
        async with office.app.runner():
            with pytest.raises(JobExpired):
                await handle.result(timeout=10)
    assert office.ran == []


async def test_what_was_claimed_ahead_and_expires_is_given_to_nobody(dsn: str, connection: Connection) -> None:
    office = Office(dsn, prefetch=5, promote_interval=60)
    async with office.app.runner(grace=5):
        await office.app.enqueue_many([office.hold.new() for _ in range(2)])
        await office.is_held()
        held = [await office.note.using(expires=0.7, serialization_key="k" if n == 1 else None).enqueue(n) for n in (1, 2)]
        await eventually(lambda: office.app.health().runners[0].waiting == 2, description="they are claimed ahead")
        behind = await office.note.using(serialization_key="k", queue="side").enqueue(3)
        for handle in held:
            with pytest.raises(JobExpired):
                await handle.result(timeout=10)
        assert await behind.result(timeout=10) == 3  # its key goes on
        rows = await connection.fetch("SELECT status, attempts FROM asyncjobs.jobs WHERE type = 'note' ORDER BY id LIMIT 2")
        assert [tuple(row) for row in rows] == [("cancelled", 0)] * 2
        office.go.set()
    assert office.ran == [3]


@pytest.mark.unaudited("rows are inserted by hand")
async def test_a_runner_soon_starts_what_stands_behind_very_many_that_have_expired(dsn: str, connection: Connection) -> None:
    office = Office(dsn, promote_interval=60)
    async with office.app:
        await connection.execute(
            """INSERT INTO asyncjobs.jobs (type, status, enqueue_token, start_before)
            SELECT 'hold', 'pending', 1, now() - interval '1 second' FROM generate_series(1, 25000)"""
        )
        handle = await office.note.enqueue(1)
        async with office.app.runner() as runner:
            assert await handle.result(timeout=10) == 1
            assert runner.parts.line.calls <= 15  # three look over all of them; ending them a thousand a call would take 26
    await connection.execute("DELETE FROM asyncjobs.jobs")


async def test_what_expires_in_line_behind_others_leaves_it(office: Office) -> None:
    key: Any = {"serialization_key": "k"}
    await office.hold.using(**key).enqueue()
    late = [await office.note.using(expires=0.3, **key).enqueue(n) for n in range(3)]
    kept = await office.note.using(**key).enqueue(7)
    for handle in late:
        with pytest.raises(JobExpired):
            await handle.result(timeout=10)
    office.go.set()
    assert await kept.result(timeout=10) == 7
    assert office.ran == [7]


async def test_a_head_of_a_key_that_has_expired_lets_the_next_go_on(dsn: str) -> None:
    office = Office(dsn, promote_interval=60)
    async with office.app, MovableClock(office.app) as clock:
        late = [await office.note.using(expires=60, serialization_key="k").enqueue(n) for n in range(5)]
        kept = await office.note.using(serialization_key="k").enqueue(7)
        await clock.advance(61)
        async with office.app.runner():
            assert await kept.result(timeout=10) == 7
            for handle in late:
                with pytest.raises(JobExpired):
                    await handle.result(timeout=10)
    assert office.ran == [7]


async def test_an_expired_job_frees_its_dedup_key(office: Office) -> None:
    await office.app.admin.pause(queue="side")
    first = await office.note.using(expires=0.2, dedup_key="a", queue="side").enqueue(1)
    with pytest.raises(JobExpired):
        await first.result(timeout=10)
    second = await office.note.using(dedup_key="a").enqueue(2)
    assert (second.created, second.did) == (True, "made")
    assert await second.result(timeout=10) == 2


@pytest.mark.parametrize("what", ["queue", "type", "key"])
async def test_what_is_paused_expires_all_the_same(office: Office, what: str) -> None:
    pauses: dict[str, Any] = {"queue": "default"} if what == "queue" else {"type": "note"} if what == "type" else {"key": "k"}
    await office.app.admin.pause(**pauses)
    handle = await office.note.using(expires=0.3, serialization_key="k").enqueue(1)
    with pytest.raises(JobExpired):
        await handle.result(timeout=10)
    await office.app.admin.resume(**pauses)
    assert await (await office.note.using(serialization_key="k").enqueue(2)).result(timeout=10) == 2
    assert office.ran == [2]


async def test_a_retry_that_comes_too_late_expires(office: Office) -> None:
    handle = await office.note.using(expires=0.5).enqueue(1, plan="fail")
    with pytest.raises(JobExpired) as caught:
        await handle.result(timeout=10)
    assert (caught.value.job.attempts, caught.value.job.last_error) == (1, "1")
    assert office.ran == [1]


async def test_a_snooze_that_lasts_too_long_expires_when_its_time_is_over(office: Office) -> None:
    handle = await office.note.using(expires=0.5).enqueue(1, plan="snooze")
    with pytest.raises(JobExpired):
        await handle.result(timeout=10)
    assert office.ran == [1]


async def test_what_runs_goes_on_although_its_time_is_over(office: Office) -> None:
    handle = await office.hold.using(expires=0.3).enqueue()
    await eventually(lambda: office.app.health().runners[0].running == 1, description="it runs")
    await asyncio.sleep(0.6)
    office.go.set()
    assert (await handle.wait(timeout=10)).status == "completed"


async def test_an_operators_retry_runs_it_however_late_it_is(office: Office) -> None:
    await office.app.admin.pause(queue="side")
    for key in (None, "k"):
        handle = await office.note.using(expires=0.2, queue="side", serialization_key=key).enqueue(1)
        with pytest.raises(JobExpired):
            await handle.result(timeout=10)
        await office.app.admin.retry(handle.id)
        job = await office.app.get(handle.id)
        assert job is not None
        assert (job.start_before, job.status) == (None, "pending")
        await office.app.admin.resume(queue="side")
        assert await handle.result(timeout=10) == 1
        await office.app.admin.pause(queue="side")


async def test_a_requeued_job_does_not_expire(office: Office) -> None:
    handle = await office.note.using(expires=60, delay=60).enqueue(1)
    await office.app.admin.kill(handle.id, "no")
    [dead_letter] = (await office.app.admin.dead_letters()).dead_letters
    requeued = await office.app.admin.requeue(dead_letter.id, by="ada")
    assert requeued.new_id is not None
    job = await office.app.get(requeued.new_id)
    assert job is not None
    assert job.start_before is None


async def test_a_time_that_an_operator_gives_counts_anew(dsn: str, connection: Connection) -> None:
    office = Office(dsn)
    async with office.app:
        handle = await office.note.using(delay=600, expires=60).enqueue(1)
        await office.app.admin.change(handle.id, delay=7200)
        await office.app.admin.change(handle.id, priority=3)
    row = await connection.fetchrow("SELECT start_before - run_at, run_at > now() + interval '1 hour' FROM asyncjobs.jobs")
    assert row is not None
    assert (row[0].total_seconds(), row[1]) == (60, True)


async def test_a_retry_that_an_operator_moves_does_not_expire(office: Office) -> None:
    handle = await office.note.using(expires=30).enqueue(7, "fail")

    async def is_failed() -> bool:
        job = await office.app.get(handle.id)
        return job is not None and job.status == "failed"

    await eventually(is_failed, description="it is to be tried again")
    await office.app.admin.change(handle.id, delay=0.5)
    job = await handle.wait(timeout=20)
    assert (job.status, job.start_before) == ("completed", None)


async def test_a_clock_that_is_set_back_lets_a_job_run(dsn: str) -> None:
    office = Office(dsn, prefetch=3)
    async with office.app, MovableClock(office.app) as clock:
        handle = await office.note.using(expires=60).enqueue(1)
        await clock.advance(-3600)
        async with office.app.runner():
            assert await handle.result(timeout=10) == 1


async def test_a_schedule_makes_jobs_that_expire_from_their_tick(dsn: str) -> None:
    app = AsyncJobs(dsn, poll_interval=0.2)
    ran = []

    @app.job("tick", expires=30)
    async def tick() -> None:
        ran.append(1)

    app.schedule("ticks", tick.new(), every=0.2)
    async with app.runner():
        await eventually(lambda: bool(ran), description="a tick ran")
    async with app:
        jobs = await app.admin.find(type="tick", limit=1)
        assert (jobs.jobs[0].start_before - jobs.jobs[0].run_at).total_seconds() == 30  # type: ignore[operator]
        await app.admin.disable_schedule("ticks")


async def test_explain_says_when_it_expires(office: Office) -> None:
    await office.app.admin.pause(queue="side")
    handle = await office.note.using(expires=60, queue="side").enqueue(1)
    explained = await office.app.admin.explain(handle.id)
    job = await office.app.get(handle.id)
    assert job is not None
    assert explained.expires_at == job.start_before
    assert f"It expires at {job.start_before:%Y-%m-%d %H:%M:%S %Z}" in explained.sentence
    await office.app.admin.cancel(handle.id)


def test_durations_that_cannot_be_meant_are_refused() -> None:
    app = AsyncJobs("postgresql://x/y")
    job_type = app.job("a")(_nothing)
    for seconds in (0, -1):
        with pytest.raises(InvalidOption, match="expires"):
            job_type.using(expires=seconds)
        with pytest.raises(ConfigurationError, match="expires"):
            app.job(f"b{seconds}", expires=seconds)(_nothing)
    with pytest.raises(InvalidOption, match="quiet is longer than at_most"):
        Debounce(quiet=10, at_most=5)
