"""Runners of several processes on one queue: each job runs once at a time, whoever dies. The auditor reads their spools."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from asyncjobs.store.database import Connection
from asyncjobs.testing import Recorder
from tests.programs import shared
from tests.support.eventually import eventually
from tests.support.program import Program

COUNT = 400


@pytest.fixture
async def app(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Any]:
    """The processes' app, only to enqueue."""
    monkeypatch.setenv("ASYNCJOBS_DSN", dsn)
    async with shared.jobs as jobs:
        yield jobs


async def statuses(connection: Connection) -> dict[str, int]:
    rows = await connection.fetch("SELECT status, count(*) FROM asyncjobs.jobs GROUP BY status")
    return {row["status"]: row["count"] for row in rows}


async def is_over(connection: Connection) -> bool:
    return await statuses(connection) == {"completed": COUNT}


@pytest.mark.parametrize("killed", [0, 1], ids=["all live", "one is killed"])
async def test_jobs_of_a_shared_queue_run_once_at_a_time(
    app: Any, connection: Connection, recorder: Recorder, tmp_path: Path, killed: int
) -> None:
    spools = [tmp_path / f"spool-{number}" for number in range(2 + killed)]
    async with AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(Program.python("-m", "tests.programs.shared", env={"SPOOL": str(spool)}))
            for spool in spools
        ]
        for program in programs:
            await program.line("started")
        await app.enqueue_many([shared.share.using(lane="fast" if n % 3 else None).new(n) for n in range(COUNT)])
        if killed:
            await eventually(lambda: spools[0].exists() and spools[0].stat().st_size > 3000, description="it is at work")
            programs[0].kill()
        await eventually(lambda: is_over(connection), description="all are completed", timeout=30)
        for program in programs[killed:]:
            program.terminate()
            assert await program.wait() == 0
    for spool in spools[killed:]:
        recorder.read(spool)
    survived = {attempt.runner_id for attempt in recorder.attempts()}
    for spool in spools[:killed]:
        recorder.read(spool)
    assert len({attempt.runner_id for attempt in recorder.attempts()}) == 2 + killed, "each did its share"
    # What ended in the moment of the kill may not have been written: then it ran once more.
    kept = [attempt for attempt in recorder.attempts() if attempt.outcome == "completed" and not attempt.claim_lost]
    counted = [attempt.job_id for attempt in kept if attempt.runner_id in survived]
    assert len(counted) == len(set(counted))
    assert len({attempt.job_id for attempt in kept}) == COUNT
