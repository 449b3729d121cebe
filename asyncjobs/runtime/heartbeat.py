"""Say that this runner lives, from a thread, a loop and a connection of its own, and watch the main loop from there.

A handler that blocks the main loop must not get its runner declared dead. The rules:

1. A beat per `heartbeat_seconds`, each with a time-out of that length. A beat that fails is tried again with back-off. To
   connect, and to beat while the runner is not confirmed, it has two seconds at least: what is cut off begins again with a new
   connection, and on a busy host that never ended.
2. No row for our id: others declared this runner dead, and its jobs are theirs. `on_declared_dead` is called, once; beats go
   on when `follow` names the id under which the runner registered anew. The answer to a beat counts for the id that it was
   sent for alone: what is followed is compared and changed under a lock, since the main loop may call `follow` meanwhile.
3. Confirmed is a beat as of when it was *sent*. Without one for 5/6 of `runner_timeout` on our own CLOCK_BOOTTIME
   `on_unconfirmed` is called, once until the next confirmed beat: others may declare us dead from then on, so attempts have
   to stop now. It takes two observers' clocks of equal speed, and no agreement about the time of day. Nothing begins from the
   same instant on (`is_confirmed`), whether or not that call has come: of a process that was frozen it comes late.
4. A main loop that has not turned for `stall_after_seconds` is reported with the task that blocks it and the stack of its
   thread, and again each time the stall has doubled. The report is emitted from the heartbeat's thread: the main loop could
   not. When a signal asks for the stop meanwhile, which such a loop does not hear, the next report says so and does not wait.
5. A main loop that has not turned for `stall_limit_seconds` is as good as dead: the beat stops on purpose, and the jobs are
   taken back by others. If the loop turns again, beats go on, and rule 2 or 3 says what became of it. The session that listens
   for it is ended: 200,000 notifications that such a loop did not read kept its backend in the middle of sending them, with a
   snapshot that kept vacuum from all tables. A loop that turns again listens anew.
6. A beat's answer names a migration that this program is too old for, as soon as there is one. `on_outdated` is called, once:
   nothing is claimed or begun from then on, no lease is renewed, and what runs may end. Its start would refuse the schema, too.

With a `leader` its leases ride on the beats (`runtime/leader.py`). They are renewed only while the main loop turns; the beat goes
on regardless.

7. A runner that stops while handlers run says so with each beat from then on. While some of them go on after its stop, so does
   this thread, without leases: `runtime/remains.py`. It ends with the last of them, and before the interpreter does: processes
   were seen to crash at such an exit (SIGSEGV), and a thread that goes on while the interpreter is taken apart is what may do so.

C code that holds the interpreter's lock stops this thread as well. A crash of the process leaves the row to the rescuers.
"""

import asyncio
import atexit
import contextlib
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from asyncjobs.model.peers import Peers
from asyncjobs.model.storable import in_ascii
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.leader import Leader
from asyncjobs.runtime.parts import Parts
from asyncjobs.runtime.remains import Remains
from asyncjobs.runtime.service import Service
from asyncjobs.store import leases, runners
from asyncjobs.store.database import Database, Link
from asyncjobs.telemetry.events import Event, Events, LoopStalled, RunnerLostItself

_TRUST = 5 / 6
_STACK_FRAMES = 12
_UNHURRIED_SECONDS = 2.0
#: Leases are renewed only if the main loop has turned within this time: it is what does the duties.
_TURNED_SECONDS = 3.0
_CLOSE_SECONDS: Final = 0.5
#: How long the interpreter's exit waits for these threads, and what they have then to write, and to close politely.
_EXIT_SECONDS: Final = 0.5
_LAST_PASS_SECONDS: Final = 0.3
_CLOSE_AT_EXIT_SECONDS: Final = 0.05


class MainLoop:
    """The main loop as seen from another thread: since when it has not turned, and what stands in its way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events: Events, *, stall_after_seconds: float) -> None:
        self._loop = loop
        self._events = events
        self._thread = threading.get_ident()
        self._stall_after_seconds = stall_after_seconds
        self.lag_seconds = 0.0  # how long its last answer took
        self._asked_at: float | None = None  # None: it answered
        self._report_at = stall_after_seconds
        self._stop_asked = self._stop_told = False

    def note_stop(self) -> None:
        """A signal has asked for the stop. From any thread, and from a signal's handler: it takes no lock."""
        self._stop_asked = True

    @property
    def stalled_seconds(self) -> float:
        """For how long it has owed us an answer."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    def call(self, callback: Callable[..., None], *args: object) -> None:
        """Call back in the main loop. One that is closed has no task left that could want it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def watch(self) -> None:
        """Ask for a sign of life, or report that the last one is still awaited. A loop that is closed owes none."""
        if self._loop.is_closed():
            self._asked_at = None
        elif self._asked_at is None:
            self._report_at = self._stall_after_seconds
            self._asked_at = time.monotonic()
            self.call(self._answer)
        elif self.stalled_seconds >= (self._report_at if self._stop_told or not self._stop_asked else self._stall_after_seconds):
            self._report_at = 2 * self.stalled_seconds
            stop_asked = self._stop_told = self._stop_asked
            self._events.emit(
                LoopStalled(seconds=self.stalled_seconds, task=self._task(), stack=self._stack(), stop_asked=stop_asked)
            )

    def _answer(self) -> None:
        self.lag_seconds = self.stalled_seconds
        self._asked_at = None

    def _task(self) -> str | None:
        task = asyncio.current_task(self._loop)
        return None if task is None else task.get_name()

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the documented way to another thread's stack
        return "".join(traceback.format_stack(frame, limit=None)[-_STACK_FRAMES:]) if frame is not None else ""


class Heartbeat:
    """Beats for one runner. Made and used in the main loop; `on_…` are called there, with the runner's id."""

    thread_class: "ClassVar[type[BeatThread]]"

    def __init__(
        self,
        database: Database,
        *,
        events: Events,
        on_declared_dead: Callable[[int], None],
        on_unconfirmed: Callable[[int], None],
        on_outdated: Callable[[int, str], None] = lambda *_: None,
        troubles: Callable[[], Sequence[str]] = tuple,
        listener: Callable[[], int | None] = lambda: None,
        heartbeat_seconds: float = 5.0,
        answer_seconds: float | None = None,
        runner_timeout_seconds: float = 30.0,
        stall_after_seconds: float = 1.0,
        stall_limit_seconds: float = 60.0,
        clock: Callable[[], float] = boottime,
        leader: Leader | None = None,
    ) -> None:
        self.events = events
        self.leader = leader
        self.on_declared_dead = on_declared_dead
        self.on_unconfirmed = on_unconfirmed
        self.on_outdated = on_outdated
        self.parts_troubles = troubles
        self.listener = listener  # the server's process that notifies the main loop
        self.heartbeat_seconds = heartbeat_seconds
        #: How long a beat may take: an interval.
        self.answer_seconds = heartbeat_seconds if answer_seconds is None else answer_seconds
        self.trust_seconds = runner_timeout_seconds * _TRUST
        self.stall_after_seconds = stall_after_seconds
        self.stall_limit_seconds = stall_limit_seconds
        self.clock = clock
        self.runner_id: int | None = None
        self._following = threading.Lock()  # changes of what is followed, and until when that is trusted; never across a wait
        self.stops = False  # as each beat says
        self.outdated_by: str | None = None  # the migration that this program is too old for
        self.other_runners = 0  # at the last confirmed beat
        self._order = Peers((), 0)
        self.peers: frozenset[int] = frozenset()  # those that were awake then, and serve the same
        self.confirmed_at = clock()
        self.beats = 0  # confirmed ones
        self._may_begin_until = -math.inf
        self._link = database.link("heartbeat", command_timeout=self.answer_seconds)
        self._thread: BeatThread | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether no other runner can have declared this runner dead yet."""
        return self.runner_id is not None and self.clock() - self.confirmed_at < self.trust_seconds

    def may_begin(self) -> bool:
        """Whether its runner may claim and begin: it is confirmed, and not too old for the schema."""
        return self.clock() < self._may_begin_until

    def others(self) -> int:
        """How many other runners were alive at the last beat."""
        return self.other_runners

    def place(self, draw: int, most: int) -> int | None:
        """How many of its peers, as of the last beat, come before this runner in the order of a draw; None: so many or more."""
        return self._order.place(draw, most)

    def see_until_when_it_may(self) -> None:
        """Note it for `may_begin`, which each attempt asks. To be called when what it depends on has changed."""
        may_it = self.runner_id is not None and self.outdated_by is None
        self._may_begin_until = self.confirmed_at + self.trust_seconds if may_it else -math.inf

    def follow(self, runner_id: int, *, sent_at: float | None = None) -> None:
        """Beat for this runner from now on. It is registered already; `sent_at` is when that statement was sent, by `clock`."""
        with self._following:
            self.confirmed_at = self.clock() if sent_at is None else sent_at
            self.runner_id = runner_id
            self.peers, self._order = frozenset(), Peers((), runner_id)
            self.see_until_when_it_may()
        if self._thread is not None:
            self._thread.beat_now()

    def confirm(self, runner_id: int, *, sent_at: float, others: int, peers: Sequence[int] = ()) -> bool:
        """A beat for this runner was confirmed. False: another one is followed by now, and nothing was changed."""
        with self._following:
            if runner_id != self.runner_id:
                return False
            self.confirmed_at = sent_at
            self.other_runners = others
            if self.peers != (known := frozenset(peers)):
                self.peers, self._order = known, Peers(known, runner_id)
            self.beats += 1
            self.see_until_when_it_may()
            return True

    def lose(self, runner_id: int) -> bool:
        """This runner has no row: follow none. False: another one is followed by now, and nothing was changed."""
        with self._following:
            if runner_id != self.runner_id:
                return False
            self.runner_id = None
            self.see_until_when_it_may()
            return True

    def start(self) -> None:
        """Start the thread. In the main loop."""
        if self._thread is None:
            self._thread = self.thread_class(self, self._link)
            self._thread.start()

    def beat_now(self) -> None:
        """Beat at once: there is a lease to take."""
        if self._thread is not None:
            self._thread.beat_now()

    def tell_stop(self) -> None:
        """Say, at once and with each beat, that this runner stops by itself."""
        self.stops = True
        self.beat_now()

    def note_stop_signal(self) -> None:
        """A signal has asked for the stop: if the main loop does not turn, that is told. From a signal's handler."""
        if self._thread is not None:
            self._thread.main.note_stop()

    def linger(self, attempts: Sequence[Attempt], *, max_errors: int) -> Remains:
        """Beat on until these have ended, and write what they end in. The thread sees to it alone from now on."""
        thread, self._thread = self._thread, None
        if thread is None:
            raise RuntimeError("nothing beats")
        self.leader = None
        remains = Remains(
            attempts, runner_id=self.runner_id or 0, max_errors=max_errors, wake=thread.wake_remains,
            is_confirmed=lambda: self.is_confirmed,
        )  # fmt: skip
        thread.linger(remains)
        return remains

    async def stop(self, *, timeout_seconds: float = 1.0) -> None:
        """End the thread and its connection. Beats end with it; twice is the same as once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop(timeout_seconds)

    def let_go(self) -> None:
        """End the thread, if it has not been told to end, and does not linger."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.ask_end()

    @property
    def turn_age_seconds(self) -> float | None:
        """Seconds since the loop of beats last turned; None before the first time."""
        return None if self._thread is None else self._thread.turn_age_seconds

    def troubles(self, *, within: float = 0.0) -> list[str]:
        """Parts of this thread that do not do what they are for, or were started again within so many seconds, in words."""
        return [] if self._thread is None else self._thread.troubles(within=within)

    @property
    def loop_stalled_seconds(self) -> float:
        """For how long the main loop has owed this thread an answer. From any thread."""
        return 0.0 if self._thread is None else self._thread.main.stalled_seconds

    @property
    def loop_lag_seconds(self) -> float:
        """How long the main loop made the last call wait that was meant for it at once, or makes it wait now."""
        return 0.0 if self._thread is None else max(self._thread.main.lag_seconds, self._thread.main.stalled_seconds)


class _Relay(Events):
    """Emits in the main loop."""

    def __init__(self, main: MainLoop, events: Events) -> None:
        super().__init__()
        self._main = main
        self._events = events

    def emit(self, event: Event) -> None:
        self._main.call(self._events.emit, event)


class _Beating(Service):
    name: ClassVar[str] = "heartbeat"
    #: After a long outage nothing is claimed before a beat was confirmed: a runner is to be at work seconds after a fail-over.
    longest_backoff_seconds: ClassVar[float] = 2.0

    def __init__(self, heartbeat: Heartbeat, link: Link, main: MainLoop, *, events: Events) -> None:
        super().__init__(events=events, interval_seconds=heartbeat.heartbeat_seconds)
        self._heartbeat = heartbeat
        self._link = link
        self._main = main
        self._stopped_on_purpose = False
        self._ended_listener: int | None = None

    async def pass_(self) -> float | None:
        """One beat."""
        runner_id = self._heartbeat.runner_id
        if runner_id is None:
            return None
        if self._must_stop(runner_id):
            await self._end_listener()
            return None
        await self._connect()
        sent_at = self._heartbeat.clock()
        answer = await self._beat(runner_id, sent_at)
        if answer is None:
            if not self._heartbeat.lose(runner_id):
                return 0.0
            if self._heartbeat.leader is not None:
                self._heartbeat.leader.forget(self._main.call)
            self._main.call(self._heartbeat.on_declared_dead, runner_id)
        else:
            self._look_at_schema(runner_id, answer.newer)
            peers = answer.peers if isinstance(answer, leases.Heard) else ()
            if not self._heartbeat.confirm(runner_id, sent_at=sent_at, others=answer.runners - 1, peers=peers):
                return 0.0
        return self._pause_seconds()

    async def _end_listener(self) -> None:
        listener = self._heartbeat.listener()
        if listener is not None and listener != self._ended_listener:
            await runners.end_listener(self._link, listener, timeout=self._heartbeat.answer_seconds)
            self._ended_listener = listener

    async def _connect(self) -> None:
        if not self._link.is_open:
            async with asyncio.timeout(max(self._heartbeat.answer_seconds, _UNHURRIED_SECONDS)):
                await self._link.connection()

    async def _beat(self, runner_id: int, sent_at: float) -> "runners.BeatAnswer | leases.Heard | None":
        leader, limit = self._heartbeat.leader, self._heartbeat.answer_seconds
        # They repeat what errors say: a word that the database cannot hold must not stop the beat.
        troubles = [in_ascii(trouble) for trouble in self._heartbeat.parts_troubles()]
        is_hurried = self._heartbeat.is_confirmed
        if not is_hurried:
            limit = max(limit, _UNHURRIED_SECONDS)
        if leader is None:
            async with asyncio.timeout(limit):
                return await runners.beat(self._link, runner_id, troubles=troubles, stops=self._heartbeat.stops, timeout=limit)
        may_renew = self._main.stalled_seconds < _TURNED_SECONDS and self._heartbeat.outdated_by is None
        said = leader.say(runner_id, sent_at, may_renew=may_renew)
        times = leader.times
        try:
            # A renewal that hangs is given up in time for another before the trust ends.
            async with asyncio.timeout(min(limit, times.renew_seconds) if said.held and is_hurried else limit):
                heard = await leases.beat(
                    self._link, runner_id, said, expiry_seconds=times.expiry_seconds, fresh_seconds=leader.fresh_seconds,
                    troubles=troubles, stops=self._heartbeat.stops, timeout=limit,
                )  # fmt: skip
        except BaseException:
            leader.fail()
            raise
        if heard is not None and runner_id == self._heartbeat.runner_id:
            leader.hear(said, heard, sent_at=sent_at, answered_at=self._heartbeat.clock(), call=self._main.call)
        return heard

    def _look_at_schema(self, runner_id: int, newer: str | None) -> None:
        if newer is not None and self._heartbeat.outdated_by is None:
            self._heartbeat.outdated_by = newer
            self._main.call(self._heartbeat.on_outdated, runner_id, newer)

    def _pause_seconds(self) -> float | None:
        leader = self._heartbeat.leader
        pause = None if leader is None else leader.pause_seconds(self._heartbeat.clock())
        return None if pause is None or pause >= self.interval_seconds else pause

    def _must_stop(self, runner_id: int) -> bool:
        must = self._main.stalled_seconds >= self._heartbeat.stall_limit_seconds
        if must and not self._stopped_on_purpose:
            reason = f"the event loop has not turned for {self._main.stalled_seconds:.1f} s (stall_limit)"
            self._heartbeat.events.emit(RunnerLostItself(runner_id=runner_id, reason=reason))
        self._stopped_on_purpose = must
        return must


class _Watching(Service):
    name: ClassVar[str] = "watch"

    def __init__(self, heartbeat: Heartbeat, main: MainLoop, *, events: Events) -> None:
        tick = min(heartbeat.stall_after_seconds / 2, heartbeat.trust_seconds / 10, 0.5)
        super().__init__(events=events, interval_seconds=tick)
        self._heartbeat = heartbeat
        self._main = main
        self._announced: float | None = None  # the last confirmation that was not followed by another in time

    async def pass_(self) -> float | None:
        """Watch the main loop, and the age of the last confirmed beat."""
        self._main.watch()
        runner_id, confirmed_at = self._heartbeat.runner_id, self._heartbeat.confirmed_at
        age = self._heartbeat.clock() - confirmed_at
        if runner_id is not None and age >= self._heartbeat.trust_seconds and self._announced != confirmed_at:
            self._announced = confirmed_at
            self._main.call(self._lose, runner_id, age)
        return None

    def _lose(self, runner_id: int, age: float) -> None:
        reason = f"no beat was confirmed for {age:.1f} s"
        self._heartbeat.events.emit(RunnerLostItself(runner_id=runner_id, reason=reason))
        self._heartbeat.on_unconfirmed(runner_id)


class BeatThread:
    """The thread: a loop with the two services."""

    def __init__(self, heartbeat: Heartbeat, link: Link) -> None:
        main_loop = asyncio.get_running_loop()
        self.main = MainLoop(main_loop, heartbeat.events, stall_after_seconds=heartbeat.stall_after_seconds)
        relay = self._relay = _Relay(self.main, heartbeat.events)
        self._beating = _Beating(heartbeat, link, self.main, events=relay)
        self._watching = _Watching(heartbeat, self.main, events=relay)
        self._link = link
        self._loop = self.make_loop()
        self._task: asyncio.Task[None] | None = None
        self._parts = Parts(relay)
        self._stopping = False
        self._close_seconds = _CLOSE_SECONDS
        self._remains: Remains | None = None
        self._thread: threading.Thread | None = None
        self._ended = asyncio.Event()

    @property
    def turn_age_seconds(self) -> float | None:
        """Seconds since the loop of beats last turned."""
        return self._beating.turn_age_seconds

    def troubles(self, *, within: float) -> list[str]:
        """What is to be said of its parts. From any thread."""
        return self._parts.troubles(within=within)

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the thread is to run."""
        return asyncio.new_event_loop()

    def start(self) -> None:
        """Run it, in a thread of its own."""
        self._thread = threading.Thread(target=self._work, name="asyncjobs heartbeat", daemon=True)
        _living.add(self)
        self._thread.start()

    def beat_now(self) -> None:
        """Beat at once."""
        self._call(self._beating.wake)

    def linger(self, remains: Remains) -> None:
        """End when nothing of these is left."""
        self._remains = remains
        self._call(self._linger)

    def _linger(self) -> None:
        if self._remains is not None and not self._stopping:
            self._remains.bind(self._link, self._relay)
            self._parts.start("remains", self._remains.run).when_done(self._cancel)

    def wake_remains(self) -> None:
        """One of these has ended."""
        if self._remains is not None:
            self._call(self._remains.wake)

    def end(self) -> None:
        """Ask for its end at the interpreter's exit."""
        self._close_seconds = _CLOSE_AT_EXIT_SECONDS
        self.ask_end()

    def ask_end(self) -> None:
        """Ask for its end, and do not wait for it."""
        self._call(self._cancel)

    def join(self, seconds: float) -> None:
        """Wait, without a loop, until it has ended."""
        if self._thread is not None:
            self._thread.join(seconds)

    async def stop(self, timeout_seconds: float) -> None:
        """Ask for its end, and wait for it."""
        self.ask_end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._ended.wait()

    def ended(self) -> None:
        """The loop has ended."""
        self.main.call(self._ended.set)

    def _call(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(callback)

    def _cancel(self) -> None:
        if not self._stopping and self._task is not None:
            self._task.cancel()
        self._stopping = True

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self.run())
        finally:
            _living.discard(self)
            self.ended()

    async def run(self) -> None:
        """What the loop runs."""
        self._task = asyncio.current_task()
        if self._stopping:
            return
        try:
            self._parts.start("heartbeat", self._beating.run)
            self._parts.start("watch", self._watching.run)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            await self._parts.stop()
            if self._remains is not None and not self._remains.is_empty:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_LAST_PASS_SECONDS):
                        await self._remains.pass_()
            await self._link.close(timeout=self._close_seconds)


Heartbeat.thread_class = BeatThread

_living: Final[set[BeatThread]] = set()


def _end_living() -> None:
    threads = tuple(_living)
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.join(_EXIT_SECONDS)


atexit.register(_end_living)
os.register_at_fork(after_in_child=_living.clear)  # they are the parent's
