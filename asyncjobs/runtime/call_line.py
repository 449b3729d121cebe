"""The call line: the one conversation of a runner with the database about its jobs. Outcomes out, claims in, one call at a time.

It is built like the line of enqueues: coordinators and actors hand in outcomes (`put`) and scans (`submit`), and while one call
is on its way the next gathers (no timers, no added latency). One connection. Scans of the same slots are merged into one, and
each submitter has its share. The line knows nothing of slots, lanes and keys, but that a scan may name the outcome whose key's
next job it is meant for. What may happen to a call, and what follows:

1. It answers. Outcomes it names as lost had lost their claim: a typed outcome (`ClaimWasLost`), never success, never sent
   again. Claimed jobs go to whoever asked: a task that waits (`submit`) goes on with them, and an order that was handed in
   (`hand_in`) starts them in the same step. What was claimed for a submitter that waits no more is given back. Queues whose next
   head became pending here without being claimed here are announced.
2. The answer never comes (connection lost, time-out, the line's task was ended). Outcomes and claims are in doubt. After a
   pause the line reads back by id and token which outcomes are still to be written, and sends only those; and it reads which
   jobs are processing under this runner's name that are not in its ledger, and gives them back with their attempts. Both
   readings are made on the line's own connection while no call of its own is under way. The server may still be working on the
   lost call when they are made, so an outcome that was sent twice and comes back "lost" is read back once more, and stray
   claims are looked for again with every `runner_timeout` that passes (`reconcile_seconds`). The giving back may be carried out
   late itself: it names the last token that was drawn before it, and leaves later claims alone. When the process is gone with
   the answer, an outcome, the next head of its key and the call's claims are in the database together or not at all: jobs that
   ended stay ended, heads are found by the poll of others, claims are taken back by the rescue.
3. The server refuses a value (it cannot be stored). The batch is cut in halves, without scans, until the bad one is alone; in
   its place `storable` is written.
4. The database is away. Outcomes are kept; scans are refused at once (`NoAnswer`), so that no slot is held meanwhile, and the
   line is closed: who wants jobs waits until it is open. It is closed, too, while more outcomes wait than leave room for those
   of all slots within four times the runner's concurrency, and what it claims ahead. A slot is free when its handler has ended,
   whatever becomes of the outcome.
5. The runner's own row is gone: it was declared dead. Nothing was claimed; the runner is told, registers anew, and opens the
   line. While others may declare it dead at any moment (no beat was confirmed), the line is closed.
6. **A claim is ours from its answer until its outcome is written**: the ledger says so, in one place, whatever part has the job
   meanwhile (a slot, the stock, an actor, a verifier, this line). A claimed job that is in the ledger already (its claim was
   lost, and it came back before the handler noticed) is given back with its attempt, due in 5 s. So is, due at once, what a
   claim brings that was answered under an id that this runner does not have any more, or so late that others may have taken its
   jobs (the process was frozen).
7. What scans that came back short may have skipped is looked for in a statement of its own, when a coordinator says so.
8. **Calls are numbered as they are sent.** Whoever has a reason to look notes how many had been sent; a scan has seen that
   reason only if the number of its call is larger. What was handed in before the reason may be sent after it, and the other way
   round: the instant of the sending decides. (A scan that was dated when it was handed in had never seen what the actor of its
   key told a moment later; with one key the queue never became quiet, and a third of the pace was gone.)
9. A call that met jobs that have expired has ended these and others (`store/routines/expiry`): whoever waits for them is told,
   and its scans count as full, so that they are made again at once. A job that expires between its claim and its start does not
   start (`runtime/attempt.py`): by when it has to is counted from the sending of its call, which was before the server looked.
10. Which statement a call is depends on what it carries (`runtime/statements.py`): the lean ones do less, and keep all of the
   above.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Protocol

import msgspec

from asyncjobs.model.claim import Ack, Claimed, Finished, Probe, Scan, storable
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime import points
from asyncjobs.runtime.alarm import Alarm
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.expiry import tell_expired, with_deadlines
from asyncjobs.runtime.gate import Gate
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.statements import Statements
from asyncjobs.runtime.stubs import ASK_AGAIN_SECONDS, Stubs
from asyncjobs.runtime.tokens import Tokens
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import jobs
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_ambiguous, is_unsendable
from asyncjobs.telemetry.events import (
    AcksWritten,
    ClaimWasLost,
    DatabaseFailed,
    Events,
    JobsClaimed,
    JobsGivenBack,
    OutcomeWritten,
)

_order: Final = attrgetter("priority", "place")
_losses: Final = attrgetter("losses")
_BATCH: Final = 500
_LONGEST_BACKOFF_SECONDS: Final = 5.0
_STILL_RUNNING_DELAY_SECONDS: Final = 5.0
#: At rest it turns as often as that, which says that it lives; while it is closed nobody tells when it may open.
_TURN_SECONDS: Final = 5.0
_CLOSED_TURN_SECONDS: Final = 0.5


class NoAnswer(Exception):
    """The call failed, or was not made: nothing was claimed, or what was will be given back."""


class Found(msgspec.Struct, frozen=True):
    """The answer to a scan: what it claimed for its submitter, and how far it got."""

    jobs: list[Claimed]
    start: tuple[int, int]
    is_full: bool  # else it saw everything
    last: tuple[int, int] | None
    call: int  # its number
    sent_at: float
    seconds: float


class Order(Protocol):
    """Scans that are to be made. It is answered or refused, once, in a step of the line, which must not fail."""

    @property
    def scans(self) -> Sequence[Scan]:
        """What is looked for."""
        ...

    @property
    def head_of(self) -> Ack | None:
        """Of a single scan for the slot that this one left, whose next head may have it."""
        ...

    @property
    def is_over(self) -> bool:
        """It was answered or refused, or is not wanted any more."""
        ...

    def answered(self, found: list[Found]) -> None:
        """What its scans found, in their order."""

    def refused(self) -> None:
        """The call failed, or was not made."""


class _Awaited(msgspec.Struct, eq=False):
    """What a task waits for."""

    answer: "asyncio.Future[Any]"

    @property
    def is_over(self) -> bool:
        return self.answer.done()

    def answered(self, found: Any) -> None:
        self.answer.set_result(found)

    def refused(self) -> None:
        self.answer.set_exception(NoAnswer())
        self.answer.exception()  # whoever waited may be gone: that it was never looked at is no news


class _Scans(_Awaited):
    scans: Sequence[Scan]
    head_of: None = None

    @property
    def claimed(self) -> list[Claimed]:
        """What its answer brought, if it came."""
        answer = self.answer
        if not answer.done() or answer.cancelled() or answer.exception() is not None:
            return []
        return [job for found in answer.result() for job in found.jobs]


class _Look(_Awaited):
    lanes: Sequence[tuple[str, str | None]]


class CallLine:
    """Writes outcomes and claims jobs, for all queues of a runner."""

    def __init__(
        self,
        link: Link,
        *,
        gate: Gate,
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
        self._gate = gate
        self._probation = probation
        self._stubs = stubs
        self._tokens = tokens
        self._statements = Statements(link, gate, probation, tokens, runner_id=runner_id, max_errors=max_errors)
        self._wakes = wakes
        self._events = events
        self._most_unwritten = most_unwritten
        self._reconcile_seconds = reconcile_seconds
        self._runner_id = runner_id
        self._is_confirmed = may_claim
        self._declared_dead = declared_dead
        self._is_ample = is_ample  # whether so much was claimed ahead that nothing is urgent
        self._has_many = has_many  # submitters that end and ask in the same turn of the loop
        self._acks: dict[int, Ack] = {}  # by token: each claim has its own
        self._orders: list[Order] = []
        self._looks: list[_Look] = []
        self._claims: dict[int, int] = {}  # the ledger: job and token
        self._twice: set[int] = set()  # tokens of those that were sent before, without an answer
        self._in_doubt = self._has_run = False
        self._is_registered, self._is_away = True, False
        self._open = asyncio.Event()
        self._open.set()
        self._is_calling = False
        self._over: asyncio.Event | None = None  # while somebody waits for the end of the call that is under way
        self._wrote: asyncio.Event | None = None  # while somebody waits for the end of a turn
        self._reconcile_at = time.monotonic() + reconcile_seconds
        self._alarm = Alarm()
        self.calls = 0  # that were sent
        self.failures = 0
        self.answered_at = self.turned_at = time.monotonic()
        self.error: BaseException | None = None

    # What it is handed.

    def put(self, ack: Ack) -> None:
        """Write this outcome with the next call."""
        self._acks[ack.token] = ack
        if self._alarm.is_asleep:
            self._alarm.wake()

    def hand_in(self, order: Order) -> None:
        """Make these scans with the next call. A closed line refuses them at once."""
        if not self._open.is_set():
            order.refused()
            return
        self._orders.append(order)
        if self._alarm.is_asleep:
            self._alarm.wake()

    async def submit(self, acks: Sequence[Ack], scans: Sequence[Scan]) -> list[Found]:
        """Write these and make these scans, in one call with what others want; NoAnswer when it fails."""
        for ack in acks:
            self.put(ack)
        order = _Scans(asyncio.get_running_loop().create_future(), scans)
        self.hand_in(order)
        try:
            return await order.answer  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self.give_back(order.claimed)  # it came, and nobody is going to start these
            raise

    async def look(self, lanes: Sequence[tuple[str, str | None]]) -> set[tuple[str, str | None]]:
        """Those of them (queue and lane) that have something which a scan would find if nobody held it locked."""
        if not self._open.is_set():
            raise NoAnswer
        look = _Look(asyncio.get_running_loop().create_future(), lanes)
        self._looks.append(look)
        self._alarm.wake()
        return await look.answer  # type: ignore[no-any-return]

    def give_back(self, claimed: Sequence[Claimed], *, delay_seconds: float = 0.0) -> None:
        """These do not start here: their attempts have not begun."""
        for job in claimed:
            self.put(Ack(job.id, job.token, Outcome(kind="interrupted", delay_seconds=delay_seconds, is_begun=False)))
            self._gate.ended(job)
            if job.losses:
                self._probation.ended(job)

    def written_elsewhere(self, ack: Ack) -> None:
        """This outcome was written elsewhere: the job was completed inside its handler's transaction."""
        self._strike([ack])
        self._announce(ack)

    def lost(self, ack: Ack) -> None:
        """The claim was found to be lost elsewhere."""
        self._strike([ack])
        self._tell_lost(ack)

    def resume(self) -> None:
        """Claim again: the runner has registered anew."""
        self._is_registered = True
        self._alarm.wake()

    # What it tells.

    @property
    def claims(self) -> Mapping[int, int]:
        """The ledger: the jobs whose claims are ours, and their tokens."""
        return self._claims

    @property
    def unwritten(self) -> int:
        """Outcomes that wait to be written, or whose writing was not confirmed."""
        return len(self._acks)

    @property
    def is_idle(self) -> bool:
        """Whether every outcome is written, and no call is under way or in doubt."""
        return not self._acks and not self._is_calling and not self._in_doubt

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
        self._in_doubt = self._in_doubt or self._has_run
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
        has_slept = False
        while True:
            now = self.turned_at = time.monotonic()
            if not self._open.is_set() and self._may_claim():
                self._open.set()
            if self._acks or self._orders or self._looks or self._in_doubt or now >= self._reconcile_at:
                break
            has_slept = True
            seconds = _TURN_SECONDS if self._open.is_set() else _CLOSED_TURN_SECONDS
            await self._alarm.sleep(min(self._reconcile_at, now + seconds))
        await self._gather(has_slept=has_slept)

    def _may_claim(self) -> bool:
        is_ready = self._is_registered and not self._is_away
        return is_ready and len(self._acks) <= self._most_unwritten and self._is_confirmed()

    def _close(self) -> None:
        """Nobody waits for an answer that is not going to come."""
        self._open.clear()
        orders, looks = self._orders, self._looks
        self._orders, self._looks = [], []
        _refuse(*orders, *looks)

    async def _gather(self, *, has_slept: bool) -> None:
        """Those that the last call answered have their say before the next one, and many queues end and ask together: the loop
        turns once. While so much was claimed ahead that nothing is urgent, attempts
        that end without waiting for anything join the call, as long as each turn brings some.
        """
        if self._has_many or not has_slept:
            await asyncio.sleep(0)
        while self._is_ample() and not self._orders:
            before = len(self._acks)
            await asyncio.sleep(0)
            if before == len(self._acks) or before >= _BATCH:
                return
            if not self._is_ample() and not self._orders:  # its coordinator was woken in this turn, and asks in the next
                await asyncio.sleep(0)
                return

    async def _back_off(self, error: Exception) -> None:
        self.failures += 1
        self.error = error
        self._is_away = True
        self._close()
        self._events.emit(DatabaseFailed(during="finish", error=error))
        await asyncio.sleep(backoff_seconds(self.failures, _LONGEST_BACKOFF_SECONDS, 0.5))
        if not self._acks and not self._in_doubt:  # nothing of its own that would find out: let somebody try
            self._is_away = False

    async def _turn(self) -> None:
        if self._in_doubt or self.turned_at >= self._reconcile_at:
            await self._reconcile()
        if self._looks:
            await self._look()
        if self._orders and not self._may_claim():
            self._close()
        orders, self._orders = self._orders, []
        try:
            await self._make_call([order for order in orders if not order.is_over])
        finally:
            _refuse(*orders)  # those that have no answer

    async def _look(self) -> None:
        """Look whether anything is there that scans which came back short would have taken."""
        looks, self._looks = self._looks, []
        try:
            found = await self._statements.skipped(list(dict.fromkeys(lane for look in looks for lane in look.lanes)))
            for look in looks:
                if not look.is_over:
                    look.answered(found.intersection(look.lanes))
        finally:
            _refuse(*looks)

    async def _make_call(self, orders: Sequence[Order]) -> None:
        acks = list(islice(self._acks.values(), _BATCH))
        if not acks and not orders:
            return
        one = orders[0] if len(orders) == 1 else None
        scans = _merged(orders) if one is None else one.scans
        probes = self._gate.probes() if scans else ()
        sent_at, runner_id = time.monotonic(), self._runner_id()
        try:
            finished = await self._call(acks, self._statements.leanest(acks, scans, probes, None if one is None else one.head_of))
        except Exception as error:
            if not is_unsendable(error) or not acks:
                raise
            _refuse(*orders)
            await self._isolate(acks)
            return
        if runner_id != self._runner_id():  # what it claimed under the former id is to be rescued, or still ours
            orders = []
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
            if finished.claimed or finished.asking:
                finished = with_deadlines(finished, sent_at)
            if finished.asking:
                finished, unasked = await self._stubs.ask(self._link, finished, self._events)
                self._enter(unasked)
                self.give_back(unasked, delay_seconds=ASK_AGAIN_SECONDS)
            if points.active:
                await points.reach("finish.sent")
        except BaseException as error:
            if is_ambiguous(error) or isinstance(error, asyncio.CancelledError):
                self._in_doubt = True
                self._twice.update(ack.token for ack in acks)
            raise
        finally:
            self._is_calling = False
            if self._over is not None:
                asyncio.get_running_loop().call_soon(self._over.set)  # behind the steps of those that it answers
                self._over = None
        self.answered_at = self.turned_at = time.monotonic()
        self._strike(acks)  # before what was claimed is entered: the same call may have claimed one of these anew
        if acks and self._events.wants(AcksWritten):
            tokens, seconds = [ack.token for ack in acks if ack.token not in finished.lost], self.answered_at - began_at
            self._events.emit(
                AcksWritten(runner_id=self._runner_id(), tokens=tokens, claimed=len(finished.claimed), seconds=seconds)
            )
        return finished

    # Claims.

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
            self._gate.claimed(probes, finished.claimed, seconds)
        doubled = self._enter(finished.claimed)
        if finished.claimed and not self._is_confirmed():
            orders = []
            self._close()
        apart = frozenset(type for probe in probes for type in probe.types) if probes else ()
        answer: list[Found] = []
        for scan, claimed in zip(scans, finished.by_scan(len(scans)), strict=True):
            if self._events.wants(JobsClaimed):
                self._tell_claimed(scan, claimed)
            is_full = len(claimed) >= scan.limit
            last = _last(claimed, apart) if is_full else None
            left = claimed if not doubled else [job for job in claimed if job.id not in doubled]
            answer.append(Found(left, scan.start, is_full or bool(finished.expired), last, self.calls, sent_at, seconds))
        if len(orders) == 1:
            self._answer(orders[0], answer)
        elif orders:
            whole = {(scan.queue, scan.lane): found for scan, found in zip(scans, answer, strict=True)}
            for order in orders:
                self._answer(order, [_share(whole, scan) for scan in order.scans])
        else:
            self.give_back([job for found in answer for job in found.jobs])

    def _enter(self, claimed: Sequence[Claimed]) -> Collection[int]:
        """They are ours from now on. Those that are already are given back: these jobs."""
        tokens = {job.id: job.token for job in claimed}
        doubled = tokens.keys() & self._claims.keys()
        if any(map(_losses, claimed)):
            for job in claimed:
                if job.losses:
                    self._probation.claimed(job)
        if doubled:
            self.give_back([job for job in claimed if job.id in doubled], delay_seconds=_STILL_RUNNING_DELAY_SECONDS)
            for job_id in doubled:
                del tokens[job_id]
        self._claims.update(tokens)
        return doubled

    def _answer(self, order: Order, found: list[Found]) -> None:
        if order.is_over:  # its submitter was cancelled meanwhile
            self.give_back([job for one in found for job in one.jobs])
        else:
            order.answered(found)

    def _tell_claimed(self, scan: Scan, claimed: Sequence[Claimed]) -> None:
        self._events.emit(JobsClaimed(runner_id=self._runner_id(), queue=scan.queue, wanted=scan.limit, claimed=len(claimed)))

    # Outcomes.

    async def _take_written(self, acks: Sequence[Ack], finished: Finished) -> None:
        """Take what was written off the list, tell what was lost, and announce what follows."""
        for queue in finished.heads:
            self._wakes.pending(queue)
        if finished.expired:
            tell_expired(finished.expired, self._wakes, self._events)
        if finished.due_seconds is not None:
            self._wakes.due_in(max(finished.due_seconds, 0.0), in_process_only=True)
        if not (finished.lost or self._twice or self._events.wants(OutcomeWritten)):
            has_waiters = self._wakes.has_waiters
            for ack in acks:
                del self._acks[ack.token]
                if has_waiters or ack.outcome.kind != "completed":
                    self._announce(ack)
            return
        lost = frozenset(finished.lost)
        doubtful = [ack for ack in acks if ack.token in lost and ack.token in self._twice]
        for ack in acks:
            if ack not in doubtful:
                self._forget(ack, is_lost=ack.token in lost)
        if doubtful:  # an answer that does not come leaves them in `_twice`: they are sent, and read, once more
            self._resolve(doubtful, await jobs.still_processing(self._link, doubtful))

    def _resolve(self, acks: Sequence[Ack], state: Mapping[int, bool]) -> None:
        """Forget those that were written, or whose claim is lost."""
        for ack in acks:
            if state.get(ack.token) is not True:
                self._forget(ack, is_lost=ack.token not in state)

    def _forget(self, ack: Ack, *, is_lost: bool) -> None:
        self._acks.pop(ack.token, None)
        self._twice.discard(ack.token)
        self._strike([ack])
        if is_lost:
            self._tell_lost(ack)
        else:
            self._announce(ack)

    def _strike(self, acks: Sequence[Ack]) -> None:
        """Off the ledger: these claims are ours no more. (Their jobs may have others.)"""
        claims = self._claims
        for ack in acks:
            if claims.get(ack.id) == ack.token:
                del claims[ack.id]

    def _tell_lost(self, ack: Ack) -> None:
        self._events.emit(ClaimWasLost(job_id=ack.id, token=ack.token, runner_id=self._runner_id(), during="ack"))

    def _announce(self, ack: Ack) -> None:
        """Tell of an outcome that was written."""
        status = ack.final_status
        if self._events.wants(OutcomeWritten):
            self._events.emit(OutcomeWritten(job_id=ack.id, token=ack.token, runner_id=self._runner_id(), status=status))
        if status in {"failed", "scheduled"}:
            self._wakes.due_in(
                ack.outcome.delay_seconds, in_process_only=ack.outcome.delay_seconds > _STILL_RUNNING_DELAY_SECONDS
            )
        elif status != "pending":
            self._wakes.ended(ack.id)

    async def _reconcile(self) -> None:
        """Find out what became of calls that were not answered."""
        sent = [self._acks[token] for token in self._twice if token in self._acks]
        if sent:
            self._resolve(sent, await jobs.still_processing(self._link, sent))
        ours = {*self._claims, *(ack.id for ack in self._acks.values())}
        strays = await jobs.give_back(self._link, self._runner_id(), sorted(ours), last_token=self._tokens.last)
        self._in_doubt = False
        self._reconcile_at = time.monotonic() + self._reconcile_seconds
        if strays:
            ids = [job_id for job_id, _ in strays]
            self._events.emit(JobsGivenBack(runner_id=self._runner_id(), job_ids=ids, reason="claim was not answered"))
        for queue in {queue for _, queue in strays}:
            self._wakes.pending(queue, front=True)

    async def _isolate(self, acks: Sequence[Ack]) -> None:
        """The server refused a value: find whose it is, and write the others."""
        if len(acks) > 1:
            half = len(acks) // 2
            await self._write_each(acks[:half], acks[half:])
        else:
            await self._write_each([storable(acks[0])])

    async def _write_each(self, *parts: Sequence[Ack]) -> None:
        for part in parts:
            try:
                await self._take_written(part, await self._call(part, partial(self._statements.finish, part, [])))
            except Exception as error:
                if not is_unsendable(error) or part == [storable(part[0])]:
                    raise
                await self._isolate(part)


def _refuse(*waiting: "Order | _Look") -> None:
    for one in waiting:
        if not one.is_over:
            one.refused()


def _last(claimed: Sequence[Claimed], apart: Container[str]) -> tuple[int, int] | None:
    """The last that was claimed in the order of its scan. (A suspect, and types `apart`, are looked for from the front.)"""
    return max(map(_order, [job for job in claimed if not (job.suspicion or job.type in apart)]), default=None)


def _joined(one: Scan, other: Scan) -> Scan:
    limit, start = one.limit + other.limit, min(one.start, other.start)
    return Scan(one.queue, one.lane, limit, start, slots=one.most_limited + other.most_limited)


def _merged(orders: Sequence[Order]) -> list[Scan]:
    """One scan for each queue and lane, from the foremost start."""
    merged: dict[tuple[str, str | None], Scan] = {}
    for scan in (scan for order in orders for scan in order.scans):
        known = merged.get((scan.queue, scan.lane))
        merged[scan.queue, scan.lane] = scan if known is None else _joined(known, scan)
    return list(merged.values())


def _share(whole: Mapping[tuple[str, str | None], Found], scan: Scan) -> Found:
    """What one of the submitters of a merged scan has of it: in the order in which they came."""
    found = whole[scan.queue, scan.lane]
    share = found.jobs[: scan.limit]
    del found.jobs[: scan.limit]
    return msgspec.structs.replace(found, jobs=share)
