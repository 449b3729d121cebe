"""Programs of the tests: started, watched, stopped, killed.

async with Program.python("-m", "tests.programs.runner", env={"ASYNCJOBS_DSN": dsn}) as program:
    await program.line("ready")
    program.kill()
    assert await program.wait() == -signal.SIGKILL
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from tests.support.eventually import patience
from tests.support.guardian import guarded

ROOT = Path(__file__).parents[2]


class Program:
    """A program with a process group of its own; leaving the context kills the group, as does the end of the run."""

    def __init__(self, *command: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None) -> None:
        self.command = command
        self.output: list[str] = []
        self._env = {name: value for name, value in (dict(os.environ) | dict(env or {})).items() if value is not None}
        self._cwd = cwd or ROOT
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._guard = ExitStack()

    @classmethod
    def python(cls, *args: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None) -> Self:
        """A program of this Python, which can import what the tests can. `env` is added to the environment (None: taken out)."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return cls(sys.executable, "-u", *args, env={"PYTHONPATH": path, **(env or {})}, cwd=cwd)

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self.command,
            env=self._env,
            cwd=self._cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._guard.enter_context(guarded(self.pid))
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._guard.close()
        await self.process.wait()
        assert self._reader is not None
        await self._reader

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The started process."""
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        """Its process id, which is its group's, too."""
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM: to stop in good order."""
        self._send(signal.SIGTERM)

    def interrupt(self) -> None:
        """SIGINT: as Ctrl-C."""
        self._send(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP: frozen, with its connections open."""
        self._send(signal.SIGSTOP)

    def unpause(self) -> None:
        """SIGCONT: goes on as if nothing had been."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    async def wait(self, *, timeout: float = 20.0) -> int:
        """Its exit code (negative: the signal that ended it), when it has ended and all it said is in `output`."""
        try:
            async with patience(timeout):
                code = await self.process.wait()
                assert self._reader is not None
                await asyncio.shield(self._reader)
        except TimeoutError:
            raise AssertionError(f"{self} has not ended within {timeout:g} s; it said:\n{self.said}") from None
        return code

    async def succeeds(self, *, timeout: float = 20.0) -> None:
        """Returns when it has ended with exit code 0; else fails, showing what it said."""
        code = await self.wait(timeout=timeout)
        assert code == 0, f"{self} ended with {code}; it said:\n{self.said}"

    async def line(self, part: str, *, timeout: float = 20.0) -> str:
        """The first line it printed that contains this text. Fails when it ends without, or after `timeout` seconds."""
        seen = 0
        try:
            async with patience(timeout), self._news:
                while True:
                    for text in self.output[seen:]:
                        if part in text:
                            return text
                    seen = len(self.output)
                    if self._reader is None or self._reader.done() or self.process.stdout is None or self.process.stdout.at_eof():
                        break
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{self} has not said {part!r} within {timeout:g} s, but:\n{self.said}") from None
        raise AssertionError(f"{self} ended without saying {part!r}, but:\n{self.said}")

    @property
    def said(self) -> str:
        """All its output so far."""
        return "\n".join(self.output)

    def __str__(self) -> str:
        return " ".join(self.command[2:] if self.command[0] == sys.executable else self.command)

    async def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while raw := await stream.readline():
            async with self._news:
                self.output.append(raw.decode(errors="replace").rstrip("\n"))
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()
