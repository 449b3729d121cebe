"""What is tried in peace: a job that is enqueued, becomes due, or follows another of its key starts at once.

No poll, sweep or look of a duty is waited for. And what comes late into a backlog, but belongs at its front, does not wait for
its end: a better priority, and a job whose place was drawn long before its commit.

A job that a runner has claimed ahead was found at once, too; that it waits there for a slot is what `prefetch` asks for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final, Protocol

from tests.simulation.client import Client
from tests.simulation.process import Process
from tests.simulation.world import World

_PROBES: Final = 3
_PROMPT_SECONDS: Final = 1.5
#: So many rounds of a second's work wait: longer than what comes late may.
_ROUNDS: Final = 6
_SIDE_SLOTS: Final = 2  # of a runner's second queue


class _Runs(Protocol):
    process: Process | None


class Probes:
    """Tries some of them; `started` is kept by who watches the events: ids of jobs that had an attempt."""

    def __init__(
        self, world: World, random: Random, clients: Sequence[Client], runners: Sequence[_Runs], started: set[int]
    ) -> None:
        self._world, self._random = world, random
        self._clients, self._runners, self._started = clients, runners, started
        self._found: list[str] = []

    def run(self) -> list[str]:
        """What was late, in words."""
        probes: list[Callable[[], None]] = [
            lambda: self._probe("plain", {}), lambda: self._probe("delayed", {"delay": 2.0}, wait=2.0),
            lambda: self._probe("keyed", {"serialization_key": "p"}, count=4),
            lambda: self._probe("delayed", {"delay": 2.3, "queue": "side"}, wait=2.3),
            lambda: self._probe("plain", {"queue": "side"}), self._reconnect, self._reconnect, self._reconnect,
        ]  # fmt: skip
        for probe in self._random.sample(probes, _PROBES):
            probe()
        if self._random.random() < 0.2:
            self._backlog()
        return self._found

    def _reconnect(self) -> None:
        """Between a listener's end and its return nothing is missed: whoever returns looks."""
        self._world.slow = {"listener"}
        for runner in self._runners:
            for connection in tuple(runner.process.connections if runner.process is not None else ()):
                if connection.role == "listener":
                    self._world.break_connection(connection)
        self._world.run(self._random.random() * 0.5)
        self._probe("plain", {}, wait=0.5)
        self._world.slow = set()

    def _backlog(self) -> None:
        """Late comers at the front of a line of many seconds."""
        client = self._random.choice(self._clients)
        jobs = client.jobs
        rounds: dict[str, Any] = {"queue": "side"}

        async def fill() -> list[int]:
            early = await self._world.connect(client.process, "application", 60.0)
            async with early.transaction():
                ids = [(await jobs.enqueue("act", _payload(), connection=early, **rounds)).id]
                count = _ROUNDS * _SIDE_SLOTS * len(self._runners)
                await asyncio.gather(*(jobs.enqueue("act", _payload(1.0), **rounds) for _ in range(count)))
                await asyncio.sleep(1.2)
            early.terminate()
            ids.append((await jobs.enqueue("act", _payload(), priority=1, **rounds)).id)
            return ids

        self._await("at the front of a backlog", client, fill, 2, within=1.5, wait=1.0)

    def _probe(self, what: str, options: dict[str, Any], *, count: int = 1, wait: float = 0.0) -> None:
        client = self._random.choice(self._clients)

        async def enqueue() -> list[int]:
            return [(await client.jobs.enqueue("act", _payload(), **options)).id for _ in range(count)]

        self._await(what, client, enqueue, count, within=1.0, wait=wait)
        self._world.run(self._random.random())

    def _await(
        self, what: str, client: Client, enqueue: Callable[[], Awaitable[list[int]]], count: int, *, within: float, wait: float
    ) -> None:
        ids: list[int] = []

        async def work() -> None:
            ids.extend(await enqueue())

        self._world.run(within, until=client.process.main.create_task(work(), name="probe").done)

        def all_started() -> bool:
            return len(ids) == count and self._started.issuperset(ids)

        if not self._world.run(wait + _PROMPT_SECONDS, until=all_started) and not self._are_held(ids, count):
            self._found.append(f"P6: a job ({what}) had not started {_PROMPT_SECONDS:g} s after it could")

    def _are_held(self, ids: Sequence[int], count: int) -> bool:
        """Whether those that have not started were claimed ahead, or wait in the line of one that was."""
        late = [job_id for job_id in ids if job_id not in self._started]
        rows = self._world.server.fetch("SELECT DISTINCT status FROM asyncjobs.jobs WHERE id = ANY ($1::bigint[])", late)
        states = {row["status"] for row in rows}
        return self._world.course.prefetch > 0 and len(ids) == count and "processing" in states <= {"processing", "waiting"}


def _payload(seconds: float = 0.0) -> dict[str, Any]:
    return {"plan": ["ok"], "seconds": seconds, "number": -1}
