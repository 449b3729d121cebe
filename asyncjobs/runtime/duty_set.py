"""A runner's duties together: which strategy does which, how they are woken, and how they end.

End: no new pass of the application's duties is begun, one that runs has the grace of the handlers, then every loop is cancelled.
Only then are the leases given up, of those duties whose loops have really ended; one that ignored its cancellation keeps its
lease until that expires, so that no runner begins while it may still be at work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from asyncjobs.context import DutyContext
from asyncjobs.errors import ConfigurationError
from asyncjobs.model.schedule import Schedule
from asyncjobs.runtime.duties import Advisory, ByLease, Duty, Everyone, Share
from asyncjobs.runtime.duties import Strategy as DutyStrategy
from asyncjobs.runtime.leader import Leader
from asyncjobs.runtime.metrics import Rollup
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.parts import Part, Start
from asyncjobs.runtime.pauser import Pauser
from asyncjobs.runtime.promoter import Promoter
from asyncjobs.runtime.pruner import Pruner, keeping
from asyncjobs.runtime.rescuer import Rescuer
from asyncjobs.runtime.scheduler import Scheduler
from asyncjobs.runtime.serializer import Advances, Serializer
from asyncjobs.runtime.user_duty import UserDuty
from asyncjobs.settings import BUILT_IN, Strategy
from asyncjobs.store import runners
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import Events


class DeclaredDuty(msgspec.Struct, frozen=True):
    """A duty of the application's."""

    name: str
    every_seconds: float
    strategy: Strategy
    call: Callable[[DutyContext], Awaitable[int | None]]


class Duties:
    """All duties of one runner. Their loops are run by the owner of this: `loops`."""

    def __init__(
        self,
        opened: OpenApp,
        declared: Sequence[DeclaredDuty],
        schedules: Sequence[Schedule],
        *,
        keys: Advances,
        listen: Database,
        poll_seconds: Callable[[], float],
        unheard_seconds: Callable[[], float],
        runner_id: Callable[[], int],
        lost: Callable[[str, str], None],
    ) -> None:
        settings = opened.settings
        self._opened = opened
        self._listen = listen
        link = self._link = opened.database.link("duties")
        events, wakes = opened.events, opened.wakes
        self._own = [_user_duty(one, opened.database, events) for one in declared]
        self._parts: dict[str, Part] = {}
        self._strategy_of = {**BUILT_IN, **settings.strategies, **{one.name: one.strategy for one in declared}}
        if not schedules:
            del self._strategy_of["cron"]  # a runner that fires nothing is not to be the holder of it
        self.names = sorted(self._strategy_of)
        self.leader = Leader(
            [name for name, strategy in self._strategy_of.items() if strategy == "lease"], settings.lease_times,
            events=events, fresh_seconds=1.5 * settings.heartbeat + 0.5, poll_seconds=poll_seconds,
        )  # fmt: skip
        self.leader.on_change = self.wake
        self._advisory = Advisory(listen)
        self.promoter = Promoter(
            link,
            wakes,
            events=events,
            interval_seconds=settings.promote_interval,
            poll_seconds=poll_seconds,
            batch=settings.batch,
        )
        self.rescuer = Rescuer(
            link, wakes, events=events, interval_seconds=settings.rescue_interval, runner_timeout_seconds=settings.runner_timeout,
            batch=settings.batch, max_errors=settings.max_errors, observes=self.leader.is_next,
            is_only_runner=self.leader.is_only_runner, lost=lost, runner_id=runner_id,
        )  # fmt: skip
        self.serializer = Serializer(
            opened.pool, wakes, keys, events=events, interval_seconds=settings.sweep_interval, unheard_seconds=unheard_seconds
        )
        self.pruner = Pruner(
            link, keeping(settings), events=events, interval_seconds=settings.prune_interval, batch=settings.batch
        )
        self.pauser = Pauser(link, wakes, events=events, interval_seconds=settings.pauses_interval)
        self.scheduler = Scheduler(
            opened.pool, wakes, schedules, events=events, runner_id=runner_id, interval_seconds=settings.schedule_interval
        )
        self.rollup = Rollup(link, keep_seconds=settings.keep_metrics, events=events)
        self._arrange()

    def _arrange(self) -> None:
        """Give every duty its strategy."""
        strategies: dict[str, DutyStrategy] = {
            "lease": ByLease(self.leader, rotation_seconds=self._opened.settings.lease_rotation, hand_over=self._hand_over),
            "advisory": self._advisory,
            "everyone": Everyone(),
            "share": Share(lambda: self.leader.other_runners),
        }
        for duty in self._all:
            kind = self._strategy_of.get(duty.duty, "everyone")
            duty.strategy = strategies[kind]
            duty.leader = self.leader if kind == "lease" else None

    @property
    def _all(self) -> list[Duty]:
        return [self.promoter, self.rescuer, self.serializer, self.pruner, self.scheduler, self.rollup, self.pauser, *self._own]

    @property
    def refused(self) -> int:
        """How many rows the database refuses to them."""
        return sum(duty.refused for duty in self._all)

    async def check(self) -> None:
        """ConfigurationError when a duty is to be done under an advisory lock and there is a pooler in between."""
        duty = next((name for name, strategy in self._strategy_of.items() if strategy == "advisory"), None)
        if duty is not None and await self._advisory.is_pooled():
            self._advisory.abort()
            raise ConfigurationError(
                f'duty "{duty}": strategy="advisory" holds a lock of its session, and there is a pooler between this '
                'process and the database. Give a listen_dsn= that goes around it, or use strategy="lease".'
            )

    def start(self, start: Start) -> list[Part]:
        """Start the loops."""
        self._parts = {duty.duty: start(f"duty {duty.duty}", duty.run) for duty in self._all}
        return [*self._parts.values()]

    def wake(self, names: Sequence[str]) -> None:
        """It may be this runner's turn now, or not any more."""
        for duty in self._all:
            if duty.duty in names:
                duty.wake()

    # Ending.

    def drain(self) -> None:
        """Begin no new pass of the application's duties."""
        for duty in self._own:
            duty.stop()

    async def wait_drained(self) -> None:
        """Wait until the passes of the application's duties have ended."""
        for duty in self._own:
            if duty.duty in self._parts:
                await self._parts[duty.duty].wait_done()

    async def end(self, seconds: float) -> list[str]:
        """Wait until the stopped loops have ended, for so long; returns the duties whose loops have not."""
        self.leader.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for part in self._parts.values():
                    await part.wait_done()
        self._advisory.abort()
        return [name for name, part in self._parts.items() if not part.is_done]

    async def leave(self, runner_id: int, *, kept: Sequence[str], stays: bool, timeout: float) -> None:
        """Give up the leases and, unless it stays, the runner's row; the successor is woken."""
        async with self._opened.pool.take() as link:
            if stays:
                ended = [name for name in self.names if name not in kept]
                successor = await self.leader.resign(link, ended, timeout=timeout)
            else:
                fresh = self.leader.fresh_seconds
                successor = await runners.leave(link, runner_id, kept=kept, fresh_seconds=fresh, timeout=timeout)
                self.leader.left(kept, successor)
        if successor is not None:
            self._opened.wakes.lease_free(successor)

    def let_go(self) -> None:
        """Drop the connections."""
        self._link.abort()
        self._advisory.abort()

    async def _hand_over(self, duty: str) -> None:
        if self.leader.other_runners == 0:
            return
        async with self._opened.pool.take() as link:
            successor = await self.leader.resign(link, [duty])
        if successor is not None:
            self._opened.wakes.lease_free(successor)


def _user_duty(declared: DeclaredDuty, database: Database, events: Events) -> UserDuty:
    return UserDuty(declared.name, declared.call, database, events=events, interval_seconds=declared.every_seconds)
