"""How a runner stops: in this order, finished at the latest a second after its grace, with the database up or down.

1. Claim nothing more, and give back what waits for a slot.
2. Grace: handlers and passes of the application's duties may end by themselves, and may still enqueue. A second stop cuts it
   short.
3. Cancel the handlers that still run. The end of the grace (`cleanup`) is theirs to clean up in, and a moment more.
4. Write the outcomes; what was cancelled goes back to pending at once, with its attempt. A database that is away is given what
   is left of the grace to come back.
5. End the duties and give up their leases; one successor is woken. Roll up what was counted.
6. Take the runner's row away, so that no other has to find out. A database that is slow has what is left of the grace for this,
   too, five seconds at most; one that is known to be away has not. If handlers ignored their cancellation the row stays, and
   says so, and the beats go on: their jobs are not given to others while they run (`runtime/remains.py`).

Handlers that ignored their cancellation are abandoned: neither `asyncio.run` nor the interpreter's exit waits for them.

What an end of a program leaves behind:

- An end of the loop, whatever causes it (`sys.exit` in another task, a second Ctrl-C under `asyncio.run`): a stop, whose handlers
  `asyncio.run` has cancelled already. They are given back with their attempts. The task that stops is not cancelled with them.
- The handler that ends the program with a SystemExit of its own, or of a task group's, has failed.
- A handler that was told to end has `cleanup` seconds, unless a second stop comes; what it then answers counts. So does the
  answer of a plain function that never looked at `ctx.cancelled`.
- A process that is killed while its runner stops, or that ends before its handlers do, charges no attempt.
- What a handler raises after it was told to end is its cleaning up: told in `AttemptEnded`, and not charged.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio

from asyncjobs.runtime.abandoned import hide
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.runner_parts import RunnerParts
from asyncjobs.telemetry.events import DatabaseFailed, RunnerLostItself, RunnerStopped

#: Of the second that a stop may take after its grace, a fifth is for a busy machine and the rest for all of it, closing the app
#: included. Of that: for what happens here, for handlers that were cancelled, for the runner's row. What is left, a quarter of
#: a second at least, is for the outcomes.
_WITHIN_SECONDS: Final = 0.8
_AFTER_GRACE_SECONDS: Final = 0.75
_CANCEL_SECONDS: Final = 0.3
_LEAVE_SECONDS: Final = 0.2
#: Of the grace, unless `cleanup` says otherwise.
_CLEANUP_SHARE: Final = 0.2
_CLEANUP_SECONDS: Final = 5.0
#: For leaving, of a grace that no handler needs any more. Where a statement took longer than a fifth of a second, row and leases
#: were left to expire: the next runner did the duties ten seconds later, and the row was there for `runner_timeout`.
_LEAVE_WITHIN_GRACE_SECONDS: Final = 5.0


class Stopping:
    """Stops a runner, once."""

    def __init__(self, opened: OpenApp, parts: RunnerParts, *, end_tasks: Callable[[], None], let_go: Callable[[], None]) -> None:
        self._opened = opened
        self._parts = parts
        self._end_tasks = end_tasks  # cancels them
        self._let_go = let_go  # of what they used, after the last write
        self._hurry = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the runner stops, or has stopped."""
        return self._task is not None

    async def stop(self, grace: float) -> None:
        """Stop, and return when the runner has stopped. Called again it cuts the grace of the first call short.

        Called by a handler of this runner it only asks: waiting would wait for that handler.
        """
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._stop_for_sure(grace), name="asyncjobs stop")
            hide(self._task)  # a second Ctrl-C has `asyncio.run` cancel every task; the app's owner waits for this one
        else:
            self._hurry.set()
        if not any(attempt.is_current for attempt in self._parts.attempts.all):
            try:
                await asyncio.shield(self._task)
            except asyncio.CancelledError:
                self._hurry.set()  # the caller is in a hurry; what it closes next is still needed for a moment
                await asyncio.shield(self._task)
                raise

    async def wait_stopped(self) -> None:
        """Wait until the runner has stopped."""
        await self._stopped.wait()

    async def _stop_for_sure(self, grace: float) -> None:
        try:
            await self._stop(grace)
        except KeyboardInterrupt:  # Python raises it in whichever task just runs
            await self._stop(0)
            raise
        except asyncio.CancelledError:  # no task has a right to cancel it
            await self._stop(0)
        except Exception as error:
            reason = f"its stop failed: {type(error).__name__}: {error}"
            self._opened.events.emit(RunnerLostItself(runner_id=self._parts.registration.id, reason=reason))
            raise
        finally:
            self._end_tasks()
            self._parts.heartbeat.let_go()
            self._parts.attempts.abandon()
            self._let_go()
            self._stopped.set()

    async def _stop(self, grace: float) -> None:
        began = time.monotonic()
        self._parts.queues.stop()
        self._parts.duties.drain()
        if self._parts.attempts.all:
            self._parts.heartbeat.tell_stop()
        if not await self._wait_grace(grace - self._cleanup_seconds(grace)):
            self._parts.attempts.cancel_all("shutdown")
        all_ended = await self._wait_grace(began + grace - time.monotonic())
        grace_ended_at = time.monotonic()
        self._opened.stop_ends_at = grace_ended_at + _WITHIN_SECONDS
        ends_at = grace_ended_at + _AFTER_GRACE_SECONDS
        at_least_until = ends_at - _LEAVE_SECONDS
        if not all_ended:
            await self._parts.attempts.wait_ended(_CANCEL_SECONDS)
        await asyncio.gather(
            self._write_outcomes(at_least_until, grace_ends_at=began + grace),
            self._close_resources(at_least_until, grace_ends_at=began + grace),
        )
        left = self._parts.attempts.all
        abandoned = sorted(self._parts.line.claims)
        stays = bool(abandoned) or not self._parts.line.is_idle
        if left:
            remains = self._parts.heartbeat.linger(left, max_errors=self._opened.settings.max_errors)
            for attempt in left:
                attempt.hand_over(remains.ended)
        await self._leave(stays=stays, at_least_until=ends_at, grace_ends_at=began + grace)
        seconds = time.monotonic() - began
        self._opened.events.emit(
            RunnerStopped(runner_id=self._parts.registration.id, abandoned_job_ids=abandoned, seconds=seconds)
        )

    def _cleanup_seconds(self, grace: float) -> float:
        given = self._opened.settings.cleanup
        return min(grace * _CLEANUP_SHARE, _CLEANUP_SECONDS) if given is None else min(given, grace)

    async def _wait_grace(self, seconds: float) -> bool:
        """Whether every handler ended by itself, within the grace or until the stop is hurried."""
        await self._wait_unless_hurried(self._wait_ended(seconds))
        return not self._parts.attempts.all

    async def _wait_ended(self, seconds: float) -> None:
        with anyio.move_on_after(max(seconds, 0)):
            await self._parts.attempts.wait_ended(seconds)
            await self._parts.duties.wait_drained()

    async def _write_outcomes(self, at_least_until: float, *, grace_ends_at: float) -> None:
        """Wait until they are written. They are worth what is left of the grace: a database that is away may come back. What it
        refuses is not waited for: the rescue takes those jobs.
        """
        await self._wait_written(at_least_until)
        if not self._is_written:
            await self._wait_unless_hurried(self._wait_written(grace_ends_at))
        if not self._is_written or not self._parts.line.is_idle:
            # The database is away: the rescue of other runners, or of this one when it comes back, takes them.
            self._opened.is_silent = True

    async def _close_resources(self, at_least_until: float, *, grace_ends_at: float) -> None:
        """Close what the attempts shared. A second stop cuts off what is beyond its least time."""
        await self._parts.resources.close(at_least_until)
        if grace_ends_at > at_least_until:
            await self._wait_unless_hurried(self._parts.resources.close(grace_ends_at))
        await self._parts.resources.let_go()

    @property
    def _is_written(self) -> bool:
        parts = self._parts
        return not (parts.keys.unwritten or parts.line.unwritten > parts.line.refused or parts.verifier.ids)

    async def _wait_written(self, until: float) -> None:
        parts = self._parts
        with anyio.move_on_after(max(until - time.monotonic(), 0)):
            await parts.keys.wait_passed_on()  # actors live until the last outcome
            await parts.line.wait_idle()
            await parts.verifier.wait_idle()

    async def _wait_unless_hurried(self, waiting: Coroutine[Any, Any, object]) -> None:
        loop = asyncio.get_running_loop()
        tasks = loop.create_task(waiting), loop.create_task(self._hurry.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _leave(self, *, stays: bool, at_least_until: float, grace_ends_at: float) -> None:
        self._end_tasks()
        now = time.monotonic()
        at_least = max(at_least_until - now, _LEAVE_SECONDS)
        of_grace = 0.0 if self._opened.is_silent else min(grace_ends_at - now, _LEAVE_WITHIN_GRACE_SECONDS)
        leaving = asyncio.create_task(self._left(max(at_least, of_grace), stays=stays), name="asyncjobs leave")
        hide(leaving)
        try:
            await asyncio.wait({leaving}, timeout=at_least)
            if not leaving.done():
                await self._wait_unless_hurried(asyncio.wait({leaving}))
        finally:
            leaving.cancel()
        await asyncio.wait({leaving})
        if leaving.cancelled() or isinstance(leaving.exception(), (TimeoutError, OSError)):
            self._opened.is_silent = True  # others find out by the beat that stopped
        else:
            leaving.result()

    async def _left(self, seconds: float, *, stays: bool) -> None:
        async with asyncio.timeout(seconds):
            kept = await self._parts.duties.end(seconds / 4)
            await asyncio.gather(
                self._parts.heartbeat.stop(timeout_seconds=seconds),
                self._take_row_away(seconds, stays=stays, kept=kept),
                self._write_metrics(seconds),
            )

    async def _write_metrics(self, seconds: float) -> None:
        with suppress(Exception):  # the next roll-up is another runner's: what cannot be written in time is not counted
            await self._parts.metrics.write(timeout=seconds)

    async def _take_row_away(self, seconds: float, *, stays: bool, kept: Sequence[str]) -> None:
        try:
            await self._parts.duties.leave(self._parts.registration.id, kept=kept, stays=stays, timeout=seconds)
        except Exception as error:  # noqa: BLE001 - the row that stays is found by the others
            self._opened.events.emit(DatabaseFailed(during="leave", error=error))
