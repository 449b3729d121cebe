"""Tell the other processes that there is something to do, after the commit that made it so.

NOTIFY holds a lock of the whole cluster until its transaction has committed, so it stays out of the transaction of the
enqueue (in it, enqueues of 16 connections took 2.8 times as long). Instead:

1. `notify(payload)` only marks the payload as pending. A thousand marks of one queue while a NOTIFY is on its way are one.
2. The notifier's task takes what is pending and sends it as one statement on a connection of its own, with a time-out of 1 s.
   What is marked meanwhile goes with the next statement, which begins a millisecond after this one began at the earliest: of
   enqueues that come one after another, each would send its own, and spend a third of its time on it. While marks come thicker
   than two in a millisecond the next waits twice as long, up to 4 ms: listeners that hear so often are busy, and eight jobs a
   look cost them less than two. A mark that comes after a quiet millisecond goes at once.
3. If that fails, the connection is aborted, the marks are put back, and the loop backs off and sends them again: a listener
   may hear a notification twice, never not at all while this process lives. What can never be sent (it does not fit) is
   dropped.
4. Of a queue the numbers of jobs are added up, and each statement draws lots for them (`runtime/herd.py`); what was marked
   without a number calls all. Those that were passed on so many times are added up by themselves.
5. A process that dies between its commit and its NOTIFY leaves listeners to their poll interval. That is the bound of P6, and
   the reason why nothing but latency may depend on a notification.
"""

import asyncio
import re
from typing import ClassVar, Final

from asyncjobs.model.chance import CHANCE
from asyncjobs.model.peers import LOTS
from asyncjobs.runtime.service import Service
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import Events, NotificationsSent

#: One more is an error for the whole statement.
_LONGEST_BYTES = 7999
#: A number of jobs, and a lot.
_LOT_BYTES = 21
_MOST_JOBS = 10**9
#: Of a queue: how many jobs it is marked with, and how often they were passed on.
_MARK: Final = re.compile(r"([qf])([1-9][0-9]*)((?:\.[0-9])?):(.*)", re.ASCII | re.DOTALL)

#: Between the beginnings of two statements, at least: so long, and so many times as long in a stream of marks.
_APART_SECONDS = 0.001
_MOST_TIMES = 4
#: As many marks as make it a stream, for each time.
_STREAM = 2

#: Until a failed NOTIFY is tried again, at most. Behind it the others still have their polls.
_LONGEST_BACKOFF_SECONDS = 5.0


class Notifier(Service):
    """Sends NOTIFYs. The link is the notifier's alone; its maker closes it after the notifier's task has ended."""

    name: ClassVar[str] = "notifier"

    def __init__(
        self, link: Link, *, events: Events, timeout_seconds: float = 1.0, apart_seconds: float = _APART_SECONDS
    ) -> None:
        super().__init__(events=events, interval_seconds=_LONGEST_BACKOFF_SECONDS)
        self.sent = 0
        self.backend_pid: int | None = None
        self._link = link
        self._timeout_seconds = timeout_seconds
        self._apart_seconds = apart_seconds
        self._next_at = 0.0
        self._times = 1
        self._marks = 0  # since the last statement, whether they are one payload or many
        self._pending: dict[str, int] = {}  # with how many jobs; 0: not known, or no queue's
        self._sending: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def notify(self, payload: str) -> None:
        """Mark the payload to be sent. A plain function that never fails and never waits."""
        self._marks += 1
        payload, count = _counted(payload)
        known = self._pending.get(payload)
        if known is not None:
            self._pending[payload] = known and count and known + count
        elif _fits(payload):
            self._pending[payload] = count
            self._idle.clear()
            self.wake()

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was marked has been sent; False if that took longer than `timeout_seconds`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close_link(self, *, timeout: float = 1.0) -> None:
        """Close the connection, after the task has ended; politely for at most `timeout` seconds."""
        await self._link.close(timeout=timeout)

    async def pass_(self) -> float | None:
        """Send what is pending."""
        while self._pending:
            early = self._next_at - self._monotonic()
            if early > 0:
                await asyncio.sleep(early)
            self._times = times_apart(self._times, self._marks)
            self._marks = 0
            self._next_at = self._monotonic() + self._apart_seconds * self._times
            self._sending, self._pending = self._pending, {}
            try:
                await self._send([_with_lot(*one) for one in self._sending.items()])
            except BaseException:
                for payload, count in self._sending.items():
                    known = self._pending.get(payload, count)
                    self._pending[payload] = known and count and known + (count if payload in self._pending else 0)
                raise
        self._idle.set()
        return None

    async def _send(self, payloads: list[str]) -> None:
        async with asyncio.timeout(self._timeout_seconds + self._connecting_seconds()):
            connection = await self._link.connection()
            self.backend_pid = connection.get_server_pid()
            await self._link.fetch_often(
                "send_notifications", self._link.database.channel, payloads, timeout=self._timeout_seconds
            )
        self.sent += len(payloads)
        if self.events.wants(NotificationsSent):
            self.events.emit(NotificationsSent(count=len(payloads)))

    def _connecting_seconds(self) -> float:
        return 0.0 if self._link.is_open else self._link.database.connect_timeout


def times_apart(times: int, marks: int) -> int:
    """How many times as far apart the next statement is, after this one gathered so many marks."""
    return min(times * 2, _MOST_TIMES) if marks >= _STREAM * times else 1


def _counted(payload: str) -> tuple[str, int]:
    """A queue, and of how many jobs it was marked."""
    mark = _MARK.fullmatch(payload)
    return (payload, 0) if mark is None else (f"{mark[1]}{mark[3]}:{mark[4]}", min(int(mark[2]), _MOST_JOBS))


def _with_lot(payload: str, count: int) -> str:
    return payload if not count else f"{payload[0]}{min(count, _MOST_JOBS)}.{CHANCE.randrange(LOTS)}{payload[1:]}"


def _fits(payload: str) -> bool:
    # A row that was written past asyncjobs may have any text as its queue.
    try:
        return len(payload.encode()) + _LOT_BYTES <= _LONGEST_BYTES and "\0" not in payload
    except UnicodeEncodeError:
        return False
