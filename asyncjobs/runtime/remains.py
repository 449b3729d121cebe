"""What is left of a runner after its stop: handlers that ignored it, and still run in this process.

A program that ends by its own stop was not killed by what it ran. And a job does not run elsewhere while it may still run here.

1. A stop that finds attempts says so with the next beat: the runner's row has `stopped_at`. From then on the runner serves
   nothing, and its end, however it comes, is no death: the rescue gives back what it leaves, with the attempts, and blames no
   job. So a process that is killed in its grace, or that ends before its handlers do, costs no job an attempt.
2. While a handler runs that ignored the stop, the beats go on, from the heartbeat's thread: no other runner takes its job.
3. What such a handler answers after all is written at once, from that thread: in a web application the process and its loop
   may live on for long. It counts as an answer within the grace does. A job that was completed inside its handler's own
   transaction is left to the rescue.
4. A loop that is closed has ended every coroutine of its: those attempts are given back. So is that of a plain function which
   returns when the loop is closed, since nothing is left that could hear what it says.
5. After the last one the runner's row is taken away, and the thread ends. The exit of the process ends the beats, and what still
   runs then is given back by the rescue of others, after `runner_timeout`.

A database that is away is tried again for as long as no other runner can have taken the jobs. An outcome that it refuses is tried
again, too, behind the others.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from asyncjobs.model.claim import Ack, storable
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.service import Service
from asyncjobs.store import jobs, runners
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_refused, is_unsendable
from asyncjobs.telemetry.events import Events

_LOOK_SECONDS: Final = 0.5


class Remains(Service):
    """The attempts that are left. Made in the main loop, and run by the heartbeat's thread, which calls `bind` first."""

    name: ClassVar[str] = "remains"
    longest_backoff_seconds: ClassVar[float] = 1.0

    def __init__(
        self,
        attempts: Sequence[Attempt],
        *,
        runner_id: int,
        max_errors: int,
        wake: Callable[[], None],
        is_confirmed: Callable[[], bool],
    ) -> None:
        super().__init__(events=Events(), interval_seconds=_LOOK_SECONDS)
        self._left = {attempt.claimed.token: attempt for attempt in attempts}
        self._acks: dict[int, Ack] = {}  # by token
        self._runner_id = runner_id
        self._max_errors = max_errors
        self._wake = wake  # from any thread
        self._is_confirmed = is_confirmed
        self._link: Link | None = None

    def bind(self, link: Link, events: Events) -> None:
        """Write over this connection."""
        self._link, self.events = link, events

    def ended(self, attempt: Attempt, ack: Ack) -> None:
        """One has ended. From the main thread."""
        if not attempt.completed_in_transaction:  # else inside a transaction
            self._acks[ack.token] = ack
        self._left.pop(ack.token, None)
        self._wake()

    @property
    def is_empty(self) -> bool:
        """Whether none is left, and all is written."""
        return not self._left and not self._acks

    async def pass_(self) -> float | None:
        """Write what has ended; when nothing is left, take the runner's row away and stop."""
        link = self._link
        if link is None or (not self._left and not self._is_confirmed()):
            self.stop()
            return None
        for token, attempt in tuple(self._left.items()):
            if not attempt.may_go_on:
                self._acks[token] = Ack(attempt.claimed.id, token, Outcome(kind="interrupted"))
                self._left.pop(token, None)
        queues, refusal = await self._write_all(link)
        if queues:
            with suppress(Exception):  # the others poll
                await link.fetch("send_notifications", link.database.channel, [f"f:{queue}" for queue in queues])
        if refusal is not None:
            raise refusal
        if self.is_empty:
            await runners.leave(link, self._runner_id)
            self.stop()
        return None

    async def _write_all(self, link: Link) -> tuple[dict[str, None], Exception | None]:
        """The queues in which a job became pending, and why one was refused."""
        queues, refusal = dict[str, None](), None
        for token, ack in tuple(self._acks.items()):
            try:
                queues |= dict.fromkeys(await self._write(link, ack))
            except Exception as error:
                if not is_refused(error):
                    raise
                refusal = error
            else:
                del self._acks[token]
        return queues, refusal

    async def _write(self, link: Link, ack: Ack) -> Sequence[str]:
        while True:
            try:
                return (await jobs.ack_alone(link, self._runner_id, ack, max_errors=self._max_errors)).heads
            except Exception as error:
                plainer = storable(ack)
                if not is_unsendable(error) or plainer == ack:
                    raise
                ack = plainer
