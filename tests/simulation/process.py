"""A process of a simulated world: what of it may go on, and how it ends."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.loop import SimLoop, make_loop

if TYPE_CHECKING:
    from asyncjobs.runtime.heartbeat import BeatThread
    from tests.simulation.connection import Connection
    from tests.simulation.world import World


#: What a program exits with that means to.
EXIT: Final = 1
_LONGEST_EXIT_SECONDS: Final = 25.0
#: In a process that was killed, from one cancellation of all that is left of it to the next.
_LONGEST_RUN_OUT_SECONDS: Final = 3600.0


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
        self.claimed: set[int] = set()  # tokens that there were when the server had done its latest pause
        self.is_exiting = False  # its tasks are being cancelled, as `asyncio.run` does when one has called `sys.exit`
        self.has_left: Callable[[], None] = lambda: None  # called when it has ended by itself
        self.main = make_loop(world.clock, self._complain)
        self.main.on_exit = self._exits
        self.loops = [self.main]
        self.threads: list[BeatThread] = []

    @property
    def lingers(self) -> bool:
        """Whether a handler that ignored its runner's stop still runs: the heartbeat goes on then, until the process ends."""
        return any(thread._remains is not None and not thread._remains.is_empty for thread in self.threads)

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

    def exit(self) -> None:
        """A task of the program, which knows nothing of jobs, calls `sys.exit`."""

        async def exits() -> None:
            raise SystemExit(EXIT)

        self.main.create_task(exits(), name="exits")

    def _exits(self, error: SystemExit) -> None:
        self.world.trace("exits", self.name, error.code)
        if error.code != EXIT:
            self.world.violations.append(f"P13: {self.name} was ended by what exited in a part of the application: {error!r}")
        if self.is_exiting:  # once more: nothing waits for the others any more
            self.world.plan(0.0, self.has_left)
            return
        self.is_exiting = True
        left = set(self.main.tasks.values())
        for task in tuple(left):
            task.cancel()
            task.add_done_callback(lambda task: self._ended(left, task))
        self.world.plan(_LONGEST_EXIT_SECONDS, self._has_to_be_over)

    def _ended(self, left: "set[Any]", task: Any) -> None:
        left.discard(task)
        if not left and self.is_alive:
            self.world.plan(0.0, self.has_left)

    def _has_to_be_over(self) -> None:
        if self.is_alive and not any(ends > self.world.now - _LONGEST_EXIT_SECONDS for _, ends in self.unseen):
            self.world.violations.append(f"P10: the exit of {self.name} is not over after {_LONGEST_EXIT_SECONDS:g} s")

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
        # (What is cancelled so often while it stops may leave parts that go on by their timers: nobody waits for those.)
        until = self.world.now + _LONGEST_RUN_OUT_SECONDS
        while any(loop.tasks for loop in self.loops):
            for loop in self.loops:
                loop.step()
            if not any(loop.is_ready for loop in self.loops):
                following = min(loop.next_at for loop in self.loops)
                if following > until:
                    break
                self.world.now = max(self.world.now, following)

    def _complain(self, what: str) -> None:
        if self.is_alive:
            self.world.violations.append(f"{self.name}: {what}")
