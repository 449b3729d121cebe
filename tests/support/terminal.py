"""A program on a terminal of its own: what it draws, and keys for it."""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support.embedded import environment_without
from tests.support.eventually import patience
from tests.support.guardian import guarded
from tests.support.program import ROOT


class Terminal:
    """The end at which a person sits."""

    def __init__(self, process: asyncio.subprocess.Process, person: int, program: int) -> None:
        self.process = process
        self.text = ""
        self._person, self._program = person, program
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._person, keys.encode())

    async def shows(self, part: str, *, timeout: float = 60.0) -> None:
        """Returns when it has drawn this since the last call."""
        try:
            async with patience(timeout), self._news:
                await self._news.wait_for(lambda: part in self.text)
        except TimeoutError:
            raise AssertionError(f"it has not shown {part!r}, but:\n{self.text}") from None
        self.text = self.text[self.text.index(part) + len(part) :]

    @property
    def settings(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._program)

    def read(self) -> None:
        """Take in what was drawn."""
        drawn = os.read(self._person, 65_536).decode(errors="replace")
        task = asyncio.get_running_loop().create_task(self._take(drawn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, drawn: str) -> None:
        async with self._news:
            self.text += drawn
            self._news.notify_all()


@asynccontextmanager
async def on_terminal(*args: str, env: Mapping[str, str], columns: int = 120) -> AsyncGenerator[Terminal]:
    """`python *args` on a terminal; killed at the end if it still runs."""
    person, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**environment_without("COLUMNS", "LINES"), "PYTHONPATH": str(ROOT), "TERM": "xterm", **env}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *args, env=environment, cwd=ROOT, stdin=program, stdout=program, stderr=program, start_new_session=True
    )
    terminal = Terminal(process, person, program)
    loop = asyncio.get_running_loop()
    loop.add_reader(person, terminal.read)
    try:
        with guarded(process.pid):
            yield terminal
    finally:
        loop.remove_reader(person)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()
        os.close(person)
        os.close(program)
