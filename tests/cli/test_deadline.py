"""`asyncjobs run` ends at its deadline whatever a handler does to its loop or its threads."""

from pathlib import Path

import pytest

from asyncjobs import AsyncJobs
from tests.support.program import Program

APP = """
import asyncio, os, time
from asyncjobs import AsyncJobs
from asyncjobs.cli import deadline

deadline.AFTER_GRACE_SECONDS = 0.3
tell = deadline.Deadline.tell
deadline.Deadline.tell = lambda self: (tell(self), os.write(1, b"told\\n"))
jobs = AsyncJobs(grace={grace})

@jobs.job("blocks the loop")
async def blocks() -> None:
    print("working", flush=True)
    time.sleep(600)

@jobs.job("leaves a thread")
async def leaves() -> None:
    print("working", flush=True)
    await asyncio.to_thread(time.sleep, 600)
"""


async def _nothing() -> None: ...


async def ended(folder: Path, dsn: str, name: str, *, grace: float = 0.1, twice: bool = False) -> None:
    """It has ended by itself, long before the handler would have."""
    (folder / "hanging.py").write_text(APP.format(grace=grace), encoding="utf-8")
    jobs = AsyncJobs(dsn)
    job = jobs.stub(name)(_nothing)
    async with jobs, Program.python("-m", "asyncjobs", "run", "hanging:jobs", env={"ASYNCJOBS_DSN": dsn}, cwd=folder) as program:
        await job.enqueue()
        await program.line("working", timeout=60)
        program.terminate()
        if twice:  # not both at once: Python looks for another signal when the sleep is over
            await program.line("told", timeout=60)
            program.interrupt()
        assert await program.wait(timeout=60) == 1
        assert "did not let this process end in time" in program.said


@pytest.mark.unaudited("the job is left to the rescue")
async def test_handler_that_blocks_the_loop_does_not_keep_the_process(tmp_path: Path, dsn: str) -> None:
    await ended(tmp_path, dsn, "blocks the loop")


async def test_thread_that_a_handler_left_does_not_keep_the_process(tmp_path: Path, dsn: str) -> None:
    await ended(tmp_path, dsn, "leaves a thread")


@pytest.mark.unaudited("the job is left to the rescue")
async def test_second_signal_cuts_the_grace_short_although_the_loop_is_blocked(tmp_path: Path, dsn: str) -> None:
    await ended(tmp_path, dsn, "blocks the loop", grace=3600, twice=True)
