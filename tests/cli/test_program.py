"""The command line as a program: signals, pipes, and a new user's way from the first job to the one that is tried again."""

import asyncio
import json
import os
import sys
import tomllib
from pathlib import Path

import asyncpg
import pytest

from tests.support.cli import cli
from tests.support.eventually import eventually
from tests.support.program import ROOT, Program

SHOP = """
import asyncio, os, pathlib
from asyncjobs import AsyncJobs

jobs = AsyncJobs(heartbeat=0.2, runner_timeout=1.5, rescue_interval=0.2)

@jobs.job("charge", max_attempts=1)
async def charge(card: str) -> str:
    if not pathlib.Path("repaired").exists():
        print("charging", card, flush=True)
        await asyncio.sleep(3600)
    return f"charged {card}"
"""


class Shell:
    """A folder with a program in it, and a database."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self._env = {"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": "shop:jobs", "COLUMNS": "100"}

    def start(self, *words: object) -> Program:
        return Program.python("-m", "asyncjobs", *map(str, words), env=self._env, cwd=self.folder)

    async def says(self, *words: object) -> str:
        async with self.start(*words) as program:
            await program.succeeds(timeout=60)
        return program.said

    async def is_(self, job_id: int, status: str) -> bool:
        """Whether the job is in this status; asked of the database, where a look costs little."""
        connection = await asyncpg.connect(self._env["ASYNCJOBS_DSN"])
        try:
            return bool(await connection.fetchval("SELECT status = $2 FROM asyncjobs.jobs WHERE id = $1", job_id, status))
        finally:
            await connection.close()


async def test_a_new_user_runs_kills_inspects_and_retries(tmp_path: Path, empty_dsn: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    shell = Shell(tmp_path, empty_dsn)
    assert "applied 0001_tables.sql" in await shell.says("migrate", "shop:jobs")
    job_id = json.loads(await shell.says("jobs", "enqueue", "charge", '{"card": "visa"}', "--json"))["id"]
    async with shell.start("run", "shop:jobs", "--queues", "default=2") as first:
        await first.line("charging visa", timeout=60)
        assert "it runs, on runner" in (await cli("jobs", "explain", job_id, dsn=empty_dsn)).out
        first.kill()
        await first.wait()
    async with shell.start("run", "shop:jobs") as second:
        await second.line("runs jobs", timeout=60)

        await eventually(lambda: shell.is_(job_id, "dead"), description="the second runner took the job back", timeout=60)
        assert f" {job_id} " in (await cli("dead", "list", "--unacknowledged", dsn=empty_dsn)).out
        (tmp_path / "repaired").touch()
        assert f"job {job_id}: retried (was dead)" in (await cli("jobs", "retry", job_id, dsn=empty_dsn)).out

        await eventually(lambda: shell.is_(job_id, "completed"), description="it ended well", timeout=60)
        second.terminate()
        await second.succeeds(timeout=60)
    assert "charged visa" in (await cli("jobs", "show", job_id, dsn=empty_dsn)).out


@pytest.mark.parametrize("unbuffered", ["", "1"])
async def test_a_pipe_that_is_closed_ends_it_quietly(unbuffered: str) -> None:
    command = f"{sys.executable} -m asyncjobs migrate --sql | head -c 10"  # more than a pipe holds
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    shell = await asyncio.create_subprocess_exec(
        *("bash", "-o", "pipefail", "-c", command),
        cwd=ROOT,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await shell.communicate()
    assert (shell.returncode, len(out), err) == (0, 10, b"")


async def test_a_pipe_that_was_closed_before_the_first_word_ends_it_quietly() -> None:
    nobody, into = os.pipe()
    os.close(nobody)
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "asyncjobs", "completion", "bash"), cwd=ROOT, env=env, stdout=into, stderr=asyncio.subprocess.PIPE
    )
    os.close(into)
    _, err = await program.communicate()
    assert (program.returncode, err) == (0, b"")


async def test_shells_complete_verbs(tmp_path: Path) -> None:
    env = {"_ASYNCJOBS_COMPLETE": "bash_complete", "COMP_WORDS": "asyncjobs jobs ", "COMP_CWORD": "2"}
    async with Program.python("-m", "asyncjobs", env=env) as program:
        await program.succeeds(timeout=60)
    assert {"plain,list", "plain,retry"} <= set(program.output)


async def test_a_changed_file_starts_the_runner_anew(tmp_path: Path, dsn: str) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP, encoding="utf-8")
    async with Shell(tmp_path, dsn).start("run", "shop:jobs", "--reload") as program:
        await program.line("runs jobs", timeout=60)
        shop.write_text(SHOP + '\nprint("second edition", flush=True)\n', encoding="utf-8")
        await program.line("second edition", timeout=60)
        program.terminate()
        await program.succeeds(timeout=60)


def test_the_package_installs_the_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"asyncjobs": "asyncjobs.cli:main"}
