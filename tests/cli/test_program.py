"""The command line as a program: signals, pipes, completion, reloading."""

import asyncio
import os
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.program import ROOT, Program

SHOP = """
from asyncjobs import AsyncJobs

jobs = AsyncJobs()

@jobs.job("charge")
async def charge(card: str) -> None: ...
"""


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


@pytest.mark.parametrize("module", ["asyncjobs", "asyncjobs.cli"])
async def test_it_is_a_module_that_python_runs(module: str) -> None:
    async with Program.python("-m", module, "migrate", "--help") as program:
        await program.succeeds(timeout=60)
    assert program.output[0].startswith("Usage: asyncjobs migrate "), program.output


async def test_shells_complete_verbs(tmp_path: Path) -> None:
    env = {"_ASYNCJOBS_COMPLETE": "bash_complete", "COMP_WORDS": "asyncjobs jobs ", "COMP_CWORD": "2"}
    async with Program.python("-m", "asyncjobs", env=env) as program:
        await program.succeeds(timeout=60)
    assert {"plain,list", "plain,retry"} <= set(program.output)


async def test_a_changed_file_starts_the_runner_anew(tmp_path: Path, dsn: str) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP, encoding="utf-8")
    env = {"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": None}
    async with Program.python("-m", "asyncjobs", "run", "shop:jobs", "--reload", env=env, cwd=tmp_path) as program:
        await program.line("runs jobs", timeout=60)
        shop.write_text(SHOP + '\nprint("second edition", flush=True)\n', encoding="utf-8")
        await program.line("second edition", timeout=60)
        program.terminate()
        await program.succeeds(timeout=60)


def test_the_package_installs_the_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"asyncjobs": "asyncjobs.cli:main"}
