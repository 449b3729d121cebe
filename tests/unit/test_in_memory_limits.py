"""Limits of an app whose jobs are kept in memory: the same words, for one process."""

from asyncjobs import AsyncJobs, Limit, Queue, Rate, Throttled, gather
from asyncjobs.testing import MovableClock, in_memory, run_until_idle


def make(limit: Limit | None, *, total: int | None = None) -> tuple[AsyncJobs, list[str]]:
    jobs = AsyncJobs(queues=[Queue("default", total=total)])
    ran: list[str] = []

    @jobs.job("work", limit=limit)
    async def work(tenant: str, then: str = "") -> None:
        ran.append(tenant)
        if then and ran.count(tenant) == 1:
            raise Throttled(60)

    @jobs.job("parent", limit=limit)
    async def parent(tenant: str, children: list[str]) -> None:
        ran.append("parent")
        await gather([await jobs.enqueue("work", {"tenant": child}) for child in children], timeout=0.2, return_exceptions=True)

    return jobs, ran


async def test_a_job_whose_key_is_full_waits_and_the_next_is_run() -> None:
    jobs, ran = make(Limit("api", each=1, by="{tenant}"))
    async with in_memory(jobs):
        await jobs.enqueue("parent", {"tenant": "a", "children": ["a", "b"]})
        await run_until_idle(jobs)
    assert ran == ["parent", "b", "a"]


async def test_a_total_of_a_limit_and_of_a_queue_hold() -> None:
    for limit, total in ((Limit("api", total=1, by="{tenant}"), None), (None, 1)):
        jobs, ran = make(limit, total=total)
        async with in_memory(jobs):
            await jobs.enqueue("parent", {"tenant": "a", "children": ["b", "c"]})
            await run_until_idle(jobs)
        assert ran == ["parent", "b", "c"]


async def test_a_rate_lets_a_burst_start_and_the_rest_in_its_time() -> None:
    jobs, ran = make(Limit("api", rate=Rate(60, per=60, burst=2)))
    async with in_memory(jobs), MovableClock(jobs) as clock:
        for _ in range(4):
            await jobs.enqueue("work", {"tenant": "a"})
        await run_until_idle(jobs)
        assert len(ran) == 2
        await clock.advance(1.1)
        await run_until_idle(jobs)
        assert len(ran) == 3


async def test_throttled_closes_the_key_for_its_time() -> None:
    jobs, ran = make(Limit("api", each=5, by="{tenant}"))
    async with in_memory(jobs), MovableClock(jobs) as clock:
        first = await jobs.enqueue("work", {"tenant": "a", "then": "throttle"})
        for tenant in "ab":
            await jobs.enqueue("work", {"tenant": tenant})
        await run_until_idle(jobs)
        assert ran == ["a", "b"]
        await clock.advance(61)
        await run_until_idle(jobs)
        assert sorted(ran) == ["a", "a", "a", "b"]
        job = await jobs.get(first.id)
        assert job is not None
        assert (job.limit_key, job.attempts) == ("api:a", 1)
