"""The call line: the one conversation of a runner with the database about its jobs. Outcomes out, claims in, one call at a time.

It is built like the line of enqueues: coordinators and actors hand in outcomes (`put`) and scans (`hand_in`), and while one call
is on its way the next gathers (no timers, no added latency). One connection. The line knows nothing of slots, lanes and keys, but
that a scan may name the outcome whose key's next job it is meant for. What is asked of it and answered: `orders.py`; what is
claimed and unwritten: `ledger.py`. What may happen to a call, and what follows:

1. It answers. Outcomes it names as lost had lost their claim. Claimed jobs go to the order that asked for them, which starts them
   in the same step. What was claimed for an order that is over by then is given back; so is, due at once, what a call claimed
   that was answered under an id that this runner does not have any more, or so late that others may have taken its jobs (the
   process was frozen). Queues whose next head became pending here without being claimed here are announced.
2. The answer never comes: `doubt.py`.
3. The server refuses an outcome, with an error that does not pass. The batch is cut in halves, without scans, until the bad one
   is alone. If its values are at fault (they cannot be stored) `storable` is written in its place. What is refused even so is set
   aside (`ledger.py`), and keeps neither the others nor the scans: a stranger's row, trigger or rule may be in its way for ever.
   Where so many are refused in one turn (`_MOST_REFUSED`) the database itself is taken to be at fault, as in 4. Those that are
   set aside count as outcomes that wait (4): a runner that can write none of hundreds claims no more.
4. The database is away. Outcomes are kept; scans are refused at once (`NoAnswer`), so that no slot is held meanwhile, and the
   line is closed: parts that want jobs wait until it is open. It is closed, too, while more outcomes wait than leave room for
   those of all slots within four times the runner's concurrency, and what it claims ahead. A slot is free when its handler has
   ended, whatever becomes of the outcome.
5. The runner's own row is gone: it was declared dead. Nothing was claimed; the runner is told, registers anew, and opens the
   line. (That a former id is gone is no news: such a call says nothing of the present one.) While others may declare it dead at
   any moment (no beat was confirmed), the line is closed.
6. What scans that came back short may have skipped is looked for in a statement of its own, when a coordinator says so.
7. **Calls are numbered as they are sent.** A part that has a reason to look notes how many had been sent; a scan has seen that
   reason only if the number of its call is larger, whatever was handed in first.
8. A call that met jobs that have expired has ended some of them (`expiry.py`): its scans count as full, so that they are made
   again at once, behind what has expired.
9. A call that waits for a lock gives up after a moment, and goes on without what waits (`locked.py`).
10. Outcomes of a run of a key are written in its order (`followers.py`): one that waits keeps those behind it.
11. Which statement a call is depends on what it carries (`statements.py`): the lean ones do less, and keep all of the above.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from asyncjobs.model.claim import Ack, Claimed, Finished, Probe, Scan, storable
from asyncjobs.runtime import points
from asyncjobs.runtime.alarm import Alarm
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.doubt import Doubt
from asyncjobs.runtime.expiry import tell_expired, with_deadlines
from asyncjobs.runtime.followers import joined
from asyncjobs.runtime.ledger import Ledger
from asyncjobs.runtime.locked import Locked
from asyncjobs.runtime.orders import Looks, NoAnswer, Order, found_by, hand_out, merged, refuse
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.statements import Statements
from asyncjobs.runtime.stubs import ASK_AGAIN_SECONDS, Stubs
from asyncjobs.runtime.tokens import Tokens
from asyncjobs.runtime.turnstile import Turnstile
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_ambiguous, is_lock_timeout, is_refused, is_unsendable
from asyncjobs.telemetry.events import AcksWritten, DatabaseFailed, Events, JobsClaimed

_BATCH: Final = 500
#: Of a run each job takes a turn of the loop, and its outcome's way here another.
_IDLE_TURNS: Final = 2
#: What takes longer is not lost with its runner for nothing.
_LONGEST_GATHER_SECONDS: Final = 0.05
_MOST_REFUSED: Final = 10
_MOST_TRIED_AGAIN: Final = 3  # in one turn, of those that are set aside
_LONGEST_BACKOFF_SECONDS: Final = 5.0
#: At rest it turns as often as that, which says that it lives; while it is closed nothing tells when it may open.
_TURN_SECONDS: Final = 5.0
_CLOSED_TURN_SECONDS: Final = 0.5


class CallLine:
    """Writes outcomes and claims jobs, for all queues of a runner."""

    def __init__(
        self,
        link: Link,
        *,
        turnstile: Turnstile,
        probation: Probation,
        stubs: Stubs,
        tokens: Tokens,
        wakes: Wakes,
        events: Events,
        max_errors: int,
        most_unwritten: int,
        reconcile_seconds: float,
        runner_id: Callable[[], int],
        may_claim: Callable[[], bool],
        declared_dead: Callable[[], None],
        is_ample: Callable[[], bool] = lambda: False,
        has_many: bool = False,
    ) -> None:
        self._link = link
        self._turnstile = turnstile
        self._stubs = stubs
        self._statements = Statements(link, turnstile, probation, tokens, runner_id=runner_id, max_errors=max_errors)
        self._ledger = Ledger(turnstile=turnstile, probation=probation, wakes=wakes, events=events, runner_id=runner_id)
        self._locked = Locked(link, self._ledger)
        self._doubt = Doubt(
            link, self._ledger, tokens=tokens, wakes=wakes, events=events, runner_id=runner_id, every_seconds=reconcile_seconds
        )
        self._wakes = wakes
        self._events = events
        self._most_unwritten = most_unwritten
        self._runner_id = runner_id
        self._is_confirmed = may_claim
        self._declared_dead = declared_dead
        self._is_ample = is_ample  # whether so much was claimed ahead that nothing is urgent
        self._has_many = has_many  # submitters that end and ask in the same turn of the loop
        self._orders: list[Order] = []
        self._looks = Looks()
        self._goes_at_once = False
        self._has_run = False
        self._is_registered, self._is_away = True, False
        self._open = asyncio.Event()
        self._open.set()
        self._is_calling = False
        self._refused = 0  # outcomes, in this turn
        self._over: asyncio.Event | None = None  # while a task waits for the end of the call that is under way
        self._wrote: asyncio.Event | None = None  # while a task waits for the end of a turn
        self._alarm = Alarm()
        self.calls = 0  # that were sent
        self.failures = 0
        self.answered_at = self.turned_at = time.monotonic()
        self.error: BaseException | None = None

    # What it is handed.

    def put(self, ack: Ack) -> None:
        """Write this outcome with the next call."""
        self._ledger.unwritten[ack.token] = ack
        if self._alarm.is_asleep:
            self._alarm.wake()

    def hand_in(self, order: Order, *, at_once: bool = False) -> None:
        """Make these scans with the next call. A closed line refuses them at once. `at_once`: the call needs not wait for others
        that the last one answered.
        """
        if not self._open.is_set():
            order.refused()
            return
        self._orders.append(order)
        self._goes_at_once = self._goes_at_once or at_once
        if self._alarm.is_asleep:
            self._alarm.wake()

    async def look(self, starts: Mapping[tuple[str, str | None], tuple[int, int]]) -> set[tuple[str, str | None]]:
        """Those of them (queue and lane) that have something which a scan from behind there would find if it were not locked."""
        if not self._open.is_set():
            raise NoAnswer
        asked = self._looks.ask(starts)
        self._alarm.wake()
        return await asked

    def give_back(self, claimed: Sequence[Claimed], *, delay_seconds: float = 0.0) -> None:
        """These do not start here: their attempts have not begun."""
        if claimed:
            self._ledger.give_back(claimed, delay_seconds=delay_seconds)
            self._alarm.wake()

    def written_elsewhere(self, ack: Ack) -> None:
        """This outcome was written elsewhere: the job was completed inside its handler's transaction."""
        self._ledger.ended(ack, is_lost=False, in_transaction=ack.outcome.kind == "completed")

    def lost(self, ack: Ack) -> None:
        """The claim was found to be lost elsewhere."""
        self._ledger.ended(ack, is_lost=True)

    def resume(self) -> None:
        """Claim again: the runner has registered anew."""
        self._is_registered = True
        self._alarm.wake()

    # What it tells.

    @property
    def claims(self) -> Mapping[int, int]:
        """The ledger: the jobs whose claims are ours, and their tokens."""
        return self._ledger.claims

    @property
    def unwritten(self) -> int:
        """Outcomes that wait to be written, or whose writing was not confirmed."""
        return len(self._ledger.unwritten)

    @property
    def refused(self) -> int:
        """Those of them that are set aside, since the database refuses them."""
        return self._ledger.aside

    @property
    def is_open(self) -> bool:
        """Whether it is worth while to ask for jobs."""
        return self._open.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether every outcome is written, or set aside, and no call is under way or in doubt."""
        return not (self._ledger.has_ready or self._is_calling or self._doubt.is_raised)

    async def wait_idle(self) -> None:
        """Wait until that is so."""
        while not self.is_idle:
            self._wrote = self._wrote or asyncio.Event()
            await self._wrote.wait()

    async def wait_open(self) -> None:
        """Wait until it is worth while to ask for jobs."""
        if not self._open.is_set():
            await self._open.wait()

    async def wait_call(self) -> None:
        """Wait until the call that is under way now, if there is one, has ended. What it brought has been handed out before."""
        if self._is_calling:
            self._over = self._over or asyncio.Event()
            await self._over.wait()

    def abort(self) -> None:
        """Drop the connection, after `run` has ended."""
        self._link.abort()

    # Its loop.

    async def run(self) -> None:
        """Talk to the database until cancelled. Run again it first finds out what became of its last call."""
        if self._has_run:
            self._doubt.raised_by(())
        self._has_run = True
        try:
            while True:
                await self._wait_for_work()
                try:
                    await self._turn()
                except Exception as error:  # noqa: BLE001 - one pass of a service
                    await self._back_off(error)
                else:
                    self.failures, self.error, self._is_away = 0, None, False
                if self._wrote is not None:
                    self._wrote.set()
                    self._wrote = None
        finally:
            self._alarm.close()

    async def _wait_for_work(self) -> None:
        """Wait until there is something to do, and those have had their say who may add to it."""
        has_turned = False
        while True:
            now = self.turned_at = time.monotonic()
            if not self._open.is_set() and self._may_claim():
                self._open.set()
            aside_due_at = min(self._ledger.aside_due_at, self._locked.due_at)
            if self._locked.has_others() or self._orders or self._looks or self._doubt.is_due(now) or aside_due_at <= now:
                break
            if not has_turned:  # what the last call started may have ended by then: so a sleep is spared
                has_turned = True
                await asyncio.sleep(0)
                continue
            seconds = _TURN_SECONDS if self._open.is_set() else _CLOSED_TURN_SECONDS
            await self._alarm.sleep(min(self._doubt.due_at, aside_due_at, now + seconds))
        await self._gather(has_turned=has_turned)

    def _may_claim(self) -> bool:
        is_ready = self._is_registered and not self._is_away
        return is_ready and len(self._ledger.unwritten) <= self._most_unwritten and self._is_confirmed()

    def _close(self) -> None:
        """No order waits for an answer that is not going to come."""
        self._open.clear()
        orders, self._orders = self._orders, []
        refuse(orders)
        self._looks.refuse()

    async def _gather(self, *, has_turned: bool) -> None:
        """Those that the last call answered have their say before the next one, and many queues end and ask together: the loop
        turns once. While nothing is urgent, since so much was claimed ahead, or a run goes on, attempts that end without waiting
        for anything join the call, as long as each turn brings some.
        """
        if self._has_many or not (has_turned or self._goes_at_once):
            await asyncio.sleep(0)
        idle_turns, until = 0, time.monotonic() + _LONGEST_GATHER_SECONDS
        while (self._is_ample() or self._ledger.has_run) and not self._orders:
            before = len(self._ledger.unwritten)
            await asyncio.sleep(0)
            idle_turns = 0 if len(self._ledger.unwritten) > before else idle_turns + 1
            if idle_turns > (_IDLE_TURNS if self._ledger.has_run else 0) or before >= _BATCH or time.monotonic() > until:
                return
            if not (self._is_ample() or self._ledger.has_run) and not self._orders:
                await asyncio.sleep(0)  # its coordinator was woken in this turn, and asks in the next
                return

    async def _back_off(self, error: Exception) -> None:
        self.failures += 1
        self.error = error
        self._is_away = True
        self._close()
        self._events.emit(DatabaseFailed(during="finish", error=error))
        await asyncio.sleep(backoff_seconds(self.failures, _LONGEST_BACKOFF_SECONDS, 0.5))
        if not self._ledger.has_ready and not self._doubt.is_raised:  # nothing of its own that would find out: let others try
            self._is_away = False

    async def _turn(self) -> None:
        self._refused = 0
        if self._doubt.is_due(self.turned_at):
            await self._doubt.resolve()
        if self.turned_at >= self._locked.due_at:
            await self._try_locked()
        if self._looks:
            await self._looks.make(self._statements.skipped)
            await asyncio.sleep(0)  # a coordinator that looked may have jobs to ask for: they go with the outcomes of this turn
        if self._orders and not self._may_claim():
            self._close()
        orders, self._orders, self._goes_at_once = self._orders, [], False
        try:
            await self._make_call([order for order in orders if not order.is_over])
        finally:
            refuse(orders)  # those that have no answer
        for ack in self._ledger.due_aside(self.turned_at, _MOST_TRIED_AGAIN):
            await self._write_each([ack])

    async def _make_call(self, orders: Sequence[Order]) -> None:
        acks = self._locked.others(_BATCH)
        if not acks and not orders:
            return
        one = orders[0] if len(orders) == 1 else None
        scans = merged(orders) if one is None else one.scans
        probes = self._turnstile.probes() if scans else ()
        sent_at, runner_id = time.monotonic(), self._runner_id()
        try:
            finished = await self._call(acks, self._statements.leanest(acks, scans, probes, None if one is None else one.head_of))
        except Exception as error:
            if not acks or not (is_lock_timeout(error) or self._is_refusal(error)):
                raise
            refuse(orders)
            await (self._set_aside(acks, error) if is_lock_timeout(error) else self._isolate(acks, error))
            return
        if runner_id != self._runner_id():  # what it claimed under the former id is to be rescued, or still ours
            orders, finished = [], msgspec.structs.replace(finished, gone=False)
        with self._doubt.until_taken_in(acks):
            self._deliver(orders, scans, probes, finished, sent_at)
            await self._take_written(acks, finished)

    async def _call(self, acks: Sequence[Ack], send: Callable[[], Awaitable[Finished]]) -> Finished:
        began_at, sent_at = time.monotonic(), boottime()
        self.calls += 1
        self._is_calling = True
        try:
            if points.active:
                await points.reach("finish.send")
            finished = await send()
            with self._doubt.until_taken_in(acks):
                if finished.claimed or finished.asking:
                    finished = with_deadlines(finished, sent_at)
                if finished.followers:
                    finished = joined(finished)
                if finished.asking:
                    finished, unasked = await self._stubs.ask(self._link, finished, self._events)
                    self._ledger.enter(unasked)
                    self.give_back(unasked, delay_seconds=ASK_AGAIN_SECONDS)
                if points.active:
                    await points.reach("finish.sent")
        except BaseException as error:
            if is_ambiguous(error) or isinstance(error, asyncio.CancelledError):
                self._doubt.raised_by(acks)
            raise
        finally:
            self._is_calling = False
            if self._over is not None:
                asyncio.get_running_loop().call_soon(self._over.set)  # behind the steps of those that it answers
                self._over = None
        self.answered_at = self.turned_at = time.monotonic()
        self._ledger.strike(acks)  # before what was claimed is entered: the same call may have claimed one of these anew
        if acks and self._events.wants(AcksWritten):
            tokens, seconds = [ack.token for ack in acks if ack.token not in finished.lost], self.answered_at - began_at
            self._events.emit(
                AcksWritten(runner_id=self._runner_id(), tokens=tokens, claimed=len(finished.claimed), seconds=seconds)
            )
        return finished

    def _deliver(
        self, orders: Sequence[Order], scans: Sequence[Scan], probes: Sequence[Probe], finished: Finished, sent_at: float
    ) -> None:
        """Hand out what was claimed."""
        if finished.gone:
            self._is_registered = False
            self._close()
            self._declared_dead()
            return
        seconds = time.monotonic() - sent_at
        if probes:
            self._turnstile.claimed(probes, finished.claimed, seconds)
        doubled = self._ledger.enter(finished.claimed, finished.followers)
        if finished.claimed and not self._is_confirmed():
            orders = []
            self._close()
        apart = frozenset(type for probe in probes for type in probe.types) if probes else ()
        if self._events.wants(JobsClaimed):
            for scan, claimed in zip(scans, finished.by_scan(len(scans)), strict=True):
                count = len(claimed) + sum(len(job.followers) for job in claimed if job.followers)
                self._events.emit(JobsClaimed(runner_id=self._runner_id(), queue=scan.queue, wanted=scan.limit, claimed=count))
        found = found_by(scans, finished, doubled=doubled, apart=apart, call=self.calls, sent_at=sent_at, seconds=seconds)
        self.give_back(hand_out(orders, scans, found))

    async def _take_written(self, acks: Sequence[Ack], finished: Finished) -> None:
        """Tell of the queues that have something now and of what has expired, and settle the outcomes."""
        self._wakes.became_pending(finished.heads, urgent=finished.urgent, for_all=finished.for_all)
        if finished.expired:
            tell_expired(finished.expired, self._wakes, self._events)
        if finished.due_seconds is not None:
            self._wakes.due_in(finished.due_seconds, in_process_only=True)
        await self._doubt.settle(acks, frozenset(finished.lost))

    def _is_refusal(self, error: Exception) -> bool:
        """Whether the server has refused the call: then nothing was written. Errors of this side, after an answer, are none."""
        return is_refused(error) and not self._doubt.is_raised

    async def _isolate(self, acks: Sequence[Ack], error: Exception) -> None:
        """The server refused one of these: find which, and write the others."""
        half = len(acks) // 2
        if half:
            await self._write_each(acks[:half], acks[half:])
        elif is_unsendable(error) and (plainer := storable(acks[0])) != acks[0]:
            await self._write_each([plainer])
        else:
            self._ledger.set_aside(acks[0].token, error)
            self._refused += 1
            if self._refused >= _MOST_REFUSED:
                raise error

    async def _write_each(self, *parts: Sequence[Ack]) -> None:
        for part in map(self._locked.in_turn, parts):
            if not part:
                continue
            try:
                finished = await self._call(part, partial(self._statements.finish, part, []))
            except Exception as error:
                if is_lock_timeout(error):
                    await self._set_aside(part, error)
                elif not self._is_refusal(error):
                    raise
                else:
                    await self._isolate(part, error)
            else:
                with self._doubt.until_taken_in(part):
                    await self._take_written(part, finished)

    async def _set_aside(self, acks: Sequence[Ack], error: Exception) -> None:
        """A lock was not let go in time: find what it holds up."""
        if len(acks) == 1 and self._ledger.is_aside(acks[0]):  # it has been refused before, and is tried by itself anyway
            self._ledger.set_aside(acks[0].token, error)
            return
        if await self._locked.find(acks):
            return
        half = len(acks) // 2
        if half:
            await self._write_each(acks[:half], acks[half:])
        else:
            self._locked.add(acks[0])

    async def _try_locked(self) -> None:
        """Write those that are alone; the others go with the next call when they are locked no more."""
        await self._locked.look()
        for ack in self._locked.alone():
            await self._write_each([ack])
            if ack in self._locked:
                break
