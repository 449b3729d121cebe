"""The protocol between the lab and a contender, and all of it that contenders written in Python have in common.

A contender is a program. It reads a JSON object a line from its standard input and answers each, in order, with one on its
standard output, `{"error": "…"}` when it could not. The first line, unasked, says what it is.

| do | what it does | answer |
|---|---|---|
| | when it starts | `version`, `runtime` |
| `open` | works with the database at `dsn` from now on, with these `options` | |
| `prepare` | makes its tables | |
| `fill` | enqueues `count` jobs of `keys` keys (0: of none), due `delay` seconds from now; how, see below | `seconds` it took |
| `finish` | makes of all jobs in its tables finished ones, without running them | |
| `work` | starts a worker with `concurrency` slots that does `work` a job, of `keys` keys; `spans`: notes when each ran | |
| `ran` | | `count` of handlers that have ended since |
| `report` | | `began`, `ended`, `waits`, `disordered`, `spans`: see below |
| `stop` | stops the worker in good order | |
| `left` | | `count` of jobs that are neither finished nor in the future |

`fill` goes by `how`: "one by one" (`pause` seconds apart), "in flight" (50 at once), "paced" (`rate` a second), or "lists" (1,000
a call; only here `delay` counts). Before the time begins it enqueues `warm` jobs in the same way: nobody's connects, first
statements and caches are in it.

`report` says when the first handler started, when each `every`-th and the last one ended, how many seconds passed from each
enqueue to the start, and how many jobs of a key started before an earlier one of it had ended; with `spans` of each job its key,
its start and its end (contenders written in Python).

Instants are readings of CLOCK_MONOTONIC, which all processes of a machine share. The end of its input ends the program.
"""

import asyncio
import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TextIO

from bench.contenders.contender import Contender, Notes, Payload
from bench.contenders.work import work_named

IN_FLIGHT = 50
#: For them.
CONNECTIONS = 10
A_CALL = 1_000


#: The contender of this program, for those whose handlers cannot hold it since they are found by their names.
current: "list[Contender]" = []


class Speaker:
    """Does what the lab says with one contender."""

    contender: Contender

    def __init__(self, make: type[Contender]) -> None:
        self.make = make
        self.stack = contextlib.AsyncExitStack()

    async def open(self, dsn: str, options: dict[str, Any]) -> None:
        self.contender = self.make(dsn, options)
        current[:] = [self.contender]

    async def prepare(self) -> None:
        await self.contender.prepare()

    async def fill(
        self,
        *,
        count: int,
        how: str = "lists",
        keys: int = 0,
        delay: float = 0,
        pause: float = 0,
        rate: float = 0,
        warm: int = 0,
    ) -> dict[str, float]:
        ways: dict[str, Callable[[range], Awaitable[None]]] = {
            "one by one": lambda numbers: self._one_by_one(numbers, keys, pause),
            "in flight": lambda numbers: self._in_flight(numbers, keys),
            "paced": lambda numbers: self._paced(numbers, keys, rate),
            "lists": lambda numbers: self._lists(numbers, keys, delay),
        }
        async with self.contender.enqueueing(1 if how in {"one by one", "lists"} else CONNECTIONS):
            await ways[how](range(warm))
            began = time.perf_counter()
            await ways[how](range(count))
            return {"seconds": time.perf_counter() - began}

    async def _one(self, number: int, keys: int) -> None:
        await self.contender.enqueue(Payload(number, time.monotonic(), f"key {number % keys}" if keys else ""))

    async def _one_by_one(self, numbers: range, keys: int, pause: float) -> None:
        for number in numbers:
            await self._one(number, keys)
            if pause:
                await asyncio.sleep(pause)

    async def _in_flight(self, numbers: range, keys: int) -> None:
        left = iter(numbers)

        async def caller() -> None:
            for number in left:
                await self._one(number, keys)

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(caller())

    async def _paced(self, numbers: range, keys: int, rate: float) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for at, number in enumerate(numbers):
                await asyncio.sleep(max(0.0, began + at / rate - time.monotonic()))
                group.create_task(self._one(number, keys))

    async def _lists(self, numbers: range, keys: int, delay: float) -> None:
        for start in range(0, len(numbers), A_CALL):
            some = numbers[start : start + A_CALL]
            jobs = [Payload(number, 0.0, f"key {number % keys}" if keys else "") for number in some]
            await self.contender.enqueue_all(jobs, delay)

    async def finish(self) -> None:
        await self.contender.finish()

    async def work(
        self, *, concurrency: int, work: str = "nothing", every: int = 1_000_000, keys: int = 0, spans: bool = False
    ) -> None:
        self.contender.keys = keys
        done = await self.stack.enter_async_context(work_named(work, self.contender.dsn))
        self.contender.notes = Notes(done, every, spans=spans)
        await self.stack.enter_async_context(self.contender.working(concurrency))

    async def ran(self) -> dict[str, int]:
        return {"count": self.contender.notes.count}

    async def report(self) -> dict[str, Any]:
        notes = self.contender.notes
        told = {"began": notes.began, "ended": [*notes.ended, notes.last], "waits": notes.waits, "disordered": notes.disordered}
        return told | {"spans": notes.spans or []}

    async def stop(self) -> None:
        await self.stack.aclose()

    async def left(self) -> dict[str, int]:
        return {"count": await self.contender.left()}


async def _lines() -> AsyncGenerator[str]:
    reader = asyncio.StreamReader(2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode()


async def _speak(make: type[Contender], answers: TextIO) -> None:
    def say(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    speaker = Speaker(make)
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    say(version=make.version, runtime=f"Python {platform.python_version()}, {loop}")
    async with speaker.stack:
        async for line in _lines():
            arguments: dict[str, Any] = json.loads(line)
            try:
                answer = await getattr(speaker, arguments.pop("do"))(**arguments)
            except Exception as error:  # noqa: BLE001 - the lab decides what becomes of it
                say(error=f"{type(error).__name__}: {error}")
            else:
                say(**(answer or {}))


def main(make: type[Contender]) -> None:
    """Be a contender, on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    # Some libraries log to the standard output.
    with open(os.dup(1), "w", encoding="utf-8") as answers, asyncio.Runner(loop_factory=factory) as runner:  # noqa: PTH123
        os.dup2(2, 1)
        runner.run(_speak(make, answers))
