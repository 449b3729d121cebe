"""`asyncjobs run`: its options reach the app, and its log has the format that was asked for."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Queue, UnknownQueue
from asyncjobs.cli.queue_words import queues_of
from asyncjobs.open.run import served_queues
from tests.support.cli import cli
from tests.support.program import Program

APP = """
import logging
from asyncjobs import AsyncJobs, Queue

jobs = AsyncJobs(queues=[Queue("default"), Queue("mail", concurrency=8, lanes={"fast": 3})])

@jobs.job("greet")
async def greet(name: str) -> None:
    logging.getLogger("somebody.elses").warning("about %s", name)
    raise ValueError("no such name")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"runapp_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(APP, encoding="utf-8")
    return name


async def test_options_reach_the_app(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[AsyncJobs, Any, Any]] = []

    async def run(self: AsyncJobs, *, queues: Any, types: Any, **until: Any) -> None:
        calls.append((self, queues, types))
        ends.append(tuple(until.values()))

    ends: list[tuple[Any, ...]] = []
    levels: list[Any] = []
    monkeypatch.setattr(AsyncJobs, "run", run)
    monkeypatch.setattr("asyncjobs.cli.running.log", lambda *args: levels.append(args))
    options = ["--queues", "mail=5/fast:2", "--types", "greet, other", "--grace", "3", "--log-level", "debug"]
    said = await cli("run", f"{module}:jobs", *options, "--schema", "other")
    assert (said.code, "runs jobs; stop it with SIGTERM" in said.err) == (0, True)
    [(jobs, [mail], types)] = calls
    assert (mail.name, mail.concurrency, mail.lanes["fast"].slots) == ("mail", 5, 2)
    assert types == ["greet", "other"]
    assert (jobs.settings.grace, jobs.settings.schema) == (3, "other")
    assert levels == [("debug", None)]
    json_lines = ("--log-format", "json")
    await cli("run", f"{module}:jobs", *json_lines, ASYNCJOBS_QUEUES="default=2", ASYNCJOBS_TYPES="greet")
    _, [default], types = calls[-1]
    assert (default.concurrency, types, levels[-1]) == (2, ["greet"], ("info", "json"))
    await cli("run", f"{module}:jobs")
    assert (calls[-1][1:], ends[-1]) == ((None, None), (False, None, None, None))
    await cli("run", f"{module}:jobs", "--until-idle", "--max-jobs", "7", "--max-time", "1.5m", "--name", "a")
    assert ends[-1] == (True, 7, 90.0, "a")
    await cli("run", f"{module}:jobs", ASYNCJOBS_NAME="from the environment")
    *_, last = ends
    assert last == (False, None, None, "from the environment")


async def test_every_line_of_a_json_log_is_json(module: str, tmp_path: Path, dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.stub("greet")
    async def greet(name: str) -> None: ...

    async with jobs:
        await greet.enqueue("ada")
    options = ("--log-format", "json", "--log-level", "info")
    env = {"ASYNCJOBS_DSN": dsn}
    async with Program.python("-m", "asyncjobs", "run", f"{module}:jobs", *options, env=env, cwd=tmp_path) as program:
        await program.line("asyncjobs.job.failed", timeout=60)
        program.terminate()
        await program.succeeds(timeout=60)
    lines = [json.loads(line) for line in program.output]
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    events = {line["event"]: line for line in lines}
    assert {"asyncjobs.runner.started", "asyncjobs.job.failed", "about ada", "asyncjobs.runner.stopped"} <= events.keys()
    assert events["about ada"]["level"] == "warning"
    assert "asyncjobs.job.started" not in events  # that is for debug


@pytest.mark.parametrize("installed", [True, False])
async def test_it_runs_on_uvloop_where_that_is_installed(
    module: str, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    loops: list[str] = []

    async def run(_self: AsyncJobs, **_options: Any) -> None:
        loops.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    monkeypatch.setattr(AsyncJobs, "run", run)
    if not installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    assert (await cli("run", f"{module}:jobs")).code == 0
    assert loops == ["uvloop" if installed else "asyncio"]


async def test_a_star_in_a_queue_stands_for_any_text() -> None:
    known = {name: Queue(name, concurrency=2) for name in ("default", "mail.in", "mail.out")}
    assert [(one.name, one.concurrency) for one in queues_of("mail*=5,default", known) or ()] == [
        ("mail.in", 5), ("mail.out", 5), ("default", 2),
    ]  # fmt: skip
    assert [one.name for one in served_queues(known, ["*.out", "default"])] == ["mail.out", "default"]
    for nothing in ("nail*", "nail"):
        with pytest.raises(UnknownQueue):
            served_queues(known, [nothing])
        with pytest.raises(UnknownQueue):
            queues_of(nothing, known)
