"""One seed: runners and a client in a world that fails, then a time of peace, and what must be so.

The calls are the product's own SQL on a real PostgreSQL, one statement at a time (`server.py`): what a statement sees that has
waited for a lock is the server's own doing. A model in Python would hold what we think of it, and that was what was wrong.
(Pairs and triples of calls are gone through by `tests/interleavings` without gaps; here they meet runners that remember, and
faults.) Statements that wait have to happen, though, and have to be seen. They did not and were not, which let starts under an
answered pause, two live jobs of a dedup key and three-way deadlocks pass:

* Every lock time-out struck at once, so that whoever would have waited gave up. It is virtual time now.
* Gates, at which a call waits in its middle with its locks, lay in front of the locks mostly, and hardly anybody wanted these.
  Now worlds quarrel for them, and a gate may wait for the other call.
* What was checked were updates of a status. A pause's promise begins with its answer, which the client had and nobody compared;
  dedup keys were looked at in the end, when all was over; keys without a head were swept before anybody looked.
* Nothing was claimed ahead, so nobody had anything to begin after a freeze; and what the application lets out, and what ends
  its program besides a kill, was not in any world.
* Several coincidences were needed at once: an outcome arrives while its process is frozen *and* another runs the job, which two
  hundred drawn worlds did not meet. Such worlds are made now (`course.SCENES`). And the events of a runner do not tell whether
  the outcome of a frozen one was accepted: each completion in the table is held against the end of its attempt.

1. Faults, at random: processes killed, frozen, stalled, stopped and started; connections reset or silent; the server down; its
   clock set; answers and notifications late; parts of runners cancelled, and programs ended by an exit.
2. Peace: everything accepted has to end, within a time that covers every time-out there is.
3. Still in peace: what can start starts at once (`probes.py`).
4. Everybody stops, in time.
"""

import asyncio
import gc
from random import Random
from typing import Any, Final

import msgspec

from asyncjobs import AsyncJobs
from asyncjobs.errors import AsyncJobsError
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.telemetry.events import (
    AttemptEnded,
    AttemptStarted,
    ClaimWasLost,
    Event,
    Events,
    RunnerRegistered,
    ServicePassFailed,
    SinkFailed,
)
from asyncjobs.testing import Recorder
from tests.simulation.app import LEAKED, HandlerError, Pass, make_app, misbehave
from tests.simulation.checks import doubles, moves, stalled, taken, unended, untimely, violations
from tests.simulation.client import Client, Told
from tests.simulation.faults import Faults
from tests.simulation.patches import simulated
from tests.simulation.probes import Probes
from tests.simulation.process import Process
from tests.simulation.server import Server
from tests.simulation.shape import held
from tests.simulation.strikes import Strikes
from tests.simulation.world import World

_PEACE_SECONDS: Final = 150.0
_LONGEST_LINE: Final = 30  # attempts one after the other, of one key
_STOP_SECONDS: Final = 4.2
#: Within which every key that has jobs and is not paused has a head, where nothing fails: no sweep is waited for.
_SETTLED_SECONDS: Final = 5.0
#: Longer than a call that nobody waits for takes to the server.
_STRAGGLER_SECONDS: Final = 20.0


class Result(msgspec.Struct, frozen=True):
    """What came of a seed."""

    seed: int
    violations: list[str]
    digest: str
    calls: int
    jobs: int
    lines: list[str]


def simulate(seed: int, server: Server) -> Result:
    """Run the seed's world on this server."""
    server.empty()
    world = World(seed, server)
    gc.disable()  # what is collected may run code, whenever it likes
    try:
        with simulated(world), held(world):
            simulation = _Simulation(world)
            simulation.run()
            simulation.end()
            server.set_clock(world.now + world.clock_step)
    finally:
        gc.enable()
    found = [
        *world.violations, *simulation.found,
        *violations(server, simulation.recorder, simulation.told, simulation.passes, simulation.home),
        *(untimely(server, simulation.recorder, simulation.told, world, simulation.homes) if world.course.is_calm else ()),
        *(unended(server, simulation.recorder) if "clock" not in world.course.faults else ()),
        *(taken(simulation.recorder) if world.course.takes_no_claims else ()),
    ]  # fmt: skip
    return Result(seed, list(dict.fromkeys(found)), world.digest, world.calls, len(simulation.told.accepted), world.lines)


class _Runner:
    """A process that runs jobs, again and again under supervision."""

    def __init__(self, simulation: "_Simulation", name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.process: Process | None = None
        self.task: asyncio.Task[Any] | None = None
        self.jobs: AsyncJobs | None = None
        self.asked: asyncio.Event | None = None
        self.is_wanted = True

    @property
    def is_alive(self) -> bool:
        """Whether it has a process now: one that was killed has none until its supervisor starts another."""
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """A new process."""
        if not self.is_wanted:
            return
        process = self.process = self.simulation.world.start(self.name, is_supervised=True)
        jobs = self.jobs = self.simulation.app(process)
        process.has_left = lambda: self._left(process)
        self.asked = asked = asyncio.Event()

        async def main() -> None:
            async with jobs.runner():
                await asked.wait()

        task = self.task = process.main.create_task(main(), name=self.name)
        task.add_done_callback(lambda task: self._ended(process, task))

    def _ended(self, process: Process, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        world = self.simulation.world
        world.trace("ended", self.name, type(error).__name__)
        if not process.is_exiting:  # else others of its tasks may go on
            self._left(process, error)

    def _left(self, process: Process, error: BaseException | None = None) -> None:
        """The process has ended by itself."""
        world = self.simulation.world
        if not process.is_alive:
            return
        world.trace("left", self.name)
        process.is_alive = False
        self.simulation.end_attempts(process)
        for connection in tuple(process.connections):
            is_meant = connection.role == "heartbeat" and process.lingers
            if error is None and not process.is_exiting and not is_meant:
                world.violations.append(f"{self.name}: connection left behind: {connection.role}")
            world.end_connection(connection)
        world.plan(1.0, self.start)

    def stop(self) -> None:
        """Ask for its end."""
        if self.process is not None and self.is_alive and self.asked is not None:
            self.process.main.call_soon(self.asked.set)

    def kill(self) -> None:
        """It dies, and its supervisor starts another."""
        if self.process is not None and self.is_alive:
            self.simulation.bury(self.process)
            self.simulation.world.plan(self.simulation.random.choice([0.5, 3.0, 8.0]), self.start)


class _Simulation:
    def __init__(self, world: World) -> None:
        self.world = world
        self.course = world.course
        self.random = Random(world.random.random())
        self.recorder = Recorder()
        self.passes: list[Pass] = []
        self._next_look = 0.0
        self.found: list[str] = []
        self.home: dict[int, Process] = {}  # by token
        self.homes: dict[int, Process] = {}  # by runner
        self._started: set[int] = set()
        self._claims: dict[int, list[AttemptStarted]] = {}
        self.runners = [_Runner(self, f"runner{number}") for number in range(self.course.runners)]
        self.told = Told(is_lossy=not (self.course.is_calm or self.course.quarrels))
        self.clients = [self._client(number) for number in range(self.course.clients)]
        world.strikes = Strikes(world, self.course, self._kill)

    def _client(self, number: int) -> Client:
        process = self.world.start(f"client{number}")
        return Client(process, self.app(process), Random(self.world.random.random()), self.course, self.told)

    def app(self, process: Process) -> AsyncJobs:
        """The app of a process, watched."""
        jobs = make_app(process, self.passes, self.course)
        self._watch(process, jobs.events)
        if self.course.is_unruly:
            jobs.events.subscribe(lambda event: None if isinstance(event, SinkFailed) else misbehave(process, 0.002))
        return jobs

    def _watch(self, process: Process, events: Events) -> None:
        claims = self._claims.setdefault(id(process), [])

        def look(event: Event) -> None:
            if not process.is_alive:
                return
            self.recorder.record(event)
            self.world.trace("event", process.name, type(event).__name__, getattr(event, "job_id", ""))
            if isinstance(event, AttemptStarted):
                claims.append(event)
                self._started.add(event.job_id)
                self.home[event.token] = process
            if isinstance(event, RunnerRegistered):
                self.homes[event.runner_id] = process
            if isinstance(event, AttemptEnded) and process.is_exiting and _is_charged(event):
                self.world.violations.append(f"P7: job {event.job_id} pays for the end of {process.name}: {event.outcome}")
            if isinstance(event, ServicePassFailed) and not _is_expected(event.error):
                self.world.violations.append(f"{process.name}: {event.service} failed: {event.error!r}")

        events.subscribe(look)

    def _kill(self, process: object) -> None:
        for runner in self.runners:
            if runner.process is process:
                runner.kill()

    def bury(self, process: Process) -> None:
        """It was killed: its attempts end with it."""
        process.kill()
        self.end_attempts(process)

    def end_attempts(self, process: Process) -> None:
        """Those that the process still has."""
        for started in self._claims[id(process)]:
            self.recorder.record(
                ClaimWasLost(job_id=started.job_id, token=started.token, runner_id=started.runner_id, during="the process's life")
            )

    def run(self) -> None:
        world = self.world
        for runner in self.runners:
            runner.start()
        for client in self.clients:
            self._start_client(client)
        world.run(0.5)
        world.has_gates, world.faulty = True, not self.course.is_calm
        Faults(world, self.random, self.runners, self.told).plan()
        if {"dedup", "replace", "swap", "revive"} & set(self.course.ways):
            self._look_for_doubles()
        world.run(self.course.seconds)
        self._make_peace()
        if wrong := moves(world.server, self.told):
            self.found += wrong
            return
        if self.course.quarrels and not world.run(_SETTLED_SECONDS, until=self._has_no_stalled_key):
            self.found.append(f"P4: a key had no head for {_SETTLED_SECONDS:g} s of peace: {stalled(world.server)}")
        patience = _PEACE_SECONDS + _LONGEST_LINE * max(self.course.durations)
        if not world.run(patience, until=self._is_quiet):
            rows = world.server.fetch(
                "SELECT id, status FROM asyncjobs.jobs WHERE completed_at IS NULL AND type <> 'tick' ORDER BY id LIMIT 5"
            )
            self.found.append(f"P1: not ended in {patience:g} s of peace: {[tuple(row) for row in rows]}")
            return
        world.run(_STRAGGLER_SECONDS, until=world.has_no_stragglers)
        world.run(0.5 if self.course.is_calm else 4.0)
        if self.course.is_unruly and not world.run(20.0, until=self._is_duty_done):
            self.found.append("P9: a duty is done no more")
        self.found += Probes(world, self.random, self.clients, self.runners, self._started).run()
        self._stop()

    def _start_client(self, client: Client) -> None:
        async def main() -> None:
            while True:
                try:
                    async with client.jobs:
                        await client.work()
                except DATABASE_ERRORS:
                    await asyncio.sleep(1.0)

        task = client.process.main.create_task(main(), name=client.process.name)
        task.add_done_callback(self._client_ended)

    def _client_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            self.found.append(f"the client ended: {task.exception()!r}")

    def _look_for_doubles(self) -> None:
        found = doubles(self.world.server)
        self.world.violations += [one for one in found if one not in self.world.violations]
        if self.world.faulty or self.world.has_gates:
            self.world.plan(0.2, self._look_for_doubles)

    def _make_peace(self) -> None:
        self.world.faulty = self.world.has_gates = self.world.is_down = False
        self.world.trace("peace")
        self._peace_at = self.world.now
        for process in self.world.processes:
            process.frozen_until = min(process.frozen_until, self.world.now)
            process.stalled_until = min(process.stalled_until, self.world.now)
            process.parted_until = min(process.parted_until, self.world.now)
            for connection in tuple(process.connections):
                if connection.is_silent:
                    self.world.break_connection(connection)

    def _is_quiet(self) -> bool:
        if not all(client.is_done for client in self.clients) or self.world.now < self._next_look:
            return False
        self._next_look = self.world.now + 2.0
        [[left]] = self.world.server.fetch(
            "SELECT (SELECT count(*) FROM asyncjobs.jobs WHERE completed_at IS NULL AND type <> 'tick')"
            " + (SELECT count(*) FROM asyncjobs.serialized_jobs)"
            " + (SELECT count(*) FROM asyncjobs.workflows WHERE ended_at IS NULL)"
        )
        return bool(left == 0)

    def _has_no_stalled_key(self) -> bool:
        if self.world.now < self._next_look:
            return False
        self._next_look = self.world.now + 0.5
        return all(client.is_done for client in self.clients) and not stalled(self.world.server)

    def _is_duty_done(self) -> bool:
        return any(done.began_at > self._peace_at and done.ended_at is not None for done in self.passes)

    def _stop(self) -> None:
        for runner in self.runners:
            runner.is_wanted = False
            runner.stop()
        tasks = [runner.task for runner in self.runners if runner.task is not None and runner.is_alive]
        if not self.world.run(_STOP_SECONDS, until=lambda: all(task.done() for task in tasks)):
            self.found.append("P10: not stopped in time")

    def end(self) -> None:
        """Take everything down, and let what still runs end."""
        world = self.world
        world.faulty = False
        for runner in self.runners:
            runner.is_wanted = False
        for process in world.processes:
            if process.is_alive:
                self.bury(process)
        world.run(20.0)
        world.release_all()
        for process in world.processes:
            process.finish()


def _is_expected(error: BaseException) -> bool:
    return isinstance(error, (*DATABASE_ERRORS, AsyncJobsError, HandlerError)) or LEAKED in str(error)


def _is_charged(event: AttemptEnded) -> bool:
    """Whether an attempt is to pay for a cancellation that it did not let out itself."""
    return (
        event.outcome in {"retry", "dead"} and isinstance(event.error, asyncio.CancelledError) and LEAKED not in str(event.error)
    )
