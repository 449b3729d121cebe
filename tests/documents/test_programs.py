"""Programs that the pages make of several files, run by the commands that stand beside them."""

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from tests.support.eventually import eventually
from tests.support.guardian import guarded
from tests.support.pages import PAGES, ROOT, blocks, name_of, write_file
from tests.support.plugin import with_plugin

README = "README.md"
WORKERS = "docs/guide/workers.md"
TESTING = "docs/testing.md"

#: Commands that some test here runs, or checks in another way.
KNOWN = re.compile(
    r"make |pip install|uvicorn app:app$|curl |python worker.py$|asyncjobs run (worker|app):jobs |pytest test_shop.py$"
    # test_tutorial.py:
    r"|python3 -m venv|python -m shop\.|(SHOP_ONLY_ENQUEUES=1 )?uvicorn shop.web:app$|pytest shop$"
    r"|export ASYNCJOBS_APP=shop.jobs:jobs$"
    r"|asyncjobs (dead list|jobs list|doctor|top|dashboard shop.jobs:jobs)$"
)


def commands(page: str, first_words: str = "") -> list[list[str]]:
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(first_words)]


def test_every_command_is_one_that_is_checked_here() -> None:
    every = [shlex.join(command) for page in PAGES for command in commands(name_of(page)) if command]
    assert [command for command in every if not KNOWN.match(command)] == []


def test_make_targets_exist() -> None:
    found = [command for page in PAGES for command in commands(name_of(page), "make")]
    assert found
    for command in found:
        subprocess.run([*command, "-n"], cwd=ROOT, check=True, capture_output=True)


def test_extras_to_install_exist() -> None:
    known = set(metadata("asyncjobs").get_all("Provides-Extra") or ())
    asked = [
        extra
        for page in PAGES
        for command in commands(name_of(page), "pip install")
        for word in command[2:]
        for extra in re.findall(r"[\w-]+", word.partition("[")[2])
    ]
    assert asked
    assert set(asked) <= known


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ask(url: str, *, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        return json.load(answer)


def ask_json(url: str, *, method: str = "GET", body: str | None = None) -> Any:
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def answers(url: str) -> bool:
    try:
        return bool(ask(url))
    except OSError:
        return False


@asynccontextmanager
async def running(*command: str, folder: Path) -> AsyncGenerator[None]:
    """`python *command` in the folder, which has to end in good order after SIGTERM."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=folder, env=environment, start_new_session=True)
    try:
        with guarded(process.pid):
            yield
        process.terminate()
        # uvicorn raises the signal that it got once more when it has shut down.
        assert await asyncio.wait_for(process.wait(), 15) in (0, -signal.SIGTERM)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.usefixtures("environment")
async def test_quickstart_answers_its_curls(tmp_path: Path) -> None:
    write_file(README, "app.py", tmp_path)
    port = free_port()
    (serve,) = commands(README, "uvicorn")
    post, get = ([part.replace(":8000/", f":{port}/") for part in command] for command in commands(README, "curl"))

    async def is_up() -> bool:
        return await asyncio.to_thread(answers, f"http://127.0.0.1:{port}/openapi.json")

    async with running("-m", *serve, "--port", str(port), folder=tmp_path):
        await eventually(is_up, description="the app serves", timeout=30)
        accepted = await asyncio.to_thread(ask, post[-1], method=post[post.index("-X") + 1])
        job_url = re.sub(r"\d+$", str(accepted["job_id"]), get[-1])

        async def is_done() -> bool:
            done = {"status": "completed", "result": "sent welcome to ada@example.com"}
            return bool(await asyncio.to_thread(ask, job_url) == done)

        await eventually(is_done, description="the mail was sent", timeout=10)


@pytest.mark.usefixtures("environment")
async def test_worker_runs_jobs_until_it_gets_a_signal(tmp_path: Path) -> None:
    write_file(WORKERS, "worker.py", tmp_path)
    jobs = AsyncJobs("embedded://", auto_migrate=True)

    @jobs.stub("email")
    async def send_email(to: str) -> None: ...

    (work,) = commands(WORKERS, "python worker")
    async with running(*work[1:], folder=tmp_path), jobs:
        job = await (await send_email.enqueue("ada@example.com")).wait(timeout=30)
        assert job.status == "completed"


@pytest.mark.usefixtures("environment")
async def test_worker_that_ends_by_itself_does(tmp_path: Path) -> None:
    write_file(WORKERS, "worker.py", tmp_path)
    jobs = AsyncJobs("embedded://", auto_migrate=True)

    @jobs.stub("email")
    async def send_email(to: str) -> None: ...

    (work,) = commands(WORKERS, "asyncjobs run worker:jobs")
    async with jobs:
        handle = await send_email.enqueue("ada@example.com")
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", *work], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, (await handle.wait(timeout=1)).status) == (0, "completed"), done.stderr


async def test_tests_of_a_shop_pass(tmp_path: Path, server_dsn: str) -> None:
    files = [block.file for block in blocks(TESTING, "python") if block.file is not None]
    for name in files:
        write_file(TESTING, name, tmp_path)
    environment = with_plugin(os.environ | {"PYTHONPATH": str(ROOT), "ASYNCJOBS_TEST_DSN": server_dsn})
    settings = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-o", "pythonpath=.")
    (command,) = commands(TESTING, "pytest")
    others = [name for name in files if name.startswith("test_") and name not in command]
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", *command, *others, *settings],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    written = sum(block.text.count("def test_") for block in blocks(TESTING, "python") if block.file is not None)
    assert written >= 7
    assert f"{written} passed" in done.stdout, done.stdout + done.stderr
