"""The same tests on jobs that are kept in memory and on a real server: what the one does, the other does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs import (
    Backoff,
    Cancel,
    Dead,
    DuplicateJob,
    Hook,
    HookFailed,
    JobCancelled,
    JobContext,
    JobDied,
    JobNotFound,
    NewJob,
    Retry,
    Snooze,
    WaitTimeout,
    as_completed,
    gather,
)
from asyncjobs.testing import MovableClock, assert_enqueued, clear, refute_enqueued, run_until_idle
from tests.support.memory_and_server import Opening, make


async def test_results_children_and_correlation_ids(where: Opening) -> None:
    jobs = make()

    @jobs.job("child")
    def child(number: int) -> int:
        return number + 1

    @jobs.job("parent")
    async def parent(number: int) -> int:
        return (await child.enqueue(number)).id

    async with where(jobs):
        handle = await parent.using(correlation_id="c-1").enqueue(3)
        with pytest.raises(WaitTimeout):
            await handle.wait(timeout=0)
        ran = await run_until_idle(jobs)
        assert [job.type for job in ran] == ["parent", "child"]
        made = await jobs.get(await handle.result(timeout=5))
        assert made is not None
        assert (made.result, made.parent_job_id, made.correlation_id) == (4, handle.id, "c-1")
        await assert_enqueued(jobs, child, {"number": 3}, count=1)
        await refute_enqueued(jobs, child, {"number": 4})
        with pytest.raises(JobNotFound):
            await jobs.handle(2**40).wait(timeout=1)


async def test_priorities_go_first_and_then_the_order_of_enqueues(where: Opening) -> None:
    jobs, ran = make(), list[str]()

    @jobs.job("say")
    async def say(word: str) -> None:
        ran.append(word)

    async with where(jobs):
        await jobs.enqueue_many([say.new("b"), say.new("c"), say.using(priority=1).new("a")])
        await run_until_idle(jobs)
    assert ran == ["a", "b", "c"]


async def test_a_key_runs_in_order_past_retries_and_snoozes(where: Opening) -> None:
    jobs, ran = make(), list[tuple[int, int]]()

    @jobs.job("step", serialize_by="line", backoff=Backoff(60))
    async def step(ctx: JobContext, number: int) -> Snooze | None:
        ran.append((number, ctx.attempt))
        if number == 0 and ctx.attempt == 1:
            raise ConnectionError("not yet")
        return Snooze(60) if number == 1 and not ctx.job.snoozes else None

    async with where(jobs), MovableClock(jobs) as clock:
        for number in range(3):
            await step.enqueue(number)
        [first] = await run_until_idle(jobs)
        assert (first.status, first.attempts, len(first.errors)) == ("failed", 1, 1)
        await run_until_idle(jobs, clock=clock, ahead=600)
    assert ran == [(0, 1), (0, 2), (1, 1), (1, 1), (2, 1)]


async def test_a_key_whose_job_died_is_halted_or_goes_on(where: Opening) -> None:
    jobs = make()

    @jobs.job("halts", serialize_by="h", on_dead="halt")
    async def halts() -> Dead:
        return Dead("no")

    @jobs.job("goes on", serialize_by="g")
    async def goes_on() -> Dead:
        return Dead("no")

    last: Any = None
    async with where(jobs):
        for _ in range(2):
            await halts.enqueue()
            last = await goes_on.enqueue()
        ran = await run_until_idle(jobs)
        assert sorted(job.type for job in ran) == ["goes on", "goes on", "halts"]
        await last.wait(timeout=0)
        assert [job.status for job in ran] == ["dead"] * 3


async def test_verdicts_and_the_last_attempt(where: Opening) -> None:
    jobs = make()

    @jobs.job("cancels")
    async def cancels() -> Cancel:
        return Cancel("not needed")

    @jobs.job("dies", max_attempts=2, backoff=Backoff(5))
    async def dies() -> Retry:
        return Retry()

    @jobs.job("slow", timeout=0.05, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(30)

    async with where(jobs), MovableClock(jobs) as clock:
        handles: list[Any] = [await kind.enqueue() for kind in (cancels, dies, slow)]
        await run_until_idle(jobs, clock=clock, ahead=60)
        with pytest.raises(JobCancelled):
            await handles[0].result(timeout=5)
        for handle, attempts, why in ((handles[1], 2, "Retry"), (handles[2], 1, "AttemptTimeout")):
            with pytest.raises(JobDied, match=why) as died:
                await handle.result(timeout=5)
            assert died.value.job.attempts == attempts


async def test_what_a_breaker_holds_stays_for_later(where: Opening, patient_breakers: None) -> None:
    del patient_breakers
    jobs = make()
    service = jobs.circuit_breaker("mail", failure_threshold=1, open_for=600)
    well = list[bool]()

    @jobs.job("calls", breaker="mail", max_attempts=9, backoff=Backoff(1))
    async def calls() -> None:
        async with service:
            if not well:
                raise ConnectionError("down")

    async with where(jobs), MovableClock(jobs) as clock:
        await calls.enqueue()
        [failed] = await run_until_idle(jobs)
        assert failed.status == "failed"
        held = await calls.enqueue()
        assert await run_until_idle(jobs, timeout=5) == []
        well.append(True)
        await clock.advance(700)
        ran = await run_until_idle(jobs)
        assert held.id in {job.id for job in ran}
        assert {job.status for job in ran} == {"completed"}


async def test_progress_resources_and_hooks(where: Opening) -> None:
    said = list[str]()

    class Saying(Hook):
        async def before_attempt(self, ctx: JobContext) -> None:
            said.append(f"before {ctx.job.type}")

    @asynccontextmanager
    async def opened(_: JobContext) -> AsyncGenerator[str]:
        yield "it"
        said.append("closed")

    jobs = make(hooks=[Saying()])

    @jobs.job("uses")
    async def uses(ctx: JobContext) -> str:
        ctx.progress(0.5, "half")
        return await ctx.use(opened)

    async with where(jobs):
        await uses.enqueue()
        [job] = await run_until_idle(jobs)
        assert (job.result, job.progress) == ("it", {"done": 0.5, "note": "half"})
    assert said == ["before uses", "closed"]


async def test_gather_and_as_completed_wait_for_many(where: Opening) -> None:
    jobs = make()

    @jobs.job("double")
    async def double(number: int) -> int:
        return 2 * number

    @jobs.job("dies", max_attempts=1)
    async def dies() -> None:
        raise ConnectionError("down")

    @jobs.job("parent", queue="other")
    async def parent() -> int:
        return sum(await gather([await double.enqueue(number) for number in range(3)]))

    async with where(jobs), jobs.runner():
        handles = await jobs.enqueue_many([double.new(number) for number in range(5)])
        assert await gather(handles, timeout=5) == [0, 2, 4, 6, 8]
        assert await gather((await parent.enqueue(), handles[1]), timeout=5) == (6, 2)
        assert {one.id: one.result() async for one in as_completed(handles, timeout=5)}[handles[3].id] == 6
        with pytest.raises(JobDied):
            await gather([handles[0], await dies.enqueue()], timeout=5)
        late = await double.using(delay=600).enqueue(1)
        ended, waits, gone = await gather([handles[4], late, jobs.handle(2**40)], timeout=0.2, return_exceptions=True)
        assert (ended, type(waits), type(gone)) == (8, WaitTimeout, JobNotFound)
        with pytest.raises(WaitTimeout) as caught:
            await gather([handles[4], late], timeout=0)
        assert caught.value.missing == [late.id]


async def test_a_handler_that_would_wait_for_itself_is_refused(where: Opening) -> None:
    jobs = make()

    @jobs.job("step", serialize_by="line", max_attempts=1)
    async def step(*, waits: bool = False) -> None:
        if waits:
            await (await step.enqueue()).result()

    async with where(jobs):
        await step.enqueue(waits=True)
        ran = await run_until_idle(jobs)
        assert [job.status for job in ran] == ["dead", "completed"]
        assert "starts only when it has ended" in str(ran[0].last_error)


async def test_tags_of_types_and_enqueues(where: Opening) -> None:
    jobs = make()

    @jobs.job("tagged", tags=["mail"])
    async def tagged(ctx: JobContext) -> list[str]:
        return ctx.job.tags

    async with where(jobs):
        handle = await tagged.using(tags=["acme"], expires=60).enqueue()
        [job] = await run_until_idle(jobs)
        assert (sorted(job.tags), sorted(await handle.result(timeout=5))) == (["acme", "mail"], ["acme", "mail"])
        await assert_enqueued(jobs, tagged.using(tags=["acme"], expires=60, dedup_until="end"))
        for other in (tagged.using(tags=["other"]), tagged.using(expires=61), tagged.using(dedup_until="start")):
            await refute_enqueued(jobs, other)


async def test_what_is_retried_and_what_not(where: Opening) -> None:
    jobs = make(retry_on=(OSError,), max_attempts=2, backoff=Backoff(5))

    @jobs.job("raises")
    async def raises(kind: str) -> None:
        raise {"os": OSError, "value": ValueError, "key": KeyError}[kind](kind)

    @jobs.job("raises too", retry_on=(ValueError,), give_up_on=(KeyError,))
    async def raises_too(kind: str) -> None:
        raise {"value": ValueError, "key": KeyError}[kind](kind)

    async with where(jobs), MovableClock(jobs) as clock:
        news = [raises.new("os"), raises.new("value"), raises_too.new("value"), raises_too.new("key")]
        await jobs.enqueue_many(news)
        ran = await run_until_idle(jobs, clock=clock, ahead=60)
        assert [(job.payload["kind"], job.attempts, job.max_attempts) for job in ran] == [
            ("os", 2, 2),
            ("value", 1, 2),
            ("value", 2, 2),
            ("key", 1, 2),
        ]
        assert {job.status for job in ran} == {"dead"}


async def test_clear_forgets_all_jobs_and_closes_breakers(where: Opening) -> None:
    jobs = make()
    service = jobs.circuit_breaker("mail", failure_threshold=1, open_for=600)
    fails = [True]

    @jobs.job("calls", breaker="mail", serialize_by="k", on_dead="halt", max_attempts=1)
    async def calls() -> None:
        async with service:
            if fails:
                raise ConnectionError("down")

    async with where(jobs):
        first = await calls.using(dedup_key="d", dedup_for=600).enqueue()
        await calls.using(delay=600).enqueue()
        [dead] = await run_until_idle(jobs)
        assert dead.status == "dead"
        fails.clear()
        await clear(jobs)
        await refute_enqueued(jobs, calls)
        assert await jobs.get(first.id) is None
        again = await calls.using(dedup_key="d").enqueue()
        assert (again.created, again.id > first.id) == (True, True)
        assert [job.status for job in await run_until_idle(jobs)] == ["completed"]


async def test_a_workflow_runs_to_its_end_with_results_as_arguments(where: Opening) -> None:
    jobs = make()

    @jobs.job("fetch")
    async def fetch(number: int) -> int:
        return number * 10

    @jobs.job("total")
    async def total(numbers: list[int], first: int) -> int:
        return sum(numbers) + first

    async with where(jobs):
        async with jobs.workflow("sum") as flow:
            pages = flow.add_many(fetch.new(number) for number in range(5))
            one = flow.add(fetch.new(7))
            done = flow.add(total.new(pages.results, one.result))
        await assert_enqueued(jobs, fetch, {"number": 3}, count=1)
        await assert_enqueued(jobs, total, count=1)
        assert (await jobs.workflow_of(flow.id).counts()) == {"pending": 6, "blocked": 1}
        ran = await run_until_idle(jobs)
        assert [job.type for job in ran] == ["fetch"] * 6 + ["total"]
        assert await done.handle.result(timeout=0) == 170
        row = await jobs.workflow_of(flow.id).wait(timeout=5)
        assert (row.state, row.size, row.missing, row.name) == ("completed", 7, 0, "sum")
        assert {job.workflow_id for job in ran} == {flow.id}


async def test_a_death_ends_what_waits_for_it_and_not_what_is_done_after_all(where: Opening) -> None:
    jobs = make()

    @jobs.job("step")
    async def step(number: int) -> Any:
        return Dead("no") if number == 1 else number

    async with where(jobs):
        async with jobs.workflow("saga") as flow:
            first = flow.add(step.new(0))
            second = flow.add(step.new(1), after=first)
            third = flow.add(step.new(2), after=second)
            fourth = flow.add(step.new(3), after=[third, first])
            flow.add(step.new(4), after=[second, fourth], when="ended")
        assert [job.payload["number"] for job in await run_until_idle(jobs)] == [0, 1, 4]
        sentence = f"upstream {second.id} (step) died"
        for node in (third, fourth):
            job = await jobs.get(node.id)
            assert job is not None
            assert (job.status, job.error_message) == ("cancelled", sentence)
        row = await jobs.workflow_of(flow.id).get()
        assert (row.state, row.dead) == ("broken", 3)


async def test_what_a_job_spawns_is_waited_for_and_spawned_once(where: Opening) -> None:
    jobs, ended = make(), list[str]()

    @jobs.job("leaf")
    async def leaf(number: int) -> None:
        ended.append(f"leaf {number}")

    @jobs.job("root", retry_on=(OSError,), backoff=Backoff(1))
    async def root(ctx: JobContext) -> None:
        assert ctx.job.workflow_id == flow.id
        handles = await ctx.spawn(leaf.new(1), leaf.new(2))
        ended.append(f"root {len(handles)}")
        if ctx.attempt == 1:
            raise OSError

    @jobs.job("last")
    async def last() -> None:
        ended.append("last")

    async with where(jobs), MovableClock(jobs) as clock:
        async with jobs.workflow("crawl") as flow:
            top = flow.add(root.new())
            flow.add(last.new(), after=top)
        await run_until_idle(jobs, clock=clock, ahead=10)
        assert sorted(ended[:-1]) == ["leaf 1", "leaf 2", "root 2", "root 2"]
        assert ended[-1] == "last"
        assert (await jobs.workflow_of(flow.id).get()).size == 4


async def test_members_with_keys_delays_and_expiries_go_the_way_of_those_when_they_are_let_go(where: Opening) -> None:
    jobs = make()

    @jobs.job("step")
    async def step(number: int) -> int:
        return number

    async with where(jobs), MovableClock(jobs) as clock:
        async with jobs.workflow("flow") as flow:
            first = flow.add(step.using(delay=60).new(0))
            keyed = flow.add(step.using(serialization_key="k").new(1), after=first)
            late = flow.add(step.using(expires=30).new(2), after=first)
            later = flow.add(step.using(delay=600).new(3), after=[keyed, late])
        assert await run_until_idle(jobs) == []
        ran = await run_until_idle(jobs, clock=clock, ahead=700)
        assert sorted(job.payload["number"] for job in ran) == [0, 1, 2, 3]
        assert ran[-1].id == later.id


async def test_members_are_no_other_jobs_and_all_or_none_are_written(where: Opening) -> None:
    jobs = make()

    @jobs.job("step")
    async def step(number: int) -> int:
        return number

    async def build() -> None:
        async with jobs.workflow("flow") as flow:
            flow.add(step.new(1))
            flow.add(step.using(dedup_key="d").new(2))

    async with where(jobs):
        await step.using(dedup_key="d").enqueue(0)
        with pytest.raises(DuplicateJob):
            await build()
        await refute_enqueued(jobs, step, {"number": 1})


async def test_an_empty_group_has_ended_and_gives_an_empty_list(where: Opening) -> None:
    jobs = make()

    @jobs.job("total")
    async def total(numbers: list[int], note: str = "") -> int:
        return sum(numbers)

    async with where(jobs):
        async with jobs.workflow("none") as flow:
            nothing = flow.add_many(total.new([number]) for number in range(0))
            flow.add(total.new(nothing.results, '{"$results":[0,-1]}'), after=nothing)
        [job] = await run_until_idle(jobs)
        assert (job.result, job.payload) == (0, {"numbers": [], "note": '{"$results":[0,-1]}'})


async def test_hooks_go_round_the_enqueue_of_each_member(where: Opening) -> None:
    seen: list[str] = []

    class Tenants(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
            return job.using(correlation_id="tenant-1")

        async def after_enqueue(self, job: NewJob[Any], handle: Any, error: BaseException | None, /) -> None:
            seen.append(f"{job.type} {handle is not None}")

    jobs = make(hooks=[Tenants()])

    @jobs.job("leaf")
    async def leaf() -> None: ...

    @jobs.job("step")
    async def step(ctx: JobContext, number: int) -> int:
        if number:
            await ctx.spawn(leaf.new())
        return number

    async with where(jobs):
        async with jobs.workflow("flow") as flow:
            first = flow.add(step.new(1))
            flow.add(step.new(first.result))
        assert seen == ["step True", "step True"]
        ran = await run_until_idle(jobs)
        assert seen == ["step True", "step True", "leaf True", "leaf True"]
        assert {(job.correlation_id, job.workflow_id) for job in ran} == {("tenant-1", flow.id)}
        assert len(ran) == 4


async def test_a_hook_that_refuses_a_member_refuses_the_workflow(where: Opening) -> None:
    class Strict(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
            if job.row.payload == '{"number":2}':
                raise PermissionError(job.type)
            return job

    jobs = make(hooks=[Strict()])

    @jobs.job("step")
    async def step(number: int) -> int:
        return number

    async def build(*numbers: int) -> None:
        async with jobs.workflow("flow") as flow:
            flow.add_many(step.new(number) for number in numbers)

    async with where(jobs):
        with pytest.raises(HookFailed):
            await build(1, 2, 3)
        await refute_enqueued(jobs, step)
        await build(1, 3)
        await assert_enqueued(jobs, step, count=2)
