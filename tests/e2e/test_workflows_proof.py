"""Random workflows, three processes, kills, deaths, cancels, retries, pauses: each member ends, each gate opens, nothing waits
(P14). `GRAPHS=2` for some of the twenty.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, JobRouter, Queue, StateError
from asyncjobs.store.database import Database

PROGRAM = """
import asyncio, os, random
from asyncjobs import AsyncJobs, JobContext, JobRouter, Queue

router = JobRouter()

@router.job("link", max_attempts=2, timeout=30)
async def link(ctx: JobContext, some: list[int], dies: bool) -> int:
    await asyncio.sleep(random.random() * 0.01)
    if dies and ctx.attempt < 3:
        raise ValueError("so be it")
    return len(some)

jobs = AsyncJobs(os.environ["DSN"], routers=[router], queues=[Queue(concurrency=20)], heartbeat=0.3, runner_timeout=1.5,
                 sweep_interval=1.0, rescue_interval=0.3)
asyncio.run(jobs.run())
"""

ROOT = Path(__file__).parents[2]
ROUTER = JobRouter()


@ROUTER.job("link", max_attempts=2, timeout=30)
async def link(some: list[int], dies: bool) -> int:  # noqa: FBT001
    raise NotImplementedError


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with AsyncJobs(dsn, routers=[ROUTER], queues=[Queue(concurrency=20)]) as jobs:
        yield jobs


async def graph(app: AsyncJobs, chance: random.Random, size: int, levels: int) -> tuple[int, list[int]]:
    async with app.workflow("graph") as flow:
        above = [flow.add(link.new([], False)) for _ in range(size // levels)]
        for _ in range(levels - 1):
            here = []
            for _ in range(size // levels):
                using = link.using(serialization_key=f"k{chance.randrange(20)}") if chance.random() < 0.2 else link
                ups = chance.sample(above, chance.randint(1, 3))
                dies = chance.random() < 0.02
                if chance.random() < 0.3:
                    here.append(flow.add(using.new([], dies), after=ups, when=chance.choice(["completed", "ended"])))
                else:
                    here.append(flow.add(using.new([one.result for one in ups], dies)))
            above = here
    return flow.id, flow.ids


@pytest.mark.proof
@pytest.mark.unaudited("processes of its own; the tables are audited here")
@pytest.mark.parametrize("seed", range(int(os.environ.get("GRAPHS", "20"))))
async def test_random_workflows_end_among_kills_deaths_cancels_and_retries(
    app: AsyncJobs, dsn: str, database: Database, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")

    async def started() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, str(program), env={**os.environ, "DSN": dsn, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    flows = [await graph(app, chance, 1_000, 10) for _ in range(2)]
    processes = [await started() for _ in range(3)]
    try:
        for _ in range(8):
            await asyncio.sleep(chance.random() * 0.8)
            at = chance.randrange(3)
            processes[at].send_signal(signal.SIGKILL)
            await processes[at].wait()
            processes[at] = await started()
            some = chance.choice(flows)[1]
            await app.admin.cancel(chance.choice(some))
            paused: dict[str, Any] = chance.choice([{"key": f"k{chance.randrange(20)}"}, {"type": "link"}, {"queue": "default"}])
            await app.admin.pause(**paused)
            for job_id in chance.sample(some, 30):
                with suppress(StateError):
                    await app.admin.retry(job_id)
            await app.admin.resume(**paused)
        for _ in range(2):
            for workflow_id, _ids in flows:
                await app.workflow_of(workflow_id).wait(timeout=120)
            for workflow_id, _ids in flows:
                await app.admin.retry_workflow(workflow_id)
        for workflow_id, _ids in flows:
            assert (await app.workflow_of(workflow_id).wait(timeout=120)).missing == 0
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await process.wait()
    await check(dsn, database)


async def check(dsn: str, database: Database) -> None:
    """Nothing waits, and what is written of gates is what their members say."""
    connection = await asyncpg.connect(dsn)
    link_ = database.link("audit")
    try:
        left = await connection.fetch("SELECT status, count(*) FROM asyncjobs.jobs GROUP BY 1")
        assert {row["status"] for row in left} <= {"completed", "dead", "cancelled"}, left
        assert (
            await connection.fetchval("SELECT count(*) FROM asyncjobs.gates WHERE missing <> 0 OR opened_at IS NULL OR releasing")
            == 0
        )
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.arrivals") == 0
        assert await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
        found = [tuple(row) for name in ("audit_jobs", "audit_keys", "audit_gates") for row in await link_.fetch(name)]
        assert found == []
    finally:
        await link_.close()
        await connection.close()
