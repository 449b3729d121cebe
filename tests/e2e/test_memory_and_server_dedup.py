"""On jobs in memory and on a real server: when a job is due, when it expires, and what becomes of one that another is like."""

import pytest

from asyncjobs import (
    Backoff,
    Debounce,
    DuplicateJob,
    InvalidOption,
    JobExpired,
)
from asyncjobs.testing import MovableClock, refute_enqueued, run_until_idle
from tests.support.memory_and_server import Opening, make


async def test_delays_follow_the_clock(where: Opening) -> None:
    jobs = make()

    @jobs.job("later", serialize_by="{key}")
    async def later(key: str | None = None) -> None: ...

    async with where(jobs), MovableClock(jobs) as clock:
        handle = await later.using(delay=3600).enqueue("a")
        assert await run_until_idle(jobs) == []
        await clock.advance(3601)
        [job] = await run_until_idle(jobs)
        assert (job.id, job.status) == (handle.id, "completed")


async def test_dedup_keys_return_replace_and_raise(where: Opening) -> None:
    jobs, ran = make(), list[int]()

    @jobs.job("one")
    async def one(number: int) -> None:
        ran.append(number)

    @jobs.job("plain")
    async def plain() -> None: ...

    async with where(jobs), MovableClock(jobs) as clock:
        keyed = one.using(dedup_key="k")
        first = await keyed.enqueue(1)
        again = await keyed.enqueue(2)
        assert (again.id, again.created) == (first.id, False)
        with pytest.raises(DuplicateJob):
            await jobs.enqueue_many([plain.new(), keyed.using(on_duplicate="raise").new(3)])
        await refute_enqueued(jobs, plain)
        await keyed.using(on_duplicate="replace").enqueue(4)
        with pytest.raises(InvalidOption, match="another serialization key"):
            await keyed.using(on_duplicate="replace", serialization_key="other").enqueue(5)
        await run_until_idle(jobs)
        kept = await keyed.using(dedup_for=600).enqueue(6)
        assert kept.created
        await run_until_idle(jobs)
        assert not (await keyed.enqueue(7)).created
        await clock.advance(601)
        assert (await keyed.enqueue(8)).created
        await run_until_idle(jobs)
    assert ran == [4, 6, 8]


async def test_what_was_not_started_in_time_expires_whatever_kept_it(where: Opening) -> None:
    jobs, ran = make(), list[str]()

    @jobs.job("note", backoff=Backoff(200))
    async def note(word: str, *, fails: bool = False) -> None:
        ran.append(word)
        if fails:
            raise ConnectionError(word)

    line = note.using(serialization_key="k")
    async with where(jobs), MovableClock(jobs) as clock:
        pending = await note.using(expires=60, dedup_key="p").enqueue("pending")
        delayed = await note.using(delay=100, expires=60).enqueue("delayed")
        await line.enqueue("first", fails=True)
        behind = await line.using(expires=60).enqueue("behind")
        await line.enqueue("last")
        await clock.advance(61)
        retried = await note.using(expires=60).enqueue("retried", fails=True)
        await run_until_idle(jobs)
        for handle in (pending, behind):
            with pytest.raises(JobExpired, match="not started before"):
                await handle.result(timeout=0)
        assert (await note.using(dedup_key="p").enqueue("again")).created
        await run_until_idle(jobs, clock=clock, ahead=3_000)
        with pytest.raises(JobExpired):
            await retried.result(timeout=0)
        assert (await delayed.wait(timeout=0)).status == "completed"
    assert ran == ["first", "retried", "again", "delayed", "first", "first", "last"]


async def test_a_debounced_job_waits_for_quiet_but_not_for_ever(where: Opening) -> None:
    jobs, built = make(), list[int]()

    @jobs.job("page")
    async def page(number: int) -> None:
        built.append(number)

    async with where(jobs), MovableClock(jobs) as clock:
        debounced = page.using(dedup_key="p", debounce=Debounce(quiet=1_000, at_most=2_500))
        said = [(await debounced.enqueue(0)).did]
        for number in range(1, 4):  # at 800, 1,600 and 2,400 seconds
            await clock.advance(800)
            assert await run_until_idle(jobs) == []
            said.append((await debounced.enqueue(number)).did)
        await clock.advance(101)
        [job] = await run_until_idle(jobs)
        said.append((await debounced.enqueue(9)).did)
        assert round((job.scheduled_at - job.created_at).total_seconds()) == 2_500
    assert (said, built) == (["made", "replaced", "replaced", "replaced", "made"], [3])


async def test_a_debounce_of_jobs_that_expire_moves_the_expiry(where: Opening) -> None:
    jobs = make()

    @jobs.job("page")
    async def page(number: int) -> None: ...

    async with where(jobs), MovableClock(jobs) as clock:
        debounced = page.using(dedup_key="p", debounce=Debounce(quiet=1_000, at_most=6_000), expires=500)
        handle = await debounced.enqueue(1)
        await clock.advance(800)
        await debounced.enqueue(2)
        await clock.advance(1_200)
        [job] = await run_until_idle(jobs)
        assert (job.id, job.payload, job.status) == (handle.id, {"number": 2}, "completed")


async def test_a_dedup_key_until_the_start_lets_one_run_and_one_wait(where: Opening) -> None:
    jobs = make()
    said = list[str | None]()

    @jobs.job("page", max_attempts=2, backoff=Backoff(1))
    async def page(number: int) -> None:
        if number == 1:
            for next_one in (2, 3):
                said.append((await keyed.enqueue(next_one)).did)

    @page.dedup_by
    def key(number: int) -> str:
        return f"key of {number % 2}"

    keyed = page.using(dedup_key="p", dedup_until="start")
    async with where(jobs):
        said += [(await keyed.enqueue(1)).did, (await keyed.using(on_duplicate="replace").enqueue(1)).did]
        assert [job.payload["number"] for job in await run_until_idle(jobs)] == [1, 2]
        said += [(await page.enqueue(7)).did, (await page.enqueue(9)).did, (await page.enqueue(8)).did]
        ran = await run_until_idle(jobs)
    assert said == ["made", "replaced", "made", "kept", "made", "kept", "made"]
    assert [(job.payload["number"], job.dedup_key) for job in ran] == [(7, "key of 1"), (8, "key of 0")]


async def test_handles_say_what_an_enqueue_did(where: Opening) -> None:
    jobs = make()
    said = list[str | None]()

    @jobs.job("page")
    async def page(number: int) -> None:
        keyed = page.using(dedup_key="p")
        said.extend([(await keyed.enqueue(2)).did, (await keyed.using(on_duplicate="replace").enqueue(3)).did])

    async with where(jobs):
        keyed = page.using(dedup_key="p")
        handles = await jobs.enqueue_many([keyed.new(0), keyed.using(on_duplicate="replace").new(1), keyed.new(5)])
        said += [handle.did for handle in handles]
        [job] = await run_until_idle(jobs)
        assert job.payload == {"number": 1}
    assert said == ["made", "replaced", "kept", "dropped", "dropped"]
