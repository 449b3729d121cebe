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
   `runner_timeout` that passes (`reconcile_seconds`).
3. The server refuses a value (it cannot be stored). The batch is cut in halves, without claims, until the bad one is alone; that
   one is written as a failed attempt that says so.
4. The database is away. Outcomes are kept; nothing is claimed while more than four times the runner's concurrency wait to be
   written. A slot is free when its handler has ended, whatever becomes of the outcome.
5. The runner's own row is gone: it was declared dead. Nothing was claimed; the runner is told, and registers anew.
6. A claimed job that still runs here (its claim was lost and it came back before the handler noticed) is not started a second
   time: it is given back with its attempt, due in 5 s.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

import msgspec

from asyncjobs.model.claim import FRONT, Ack, Claimed, Finished, Scan
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.runtime import points
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import jobs
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_passing, is_unsendable
from asyncjobs.telemetry.events import ClaimWasLost, DatabaseFailed, Events, JobsClaimed, JobsGivenBack, OutcomeWritten

_BATCH: Final = 500
_LONGEST_BACKOFF_SECONDS: Final = 5.0
_STILL_RUNNING_DELAY_SECONDS: Final = 5.0


class Host(Protocol):
    """What the acker needs of its runner."""

    @property
    def runner_id(self) -> int:
        """Under which the runner is registered now."""

    @property
    def other_runners(self) -> int:
        """How many other runners are alive, as far as is known."""

    @property
    def types(self) -> Sequence[str]:
        """The types that this runner has handlers for."""

    def running_ids(self) -> Collection[int]:
        """The jobs whose handlers run here."""

    def may_take_rescued(self) -> bool:
        """Whether no job that was rescued runs here."""

    def start_attempt(self, job: Claimed, scan: Scan) -> None:
        """Run a claimed job, in a slot of the scan that found it."""

    def declared_dead(self) -> None:
        """The runner's own row is gone."""


class Tokens:
    """Claim tokens: a random base of this runner and a number for each claim, handed out once even if the call was lost."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._next = 0

    def take(self, count: int) -> int:
        """Numbers for `count` rows: the one before the first."""
        first = self._next
        self._next = (self._next + count) % 2**32
        return first


class Acker:
    """Writes outcomes and claims jobs, for all queues of a runner."""

    def __init__(
        self,
        link: Link,
        host: Host,
        coordinators: Sequence[Coordinator],
        *,
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
        self._tokens = tokens
        self._wakes = wakes
        self._events = events
        self._max_errors = max_errors
        self._poll_seconds = poll_seconds
        self._reconcile_seconds = reconcile_seconds
        self._acks: dict[tuple[int, int], Ack] = {}
        self._twice: set[tuple[int, int]] = set()  # sent before, without an answer
        self._in_doubt = False
        self._claiming = True
        self._reconcile_at = time.monotonic() + reconcile_seconds
        self._poll_at = 0.0
        self._awake = asyncio.Event()
        self._written = asyncio.Event()
        self._most_unwritten = 4 * sum(coordinator.slots.concurrency for coordinator in coordinators)
        self.failures = 0
        self.answered_at = time.monotonic()
        self.error: BaseException | None = None

    def put(self, ack: Ack) -> None:
        """Write this outcome with the next call."""
        self._acks[ack.id, ack.token] = ack
        self._awake.set()

    def wake(self) -> None:
        """Look whether a coordinator wants something."""
        self._awake.set()

    def resume(self) -> None:
        """Claim again: the runner has registered anew."""
        self._claiming = True
        self._awake.set()

    @property
    def unwritten(self) -> int:
        """Outcomes that wait to be written, or whose writing was not confirmed."""
        return len(self._acks)

    async def wait_written(self) -> None:
        """Wait until every outcome is written."""
        while self._acks:
            self._written.clear()
            await self._written.wait()

    def abort(self) -> None:
        """Drop the connection, after `run` has ended."""
        self._link.abort()

    async def run(self) -> None:
        """Talk to the database until cancelled."""
        while True:
            await self._wait_for_work()
            try:
                await self._turn()
            except Exception as error:  # noqa: BLE001 - one pass of a service
                await self._back_off(error)
            else:
                self.failures, self.error = 0, None

    async def _wait_for_work(self) -> None:
        while True:
            now = time.monotonic()
            if now >= self._poll_at:
                self._poll_at = now + self._poll_seconds()
                for coordinator in self._coordinators.values():
                    coordinator.wake(front=True)
            if self._acks or self._in_doubt or now >= self._reconcile_at or self._may_claim():
                return
            self._awake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._poll_at, self._reconcile_at) - now):
                    await self._awake.wait()

    def _may_claim(self) -> bool:
        return (
            self._claiming and len(self._acks) <= self._most_unwritten and any(c.is_hungry for c in self._coordinators.values())
        )

    async def _back_off(self, error: Exception) -> None:
        self.failures += 1
        self.error = error
        self._events.emit(DatabaseFailed(during="finish", error=error))
        await asyncio.sleep(backoff_seconds(self.failures, _LONGEST_BACKOFF_SECONDS, 0.5))

    async def _turn(self) -> None:
        if self._in_doubt or time.monotonic() >= self._reconcile_at:
            await self._reconcile()
        acks = list(self._acks.values())[:_BATCH]
        scans, versions = self._scans() if self._may_claim() else ([], {})
        if not acks and not scans:
            return
        at = time.monotonic()
        try:
            finished = await self._finish(acks, scans)
        except Exception as error:
            if is_unsendable(error) and acks:
                await self._isolate(acks)
                return
            self._in_doubt = is_passing(error)
            self._twice.update((ack.id, ack.token) for ack in acks)
            raise
        self._deliver(scans, versions, finished, at)
        await self._settle(acks, finished)

    def _scans(self) -> tuple[list[Scan], dict[str, int]]:
        now = time.monotonic()
        versions = {queue: coordinator.version for queue, coordinator in self._coordinators.items()}
        return [scan for coordinator in self._coordinators.values() for scan in coordinator.scans(now)], versions

    async def _finish(self, acks: Sequence[Ack], scans: Sequence[Scan]) -> Finished:
        if points.active:
            await points.reach("finish.send")
        rescued = self._host.may_take_rescued() and any(scan.start == FRONT for scan in scans)
        first = self._tokens.take(sum(scan.limit for scan in scans))
        finished = await jobs.finish(
            self._link, self._host.runner_id, acks, scans, self._host.types,
            rescued=rescued, token_base=self._tokens.base, token_seq=first, max_errors=self._max_errors,
        )  # fmt: skip
        if points.active:
            await points.reach("finish.sent")
        self.answered_at = time.monotonic()
        return finished

    async def _settle(self, acks: Sequence[Ack], finished: Finished) -> None:
        """Take what was written off the list, tell what was lost, and announce what follows."""
        lost = set(finished.lost)
        doubtful = [ack for ack in acks if ack.id in lost and (ack.id, ack.token) in self._twice]
        if doubtful:  # an answer that does not come leaves them in `_twice`: they are sent, and read, once more
            written = await jobs.still_processing(self._link, doubtful)
            lost -= {ack.id for ack in doubtful if written.get(ack.id) is False}
        for ack in acks:
            self._forget(ack, lost=ack.id in lost)
        for queue in finished.heads:
            self._wakes.pending(queue)

    def _forget(self, ack: Ack, *, lost: bool) -> None:
        self._acks.pop((ack.id, ack.token), None)
        self._twice.discard((ack.id, ack.token))
        if lost:
            self._events.emit(ClaimWasLost(job_id=ack.id, token=ack.token, runner_id=self._host.runner_id, during="ack"))
        else:
            self.announce(ack)
        if not self._acks:
            self._written.set()

    def announce(self, ack: Ack) -> None:
        """Tell of an outcome that was written."""
        status = ack.status
        if self._events.wants(OutcomeWritten):
            self._events.emit(OutcomeWritten(job_id=ack.id, token=ack.token, runner_id=self._host.runner_id, status=status))
        if status in {"failed", "scheduled"}:
            self._wakes.due_in(ack.outcome.delay_seconds, here_only=ack.outcome.delay_seconds > _STILL_RUNNING_DELAY_SECONDS)
        elif status != "pending":
            self._wakes.ended(ack.id)

    def _deliver(self, scans: Sequence[Scan], versions: dict[str, int], finished: Finished, at: float) -> None:
        """Start what was claimed, and let the coordinators know what they saw."""
        if finished.gone:
            self._claiming = False
            self._host.declared_dead()
            return
        seconds = time.monotonic() - at
        by_scan: list[list[Claimed]] = [[] for _ in scans]
        for job in finished.claimed:
            by_scan[job.scan - 1].append(job)
        for scan, claimed in zip(scans, by_scan, strict=True):
            coordinator = self._coordinators[scan.queue]
            coordinator.answered(
                scan, claimed, version=versions[scan.queue], at=at, seconds=seconds, others=self._host.other_runners > 0
            )
            self._start(scan, claimed)

    def _start(self, scan: Scan, claimed: list[Claimed]) -> None:
        if self._events.wants(JobsClaimed):
            self._events.emit(
                JobsClaimed(runner_id=self._host.runner_id, queue=scan.queue, wanted=scan.limit, claimed=len(claimed))
            )
        running = set(self._host.running_ids()) if claimed else set()
        claimed.sort(key=_order)
        for job in claimed:
            if job.id in running:
                outcome = Outcome(kind="interrupted", delay_seconds=_STILL_RUNNING_DELAY_SECONDS)
                self.put(Ack(job.id, job.token, outcome))
            else:
                self._host.start_attempt(job, scan)

    async def _reconcile(self) -> None:
        """Find out what became of calls that were not answered."""
        sent = [self._acks[key] for key in self._twice if key in self._acks]
        if sent:
            state = await jobs.still_processing(self._link, sent)
            for ack in sent:
                if state.get(ack.id) is not True:
                    self._forget(ack, lost=ack.id not in state)
        running = {*self._host.running_ids(), *(job_id for job_id, _ in self._acks)}
        strays = await jobs.give_back(self._link, self._host.runner_id, sorted(running))
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
            for part in (acks[:half], acks[half:]):
                try:
                    await self._settle(part, await self._finish(part, []))
                except Exception as error:
                    if not is_unsendable(error):
                        raise
                    await self._isolate(part)
            return
        [ack] = acks
        plain = msgspec.structs.replace(ack, outcome=_refused(ack.outcome))
        await self._settle([plain], await self._finish([plain], []))


def _order(job: Claimed) -> tuple[int, int]:
    return job.priority, job.place


def _refused(outcome: Outcome) -> Outcome:
    """A failed attempt in place of an outcome that the database does not take."""
    message = "the database refused to store the outcome of this attempt"
    kind: OutcomeKind = "retry" if outcome.kind == "retry" else "dead"
    error = {"type": "UnstorableResult", "message": message}
    return Outcome(kind=kind, delay_seconds=outcome.delay_seconds, message=message, error=error)
