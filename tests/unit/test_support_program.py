import os
import signal
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.program import Program

SPEAK_AND_WAIT = "import os, signal\nprint('ready', os.environ.get('WORD'))\nsignal.pause()"


async def test_a_line_is_awaited_and_a_kill_is_its_exit_code() -> None:
    async with Program.python("-c", SPEAK_AND_WAIT, env={"WORD": "ä"}) as program:
        assert await program.line("ready") == "ready ä"
        program.kill()
        assert await program.wait() == -signal.SIGKILL


async def test_a_paused_program_says_nothing_until_it_goes_on() -> None:
    async with Program.python("-c", "import sys, time\nwhile True: print('tick'); time.sleep(0.01)") as program:
        await program.line("tick")
        program.pause()
        state = Path(f"/proc/{program.pid}/stat")
        await eventually(lambda: state.read_text().split()[2] == "T", description="it stands still")
        said = len(program.output)
        program.unpause()
        await eventually(lambda: len(program.output) > said + 3, description="it goes on")
        program.terminate()
        assert await program.wait() == -signal.SIGTERM


async def test_a_program_that_ends_without_the_line_shows_what_it_said() -> None:
    async with Program.python("-c", "print('something else')") as program:
        with pytest.raises(AssertionError, match="something else"):
            await program.line("ready")


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
