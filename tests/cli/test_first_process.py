"""`asyncjobs run` as the first process of a container: it ends when it is told, and leaves no dead children lying about."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

pytestmark = pytest.mark.system

APP = """
import asyncio, os, pathlib
from asyncjobs import AsyncJobs

jobs = AsyncJobs(grace=1)

@jobs.job("orphan")
async def orphan() -> int:
    "A process whose parent ends before it: the first process is its parent then, and the one who has to reap it."
    shell = await asyncio.create_subprocess_shell("sleep 0.1 & echo $!", stdout=asyncio.subprocess.PIPE)
    left = pathlib.Path("/proc", (await shell.communicate())[0].decode().strip())
    while left.exists():
        await asyncio.sleep(0.01)
    return os.getpid()

@jobs.job("long")
async def long() -> None:
    print("working", flush=True)
    await asyncio.sleep(3600)
"""
IMPORTED_FOR_EVER = "import time; print('importing', flush=True); time.sleep(3600)"


@asynccontextmanager
async def first_process(folder: Path, app: str, dsn: str = "postgresql://nowhere/x") -> AsyncGenerator[tuple[Program, int]]:
    """The program in a namespace of its own, and its process id seen from outside."""
    (folder / "contained.py").write_text(app, encoding="utf-8")
    program = Program.python("-m", "asyncjobs", "run", "contained:jobs", cwd=folder, env={"ASYNCJOBS_DSN": dsn})
    program.command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *program.command)
    async with program:
        await eventually(lambda: children(program.pid), description="there is a first process")
        yield program, children(program.pid)[0]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


async def orphan() -> int:
    return 0


async def long() -> None: ...


async def test_it_reaps_orphans_and_ends_in_time_when_it_is_told(tmp_path: Path, dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    left, going_on = jobs.stub("orphan")(orphan), jobs.stub("long")(long)
    async with first_process(tmp_path, APP, dsn) as (program, first), jobs:
        assert await (await left.enqueue()).result(timeout=20) != 1
        handle = await going_on.enqueue()
        await program.line("working", timeout=60)
        watch = Stopwatch()
        os.kill(first, signal.SIGTERM)
        assert await program.wait(timeout=60) == 0
        assert watch.stop() < 1 + 1
        job = await jobs.admin.get(handle.id)
        assert job is not None
        assert (job.status, job.attempts) == ("pending", 0)


async def test_signal_before_the_app_is_imported_is_not_lost(tmp_path: Path) -> None:
    async with first_process(tmp_path, IMPORTED_FOR_EVER) as (program, first):
        await program.line("importing", timeout=60)
        os.kill(first, signal.SIGTERM)
        assert await program.wait(timeout=60) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("app", "code"), [("import os; os._exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137), ("x = 1", 2)]
)
async def test_exit_code_is_the_programs(tmp_path: Path, app: str, code: int) -> None:
    (tmp_path / "contained.py").write_text(app, encoding="utf-8")
    namespace = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    command = (*namespace, sys.executable, "-m", "asyncjobs", "run", "contained:jobs", "--dsn", "postgresql://nowhere/x")
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=tmp_path,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert await process.wait() == code
