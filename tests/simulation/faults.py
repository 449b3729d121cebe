"""What befalls runners, the network and the tables of its own accord, at random moments."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from asyncjobs import AsyncJobs
from tests.simulation.client import Told
from tests.simulation.process import Process
from tests.simulation.world import World


class _Runner(Protocol):
    name: str
    process: Process | None
    jobs: AsyncJobs | None

    @property
    def is_alive(self) -> bool: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


class Faults:
    """Draws one of its course's after the other."""

    def __init__(self, world: World, random: Random, runners: Sequence[_Runner], told: Told) -> None:
        self._world = world
        self._random = random
        self._course = world.course
        self._runners = runners
        self._told = told
        self._began_at = world.now

    def plan(self) -> None:
        """Let the next one happen, and the next one after it, for as long as the world is faulty."""
        if self._world.faulty and self._course.faults:
            self._world.plan(self._random.expovariate(1 / self._course.fault_every), self._happen)

    def _happen(self) -> None:
        if not self._world.faulty or self._world.now - self._began_at > self._course.last_fault:
            return
        world, random = self._world, self._random
        runner = random.choice(self._runners)
        process = runner.process
        what = random.choice(self._course.faults)
        world.trace("fault", what, runner.name)
        if what == "kill":
            runner.kill()
        elif what == "freeze" and process is not None:
            process.freeze(random.choice(self._course.freezes))
        elif what == "stall" and process is not None:
            process.stall(random.choice([1.0, 5.0, 15.0]))
        elif what == "stop":
            runner.stop()
        elif what == "hand":
            self._delete_by_hand()
        elif what == "exit" and process is not None:
            process.exit()
        elif what == "cancel" and runner.jobs is not None and runner.is_alive:
            self._cancel_part(runner.jobs)
        elif process is not None:
            self._break_network(what, process)
        self.plan()

    def _delete_by_hand(self) -> None:
        """Somebody's SQL deletes the job at the head of a key that does not run, and nothing else of it."""
        deleted = self._world.server.fetch(
            "DELETE FROM asyncjobs.jobs WHERE id = (SELECT j.id FROM asyncjobs.serialized_jobs AS s JOIN asyncjobs.jobs AS j"
            " ON j.id = s.id WHERE s.dispatched_at IS NOT NULL AND j.status IN ('pending', 'failed')"
            " ORDER BY j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED) RETURNING id"
        )
        self._told.deleted.update(row[0] for row in deleted)
        self._world.trace("deleted by hand", *self._told.deleted)

    def _cancel_part(self, jobs: AsyncJobs) -> None:
        """Somebody cancels a part of a runner, who should not."""
        opened = jobs.lifecycle.opened
        threads = [thread for one in jobs.runners if (thread := one.heartbeat._thread) is not None]
        parts = [
            part
            for registry in ([] if opened is None else [opened.parts, *(one._parts for one in threads)])
            for part in registry.all
        ]
        if parts:
            part = self._random.choice(parts)
            self._world.trace("cancels", part.name)
            part.task.get_loop().call_soon(part.task.cancel)

    def _break_network(self, what: str, process: Process) -> None:
        world, random, connections = self._world, self._random, process.connections
        if what == "reset" and connections:
            world.break_connection(random.choice(connections))
        elif what == "silent" and connections:
            random.choice(connections).is_silent = True
        elif what == "part":
            world.part(process, random.choice([3.0, 12.0, 25.0]))
        elif what == "down":
            self._down(random.choice([0.5, 4.0, 16.0]))
        elif what == "clock":
            world.clock_step = random.choice([-60.0, -5.0, 0.0, 5.0, 60.0])  # a job may be due so much later, and must be in time

    def _down(self, seconds: float) -> None:
        self._world.is_down = True
        for process in self._world.processes:
            for connection in tuple(process.connections):
                self._world.break_connection(connection)
        self._world.plan(seconds, self._up)

    def _up(self) -> None:
        self._world.is_down = False
