"""A process of a simulated world: what of it may go on, and how it ends."""

from typing import TYPE_CHECKING

from tests.simulation.loop import SimLoop, make_loop

if TYPE_CHECKING:
    from tests.simulation.connection import Connection
    from tests.simulation.world import World


class Process:
    """A process of the world: its loops, its connections, and whether it lives."""

    def __init__(self, world: "World", name: str, *, is_supervised: bool) -> None:
        self.world = world
        self.name = name
        self.is_supervised = is_supervised
        self.is_alive = True
        self.frozen_until = 0.0  # all of it
        self.stalled_until = 0.0  # its main loop
        self.parted_until = 0.0  # nothing gets through to it, or from it
        self.unseen: list[tuple[float, float]] = []  # when it was one or the other, from when to when
        self.connections: list[Connection] = []
        self.main = make_loop(world.clock, self._complain)
        self.loops = [self.main]

    def make_loop(self) -> SimLoop:
        """Another thread."""
        loop = make_loop(self.world.clock, self._complain)
        self.loops.append(loop)
        return loop

    def resumes_at(self, loop: SimLoop) -> float:
        """When it may."""
        return max(self.frozen_until, self.stalled_until) if loop is self.main else self.frozen_until

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.frozen_until = self.world.now + seconds
        self.unseen.append((self.world.now, self.frozen_until))

    def stall(self, seconds: float) -> None:
        """A handler blocks the main loop."""
        self.stalled_until = self.world.now + seconds
        self.unseen.append((self.world.now, self.stalled_until))

    def kill(self) -> None:
        """SIGKILL: not another step, and its sockets are closed."""
        self.is_alive = False
        for connection in tuple(self.connections):
            self.world.end_connection(connection)
        self.world.trace("killed", self.name)

    def finish(self) -> None:
        """Let what is left of it end, in a world where nothing answers any more."""
        for _ in range(5):
            for loop in self.loops:
                for task in tuple(loop.tasks.values()):
                    task.cancel()
            self._run_out()

    def _run_out(self) -> None:
        while any(loop.tasks for loop in self.loops):
            for loop in self.loops:
                loop.step()
            if not any(loop.is_ready for loop in self.loops):
                following = min(loop.next_at for loop in self.loops)
                if following == float("inf"):
                    break
                self.world.now = max(self.world.now, following)

    def _complain(self, what: str) -> None:
        if self.is_alive:
            self.world.violations.append(f"{self.name}: {what}")
