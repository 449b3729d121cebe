"""The tutorial's files are those of `examples/shop`, and work as it says: tests, commands, containers as far as text goes."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents.test_programs import answers, ask_json, commands, free_port, running
from tests.support.eventually import eventually
from tests.support.pages import ROOT, blocks
from tests.support.plugin import with_plugin
from tests.support.tutorial import files

TUTORIAL = "docs/tutorial.md"
FILES = {block.file: block.text for block in blocks(TUTORIAL) if block.file is not None}


@pytest.fixture
def myshop(tmp_path: Path) -> Path:
    """The reader's folder, when the tutorial is done."""
    tmp_path.chmod(0o755)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_its_blocks_are_the_files_of_the_shop() -> None:
    assert {name: text for name, text in FILES.items() if name != "pytest.ini"} == files(), "run python -m tests.support.tutorial"


async def test_the_shops_tests_pass(myshop: Path, server_dsn: str) -> None:
    environment = with_plugin(os.environ | {"PYTHONPATH": str(ROOT), "ASYNCJOBS_TEST_DSN": server_dsn})
    environment.pop("ASYNCJOBS_DSN", None)
    (command,) = commands(TUTORIAL, "pytest")
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", *command], cwd=myshop, env=environment, capture_output=True, text=True, check=False
    )
    written = FILES["shop/test_shop.py"].count("def test_")
    assert f"{written} passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.usefixtures("environment")
async def test_its_commands_do_what_it_says(myshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASYNCJOBS_DSN", raising=False)
    port = free_port()
    setup, *_ = commands(TUTORIAL, "python -m shop.setup")
    serve, *_ = commands(TUTORIAL, "uvicorn")
    first, look, refused = ([word.replace(":8000/", f":{port}/") for word in line] for line in commands(TUTORIAL, "curl"))
    assert "applied" in await said(myshop, *setup[1:])

    async def is_up() -> bool:
        return await asyncio.to_thread(answers, f"http://127.0.0.1:{port}/openapi.json")

    async with running("-m", *serve, "--port", str(port), folder=myshop):
        await eventually(is_up, description="the shop serves", timeout=30)
        assert (await curl(first))["order"] == 1

        async def is_paid() -> bool:
            return bool(await curl(look) == {"order": 1, "status": "paid"})

        await eventually(is_paid, description="the order is paid", timeout=20)
        await curl(refused)
        app = {"ASYNCJOBS_APP": "shop.jobs:jobs"}

        async def is_dead() -> bool:
            return "the card was refused" in await said(myshop, "-m", "asyncjobs", "dead", "list", **app)

        await eventually(is_dead, description="the refused card is among the dead letters", timeout=20)
        listed = await said(myshop, "-m", "asyncjobs", "jobs", "list", **app)
        assert {"charge", "mail", "completed", "dead"} <= set(listed.split())


async def said(folder: Path, *words: str, **variables: str) -> str:
    """What `python *words` prints; the command line's exit code is that of the doctor or a list."""
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "COLUMNS": "200"} | variables
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return done.stdout


async def curl(words: list[str]) -> Any:
    """What the command gets."""
    given = dict(pairwise(words))
    (url,) = (word for word in words if word.startswith("http"))
    return await asyncio.to_thread(ask_json, url, method=given.get("-X", "GET"), body=given.get("-d"))


async def test_a_worker_answers_its_probe_and_ends(myshop: Path, empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("ASYNCJOBS_DSN", empty_dsn)
    monkeypatch.setenv("PROBES_PORT", str(port))
    await said(myshop, "-m", "shop.setup")

    def probe() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    async def is_ready() -> bool:
        return await asyncio.to_thread(probe)

    (start,) = commands(TUTORIAL, "python -m shop.worker")
    async with running(*start[1:], folder=myshop):
        await eventually(is_ready, description="the worker is ready", timeout=30)


def test_its_containers_start_what_is_there(myshop: Path) -> None:
    shutil.copytree(ROOT / "asyncjobs", myshop / "asyncjobs", ignore=lambda *_: ["__pycache__"], symlinks=True)
    copied = re.findall(r"^COPY (\S+) \S+$", FILES["Dockerfile"], re.MULTILINE)
    assert copied
    assert [name for name in copied if not (myshop / name).exists()] == []
    services = yaml.safe_load(FILES["compose.yaml"])["services"]
    (by_default,) = re.findall(r'^CMD \["python", "-m", "([\w.]+)"\]$', FILES["Dockerfile"], re.MULTILINE)
    modules = [by_default, services["setup"]["command"][2], services["web"]["command"][1].partition(":")[0]]
    assert [name for name in modules if not (myshop / f"{name.replace('.', '/')}.py").exists()] == []
    waits = {name: set(service.get("depends_on", ())) for name, service in services.items()}
    assert waits == {"database": set(), "setup": {"database"}, "web": {"setup"}, "worker": {"setup"}}
    for name in ("setup", "web", "worker"):
        assert services[name]["environment"]["ASYNCJOBS_DSN"].startswith("postgresql://shop:shop@database")
