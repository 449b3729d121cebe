"""Workflows from SQL: `asyncjobs.enqueue_workflow`, the sentences of its head."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection
from asyncjobs.testing import run_until_idle
from tests.support.sql_door import declared


@pytest.fixture
async def jobs(dsn: str) -> AsyncGenerator[AsyncJobs]:
    """An app with types that take each other's results."""
    jobs = AsyncJobs(dsn, poll_interval=300)

    @jobs.job("fetch", priority=7, tags=["net"])
    async def fetch(number: int, text: str = "") -> int:
        return number * 10

    @jobs.job("total")
    async def total(numbers: list[int], first: int = 0, note: dict[str, Any] | None = None) -> int:
        return sum(numbers) + first

    await declared(jobs)
    async with jobs:
        yield jobs


async def write(connection: Connection, *steps: dict[str, Any], **more: Any) -> int:
    document = {"name": "sum", "jobs": list(steps), **more}
    found: int = await connection.fetchval("SELECT asyncjobs.enqueue_workflow($1::text::jsonb)", json.dumps(document))
    return found


async def refused(connection: Connection, *steps: Any, **more: Any) -> str:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await write(connection, *steps, **more)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 0
    return str(caught.value)


async def test_results_groups_and_order_are_those_of_the_document(jobs: AsyncJobs, connection: Connection) -> None:
    flow_id = await write(
        connection,
        {"name": "one", "type": "fetch", "payload": {"number": 7, "text": 'no {"$result": "one"} here'}},
        {"name": "pages", "type": "fetch", "payloads": [{"number": number} for number in range(4)], "options": {"priority": 9}},
        {"name": "all", "type": "total", "payload": {"numbers": {"$results": "pages"}, "first": {"$result": "one"}}},
        {"type": "total", "payload": {"numbers": [{"$result": "all"}, 1]}, "after": "pages"},
        {"type": "fetch", "payload": {"number": 99}, "after": ["all", "one"], "when": "ended"},
        correlation_id="c-1",
    )
    handle = jobs.workflow_of(flow_id)
    assert await handle.counts() == {"pending": 5, "blocked": 3}
    assert [(gate.name, gate.size) for gate in await jobs.admin.gates(flow_id)] == [("pages", 4), ("one", 1), ("all", 1)]
    ran = await run_until_idle(jobs)
    assert sorted(job.result for job in ran if job.type == "total") == [130, 131]
    assert (await handle.get()).state == "completed"
    assert {(job.correlation_id, job.workflow_id) for job in ran} == {("c-1", flow_id)}
    assert {(job.priority, *job.tags) for job in ran if job.type == "fetch"} == {(7, "net"), (9, "net")}


async def test_an_empty_group_has_ended_and_so_has_an_empty_workflow(jobs: AsyncJobs, connection: Connection) -> None:
    flow_id = await write(
        connection,
        {"name": "none", "type": "fetch", "payloads": []},
        {"type": "total", "payload": {"numbers": {"$results": "none"}}},
    )
    [job] = await run_until_idle(jobs)
    assert job.result == 0
    assert (await jobs.workflow_of(flow_id).get()).state == "completed"
    assert (await jobs.workflow_of(await write(connection)).get()).state == "completed"


async def test_it_is_there_with_the_commit_and_nothing_with_a_rollback(jobs: AsyncJobs, connection: Connection) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await write(connection, {"type": "fetch", "payload": {"number": 1}})
    await transaction.rollback()
    assert await jobs.admin.workflows() == []


@pytest.mark.usefixtures("jobs")
async def test_what_does_not_fit_is_refused_in_words_and_nothing_is_written(connection: Connection) -> None:
    fetch: dict[str, Any] = {"name": "one", "type": "fetch", "payload": {"number": 1}}
    for steps, said in (
        ([{"type": "total", "payload": {"numbers": [{"$result": "one"}]}}, fetch], "takes what one gives, and no job before it"),
        ([fetch, {"type": "total", "payload": {"numbers": {"$results": "one"}}}], "takes $results of one, which is one job"),
        (
            [{**fetch, "payloads": [{"number": 1}]}, {"type": "fetch", "payload": {"number": {"$result": "one"}}}],
            "which is a group",
        ),
        ([fetch, {**fetch, "after": "two"}], "is to run after two, and no job before it has that name"),
        ([{**fetch, "after": "one"}], "is to run after one"),
        ([fetch, fetch], "has the name one, which another before it has"),
        ([{**fetch, "when": "ended"}], 'when="ended" says how "after" is meant'),
        ([fetch, {**fetch, "name": "two", "after": "one", "when": "dead"}], "when"),
        ([{**fetch, "payload": {"number": "a"}}], "fetch: expected int, got str - at $.number"),
        ([{**fetch, "payload": {"text": "a"}}], 'missing field "number"'),
        ([{**fetch, "type": "fetsch"}], 'no job "fetsch" in this schema'),
        ([{**fetch, "options": {"on_duplicate": "replace", "dedup_key": "d"}}], "a member is a job of its own"),
        ([{**fetch, "then": "x"}], "the job 1 has no field 'then'"),
        (["fetch"], "the job 1 is a str: give an object"),
        ([{**fetch, "options": {"dedup_key": "d"}}, {**fetch, "name": "two", "options": {"dedup_key": "d"}}], 'fetch "d" is job'),
    ):
        assert said in await refused(connection, *steps)
    assert "has more than 1 jobs" in await refused(connection, fetch, {**fetch, "name": "two"}, max_members=1)
    assert "no field 'nam'" in await refused(connection, fetch, nam="x")
    assert "begins or ends with a space" in await refused(connection, fetch, name=" x")


@pytest.mark.usefixtures("jobs")
async def test_a_name_of_a_result_is_nothing_where_there_is_no_workflow(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="expected int, got object"):
        await connection.fetchval("SELECT asyncjobs.enqueue('fetch', $1::text::jsonb)", '{"number": {"$result": "one"}}')


async def test_thousands_are_written_and_run(jobs: AsyncJobs, connection: Connection) -> None:
    flow_id = await write(
        connection,
        {"name": "many", "type": "fetch", "payloads": [{"number": number} for number in range(2_000)]},
        {"type": "total", "payload": {"numbers": {"$results": "many"}}},
    )
    await run_until_idle(jobs, timeout=60)
    [last] = await jobs.admin.members(flow_id, after=1_999)
    job = await jobs.get(last.id)
    assert job is not None
    assert job.result == 10 * sum(range(2_000))
