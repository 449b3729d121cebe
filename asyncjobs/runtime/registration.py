"""Under which id a runner is known, and what it does when that, or the trust in it, is lost.

Declared dead (its row is gone): cancel what runs, register anew under a new id, go on. Its writes under the old claims touch
nothing. Not confirmed alive for 5/6 of `runner_timeout`: cancel what runs, since others may take it from now on; what turns out
to be still ours is given back with its attempt. Too old for the schema: what runs goes on, what waits for a slot is given back.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import anyio

from asyncjobs.model.declared_type import DeclaredType
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.machine import machine
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.store import limits, runners
from asyncjobs.store.failures import is_passing
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events, LimitsDiffer, RunnerOutdated, RunnerRegistered

_REGISTER_TRIES: Final = 5
_WITHDRAW_SECONDS: Final = 0.5


class Registration:
    """One runner's. `id` is 0 before the first `register`."""

    def __init__(
        self, pool: Pool, attempts: Attempts, queues: Queues, *, types: Sequence[str], versions: Mapping[str, int],
        events: Events, gives_up: bool, declares: Sequence[DeclaredType] = (), limits: Sequence[Mapping[str, Any]] = (),
        name: str | None = None,
    ) -> None:  # fmt: skip
        self.id = 0
        self.differing: Sequence[str] = ()  # limits that others had declared otherwise, when this runner did
        self._pool = pool
        self._attempts = attempts
        self._queues = queues
        self._types, self._versions, self._declares = types, versions, declares
        self._limits = limits
        self._name = name
        self._events = events
        self._gives_up = gives_up  # the first time, when the database has been asked some times
        self._when_gone: Callable[[], None] = lambda: None

    def runner_id(self) -> int:
        """Under which this runner is registered now; another one after it was declared dead."""
        return self.id

    # What is lost.

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call this when the runner's row is found to be gone: it registers anew, unless it does so, or stops."""
        self._when_gone = callback

    def is_gone(self) -> None:
        """The runner's row is gone."""
        self._when_gone()

    def declared_dead(self, runner_id: int) -> None:
        """The row of that id is gone."""
        if runner_id == self.id:
            self.is_gone()

    def give_up_claims(self) -> None:
        """Others may have what was claimed here, or are going to."""
        self._queues.give_back_waiting()
        self._attempts.cancel_all("claim lost")

    def unconfirmed(self, runner_id: int) -> None:
        """No beat has confirmed for too long that this runner is alive."""
        if runner_id == self.id:
            self.give_up_claims()

    def outdated(self, runner_id: int, migration: str) -> None:
        """The schema has left this program behind."""
        self._events.emit(RunnerOutdated(runner_id=runner_id, migration=migration))
        self._queues.give_back_waiting()

    # Registering.

    async def register(self, duties: Sequence[str]) -> float:
        """Make this runner known under a new id; the instant at which that was sent. One that was known before tries until that
        works, whatever is wrong there.
        """
        failures = 0
        former = self.id or None
        while True:
            sent_at = boottime()
            runner_id = runners.new_runner_id()
            inserting = asyncio.create_task(self._insert_row(runner_id, duties))
            try:
                await asyncio.shield(inserting)
            except asyncio.CancelledError:
                await self._withdraw(runner_id, inserting)
                raise
            except Exception as error:
                failures += 1
                self._events.emit(DatabaseFailed(during="register", error=error))
                is_hopeless = failures >= _REGISTER_TRIES and self._gives_up
                if former is None and (is_hopeless or not is_passing(error)):
                    raise  # later it would end the app, enqueues and all, in a process that goes on
                await asyncio.sleep(backoff_seconds(failures, 2.0, 0.5))
            else:
                break
        self.id = runner_id
        self._events.emit(RunnerRegistered(runner_id=runner_id, formerly=former))
        return sent_at

    async def _insert_row(self, runner_id: int, duties: Sequence[str]) -> None:
        async with self._pool.take() as link:
            await runners.register(
                link,
                runner_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=version("asyncjobs"),
                queues=[one.queue for one in self._queues],
                types=self._types,
                versions=self._versions,
                declares=self._declares,
                name=self._name,
                machine=machine(),
                duties=duties,
                slots={one.queue: {lane.name or "": lane.slots.size for lane in one.lanes.values()} for one in self._queues},
                prefetch={one.queue: one.stock.most for one in self._queues if one.stock.most},
            )
            self.differing = await limits.declare(link, self._limits, runner_id)
            if self.differing:
                self._events.emit(LimitsDiffer(names=[*self.differing]))

    async def _withdraw(self, runner_id: int, inserting: asyncio.Future[None]) -> None:
        """Take away a row that may be there although its insert was not answered: others would take it for a runner. One
        that is cut off may be carried out after this, so it has some time to be answered.
        """
        try:
            await asyncio.wait({inserting}, timeout=_WITHDRAW_SECONDS)
        finally:
            inserting.cancel()
        with contextlib.suppress(Exception), anyio.move_on_after(_WITHDRAW_SECONDS):
            async with self._pool.take() as link:
                await runners.leave(link, runner_id, timeout=_WITHDRAW_SECONDS)
