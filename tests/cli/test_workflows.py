"""`asyncjobs workflows`."""

import json
from collections.abc import AsyncGenerator

import pytest

from asyncjobs import AsyncJobs, JobRouter
from asyncjobs.workflow import Workflow
from tests.support.cli import cli

ROUTER = JobRouter()


@ROUTER.job("fetch", max_attempts=1)
async def fetch(n: int) -> int:
    if n < 0:
        raise ValueError("no such page")
    return n


@ROUTER.job("report", max_attempts=1)
async def report(pages: list[int]) -> int:
    return len(pages)


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with AsyncJobs(dsn, routers=[ROUTER]) as jobs:
        yield jobs


async def built(app: AsyncJobs, *numbers: int) -> Workflow:
    async with app.workflow("import") as flow:
        pages = flow.add_many(fetch.new(n) for n in numbers)
        flow.add(report.new(pages.results))
    return flow


async def test_workflows_are_listed_and_shown_with_what_they_wait_for(app: AsyncJobs, dsn: str) -> None:
    flow = await built(app, 1, 2, 3)
    said = await cli("workflows", "list", dsn=dsn)
    assert (said.code, "import" in said.out, "running" in said.out) == (0, True, True)
    assert (await cli("workflows", "list", "--name", "other", dsn=dsn)).code == 3
    said = await cli("workflows", "show", flow.id, dsn=dsn)
    assert said.code == 0
    assert "fetch (members 0 to 2)" in said.out
    assert "blocked" in said.out
    assert (await cli("workflows", "show", 4711, dsn=dsn)).code == 3
    await app.workflow_of(flow.id).cancel()


async def test_jobs_are_listed_by_their_workflow(app: AsyncJobs, dsn: str) -> None:
    flow, other = await built(app, 1), await built(app, 1, 2)
    said = await cli("jobs", "list", "--workflow", flow.id, "--json", dsn=dsn)
    assert [job["id"] for job in json.loads(said.out)] == sorted(flow.ids, reverse=True)
    said = await cli("jobs", "list", "--workflow", other.id, "--type", "report", "--json", dsn=dsn)
    assert [job["id"] for job in json.loads(said.out)] == [other.ids[2]]
    assert (await cli("jobs", "list", "--workflow", 4711, dsn=dsn)).code == 3
    await app.admin.cancel_all(workflow=flow)
    await app.workflow_of(other.id).cancel()


async def test_a_workflow_is_cancelled_after_a_question_and_retried(app: AsyncJobs, dsn: str) -> None:
    flow = await built(app, 1, 2)
    said = await cli("workflows", "cancel", flow.id, dsn=dsn)
    assert (said.code, "--yes" in said.err) == (2, True)
    said = await cli("workflows", "cancel", flow.id, "--reason", "not wanted", "--yes", dsn=dsn)
    assert (said.code, said.out.strip()) == (0, f"workflow {flow.id} is being cancelled")
    assert (await app.workflow_of(flow.id).get()).state == "broken"
    said = await cli("workflows", "retry", flow.id, dsn=dsn)
    assert (said.code, said.out.strip()) == (0, f"workflow {flow.id}: 3 retried, 0 left as they are")
    async with app.runner():
        assert (await app.workflow_of(flow.id).wait(timeout=10)).state == "completed"


async def test_a_retry_of_a_workflow_leaves_what_comes_back_by_itself(app: AsyncJobs) -> None:
    flow = await built(app, 1, -2)
    async with app.runner():
        assert (await app.workflow_of(flow.id).wait(timeout=10)).state == "broken"
    done = await app.admin.retry_workflow(flow.id)
    assert (done.retried, done.left) == ([flow.ids[1]], {})
    assert (await app.workflow_of(flow.id).counts()) == {"completed": 1, "pending": 1, "blocked": 1}
    await app.admin.cancel_workflow(flow.id)


async def test_why_a_blocked_job_does_not_run(app: AsyncJobs) -> None:
    flow = await built(app, 1, 2)
    told = await app.admin.explain(flow.ids[2])
    assert told.reason == "blocked"
    assert told.sentence.startswith(
        f"Job {flow.ids[2]} (report): it waits for 2 of 2 jobs of fetch (members 0 to 1), "
        f"the oldest is job {flow.ids[0]}: no runner lives."
    )
    assert told.head is not None
    assert told.head.job_id == flow.ids[0]
    assert [job.id for job in (await app.admin.find(status="blocked")).jobs] == [flow.ids[2]]
    await app.admin.cancel_workflow(flow.id)
