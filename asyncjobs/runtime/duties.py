"""Duties: recurring work that is done for all runners. A duty is a name, an interval, and one pass that returns what it did.

Who does it is its strategy:

* `lease`: the holder of the duty's lease, and every write of his names the lease's token. Fail-over takes 10 to 15 s after a
  crash, and no time after a clean stop; where notifications do not arrive the successor finds the free lease with its next poll
  (1 s). It costs one statement each 2 s, whatever the number of duties and runners, where they poll up to three more per second.
* `advisory`: the runner whose session holds the duty's advisory lock. Fail-over takes as long as the server needs to notice that
  the session is gone: no time after a crash, for ever while the holder's process is stopped (SIGSTOP) and its connection open.
  It costs a statement per interval and runner, and does not work through a pooler.
* `everyone`: each runner, at each interval. Nothing fails over, and a pass costs what it costs, times the runners.
* `share`: each runner now and then, together once per interval. Passes may overlap, and share their work by SKIP LOCKED.

The loop is the service's: a pass that fails is reported, tried again with back-off, and ends nothing. A pass ends at the latest
when the trust in its term does: it is cancelled, and the loop goes on as one that has no turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, Protocol

from asyncjobs.errors import LeaseLost, is_meant
from asyncjobs.runtime.leader import Leader
from asyncjobs.runtime.service import Service
from asyncjobs.store import leases
from asyncjobs.store.database import Database, Link
from asyncjobs.store.leases import Fence, FencedLink
from asyncjobs.telemetry.events import DutyPassed, Events

#: A duty that is not this runner's is looked at again when that changes; this is how long it would take to notice otherwise.
_IDLE_SECONDS: Final = 60.0
#: How often a pass is checked against the end of its trust: the loop's own timers stand still while the machine is suspended.
_WATCH_SECONDS: Final = 0.25


class Turn:
    """The right to do one pass. `fence` is None where nothing but the strategy itself stands behind it."""

    def __init__(self, fence: Fence | None = None, left: Callable[[], float] | None = None) -> None:
        self.fence = fence
        self._left = left

    @property
    def is_limited(self) -> bool:
        """Whether it can end before the pass does."""
        return self._left is not None

    @property
    def left_seconds(self) -> float:
        """For how long it can be relied on."""
        return float("inf") if self._left is None else self._left()

    def guard(self, link: Link) -> Link:
        """The link for writes: they touch nothing when the turn is over."""
        return link if self.fence is None else FencedLink(link, self.fence)


FREE: Final = Turn()


class Strategy(Protocol):
    """Who does a duty."""

    async def begin(self, duty: str) -> Turn | None:
        """A turn, if this runner has one now."""
        ...

    def pause_seconds(self, interval_seconds: float, *, had_turn: bool) -> float:
        """Until the duty is looked at again."""
        ...

    async def end(self, duty: str, turn: Turn) -> None:
        """A pass has ended."""
        ...


class Everyone:
    """Each runner does it."""

    async def begin(self, duty: str) -> Turn | None:  # noqa: ARG002 - the protocol's
        """Always."""
        return FREE

    def pause_seconds(self, interval_seconds: float, *, had_turn: bool) -> float:  # noqa: ARG002 - the protocol's
        """The interval."""
        return interval_seconds

    async def end(self, duty: str, turn: Turn) -> None:
        """Nothing is to be done."""


class Share(Everyone):
    """All runners do it together: each waits for as many intervals as there are runners."""

    def __init__(self, other_runners: Callable[[], int]) -> None:
        self._other_runners = other_runners

    def pause_seconds(self, interval_seconds: float, *, had_turn: bool) -> float:  # noqa: ARG002 - the protocol's
        """The interval, times the number of runners."""
        return interval_seconds * (1 + self._other_runners())


class ByLease:
    """The holder of the lease does it. `rotation_seconds`: it hands it over after that long, if there is a runner to take it."""

    def __init__(
        self,
        leader: Leader,
        *,
        rotation_seconds: float | None = None,
        hand_over: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._leader = leader
        self._rotation_seconds = rotation_seconds
        self._hand_over = hand_over

    async def begin(self, duty: str) -> Turn | None:
        """In a term that can be trusted."""
        fence = self._leader.term(duty)
        if fence is None:
            return None
        return Turn(fence, lambda: self._leader.trusted_seconds(fence))

    def pause_seconds(self, interval_seconds: float, *, had_turn: bool) -> float:
        """The interval. Who has no turn is woken when it comes, and also asks, in memory."""
        return interval_seconds if had_turn else _IDLE_SECONDS

    async def end(self, duty: str, turn: Turn) -> None:
        """Hand it over when it is time for that."""
        if self._rotation_seconds is None or self._hand_over is None or turn.fence is None:
            return
        if self._leader.held_seconds(turn.fence) >= self._rotation_seconds:
            await self._hand_over(duty)


class Advisory:
    """The session that holds the advisory lock does it. All of a runner's are held by one connection of their own."""

    def __init__(self, database: Database) -> None:
        self._link = database.link("advisory", command_timeout=2.0)

    async def begin(self, duty: str) -> Turn | None:
        """If the lock is ours, or free."""
        if not (await leases.advisory(self._link, [duty]))[duty]:
            return None
        opened = self._link.opened
        return Turn(None, lambda: float("inf") if self._link.is_open and self._link.opened == opened else 0.0)

    def pause_seconds(self, interval_seconds: float, *, had_turn: bool) -> float:
        """The interval; who has no turn asks every few seconds at least, or a duty with a long interval would lie idle."""
        return interval_seconds if had_turn else min(interval_seconds, 5.0)

    async def end(self, duty: str, turn: Turn) -> None:
        """The lock is kept."""

    async def is_pooled(self) -> bool:
        """Whether it cannot work here."""
        return await leases.is_pooled(self._link)

    async def close(self, *, timeout: float = 0.2) -> None:
        """Let all locks go."""
        await self._link.close(timeout=timeout)

    def abort(self) -> None:
        """The same at once."""
        self._link.abort()


EVERYONE: Final = Everyone()


class Duty(Service):
    """A service whose passes are done when its strategy says that it is this runner's turn."""

    duty: str
    name: ClassVar[str] = "duty"
    strategy: Strategy = EVERYONE
    leader: Leader | None = None  # to report to

    def __init__(self, *, events: Events, interval_seconds: float) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self.turn: Turn = FREE
        self.items: int | None = None  # what the pass did, in whatever it counts

    @property
    def refused(self) -> int:
        """How many rows the database refuses to it (`runtime/set_aside.py`)."""
        return 0

    async def aside(self) -> None:
        """What a runner does about the duty when it is another runner's turn."""

    async def _do(self) -> float | None:
        turn = await self.strategy.begin(self.duty)
        if turn is None:
            await self.aside()
            return self.aside_seconds()
        self.turn, self.items = turn, 0
        began, error = self._monotonic(), None
        if self.leader is not None:
            self.leader.began(self.duty)
        try:
            answer = await self._within(turn)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._note(self._monotonic() - began, error)
            self.turn = FREE
        await self.strategy.end(self.duty, turn)
        if answer is not None:
            return answer
        return self.strategy.pause_seconds(self.interval_seconds, had_turn=True) * (0.9 + 0.2 * self._chance())

    def aside_seconds(self) -> float:
        """Until it is looked at again whose turn it is."""
        return self.strategy.pause_seconds(self.interval_seconds, had_turn=False)

    async def _within(self, turn: Turn) -> float | None:
        """The pass, cancelled when its turn is over."""
        if not turn.is_limited:
            return await self.pass_()
        scope = asyncio.timeout(None)
        watch: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal watch
            loop, left = asyncio.get_running_loop(), turn.left_seconds
            if left <= 0:
                scope.reschedule(loop.time())
            else:
                watch = loop.call_later(min(left, _WATCH_SECONDS), look)

        try:
            async with scope:
                look()
                return await self.pass_()
        except TimeoutError:
            if not scope.expired():
                raise
            raise LeaseLost(self.duty) from None
        finally:
            if watch is not None:
                watch.cancel()

    def _note(self, seconds: float, error: BaseException | None) -> None:
        failed = error is not None and not is_meant(error)
        if self.leader is not None:
            self.leader.passed(self.duty, items=self.items, failed=failed, seconds=seconds)
        if self.events.wants(DutyPassed):
            self.events.emit(DutyPassed(duty=self.duty, items=self.items, failed=failed, seconds=seconds))
