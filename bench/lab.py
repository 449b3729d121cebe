"""What the questions share: contenders that take turns on one server, each on a fresh database, and what they measured.

Round by round every contender is measured once, so that what else the machine does happens to all of them. A database is cloned
from a template that the contender itself has prepared and filled, then vacuumed and analyzed; what was checkpointed is on disk.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from bench.counters import Counters
from bench.programs import PATIENCE_SECONDS, Contender, ContenderError, Program, Programs
from bench.results import Results
from bench.server import Connection, connected, database_at

_LOOK_SECONDS = 0.02
#: A million jobs, of a library that enqueues them one by one.
_FILL_SECONDS = 3600.0
#: Until what has run is finished in the database.
_FINISH_SECONDS = 30.0

#: What a contender is asked to do before it is measured, as in `contenders.speaking`.
Filling = Sequence[Mapping[str, Any]]
Measure = Callable[[Contender], Awaitable[Mapping[str, float]]]


class Ran(NamedTuple):
    """What the workers of one drain report."""

    jobs: int
    began: float
    #: When jobs ended: of one worker each `every`-th, and of each worker the last.
    ended: list[float]
    waits: list[float]
    disordered: int
    #: The most that all workers held resident at once.
    peak_mb: float
    #: Of each job its key, and when it began and ended, where that was asked for.
    spans: Sequence[tuple[str, float, float]] = ()

    @property
    def seconds(self) -> float:
        """From the first start of a handler to the last end of one."""
        return max(self.ended) - self.began

    @property
    def most_at_once(self) -> int:
        """Of one key, over all workers."""
        most, running = 0, Counter[str]()
        changes = [(began, 1, key) for key, began, _ in self.spans] + [(ended, -1, key) for key, _, ended in self.spans]
        for _, change, key in sorted(changes):
            running[key] += change
            most = max(most, running[key])
        return most

    @property
    def per_second(self) -> float:
        return self.jobs / self.seconds


class Lab:
    """One server, and the contenders that share it."""

    def __init__(self, connection: Connection, dsn: str, results: Results, programs: Programs, *, rounds: int) -> None:
        self.dsn = dsn
        self.connection = connection
        self.results = results
        self.contenders: list[Contender] = []
        self.rounds = rounds
        self.started = programs.started
        self._made = 0
        self._templates: dict[tuple[str, str], str] = {}

    @property
    def smoke(self) -> bool:
        """Whether only to see that everything runs."""
        return self.rounds == 0

    def size(self, full: int, smoke: int) -> int:
        return smoke if self.smoke else full

    async def compare(self, workload: str, case: str, measure: Measure, among: Sequence[Contender] | None = None) -> None:
        """Let each take its turn in each round. One that cannot is said, and sits the rest out; among our own it is an error."""
        began = time.monotonic()
        present = [contender for contender in self.contenders if among is None or contender in among]
        for _ in range(max(1, self.rounds)):
            for contender in list(present):
                try:
                    figures = await measure(contender)
                except ContenderError as error:
                    if contender.is_own:
                        raise
                    present.remove(contender)
                    self.results.missing(workload, case, contender.name, str(error))
                else:
                    self.results.measured(workload, case, contender.name, figures)
        print(f"{workload} {case}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    @asynccontextmanager
    async def database(self, contender: Contender, *filling: Mapping[str, Any]) -> AsyncGenerator[str]:
        """The DSN of a database of its own, filled as it was asked."""
        if self.smoke:
            name = await self._template(contender, filling)
            yield database_at(self.dsn, name)
            await self._drop(name)
            return
        key = (contender.name, json.dumps([contender.options, filling]))
        if key not in self._templates:
            self._templates[key] = await self._template(contender, filling)
        name = await self._create(self._templates[key])
        try:
            yield database_at(self.dsn, name)
        finally:
            await self._drop(name)

    async def forget(self) -> None:
        """Drop the templates: nobody else is going to ask for them."""
        for name in self._templates.values():
            await self._drop(name)
        self._templates.clear()

    async def _template(self, contender: Contender, filling: Filling) -> str:
        name = await self._create("template0")
        dsn = database_at(self.dsn, name)
        async with self.started(contender, dsn) as program:
            self.results.versions[contender.name] = f"{program.version} ({program.runtime})"
            await program.ask("prepare")
            for step in filling:
                await program.ask(**step, patience=_FILL_SECONDS)
        async with connected(dsn) as inside:
            await inside.execute("VACUUM (ANALYZE)")
        return name

    async def _create(self, template: str) -> str:
        self._made += 1
        name = f"bench_{self._made}"
        await self._drop(name)
        await self.connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    async def _drop(self, name: str) -> None:
        await self.connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def counters(self, dsn: str) -> Counters:
        """What happens in the database at this DSN."""
        return Counters(self.connection, self.dsn, dsn.rpartition("/")[2])

    async def drain(
        self, contender: Contender, dsn: str, count: int, *, concurrency: int, workers: int = 1, whole: bool = True, **work: Any
    ) -> Ran:
        """Run so many jobs that wait there. With `whole` they are all there are, and have to be finished in the end."""
        async with AsyncExitStack() as stack:
            programs = [await stack.enter_async_context(self.started(contender, dsn)) for _ in range(workers)]
            await asyncio.gather(*(program.ask("work", concurrency=concurrency, **work) for program in programs))
            peak = await self.until(programs, count)
            reports = [await program.ask("report") for program in programs]
            if whole:
                await self._all_finished(programs[0], contender)
            for program in programs:
                await program.ask("stop")
        return Ran(
            count,
            min(report["began"] for report in reports if report["began"]),
            [at for report in reports for at in report["ended"]],
            [seconds for report in reports for seconds in report["waits"]],
            sum(report["disordered"] for report in reports),
            peak,
            [span for report in reports for span in report.get("spans", ())],
        )

    async def _all_finished(self, program: Program, contender: Contender) -> None:
        """A handler has ended before its job is finished in the database, and some never write that down."""
        began = time.monotonic()
        while left := (await program.ask("left"))["count"]:
            if time.monotonic() - began > _FINISH_SECONDS:
                raise ContenderError(f"{contender.name} left {left} jobs unfinished")
            await asyncio.sleep(_LOOK_SECONDS)

    async def until(self, programs: Sequence[Program], count: int) -> float:
        """Wait until they have run so many jobs together. Returns the most MB that all of them held resident at once."""
        peak, before, moved_at = 0.0, -1, time.monotonic()
        while True:
            ran = sum([(await program.ask("ran"))["count"] for program in programs])
            peak = max(peak, sum(program.usage.memory_mb() for program in programs))
            if ran >= count:
                return peak
            if ran != before:
                before, moved_at = ran, time.monotonic()
            elif time.monotonic() - moved_at > PATIENCE_SECONDS:
                raise ContenderError(f"no job ran for {PATIENCE_SECONDS:g} s, after {ran} of {count}")
            await asyncio.sleep(_LOOK_SECONDS)
