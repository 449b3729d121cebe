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
    from tests.simulation.world import World

#: How much more often what is about jobs is struck than routine.
_RARE: Final = 5.0
#: And what the world has seen less than so often yet: what is done seldom has its bad moments, too.
_SELDOM: Final = 3
#: What may befall a call of a process that nobody would start again.
_OF_NETWORK: Final = frozenset({"lose the answer", "lose the request", "hold"})


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
        if not course.strikes or world.random.random() >= odds:
            return 0.0
        process = call.connection.process
        what = world.random.choice(course.strikes)
        if not process.is_supervised and what not in _OF_NETWORK:
            return 0.0
        seconds = world.random.choice(course.freezes)
        world.trace("strike", what, process.name, call.name)
        if what == "freeze":
            process.freeze(seconds)
            return world.random.choice([0.0, seconds / 2, seconds + 1.0])
        if what == "stall":
            process.stall(seconds)
        elif what == "hold":
            return world.random.choice([0.5, 3.0, 15.0])
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
        return 0.0
