"""Results of many jobs that their dependent reads in pages, on a server and in memory."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast

import pytest

from asyncjobs import (
    AsyncJobs,
    InvalidHandler,
    InvalidOption,
    InvalidPayload,
    JobRouter,
    Queue,
    Results,
    UsageError,
    WorkflowError,
)
from asyncjobs.store.database import Connection
from asyncjobs.testing import perform, run_until_idle
from tests.support.memory_and_server import Opening, make


async def test_thousands_are_gone_through_in_their_order_and_read_a_page_at_a_time(where: Opening) -> None:
    jobs, pages = make(max_result_bytes=1000), list[int]()

    @jobs.job("page")
    async def page(n: int) -> int:
        return n * 2

    @jobs.job("report")
    async def report(numbers: Results[int], title: str) -> str:
        seen = [one async for one in numbers]
        async for some in numbers.pages(700):  # as often as you like
            pages.append(len(some))
        return f"{title}: {len(numbers)} {sum(seen)} {seen[:3]} {seen == sorted(seen)}"

    async with where(jobs):
        async with jobs.workflow("many") as flow:
            some = flow.add_many(page.new(n) for n in range(1_500))
            done = flow.add(report.new(some.paged, title="all"))
            whole = flow.add(report.new(cast("Results[int]", some.results), title="the same"))
        await run_until_idle(jobs)
        assert await done.handle.result(timeout=5) == f"all: 1500 {sum(range(1500)) * 2} [0, 2, 4] True"
        assert await whole.handle.result(timeout=5) == f"the same: 1500 {sum(range(1500)) * 2} [0, 2, 4] True"
        assert pages == [700, 700, 100] * 2


async def test_they_are_of_the_type_that_the_parameter_says(where: Opening) -> None:
    jobs = make()

    @dataclass
    class Page:
        url: str
        at: datetime

    @jobs.job("fetch")
    async def fetch(url: str) -> Page:
        return Page(url, datetime.fromisoformat("2026-01-02T03:04:05+00:00"))

    @jobs.job("index")
    async def index(pages: Annotated[Results[Page], "all"]) -> list[str]:
        return [f"{page.url} {page.at.year}" async for page in pages]

    async with where(jobs):
        async with jobs.workflow("typed") as flow:
            done = flow.add(index.new(flow.add_many(fetch.new(url) for url in ("a", "b")).paged))
            none = flow.add(index.new(flow.add_many(fetch.new(str(n)) for n in range(0)).paged))
        await run_until_idle(jobs)
        assert await done.handle.result(timeout=5) == ["a 2026", "b 2026"]
        assert await none.handle.result(timeout=5) == []


async def test_a_list_in_the_payload_is_as_good(where: Opening) -> None:
    jobs = make()

    @jobs.job("total")
    async def total(numbers: Results[int] = Results([1, 2])) -> int:  # noqa: B008 - nothing changes it
        return sum([one async for one in numbers])

    async with where(jobs):
        handles = [await total.enqueue(Results([3, 4])), await total.enqueue(), await total.enqueue(Results())]
        await run_until_idle(jobs)
        assert [await one.result(timeout=5) for one in handles] == [7, 3, 0]
        assert await total(Results([5])) == 5
        with pytest.raises(InvalidPayload, match=r"expected int, got str - at \$.numbers\[1\]|expected int, got str"):
            await total.enqueue(cast("Results[int]", Results([1, "two"])))
        with pytest.raises(InvalidPayload, match="expected array"):
            await total.enqueue(cast("Results[int]", "12"))


async def test_one_that_was_dropped_ends_the_dependent_where_it_is_read_and_is_named(where: Opening) -> None:
    jobs, seen = make(max_result_bytes=100), list[str]()

    @jobs.job("page", max_attempts=1)
    async def page(size: int) -> str:
        return "x" * size

    @jobs.job("report", max_attempts=5)
    async def report(pages: Results[str]) -> None:
        async for some in pages.pages(1):
            seen.extend(some)

    async with where(jobs):
        async with jobs.workflow("large") as flow:
            some = flow.add_many(page.new(size) for size in (1, 2, 500, 3))
            done = flow.add(report.new(some.paged))
        await run_until_idle(jobs)
        job = await jobs.get(done.id)
        assert job is not None
        assert job.status == "dead"
        assert f"the result of job {some.ids[2]} (page), which was dropped" in (job.error_message or "")
        assert seen == ["x", "xx"]


async def test_one_that_does_not_fit_ends_the_dependent_and_is_named(where: Opening) -> None:
    jobs = make()

    @jobs.job("anything")
    async def anything(n: int) -> Any:
        return n or "none"

    @jobs.job("total")
    async def total(numbers: Results[int]) -> int:
        return sum([one async for one in numbers])

    async with where(jobs):
        async with jobs.workflow("odd") as flow:
            some = flow.add_many(anything.new(n) for n in (1, 0))
            done = flow.add(total.new(some.paged))
        await run_until_idle(jobs)
        job = await jobs.get(done.id)
        assert job is not None
        assert job.status == "dead"
        assert f"a result of job {some.ids[1]} (anything) does not fit: Expected `int`, got `str`" in (job.error_message or "")


async def test_a_name_where_there_is_no_workflow_is_an_end_that_says_so(where: Opening) -> None:
    jobs = make()

    @jobs.job("total")
    async def total(numbers: Results[int]) -> int:
        return sum([one async for one in numbers])

    async with where(jobs):
        handle = await total.enqueue(cast("Results[int]", {"$results": [0, 3]}))
        await run_until_idle(jobs)
        job = await jobs.get(handle.id)
        assert job is not None
        assert (job.status, "member 0 of its workflow, which is gone" in (job.error_message or "")) == ("dead", True)


async def test_what_does_not_fit_is_refused(where: Opening) -> None:
    jobs = make()

    @jobs.job("page")
    async def page(n: int) -> int:
        return n

    @jobs.job("total")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @jobs.job("paged")
    async def paged(numbers: Results[int]) -> int:
        return sum([one async for one in numbers])

    @jobs.job("words")
    async def words(some: Results[str]) -> None: ...

    @jobs.job("within")
    async def within(some: dict[str, Any]) -> None: ...

    async with where(jobs), jobs.workflow("flow") as flow:
        one, some = flow.add(page.new(1)), flow.add_many([page.new(2)])
        with pytest.raises(InvalidPayload, match=r"give its \.results, or annotate the parameter Results"):
            total.new(cast("list[int]", some.paged))
        with pytest.raises(InvalidPayload, match=r"give a group's \.paged"):
            paged.new(cast("Results[int]", one.result))
        with pytest.raises(InvalidPayload, match=r"expected list\[str\]"):
            words.new(cast("Results[str]", some.paged))
        with pytest.raises(InvalidPayload, match="have to be the whole argument"):
            within.new({"all": some.paged})
        with pytest.raises(WorkflowError, match="means another job's here"):
            flow.add(paged.new(cast("Results[int]", {"$results": [0, 0]})))
    with pytest.raises(InvalidOption, match="size=0"):
        async for _ in Results([1]).pages(0):
            pass
    with pytest.raises(TypeError, match="not iterable"):
        list(cast("Any", Results([1])))


def test_handlers_that_cannot_read_pages_are_refused() -> None:
    router = JobRouter()

    def plain(numbers: Results[int]) -> None: ...

    async def within(numbers: list[Results[int]]) -> None: ...

    async def unstorable(numbers: Results[complex]) -> None: ...

    with pytest.raises(InvalidHandler, match="read with `async for`: make the handler an `async def`"):
        router.job("plain")(plain)
    with pytest.raises(InvalidHandler, match="Results is a parameter's own type, and nothing within another"):
        router.job("within")(within)
    with pytest.raises(InvalidHandler, match=r"cannot be stored as JSON \(complex\)"):
        router.job("unstorable")(unstorable)


async def test_results_of_a_group_are_read_by_the_job_alone() -> None:
    results = Results[int].of_payload(Results[int], {"$results": [0, 3]}, lambda kind, value: value)
    assert (len(results), repr(results)) == (4, "<4 results>")
    with pytest.raises(UsageError, match="are read by the job whose argument they are"):
        _ = [one async for one in results]
    with pytest.raises(UsageError, match="cannot be handed on"):
        _ = results.stored


async def test_sql_enqueues_them_by_a_list_and_by_the_name_of_a_group(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, queues=[Queue(concurrency=4)])

    @jobs.job("page")
    async def page(n: int) -> int:
        return n

    @jobs.job("total")
    async def total(numbers: Results[int]) -> int:
        return sum([one async for one in numbers])

    async with jobs, jobs.runner():
        alone = await connection.fetchval("""SELECT asyncjobs.enqueue('total', '{"numbers": [1, 2]}')""")
        assert await jobs.handle(alone).result(timeout=10) == 3
        with pytest.raises(Exception, match="expected int"):
            await connection.fetchval("""SELECT asyncjobs.enqueue('total', '{"numbers": [1, "two"]}')""")
        ids = await connection.fetchval("""SELECT asyncjobs.enqueue_workflow('{"name": "flow", "jobs": [
            {"type": "page", "name": "pages", "payloads": [{"n": 4}, {"n": 5}]},
            {"type": "total", "payload": {"numbers": {"$results": "pages"}}}]}')""")
        row = await jobs.workflow_of(ids if isinstance(ids, int) else ids["id"]).wait(timeout=10)
        assert row.state == "completed"
        [last] = await connection.fetch("SELECT result FROM asyncjobs.jobs WHERE type = 'total' AND workflow_id IS NOT NULL")
        assert last["result"] in (9, "9")


async def test_an_attempt_that_is_performed_alone_takes_a_list() -> None:
    jobs = make()

    @jobs.job("total")
    async def total(numbers: Results[int]) -> int:
        return sum([one async for one in numbers])

    assert await perform(total.new(Results([1, 2, 3]))) == 6
