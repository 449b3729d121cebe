"""No program of a test outlives it."""

import os
import signal
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.program import Program


async def test_leaving_the_context_kills_what_the_program_started() -> None:
    nested = "import subprocess, sys\nchild = subprocess.Popen(['sleep', '60'])\nprint(child.pid)\nchild.wait()"
    async with Program.python("-c", nested) as program:
        child = int(await program.line(""))
    await eventually(lambda: not _runs(child), description="the child is gone")


RUN = """
import asyncio
from tests.support.program import Program

async def start() -> None:
    async with Program("bash", "-c", "sleep 600 & echo $$ $!; trap '' TERM HUP; wait") as program:
        print("pids:", await program.line(""), flush=True)
        await asyncio.sleep(600)

def test_long() -> None:
    asyncio.run(start())
"""


async def test_what_a_run_has_started_ends_with_it_when_it_is_killed(tmp_path: Path) -> None:
    """Children, too. Only the run's own process is killed here: nobody tells the others."""
    (tmp_path / "test_run.py").write_text(RUN)
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    async with Program.python("-m", "pytest", "-s", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path), env=env) as run:
        started = [int(pid) for pid in (await run.line("pids:")).split()[-2:]]
        assert all(map(_runs, started))
        os.kill(run.pid, signal.SIGKILL)
        await eventually(lambda: not any(map(_runs, started)), description="both are gone")


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"
