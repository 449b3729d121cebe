"""A new user's way, by the installed command alone: install, run, kill, inspect, retry."""

import json
import sys
import sysconfig
import venv
from pathlib import Path

import asyncpg
import pytest

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


class User:
    """Somebody at a shell in a folder, with a virtual environment of their own; what asyncjobs stands on is there."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self.dsn = dsn
        self.bin = folder / "venv" / "bin"
        self.env = {"PYTHONPATH": sysconfig.get_path("purelib"), "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}

    async def installs(self) -> None:
        """Build the wheel and install it."""
        await self._run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(self.folder), cwd=ROOT)
        venv.create(self.folder / "venv", with_pip=False)
        (wheel,) = self.folder.glob("*.whl")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.bin / "python"))
        await self._run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel))

    async def _run(self, *command: str, cwd: Path | None = None) -> None:
        async with Program(*command, cwd=cwd or self.folder) as program:
            await program.succeeds(timeout=120)

    def types(self, *words: object) -> Program:
        """`asyncjobs` on these words."""
        env = {**self.env, "ASYNCJOBS_DSN": self.dsn, "ASYNCJOBS_APP": "shop:jobs"}
        return Program(str(self.bin / "asyncjobs"), *map(str, words), env=env, cwd=self.folder)

    async def reads(self, *words: object) -> str:
        """What it says to them."""
        async with self.types(*words) as program:
            await program.succeeds(timeout=60)
        return program.said

    async def is_(self, job_id: int, status: str) -> bool:
        """Whether the job is in this status; asked of the database, where a look costs little."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return bool(await connection.fetchval("SELECT status = $2 FROM asyncjobs.jobs WHERE id = $1", job_id, status))
        finally:
            await connection.close()


async def test_a_new_user_installs_runs_kills_inspects_and_retries(
    tmp_path: Path, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    user = User(tmp_path, empty_dsn)
    await user.installs()
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    assert (await user.reads("--version")).startswith("asyncjobs ")
    assert "applied 0019_baseline.sql" in await user.reads("migrate", "shop:jobs")
    job_id = json.loads(await user.reads("jobs", "enqueue", "charge", '{"card": "visa"}', "--json"))["id"]
    async with user.types("run", "shop:jobs", "--queues", "default=2") as first:
        await first.line("charging visa", timeout=60)
        assert "it runs, on runner" in await user.reads("jobs", "explain", job_id)
        first.kill()
        await first.wait()
    async with user.types("run", "shop:jobs") as second:
        await second.line("runs jobs", timeout=60)

        await eventually(lambda: user.is_(job_id, "dead"), description="the second runner took the job back", timeout=60)
        assert f" {job_id} " in await user.reads("dead", "list", "--unacknowledged")
        async with user.types("doctor") as doctor:
            assert "runners died" in (doctor.said if await doctor.wait() in {5, 6} else "")
        (tmp_path / "repaired").touch()
        assert f"job {job_id}: retried (was dead)" in await user.reads("jobs", "retry", job_id)

        await eventually(lambda: user.is_(job_id, "completed"), description="it ended well", timeout=60)
        second.terminate()
        await second.succeeds(timeout=60)
    assert "charged visa" in await user.reads("jobs", "show", job_id)
