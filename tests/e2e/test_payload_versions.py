"""Rolling deployments: two apps with different declarations of the same jobs, over one database.

1. A job of yesterday's code runs on today's handler, through every upgrade, also when it waits behind others of its key.
2. A job of today's code is not claimed by yesterday's runner, which asks no more often for it being there; today's runner runs it
   at once, beside the other.
3. A renamed type runs under its former name; by either name it is enqueued as the new one.
4. An upgrade that raises, and a version that nobody can upgrade any more, end that job only; its payload stays as it was.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext
from asyncjobs.store import jobs as store
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptEnded
from asyncjobs.testing import MovableClock, Recorder, assert_enqueued, run_until_idle

Fields = dict[str, Any]


def yesterday(dsn: str) -> AsyncJobs:
    jobs = AsyncJobs(dsn)

    @jobs.job("email", serialize_by="inbox_{to}")
    async def send(to: str, greeting: str = "Hi") -> str:
        return f"yesterday: {greeting} {to}"

    return jobs


def to_list(fields: Fields) -> Fields:
    return {**fields, "to": [fields["to"]]}


def with_tone(fields: Fields) -> Fields:
    return {"tone": fields.pop("greeting", "Hi"), **fields}


def today(dsn: str, first: Callable[[Fields], Fields] = to_list) -> AsyncJobs:
    jobs = AsyncJobs(dsn)

    @jobs.job("mail.send", aliases=("email",), serialize_by="inbox_{to[0]}", version=3, upgrades={1: first, 2: with_tone})
    async def send(ctx: JobContext, to: list[str], tone: str) -> str:
        return f"today, attempt {ctx.attempt}: {tone} {', '.join(to)}"

    return jobs


@asynccontextmanager
async def deployed(*apps: AsyncJobs) -> AsyncGenerator[MovableClock]:
    async with apps[0], apps[-1], MovableClock(apps[0]) as clock:
        yield clock


async def test_a_job_of_yesterday_runs_on_todays_handler(dsn: str) -> None:
    old, new = yesterday(dsn), today(dsn)
    async with deployed(old, new):
        await old.enqueue("email", {"to": "ada"})
        await old.enqueue("email", {"to": "ada", "greeting": "Dear"})
        ran = await run_until_idle(new)
        assert [job.result for job in ran] == ["today, attempt 1: Hi ada", "today, attempt 1: Dear ada"]
        assert [(job.type, job.version, job.payload["to"]) for job in ran] == [("email", 1, "ada")] * 2


def tomorrow(dsn: str) -> AsyncJobs:
    jobs = AsyncJobs(dsn)

    @jobs.job("email", version=2, upgrades={1: to_list})
    async def send(ctx: JobContext, to: list[str], greeting: str = "Hi") -> str:
        return f"attempt {ctx.attempt}: {greeting} {to[0]}"

    return jobs


async def test_a_job_of_today_waits_for_a_runner_of_today(dsn: str, recorder: Recorder) -> None:
    old, new = yesterday(dsn), tomorrow(dsn)
    async with deployed(old, new):
        for key in (None, "inbox_ada"):
            await new.enqueue("email", {"to": ["ada"]}, max_attempts=1, serialization_key=key)
        await old.enqueue("email", {"to": "ada"})
        assert await run_until_idle(old) == []
        ran = await run_until_idle(new)
        assert [job.result for job in ran] == ["attempt 1: Hi ada"] * 3
        assert [(job.version, job.attempts, job.snoozes) for job in ran] == [(2, 1, 0), (2, 1, 0), (1, 1, 0)]
    assert [event.outcome for event in recorder.of(AttemptEnded)] == ["completed"] * 3


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many calls each runner made to claim."""
    counted: Counter[int] = Counter()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(link: Any, runner_id: int, *args: Any, **options: Any) -> Any:
            counted[runner_id] += 1
            return function(link, runner_id, *args, **options)

        return call

    for name in ("finish", "finish_completed", "finish_one"):
        monkeypatch.setattr(store, name, counting(getattr(store, name)))
    return counted


async def test_runners_of_yesterday_leave_jobs_of_today_to_those_of_today(
    dsn: str, connection: Connection, recorder: Recorder, calls: Counter[int]
) -> None:
    old, new = yesterday(dsn), tomorrow(dsn)
    async with old.runner() as old_runner, new:
        handles = [await new.enqueue("email", {"to": [str(n)]}) for n in range(10)]
        probe = await old.enqueue("email", {"to": "ada"})
        await probe.wait(timeout=10)
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending' AND attempts = 0") == 10
        explained = await old.admin.explain(handles[0].id)
        assert explained.reason == "newer version"
        assert "no runner can run version 2 of this payload, those that live know 1 at most" in explained.sentence
        async with new.runner() as new_runner:
            handles += [await new.enqueue("email", {"to": [str(n)]}) for n in range(10, 20)]
            ended = [await one.wait(timeout=10) for one in handles]
            assert [(job.status, job.attempts) for job in ended] == [("completed", 1)] * 20
    assert {(one.outcome, one.runner_id) for one in recorder.of(AttemptEnded) if one.job_id != probe.id} == {
        ("completed", new_runner.id)
    }
    # One call and, since another runner may have held rows locked, a second look for each enqueue; and some to begin with.
    assert calls[old_runner.id] <= 2 * 21 + 10


async def test_a_renamed_type_runs_under_its_former_name(dsn: str) -> None:
    old, new = yesterday(dsn), today(dsn)
    async with deployed(old, new):
        await new.enqueue("mail.send", {"to": ["ada"], "tone": "Hi"})
        await new.enqueue("email", {"to": ["eve"], "tone": "Hi"})
        await assert_enqueued(new, "mail.send", count=2)
        assert await run_until_idle(old) == []  # yesterday's runner does not know it, and leaves it alone
        ran = await run_until_idle(new)
        assert {(job.type, job.version, job.status) for job in ran} == {("mail.send", 3, "completed")}


def forgot(fields: Fields) -> Fields:
    return {"to": fields["recipient"]}


def broken(_: Fields) -> Any:
    return None


@pytest.mark.parametrize(
    ("upgrade", "problem"),
    [
        (forgot, "its upgrade from version 1 raised KeyError: 'recipient'"),
        (broken, "its upgrade from version 1 returned None, not a dict"),
        (dict, "expected array, got str - at $.to"),
        (lambda fields: {**fields, "to": {1, object()}}, "upgraded from version 1, it has"),
    ],
)
async def test_an_upgrade_that_fails_ends_that_job_only(dsn: str, upgrade: Callable[[Fields], Fields], problem: str) -> None:
    old, new = yesterday(dsn), today(dsn, upgrade)
    async with deployed(old, new):
        await old.enqueue("email", {"to": "ada"})
        await new.enqueue("mail.send", {"to": ["ada"], "tone": "Hi"})
        dead, done = await run_until_idle(new)
        assert (dead.status, dead.attempts, dead.payload) == ("dead", 1, {"to": "ada"})
        assert problem in (dead.error_message or "")
        assert done.status == "completed"


async def test_a_version_that_nobody_can_upgrade_any_more_is_dead(dsn: str, connection: Connection) -> None:
    new = AsyncJobs(dsn)

    @new.job("email", version=5, upgrades={3: dict, 4: dict})
    async def send(to: str) -> str:
        return to

    async with deployed(new):
        for version in (2, 3):
            await send.enqueue(str(version))
            await connection.execute("UPDATE asyncjobs.jobs SET version = $1 WHERE version = 5", version)
        dead, done = sorted(await run_until_idle(new), key=lambda job: job.id)
        assert (dead.status, done.result) == ("dead", "3")
        assert "it has version 2, and the oldest that this program can upgrade is 3" in (dead.error_message or "")


async def test_a_stub_says_which_version_it_enqueues(dsn: str) -> None:
    caller, new = AsyncJobs(dsn), today(dsn)

    @caller.stub("mail.send", version=3)
    async def send(to: list[str], tone: str) -> None: ...

    async with deployed(caller, new):
        await send.enqueue(["ada"], tone="Hello")
        [done] = await run_until_idle(new)
        assert (done.version, done.result) == (3, "today, attempt 1: Hello ada")
