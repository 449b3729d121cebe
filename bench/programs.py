"""The contenders as the lab sees them: which there are, how they are started, and how one asks them."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from bench.usage import Usage

ROOT = Path(__file__).parents[1]
#: Where `make bench-peers` installs other projects' packages.
PEERS = ROOT / ".venv" / "peers"
#: A contender that has neither answered nor run a job for so long is given up.
PATIENCE_SECONDS = 120.0


class ContenderError(Exception):
    """A contender is missing, ended, hung, or said that it could not."""


class Contender(NamedTuple):
    """How one is named and started."""

    name: str
    command: tuple[str, ...]
    options: Mapping[str, Any] = {}
    #: It runs jobs of one key one at a time.
    has_keys: bool = False
    #: It bounds how many of a key run at once, over all processes, by a number.
    has_limits: bool = False
    #: Ours, or statements written by hand: it has to run everywhere.
    is_own: bool = True
    #: Of the jobs that others are given: a slow one shows its rate with fewer.
    share: float = 1.0
    #: The checkout that it runs in.
    root: Path = ROOT

    def some(self, count: int) -> int:
        return max(1, int(count * self.share))


OURS = Contender("asyncjobs", (sys.executable, "-m", "bench.contenders.ours"), has_keys=True, has_limits=True)
PREFETCHING = OURS._replace(name="asyncjobs, prefetch 500", options={"prefetch": 500})
FLOOR = Contender("floor", (sys.executable, "-m", "bench.contenders.floor"))
BATCHING = FLOOR._replace(name="floor, batches of 500", options={"batch": 500})
OWN = (OURS, PREFETCHING, FLOOR, BATCHING)


def _peer(name: str, *command: str, has_keys: bool = False, has_limits: bool = False, share: float = 1.0) -> Contender:
    return Contender(name, command, has_keys=has_keys, has_limits=has_limits, is_own=False, share=share)


_PYTHON = str(PEERS / "bin" / "python")
_GRAPHILE = _peer("graphile-worker", "node", "bench/peers/graphile_worker.mjs", has_keys=True)
LIBRARIES = (
    _peer("procrastinate", _PYTHON, "-m", "bench.peers.procrastinate", has_keys=True, share=0.1),
    _peer("pgqueuer", _PYTHON, "-m", "bench.peers.pgqueuer", has_keys=True, has_limits=True),
    _peer("chancy", _PYTHON, "-m", "bench.peers.chancy"),
    _peer("oban", _PYTHON, "-m", "bench.peers.oban"),
    _peer("saq", _PYTHON, "-m", "bench.peers.saq", has_keys=True, share=0.1),
    _GRAPHILE,
    _GRAPHILE._replace(name="graphile-worker, local queue 500", options={"localQueue": 500}),
    _peer("pg-boss", "node", "bench/peers/pg_boss.mjs", has_keys=True),
)


class Program:
    """A contender that runs. It does one thing at a time."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, errors: IO[bytes]) -> None:
        self._process = process
        self._name = name
        self._errors = errors
        self.usage = Usage(process.pid)
        self.version = self.runtime = "?"

    async def hello(self) -> None:
        said = await self._answer(PATIENCE_SECONDS)
        self.version, self.runtime = said["version"], said["runtime"]

    async def ask(self, do: str, *, patience: float = PATIENCE_SECONDS, **arguments: Any) -> dict[str, Any]:
        """Raises ContenderError, also when it takes too long."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        return await self._answer(patience)

    async def _answer(self, patience: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(patience):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise ContenderError(f"{self._name} did not answer within {patience:g} s") from None
        if not line:
            raise ContenderError(f"{self._name} ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(f"{self._name}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        errors = [line.strip() for line in said if "Error" in line]
        return (errors or said or ["without a word"])[-1]

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(15):
                await self._process.communicate()
        except TimeoutError:
            self._process.kill()
            await self._process.communicate()


class Programs:
    """Starts contenders' programs: each anew, or with `reusing` our own that others are done with, which saves their starts."""

    def __init__(self, *, reusing: bool) -> None:
        self._reusing = reusing
        self._idle: dict[tuple[Path, tuple[str, ...]], list[Program]] = defaultdict(list)
        self._all = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._all.aclose()

    @asynccontextmanager
    async def started(self, contender: Contender, dsn: str) -> AsyncGenerator[Program]:
        """A contender's program on a database. Raises ContenderError when it cannot be had here."""
        async with AsyncExitStack() as stack:
            idle = self._idle[contender.root, contender.command]
            # Some libraries leave connections open, and end when these break.
            reusing = self._reusing and contender.is_own
            owner = self._all if reusing else stack
            program = idle.pop() if idle else await owner.enter_async_context(_running(contender))
            await program.ask("open", dsn=dsn, options=contender.options)
            yield program
            if reusing:
                await program.ask("stop")
                idle.append(program)


@asynccontextmanager
async def _running(contender: Contender) -> AsyncGenerator[Program]:
    if shutil.which(contender.command[0]) is None:
        raise ContenderError(f"{contender.name} is not here: {contender.command[0]} is missing")
    root = str(contender.root)
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *contender.command,
            cwd=contender.root,
            env={**os.environ, "PYTHONPATH": root, "NODE_PATH": str(PEERS / "node_modules"), "NODE_ENV": "production"},
            limit=2**26,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
        program = Program(process, contender.name, errors)
        try:
            await program.hello()
            yield program
        finally:
            await program.end()
