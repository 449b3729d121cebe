"""Workflows on jobs that are kept in memory and on a real server: what the one does, the other does."""

import asyncio
from typing import Any

import pytest

from asyncjobs import Backoff, Dead, DuplicateJob, Hook, HookFailed, JobContext, NewJob, WorkflowNotFound
from asyncjobs.testing import MovableClock, assert_enqueued, refute_enqueued, run_until_idle
from tests.support.memory_and_server import Opening, make


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


async def test_the_jobs_of_a_workflow_are_found_page_by_page(where: Opening) -> None:
    jobs = make()

    @jobs.job("more")
    async def more(number: int) -> int:
        return number

    @jobs.job("crawl")
    async def crawl(ctx: JobContext) -> None:
        await ctx.spawn(more.new(7))

    async with where(jobs):
        await more.enqueue(0)
        async with jobs.workflow("crawl") as flow:
            flow.add(crawl.new())
            flow.add_many(more.new(number) for number in range(3))
        await run_until_idle(jobs)
        first = await jobs.workflow_of(flow.id).jobs(limit=2)
        rest = await jobs.workflow_of(flow.id).jobs(before=first.next)
        assert [job.payload for job in first.jobs] == [{"number": 7}, {"number": 2}]
        assert [job.id for job in rest.jobs] == [flow.ids[2], flow.ids[1], flow.ids[0]]
        assert rest.next is None
        assert (await jobs.workflow_of(4711).jobs()).jobs == []


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

        async def after_enqueue(self, job: NewJob[Any], /, handle: Any, error: BaseException | None) -> None:
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


async def test_a_cancel_ends_what_has_not_ended_and_nothing_of_it_runs(where: Opening) -> None:
    jobs, ran = make(), list[int]()

    @jobs.job("step")
    async def step(number: int) -> int:
        ran.append(number)
        return number

    async with where(jobs), MovableClock(jobs) as clock:
        async with jobs.workflow("long") as flow:
            done = flow.add(step.new(0))
            later = flow.add(step.using(delay=3600, dedup_key="later").new(1), after=done)
            keyed = flow.add(step.using(delay=60, serialization_key="k").new(2))
            last = flow.add(step.new(3), after=[later, keyed])
            after_all = flow.add(step.new(4), after=last, when="ended")
        other = await step.using(delay=90, serialization_key="k").enqueue(5)
        handle = jobs.workflow_of(flow.id)
        await run_until_idle(jobs)
        assert await handle.cancel("not wanted") == "requested"
        row = await handle.wait(timeout=5)
        assert (row.state, row.dead, row.missing, row.cancel_message) == ("broken", 4, 0, "not wanted")
        assert row.cancel_requested_at is not None
        ended = [await jobs.get(node.id) for node in (done, later, keyed, last, after_all)]
        assert [job and (job.status, job.error_message) for job in ended] == [("completed", None)] + [
            ("cancelled", "not wanted")
        ] * 4
        assert await handle.cancel() == "ended"
        again = await step.using(dedup_key="later").enqueue(6)
        await run_until_idle(jobs, clock=clock, ahead=7200)
        assert ran == [0, 6, 5]  # what was cancelled holds neither its key nor its dedup key
        assert (await again.wait(timeout=5)).id != later.id
        assert (await other.wait(timeout=5)).status == "completed"
        with pytest.raises(WorkflowNotFound):
            await jobs.workflow_of(2**40).cancel()


async def test_a_cancel_asks_what_runs_to_end_and_no_gate_releases(where: Opening) -> None:
    jobs, seen, runs_now = make(), list[str](), asyncio.Event()

    @jobs.job("runs", timeout=60)
    async def runs() -> None:
        runs_now.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("told")
            raise

    @jobs.job("after")
    async def after() -> None:
        seen.append("released")

    async with where(jobs):
        async with jobs.workflow("flow") as flow:
            first = flow.add(runs.new())
            flow.add(after.new(), after=first, when="ended")

        async def cancel() -> None:
            await runs_now.wait()
            seen.append(await jobs.workflow_of(flow.id).cancel("enough"))

        cancels = asyncio.create_task(cancel())
        await run_until_idle(jobs)
        await cancels
        assert sorted(seen) == ["requested", "told"]
        job = await jobs.get(first.id)
        assert job is not None
        assert (job.status, job.error_message) == ("cancelled", "enough")
        row = await jobs.workflow_of(flow.id).wait(timeout=5)
        assert (row.state, row.dead) == ("broken", 2)


async def test_an_empty_workflow_has_ended_before_it_is_cancelled(where: Opening) -> None:
    jobs = make()
    async with where(jobs):
        async with jobs.workflow("none") as flow:
            pass
        assert await jobs.workflow_of(flow.id).cancel() == "ended"
