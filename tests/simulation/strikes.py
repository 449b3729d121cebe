"""What befalls a call while it is under way: its process is frozen, or killed, or its answer is lost, just then.

Faults that come at random moments meet a process idle nearly always. These meet it with a statement in the network: the frozen
process's claim or ack is carried out before, while or after others take its jobs away, and it finds out when it wakes.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.simulation.course import Course

if TYPE_CHECKING:
    from tests.simulation.connection import Call
    from tests.simulation.process import Process
    from tests.simulation.world import World

#: How much more often what is about jobs is struck than routine.
_RARE: Final = 5.0
#: And what the world has seen less than so often yet: what is done seldom has its bad moments, too.
_SELDOM: Final = 3
#: What may befall a call of a process that nobody would start again.
_OF_NETWORK: Final = frozenset({"lose the answer", "lose the request", "hold", "hold for long"})
#: Longer than anybody waits for an answer.
_LONG_SECONDS: Final = 15.0


class Strikes:
    """Strikes calls of the processes that `kill` knows how to kill."""

    def __init__(self, world: "World", course: Course, kill: Callable[[object], None]) -> None:
        self._world = world
        self._course = course
        self._kill = kill
        self._seen: Counter[str] = Counter()

    def strike(self, call: "Call") -> float:
        """Perhaps something happens to it, now or with its answer. For how long it is held up on its way."""
        world, course = self._world, self._course
        self._seen[call.name] += 1
        odds = course.strike_odds * (_RARE if call.connection.carries else 1.0)
        odds *= 2.0 if self._seen[call.name] <= _SELDOM else 1.0
        if not course.strikes or (course.struck and not call.name.startswith(course.struck)) or world.random.random() >= odds:
            return 0.0
        process = call.connection.process
        what = world.random.choice(course.strikes)
        if not process.is_supervised and what not in _OF_NETWORK:
            return 0.0
        seconds = world.random.choice(course.freezes)
        world.trace("strike", what, process.name, call.name)
        held_up = self._held_up(what, process, seconds)
        if held_up is None:
            self._befall(what, call, seconds)
        return held_up or 0.0

    def _held_up(self, what: str, process: "Process", seconds: float) -> float | None:
        """For how long the call is, by what holds it up; None: this does not."""
        random = self._world.random
        if what == "freeze":
            process.freeze(seconds)
            return random.choice([0.0, seconds / 2, seconds + 1.0])
        if what == "freeze meanwhile":
            return self._freeze_alone(process, seconds)
        if what == "hold":
            return random.choice([0.5, 3.0, 15.0])
        return _LONG_SECONDS if what == "hold for long" else None

    def _befall(self, what: str, call: "Call", seconds: float) -> None:
        world, process = self._world, call.connection.process
        if what == "stall":
            process.stall(seconds)
        elif what == "lose the request":
            call.is_dropped = True
            world.plan(0.0, lambda: world.break_connection(call.connection))
        elif what == "lose the answer":
            call.at_answer = lambda: world.break_connection(call.connection)
        elif what == "freeze at the answer":
            call.at_answer = lambda: process.freeze(seconds)
        elif world.random.random() < 0.5:
            world.plan(0.0, lambda: self._kill(process))
        else:
            call.at_answer = lambda: self._kill(process)

    def _freeze_alone(self, process: "Process", seconds: float) -> float:
        """Others take over what it has, and then the call is carried out: it sleeps still."""
        if any(one.frozen_until > self._world.now for one in self._world.processes):
            return 0.0
        process.freeze(seconds)
        return self._world.random.uniform(seconds / 2, seconds)
