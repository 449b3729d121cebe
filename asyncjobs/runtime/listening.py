"""Hear of work at once: the task that keeps a LISTENing connection.

A notification is a hint, never a fact: a missed one costs latency, at most the poll interval (P6). What may happen, in which
order:

1. Connect, LISTEN, then wake everybody, then they claim. A job committed before the LISTEN is found by that claim, one
   committed after it is notified. Claiming first would lose a job of the gap until the next poll.
2. Notifications wake the subscribers. Subscriptions belong to the registry (`runtime/wakes.py`), not to this task: when it
   dies and is started again, or connects anew, they are all still there.
3. Each `keepalive_seconds` the connection is asked for a sign of life, with a time-out of 2 s. A closed connection is seen at
   once. So a silent one is replaced after keepalive + 10 % + 2 s at the latest, 13 s by default. Until then a
   job that only a notification would have told of waits for the poll.
4. A connection that is lost is dropped without a word to its peer, which may be dead, and replaced after 0.1 s. If that
   fails, or the new one is lost before its first sign of life, the waits double. Back to 1.
5. At the first connect a probe is sent through the notifier. A pooler accepts LISTEN and then never delivers anything. If the
   probe was sent, does not come back within `probe_seconds` and the connection answers all the same, then `notify="auto"`
   warns once, lets everybody look, and polls from then on, and `notify="listen"` refuses to start. A probe that could not be
   sent says nothing: it is repeated.
6. What this process notified itself wakes no part again: it was woken in memory when it was sent. (Heard twice, each enqueue
   of an embedded runner would cost a claim that finds nothing.) But who of it was called for jobs, and cannot take them, says so.
"""

import asyncio
import math
import secrets
from typing import ClassVar, Literal

from asyncjobs.errors import ConfigurationError
from asyncjobs.runtime.notifier import Notifier
from asyncjobs.runtime.service import Service, backoff_seconds
from asyncjobs.runtime.wakes import KINDS, Wakes
from asyncjobs.store.database import Database
from asyncjobs.store.listener import Listener
from asyncjobs.telemetry.events import Events, ListenerConnected, ListenerFellBack, ListenerLost, NotificationHeard

Notify = Literal["auto", "listen", "poll"]
Mode = Literal["listen", "poll", "probing"]

_LONGEST_RECONNECT_SECONDS = 5.0
#: How often what notifications tell of is looked for without one; the second where none arrive.
_POLL_SECONDS = 5.0
_POLL_SECONDS_WITHOUT_LISTEN = 1.0


class Listening(Service):
    """Keeps the listening connection. `mode` tells whether notifications arrive: "probing" until that is known."""

    name: ClassVar[str] = "listening"

    def __init__(
        self,
        database: Database,
        wakes: Wakes,
        notifier: Notifier,
        *,
        events: Events,
        notify: Notify = "auto",
        keepalive_seconds: float = 10.0,
        probe_seconds: float = 2.0,
        timeout_seconds: float = 2.0,
        poll_interval: float | None = None,
    ) -> None:
        super().__init__(events=events, interval_seconds=keepalive_seconds)
        self.mode: Mode = "poll" if notify == "poll" else "probing"
        self.connects = 0
        self._database = database
        self._wakes = wakes
        self._notifier = notifier
        self._notify = notify
        self._probe_seconds = probe_seconds
        self._poll_interval = poll_interval
        self._listener = Listener(database, on_notification=self._heard, on_lost=self._ended, timeout_seconds=timeout_seconds)
        self._short_lives = 0  # connections in a row that were lost before their first sign of life
        self._token = ""
        self._token_heard = asyncio.Event()
        self._decided = asyncio.Event()
        self._refusal: ConfigurationError | None = None

    @property
    def is_connected(self) -> bool:
        """Whether notifications may be coming in, as far as is known."""
        return self._listener.is_open

    def listens_on(self) -> int | None:
        """The server's process that notifies us. From any thread."""
        return self._listener.backend_pid

    def hears(self) -> bool:
        """Whether notifications come in, as is known."""
        return self.mode == "listen" and self._listener.is_open

    def poll_seconds(self) -> float:
        """How often to look for what notifications tell of."""
        if self._poll_interval is not None:
            return self._poll_interval
        return _POLL_SECONDS if self.mode == "listen" else _POLL_SECONDS_WITHOUT_LISTEN

    def unheard_seconds(self) -> float:
        """How often to look for what nothing but a notification tells of before the next sweep: never where they arrive."""
        return self.poll_seconds() if self.mode == "poll" else math.inf

    async def wait_decided(self) -> Mode:
        """Wait until it is known whether notifications arrive. If not, `notify="listen"` raises ConfigurationError."""
        await self._decided.wait()
        if self._refusal is not None:
            raise self._refusal
        return self.mode

    async def run(self) -> None:
        """Keep listening until cancelled; ends by itself when there is nothing to be heard."""
        try:
            await super().run()
        finally:
            self._listener.abort()

    async def pass_(self) -> float | None:
        """See that the connection lives, or make a new one; find out whether notifications arrive."""
        if self.mode == "poll":
            self._decide()
            return None
        if self._listener.is_open:
            await self._keep_alive()
        else:
            await self._connect()
        if self.mode == "probing":
            await self._probe()
        return None

    async def _connect(self) -> None:
        await self._listener.listen()
        self.connects += 1
        self.events.emit(ListenerConnected(reconnect=self.connects > 1))
        self._wakes.missed()

    async def _keep_alive(self) -> None:
        try:
            await self._listener.ping()
        except Exception as error:
            self.events.emit(ListenerLost(reason=f"no sign of life: {type(error).__name__}"))
            raise
        self._short_lives = 0

    async def _probe(self) -> None:
        self._token = secrets.token_hex(8)
        self._token_heard.clear()
        self._notifier.notify("t:" + self._token)
        if not await self._notifier.flush(self._probe_seconds):
            raise TimeoutError("the probe could not be sent")
        try:
            async with asyncio.timeout(self._probe_seconds):
                await self._token_heard.wait()
        except TimeoutError:
            await self._keep_alive()
        if self._token_heard.is_set():
            self.mode = "listen"
            self._decided.set()
        elif self._listener.is_open:
            await self._give_up()

    async def _give_up(self) -> None:
        reason = f"a notification was sent and did not come back within {self._probe_seconds:g} s"
        if self._notify == "listen":
            self._refusal = ConfigurationError(
                f'notify="listen": {reason}, as behind a pooler in transaction mode. '
                'Give a listen_dsn= that goes around it, or use notify="auto" or "poll".'
            )
        else:
            self.events.emit(ListenerFellBack(reason=reason))
        self.mode = "poll"
        await self._listener.close()
        self._decide()
        self._wakes.missed()

    def _decide(self) -> None:
        self._decided.set()
        self.stop()

    def _heard(self, payload: str, pid: int) -> None:
        if payload == "t:" + self._token:
            self._token_heard.set()
        elif pid == self._notifier.backend_pid:
            self._wakes.heard_own(payload)
        else:
            if self.events.wants(NotificationHeard):
                kind = payload.partition(":")[0].rstrip(".0123456789")  # of jobs it is followed by their number and a lot
                self.events.emit(NotificationHeard(kind=kind if kind in KINDS else "other"))
            self._wakes.heard(payload)

    def _ended(self) -> None:
        self._short_lives += 1
        self.events.emit(ListenerLost(reason="the connection was closed"))
        self.wake_within(backoff_seconds(self._short_lives, _LONGEST_RECONNECT_SECONDS, self._chance()))
