"""What an open app holds, from its first open to its last close: connections, the enqueue lines, the notifier.

One *owner task* opens and closes what is here; entering and leaving an app may happen in different tasks (test clients,
fixtures). What runs meanwhile are the app's parts (`runtime/parts.py`), which nothing but their stop ends.

An owner that is cancelled from outside sees the loop end (`asyncio.run` cancels every task there is): runners that no code stops
are stopped, those that are being stopped are waited for, then the app closes. Without that the parts, which go on, would keep the
loop from ending.

Closing: a runner that still runs is stopped first (KeyboardInterrupt may have struck the task that was to stop it). What was
handed in is written and announced for at most `FLUSH_SECONDS`, then every task is cancelled and every connection closed; a dead
database does not hold it up. After the stop of a runner both have only what is left of the second that a stop may take: a server
that has just gone silent is not known to be so, and each polite wait for it would come on top.
"""

import asyncio
import contextvars
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from asyncjobs.connections import Connection
from asyncjobs.errors import DatabaseUnavailable, JobNotFound, UsageError, WaitTimeout, WrongLoop
from asyncjobs.model.breaker import Policy
from asyncjobs.model.ending import AwaitedKind, Ending
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.model.status import FINAL
from asyncjobs.runtime import callers
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.runtime.enqueuer import Enqueuer
from asyncjobs.runtime.notifier import Notifier
from asyncjobs.runtime.parts import Parts
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.settings import Settings
from asyncjobs.store import jobs, migrate
from asyncjobs.store.database import Database, Link
from asyncjobs.store.failures import DATABASE_ERRORS, is_passing, said_plainly
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events, JobEnqueued

T = TypeVar("T")

FLUSH_SECONDS: Final = 1.0
#: For the server to close a connection that it was asked to. The request is on its way by then: nothing hangs on the answer.
_POLITE_SECONDS: Final = 0.2
_HASTY_SECONDS: Final = 0.05
_FIRST_LOOK_SECONDS: Final = 0.02
_LAST_LOOK_SECONDS: Final = 0.5
_WAITING: Final = " With connect_timeout=None opening waits until it does."


class Stoppable(Protocol):
    """A runner, as its app knows it."""

    async def see_stopped(self) -> None:
        """Stop it if no other task does; return when it has stopped."""


class OpenApp:
    """An open app, in the loop that opened it."""

    def __init__(self, database: Database, settings: Settings, events: Events, breakers: Sequence[Policy] = ()) -> None:
        self.database = database
        self.settings = settings
        self.events = events
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self.waits_told: set[tuple[str, str]] = set()  # types of handlers that wait, and for which
        self.is_silent = False  # a runner that stopped could not get through to the database: nothing waits for it any more
        self.stop_ends_at = 0.0  # time.monotonic() by which the latest stop of a runner is to be over, closing included
        self.parts = Parts(events)
        self.pool = Pool(database, settings.pool_size)
        self.notifier = Notifier(database.link("notifier"), events=events)
        self.wakes = Wakes(self.notifier.notify)
        self.breakers = Breakers(
            self.pool, self.wakes, breakers, events=events, start=self.parts.start, look_seconds=settings.poll_interval
        )
        self._enqueuer = Enqueuer(
            database, self.pool, self.wakes, self.parts.start, events=events, retry_seconds=settings.reach_seconds
        )
        self.runners: list[Stoppable] = []  # that have started, and have not stopped
        self._closing = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, database: Database, settings: Settings, events: Events, *, migrates: bool, breakers: Sequence[Policy] = ()
    ) -> "OpenApp":
        """Connect (with back-off, for at most `connect_timeout`; None: for as long as it takes), check or migrate the schema,
        start the owner task.

        Raises DatabaseUnavailable and SchemaError.
        """
        await _connected(database, settings, events, migrates=migrates)
        opened = cls(database, settings, events, breakers)
        ready: asyncio.Future[None] = opened.loop.create_future()
        opened._owner = opened.loop.create_task(opened._own(ready), name="asyncjobs", context=contextvars.Context())
        opened._owner.add_done_callback(lambda _: ready.cancel())  # one that is cancelled before its first step never enters it
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            await opened.close()
            raise
        return opened

    async def _own(self, ready: "asyncio.Future[None]") -> None:
        try:
            self.parts.start("notifier", self.notifier.run)
            if self.breakers.services:
                self.parts.start("breakers", self.breakers.run)
            ready.set_result(None)
            await self._wait_closing()
            if not self.is_silent:
                await self._flush()
        finally:
            await self.parts.stop()
            timeout = _HASTY_SECONDS if self.is_silent else _POLITE_SECONDS
            await asyncio.gather(
                self._enqueuer.close(timeout=timeout), self.pool.close(timeout=timeout), self.notifier.close_link(timeout=timeout)
            )

    async def _wait_closing(self) -> None:
        try:
            await self._closing.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # who entered the runners is cancelled as well, and stops them now
            raise
        finally:
            for runner in tuple(self.runners):
                await runner.see_stopped()

    @property
    def has_ended(self) -> bool:
        """Whether the owner has ended: by closing, or because it was cancelled."""
        return self._owner is not None and self._owner.done()

    def loop_ends(self) -> bool:
        """Whether the owner was cancelled, as `asyncio.run` does with every task at its end."""
        return self._owner is not None and self._owner.cancelling() > 0

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(self._flush_seconds()):
                await self.breakers.flush()
                await self._enqueuer.flush()
                await self.notifier.flush(FLUSH_SECONDS)
        except TimeoutError:
            pass  # callers are told by their own errors, listeners by their polls

    def _flush_seconds(self) -> float:
        left = self.stop_ends_at - time.monotonic()
        if left <= 0:  # no runner, or one that stopped long ago
            return FLUSH_SECONDS
        return min(FLUSH_SECONDS, max(left - _POLITE_SECONDS, _HASTY_SECONDS))

    async def close(self) -> None:
        """Close. Waits for the owner task even when the caller is cancelled meanwhile."""
        self._closing.set()
        try:
            if self._owner is not None:
                await asyncio.shield(self._owner)
        finally:
            await self.pool.close(timeout=_HASTY_SECONDS)  # used by a runner's stop, if the owner was cancelled from outside

    def check_usable(self) -> None:
        """Raise WrongLoop when this is another event loop, UsageError in a forked child."""
        if os.getpid() != self.pid:
            raise UsageError(f"opened in process {self.pid} and used in its fork {os.getpid()}: open it after the fork.")
        if asyncio.get_running_loop() is not self.loop:
            raise WrongLoop(
                f"opened in loop {id(self.loop):#x}, used from loop {id(asyncio.get_running_loop()):#x}: "
                "await it in the loop that it was opened in."
            )

    async def enqueue(
        self, rows: Sequence[NewRow], *, connection: Connection | None = None, many: bool = False
    ) -> list[Enqueued]:
        """Write the rows; durable when this returns, or with the commit of `connection`. `many`: in one transaction."""
        self.check_usable()
        if connection is not None:
            enqueued = await callers.enqueue(connection, self.database, rows)
        elif many:
            enqueued = await self._enqueuer.enqueue_many(rows)
        else:
            enqueued = [await self._enqueuer.enqueue(row) for row in rows]
        callers.tell(self.events, rows, enqueued, connection)
        return enqueued

    async def enqueue_one(self, row: NewRow) -> Enqueued:
        """`enqueue` of one row, on asyncjobs' own connection, for a caller who has seen to it that this is the right loop."""
        enqueued = await self._enqueuer.enqueue(row)
        if self.events.wants(JobEnqueued):
            self.events.emit(JobEnqueued(job_id=enqueued.id, type=row.type, queue=row.queue, created=enqueued.created))
        return enqueued

    async def get(self, job_id: int) -> Job | None:
        """The job, or None."""
        self.check_usable()
        return await self.read(partial(jobs.get, job_id=job_id))

    async def ended_among(self, ids: Sequence[int], *, gone: bool) -> list[Ending]:
        """Those of the jobs that have ended, and with `gone` those that are not there."""
        self.check_usable()
        return await self.read(partial(jobs.ended_among, ids=ids, gone=gone))

    async def awaited_kinds(self, ids: Sequence[int], key: str | None) -> list[AwaitedKind]:
        """Of the jobs that have not started, one of each kind."""
        return await self.read(partial(jobs.awaited_kinds, ids=ids, key=key))

    async def read(self, call: Callable[[Link], Awaitable[T]]) -> T:
        """What was read, however often a connection breaks. DatabaseUnavailable when that takes longer than connect_timeout."""
        until, failures = time.monotonic() + self.settings.reach_seconds, 0
        while True:
            try:
                async with self.pool.take() as link:
                    return await call(link)
            except Exception as error:
                if not is_passing(error):
                    raise
                failures += 1
                pause = backoff_seconds(failures, 1.0, 0.5)
                if time.monotonic() + pause > until:
                    raise unavailable(self.database, self.settings, error) from error
                await asyncio.sleep(pause)

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job when it has ended. Told at once when it ends in this process, else found by looking now and then.

        Raises JobNotFound, WaitTimeout (seconds), and DatabaseUnavailable when it is away for longer than connect_timeout.
        """
        self.check_usable()
        ended = asyncio.Event()
        forget = self.wakes.wait_for((job_id,), lambda _: ended.set())
        try:
            async with asyncio.timeout(timeout):
                await self._wait_final(job_id, ended)
                job = await self.get(job_id)
        except TimeoutError:
            raise WaitTimeout(f"job {job_id} had not ended after {timeout:g} s.", job_id=job_id) from None
        finally:
            forget()
        if job is None:
            raise not_found(job_id)
        return job

    async def _wait_final(self, job_id: int, ended: asyncio.Event) -> None:
        pause = _FIRST_LOOK_SECONDS
        while True:
            ended.clear()
            status = await self.read(partial(jobs.status, job_id=job_id))
            if status is None:
                raise not_found(job_id)
            if status in FINAL:
                return
            try:
                async with asyncio.timeout(pause):
                    await ended.wait()
            except TimeoutError:
                pause = min(pause * 1.5, _LAST_LOOK_SECONDS)


def not_found(job_id: int) -> JobNotFound:
    """What is said of a job that is not there."""
    return JobNotFound(
        f"there is no job {job_id}: its enqueue is not committed yet or was rolled back, or it was pruned.", job_id=job_id
    )


async def _connected(database: Database, settings: Settings, events: Events, *, migrates: bool) -> None:
    until = math.inf if settings.connect_timeout is None else time.monotonic() + settings.connect_timeout
    failures = 0
    while True:
        try:
            async with asyncio.timeout(None if until == math.inf else max(until - time.monotonic(), 0.1)):
                if migrates:
                    await migrate.migrate(database, allow_breaking=False)
                return await migrate.check(database)
        except DATABASE_ERRORS as error:
            failures += 1
            pause = backoff_seconds(failures, 1.0, 0.0)
            if not is_passing(error) or time.monotonic() + pause > until:
                raise unavailable(database, settings, error, hint=_WAITING) from error
            events.emit(DatabaseFailed(during="open", error=said_plainly(error)))
            await asyncio.sleep(pause)


def unavailable(database: Database, settings: Settings, error: Exception, *, hint: str = "") -> DatabaseUnavailable:
    """What is said of a database that was not there in time. `hint`: what to do about it."""
    reason = str(said_plainly(error)) or type(error).__name__
    if not is_passing(error):
        return DatabaseUnavailable(f"{database.place} cannot be used: {reason}.")
    return DatabaseUnavailable(
        f"{database.place} did not answer within {settings.reach_seconds:g} s (connect_timeout): {reason}.{hint}"
    )
