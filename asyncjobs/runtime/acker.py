"""The one conversation of a runner with the database about its jobs: outcomes out, claims in.

Each call of `finish` carries all outcomes that wait and what every hungry coordinator asks for; while it is under way the next
gathers (no timers, no added latency). One connection, one call at a time. What may happen to a call, and what follows:

1. It answers. Outcomes it names as lost had lost their claim: a typed outcome (`ClaimWasLost`), never success, never sent again.
   Claimed jobs start at once. Queues whose next head became pending here without being claimed here are announced.
2. The answer never comes (connection lost, time-out). Outcomes and claims are in doubt. After a pause the acker reads back by id
   and token which outcomes are still to be written, and sends only those; and it reads which jobs are processing under this
   runner's name that it does not run, and gives them back with their attempts. Both readings are made on the acker's own
   connection while no call of its own is under way. The server may still be working on the lost call when they are made, so an
   outcome that was sent twice and comes back "lost" is read back once more, and stray claims are looked for again with every
   `runner_timeout` that passes (`reconcile_seconds`). The giving back may be carried out late itself: it names the last token
   that was drawn before it, and leaves later claims alone.
3. The server refuses a value (it cannot be stored). The batch is cut in halves, without claims, until the bad one is alone; that
   one is written as a failed attempt that says so.
4. The database is away. Outcomes are kept; nothing is claimed while more of them wait than leaves room for those of all slots
   within four times the runner's concurrency, and what it claims ahead. A slot is free when its handler has ended, whatever
   becomes of the outcome.
5. The runner's own row is gone: it was declared dead. Nothing was claimed; the runner is told, and registers anew. While others
   may declare it dead at any moment (no beat was confirmed), nothing is claimed.
6. A claimed job that still runs here (its claim was lost and it came back before the handler noticed) is not started a second
   time: it is given back with its attempt, due in 5 s. So are, due at once, jobs whose claim answers after the queue was
   stopped, under an id that this runner does not have any more, or so late
   that others may have taken them (the process was frozen).
7. What scans that came back short may have skipped is looked for in a statement of its own, when a coordinator says so.
8. Which statement a call is depends on what it carries (`runtime/calls.py`): the lean ones do less, and keep all of the above.
   With one attempt that has completed, and no coordinator hungry, the key's next job starts in the slot that is free, if the
   coordinator may start heads; else the coordinator is made hungry before the call, which makes the next head pending and
   scans for it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec

from asyncjobs.model.claim import Ack, Claimed, Finished, Probe, Scan, progress_in_ascii
from asyncjobs.model.outcome import Outcome, refused
from asyncjobs.model.status import FINAL
from asyncjobs.runtime import points
from asyncjobs.runtime.alarm import Alarm
from asyncjobs.runtime.calls import Calls
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.gate import Gate
from asyncjobs.runtime.host import Host, Tokens
from asyncjobs.runtime.prefetched import gather
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.stubs import ASK_AGAIN_SECONDS, Stubs
from asyncjobs.runtime.under_way import UnderWay
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
_suspicion: Final = attrgetter("suspicion")
_BATCH: Final = 500
_LONGEST_BACKOFF_SECONDS: Final = 5.0
_STILL_RUNNING_DELAY_SECONDS: Final = 5.0
_UNCONFIRMED_LOOK_SECONDS: Final = 0.5

#: Outcomes that may wait before claiming stops, by slot: with one more for every slot they are four times the concurrency.
_MOST_UNWRITTEN: Final = 3


class Acker:
    """Writes outcomes and claims jobs, for all queues of a runner."""

    def __init__(
        self,
        link: Link,
        host: Host,
        coordinators: Sequence[Coordinator],
        *,
        gate: Gate,
        stubs: Stubs,
        tokens: Tokens,
        wakes: Wakes,
        events: Events,
        max_errors: int,
        poll_seconds: Callable[[], float],
        reconcile_seconds: float,
    ) -> None:
        self._link = link
        self._host = host
        self._coordinators = {coordinator.queue: coordinator for coordinator in coordinators}
        self._gate = gate
        self._stubs = stubs
        self._tokens = tokens
        self._calls = Calls(link, host, gate, tokens, max_errors=max_errors)
        self._wakes = wakes
        self._events = events
        self._poll_seconds = poll_seconds
        self._reconcile_seconds = reconcile_seconds
        self._acks: dict[int, Ack] = {}  # by token: each claim has its own
        self._twice: set[int] = set()  # tokens of those that were sent before, without an answer
        self._in_doubt = self._has_run = False
        self.under_way = UnderWay()
        self._claiming = True
        self._reconcile_at = time.monotonic() + reconcile_seconds
        self._poll_at = 0.0
        self._alarm = Alarm()
        self._settled = asyncio.Event()
        self._ahead = [coordinator for coordinator in coordinators if coordinator.prefetch]
        self._most_unwritten = sum(_MOST_UNWRITTEN * one.slots.concurrency + one.prefetch for one in coordinators)
        self.failures = 0
        self.answered_at = self.turned_at = time.monotonic()
        self.error: BaseException | None = None

    def put(self, ack: Ack) -> None:
        """Write this outcome with the next call."""
        self._acks[ack.token] = ack
        if self._alarm.is_asleep:
            self._alarm.wake()

    def wake(self) -> None:
        """Look whether a coordinator wants something."""
        self._alarm.wake()

    def resume(self) -> None:
        """Claim again: the runner has registered anew."""
        self._claiming = True
        self.wake()

    @property
    def unwritten(self) -> int:
        """Outcomes that wait to be written, or whose writing was not confirmed."""
        return len(self._acks)

    @property
    def unwritten_ids(self) -> list[int]:
        """Their jobs."""
        return [ack.id for ack in self._acks.values()]

    @property
    def is_idle(self) -> bool:
        """Whether every outcome is written, and no call is under way or in doubt."""
        return not self._acks and not self.under_way and not self._in_doubt

    async def wait_idle(self) -> None:
        """Wait until that is so."""
        while not self.is_idle:
            self._settled.clear()
            await self._settled.wait()

    def abort(self) -> None:
        """Drop the connection, after `run` has ended."""
        self._link.abort()

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
                    self.failures, self.error = 0, None
                self._settled.set()
        finally:
            self._alarm.close()

    async def _wait_for_work(self) -> None:
        has_yielded = False
        while True:
            now = self.turned_at = time.monotonic()
            if now >= self._poll_at:
                self._poll_at = now + self._poll_seconds()
                for coordinator in self._coordinators.values():
                    coordinator.wake(front=True)
            if self._acks or self._in_doubt or now >= self._reconcile_at or self._may_claim() or self._may_look():
                return
            if not has_yielded:  # what was just started may end without waiting for anything, and needs no timer then
                has_yielded = True
                await asyncio.sleep(0)
                continue
            await self._alarm.sleep(self._next_look(now))

    def _next_look(self, now: float) -> float:
        at = min(self._poll_at, self._reconcile_at)
        return at if self._host.is_confirmed else min(at, now + _UNCONFIRMED_LOOK_SECONDS)  # nobody tells when it is again

    def _may_claim(self) -> bool:
        if self._claiming and len(self._acks) <= self._most_unwritten:
            for coordinator in self._coordinators.values():
                if coordinator.is_hungry:
                    return self._host.is_confirmed
        return False

    def _may_look(self) -> bool:
        for coordinator in self._coordinators.values():
            if coordinator.is_look_due:
                return self._host.is_confirmed
        return False

    async def _back_off(self, error: Exception) -> None:
        self.failures += 1
        self.error = error
        self._events.emit(DatabaseFailed(during="finish", error=error))
        await asyncio.sleep(backoff_seconds(self.failures, _LONGEST_BACKOFF_SECONDS, 0.5))

    async def _turn(self) -> None:
        if self._in_doubt or time.monotonic() >= self._reconcile_at:
            await self._reconcile()
        if self._may_look():
            await self._calls.look_for_skipped(self._coordinators.values())
        if self._ahead:
            await gather(self._acks, _BATCH, self._ahead)
        acks = list(islice(self._acks.values(), _BATCH))
        is_one = len(acks) == 1 and self._goes_alone(acks[0])
        scans = [] if is_one else self._scans(acks)
        if not acks and not scans:
            return
        probes = self._gate.probes() if scans else ()
        versions = {scan.queue: self._coordinators[scan.queue].version for scan in scans}
        at, runner_id = time.monotonic(), self._host.runner_id
        try:
            finished = await self._call(acks, self._calls.leanest(acks, scans, probes, is_one=is_one))
        except Exception as error:
            if not is_unsendable(error) or not acks:
                raise
            await self._isolate(acks)
            return
        if runner_id == self._host.runner_id:
            self._deliver(scans, probes, versions, finished, at)
        else:  # registered anew meanwhile: what was claimed under the former id is to be rescued, or still ours to give back
            self._give_back(finished.claimed)
        await self._settle(acks, finished)

    def _scans(self, acks: Sequence[Ack]) -> list[Scan]:
        for ack in acks:
            if ack.key_queue is not None and ack.final_status in FINAL:
                self._coordinators[ack.key_queue].expect_head()
        if not self._may_claim():
            return []
        now = time.monotonic()
        return [scan for coordinator in self._coordinators.values() for scan in coordinator.scans(now)]

    def _goes_alone(self, ack: Ack) -> bool:
        """Whether the lean call will do: an attempt that completed, and no scan, not even for the key's next job."""
        if ack.outcome.kind != "completed" or ack.progress is not None or self._may_claim():
            return False
        return ack.key_queue is None or self._may_start_head(ack.key_queue)

    def _may_start_head(self, queue: str) -> bool:
        return self._claiming and self._host.is_confirmed and self._coordinators[queue].may_start_heads(time.monotonic())

    async def _call(self, acks: Sequence[Ack], send: Callable[[], Awaitable[Finished]]) -> Finished:
        began_at = time.monotonic()
        try:
            with self.under_way:
                if points.active:
                    await points.reach("finish.send")
                finished = await send()
                if finished.asking:
                    finished, unasked = await self._stubs.ask(self._link, finished, self._events)
                    self._give_back(unasked, delay_seconds=ASK_AGAIN_SECONDS)
                if points.active:
                    await points.reach("finish.sent")
        except BaseException as error:
            if is_ambiguous(error) or isinstance(error, asyncio.CancelledError):
                self._in_doubt = True
                self._twice.update(ack.token for ack in acks)
            raise
        self.answered_at = self.turned_at = time.monotonic()
        if acks and self._events.wants(AcksWritten):
            tokens, seconds = [ack.token for ack in acks if ack.token not in finished.lost], self.answered_at - began_at
            self._events.emit(
                AcksWritten(runner_id=self._host.runner_id, tokens=tokens, claimed=len(finished.claimed), seconds=seconds)
            )
        return finished

    async def _settle(self, acks: Sequence[Ack], finished: Finished) -> None:
        """Take what was written off the list, tell what was lost, and announce what follows."""
        for queue in finished.heads:
            self._wakes.pending(queue)
        if not (finished.lost or self._twice or self._events.wants(OutcomeWritten)):
            has_waiters = self._wakes.has_waiters
            for ack in acks:
                del self._acks[ack.token]
                if has_waiters or ack.outcome.kind != "completed":
                    self.announce(ack)
            return
        lost = frozenset(finished.lost)
        doubtful = [ack for ack in acks if ack.token in lost and ack.token in self._twice]
        for ack in acks:
            if ack not in doubtful:
                self._forget(ack, lost=ack.token in lost)
        if doubtful:  # an answer that does not come leaves them in `_twice`: they are sent, and read, once more
            self._resolve(doubtful, await jobs.still_processing(self._link, doubtful))

    def _resolve(self, acks: Sequence[Ack], state: Mapping[int, bool]) -> None:
        """Forget those that were written, or whose claim is lost."""
        for ack in acks:
            if state.get(ack.token) is not True:
                self._forget(ack, lost=ack.token not in state)

    def _forget(self, ack: Ack, *, lost: bool) -> None:
        self._acks.pop(ack.token, None)
        self._twice.discard(ack.token)
        if lost:
            self._events.emit(ClaimWasLost(job_id=ack.id, token=ack.token, runner_id=self._host.runner_id, during="ack"))
        else:
            self.announce(ack)

    def announce(self, ack: Ack) -> None:
        """Tell of an outcome that was written."""
        status = ack.final_status
        if self._events.wants(OutcomeWritten):
            self._events.emit(OutcomeWritten(job_id=ack.id, token=ack.token, runner_id=self._host.runner_id, status=status))
        if status in {"failed", "scheduled"}:
            self._wakes.due_in(ack.outcome.delay_seconds, here_only=ack.outcome.delay_seconds > _STILL_RUNNING_DELAY_SECONDS)
        elif status != "pending":
            self._wakes.ended(ack.id)

    def _deliver(
        self, scans: Sequence[Scan], probes: Sequence[Probe], versions: dict[str, int], finished: Finished, at: float
    ) -> None:
        """Start what was claimed, and let the coordinators know what they saw."""
        if finished.gone:
            self._claiming = False
            self._host.declared_dead()
            return
        if not scans and finished.claimed:  # the next job of a key
            self._start(Scan(finished.claimed[0].queue, None, 1), finished.claimed)
            return
        seconds = time.monotonic() - at
        if probes:
            self._gate.claimed(probes, finished.claimed, seconds)
        apart = frozenset(type for probe in probes for type in probe.types)
        for scan, claimed in zip(scans, finished.by_scan(len(scans)), strict=True):
            coordinator = self._coordinators[scan.queue]
            coordinator.answered(
                scan, claimed, version=versions[scan.queue], at=at, seconds=seconds, others=self._host.other_runners > 0,
                apart=apart,
            )  # fmt: skip
            self._start(scan, claimed)

    def _start(self, scan: Scan, claimed: list[Claimed]) -> None:
        if self._events.wants(JobsClaimed):
            self._events.emit(
                JobsClaimed(runner_id=self._host.runner_id, queue=scan.queue, wanted=scan.limit, claimed=len(claimed))
            )
        if self._coordinators[scan.queue].is_stopped or not self._host.is_confirmed:
            self._give_back(claimed)
            return
        running = self._host.running_ids() if claimed else ()
        self._give_back([job for job in claimed if job.id in running], delay_seconds=_STILL_RUNNING_DELAY_SECONDS)
        start = self._host.start_attempt
        ordered = sorted(claimed, key=_order)
        if claimed and claimed[0].suspicion:  # it must not wait for a slot
            ordered = sorted(ordered, key=_suspicion, reverse=True)
        for job in ordered:
            if job.id not in running:
                start(job, scan)

    def _give_back(self, claimed: Sequence[Claimed], *, delay_seconds: float = 0.0) -> None:
        for job in claimed:
            self.put(Ack(job.id, job.token, Outcome(kind="interrupted", delay_seconds=delay_seconds, is_begun=False)))

    async def _reconcile(self) -> None:
        """Find out what became of calls that were not answered."""
        sent = [self._acks[token] for token in self._twice if token in self._acks]
        if sent:
            self._resolve(sent, await jobs.still_processing(self._link, sent))
        running = {*self._host.running_ids(), *self.unwritten_ids}
        strays = await jobs.give_back(self._link, self._host.runner_id, sorted(running), last_token=self._tokens.last)
        self._in_doubt = False
        self._reconcile_at = time.monotonic() + self._reconcile_seconds
        if strays:
            ids = [job_id for job_id, _ in strays]
            self._events.emit(JobsGivenBack(runner_id=self._host.runner_id, job_ids=ids, reason="claim was not answered"))
        for queue in {queue for _, queue in strays}:
            self._wakes.pending(queue, front=True)

    async def _isolate(self, acks: Sequence[Ack]) -> None:
        """The server refused a value: find whose it is, and write the others."""
        if len(acks) > 1:
            half = len(acks) // 2
            await self._write_each(acks[:half], acks[half:])
            return
        [ack] = acks
        if ack.progress is not None and (told := progress_in_ascii(ack.progress)) != ack.progress:
            # What a handler says on the way never fails its job.
            await self._write_each([msgspec.structs.replace(ack, progress=told)])
            return
        plain = msgspec.structs.replace(ack, outcome=refused(ack.outcome))
        await self._settle([plain], await self._call([plain], partial(self._calls.finish, [plain], [])))

    async def _write_each(self, *parts: Sequence[Ack]) -> None:
        for part in parts:
            try:
                await self._settle(part, await self._call(part, partial(self._calls.finish, part, [])))
            except Exception as error:
                if not is_unsendable(error):
                    raise
                await self._isolate(part)
