"""One queue on one runner: a task, named after the queue, that claims when there is a reason to look, and starts a task per job.

Its loop: wait for the first of notification, enqueue of this process, due job, freed slot while work is known to wait,
time-out; take the free slots of its semaphores (one for the general slots, one per lane) without waiting; claim that many
through the call line; a task per job; give back the slots that were not used. When it claims, and how much, is decided here
and nowhere else, but for the next job of a key, for which its actor takes a slot (`runtime/keys.py`) (P5, P6):

1. It asks for exactly the free slots: a scan per lane with free slots of its own, and one for the general slots; to that one
   comes what is missing of `prefetch` when half of it is gone: jobs that wait here for a slot (`runtime/stock.py`).
2. Every reason to look (a notification, an enqueue of this process, a due job, the time-out) notes how many calls of the line
   had been sent, for each lane. A lane has seen it when a scan of a later call came back short, and had started at the front.
   Until then it is hungry: whatever happens while its scan waits, or is under way, leaves it so. A flag that is cleared when the
   answer arrives would forget exactly that.
3. A freed slot is no reason by itself: when the last scan came back short, nothing was there. But the end of a workflow's
   member is one: it may make others pending in the call that writes it, and these start there. And a hungry lane asks again at
   once when a slot becomes free, so a slot never stays empty while work is known to wait (P4). The coordinator is woken before
   the line is, so that what is claimed for the slot goes with the outcome. What is claimed starts in the step in which the line
   has read it, and its coordinator goes on behind the first steps of these attempts: slots of those that end at once are asked
   for with the others. (Two calls would take turns with half of the slots each.) What is to wait here for a slot is asked for in
   the very same step, so that the server has nothing to wait for; so with `prefetch` what was claimed starts behind that
   (`runtime/stock.py`, 9).
4. Rows that are locked (another runner's claim, a verb, a stranger's transaction) are skipped, not absent, and nobody
   notifies when they are let go. So a scan that came back short is followed by a look whether anything is there that it would
   have taken: after 20 ms while other runners live, else after 0.2 s; one look for all scans of that time, since it costs less
   than a scan. (It leaves out what became pending in the last 15 ms, so a scan that was sent just before it has another.) If
   something is there the scan is made again; as long as it comes back short the pauses double, up to a second. A scan that the
   time-out alone was the reason for, and that found nothing, has no look: the next time-out is one. What is let go before it
   waits no longer than what nobody has told of.
5. A call that failed leaves its lanes hungry, and they start at the front. While the line is closed nothing is asked for.
6. The time-out is that of all coordinators of the runner, and rings for all of them in the same turn of the loop: what they
   look for then is one statement.
7. A slot is with the coordinator from when it is taken until an attempt has it or it is given back, whatever ends the task in
   between. An attempt that ends passes it on to the next that waits here, or gives it back: that needs no task.

8. Of what a notification tells, some of the runners that hear it look, and others see to it that these do: `runtime/herd.py`.
   For what is enqueued in this process it may answer, so that no notification is sent. One that was called, and has found what
   it answers for, needs no second look (4).
9. The end of a job that has a limit, or whose queue has a total, is a reason to look: a permit is free with it.
10. Where a budget was given (`runtime/budget.py`), a scan asks for no more than is left of it.

The queue is *quiet* while nothing that is known of waits for its general slots: the last scan came back short, it is no older
than 0.1 s, and nothing has woken the coordinator since. That is for the actors of keys to know (`runtime/keys.py`).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from operator import attrgetter
from typing import Final, Protocol

import msgspec

from asyncjobs.model.claim import Ack, Claimed, Scan, is_front
from asyncjobs.model.peers import Lot
from asyncjobs.model.scan import ScanStart
from asyncjobs.runtime.alarm import Alarm
from asyncjobs.runtime.attempt import Attempt, Surroundings
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.budget import Budget
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.clock import TIMER_MARGIN_SECONDS, boottime
from asyncjobs.runtime.definition import JobDefinition
from asyncjobs.runtime.expiry import has_expired
from asyncjobs.runtime.herd import LOOKS_AFTER_SECONDS, Herd, Place, alone
from asyncjobs.runtime.orders import NoAnswer, Scanned, aged_order, order_of
from asyncjobs.runtime.polling import Polling
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.slots import Slots, SlotsError
from asyncjobs.runtime.stock import Stock
from asyncjobs.runtime.turnstile import Turnstile
from asyncjobs.settings import Queue

#: How long another claim may hold rows locked that it will not keep.
SECOND_LOOK_SECONDS: Final = 0.02
#: A look leaves out what became pending so lately (`skipped.sql`); with some time for the clocks.
FRESH_SECONDS: Final = 0.019
#: Without other runners only verbs and strangers lock rows.
LONELY_LOOK_SECONDS: Final = 0.2
LONGEST_LOOK_SECONDS: Final = 1.0

#: For how long a scan that came back short vouches for it that nothing waits.
QUIET_SECONDS: Final = 0.1

_GENERAL: Final = (None,)
_suspicion: Final = attrgetter("suspicion")
_followers: Final = attrgetter("followers")


class PutsOutcomes(Protocol):
    """Where the outcomes of jobs with a key go."""

    def put(self, attempt: Attempt, ack: Ack) -> None:
        """An attempt of a job with a key has ended."""


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What all coordinators of a runner share."""

    line: CallLine
    attempts: Attempts
    handlers: Mapping[str, JobDefinition]
    surroundings: Surroundings
    polling: Polling
    turnstile: Turnstile
    probation: Probation
    keys: PutsOutcomes
    verify: Callable[[Attempt, Ack], None]  # of a job that was completed inside its handler's transaction
    note: Callable[[Attempt, Ack], None]  # for the roll-ups
    others: Callable[[], int]  # other runners that may hold rows locked
    place: Place = alone  # among its peers, of a lot
    tell: Callable[[str, int | None, int], None] = lambda *_: (
        None
    )  # the others, of so many jobs of a queue, passed on so often; or all
    budget: Budget | None = None  # None: it starts as many jobs as there are


class LaneSlots:
    """The slots of one kind, and what has been seen of the jobs that may have them. `name` None: the general ones."""

    __slots__ = ("is_asking", "name", "reason", "seen", "slots", "start")

    def __init__(self, name: str | None, size: int, ageing_seconds: float | None = None) -> None:
        self.name = name
        self.slots = Slots(size)
        self.start = ScanStart(ageing_seconds)
        self.reason = 0  # calls that had been sent when there was the last reason to look
        self.seen = -1  # the number of the last call that saw everything
        self.is_asking = False  # a scan has its free slots


class Claim:
    """The scans of a coordinator, on their way through the line, and the slots that are theirs."""

    head_of = None

    def __init__(
        self, coordinator: "Coordinator", scans: Sequence[Scan], taken: dict[str | None, int], answers_for: float, *,
        is_only_called: bool, is_only_polled: bool,
    ) -> None:  # fmt: skip
        self.scans = scans
        self.taken = taken  # free slots, by lane, for what is claimed
        self.answers_for = answers_for  # jobs (`runtime/herd.py`)
        self.is_only_called = is_only_called
        self.is_only_polled = is_only_polled
        self.is_over = False
        self._coordinator = coordinator

    def answered(self, found: list[Scanned]) -> None:
        """Start what was claimed."""
        self.is_over = True
        self._coordinator.take_in(self, found)

    def refused(self) -> None:
        """The call failed, or was not made."""
        self.is_over = True
        self._coordinator.take_in(self, ())


class Coordinator:
    """Claims for one queue and runs what it claimed."""

    def __init__(self, queue: Queue, shared: Shared) -> None:
        self.queue = queue.name
        self.concurrency = queue.concurrency
        ageing = queue.ageing_seconds
        self._order = order_of if ageing is None else aged_order(ageing)
        self.general = LaneSlots(None, queue.concurrency - sum(lane.slots for lane in queue.lanes.values()), ageing)
        #: Kept slots are filled first, so that general ones stay free for the others.
        self.lanes: dict[str | None, LaneSlots] = {
            name: LaneSlots(name, lane.slots, ageing) for name, lane in queue.lanes.items()
        }
        self._budget = shared.budget
        self.stock = Stock(queue.prefetch if self.general.slots.size and self._budget is None else 0, tuple(queue.lanes))
        self.lanes[None] = self.general
        self.is_stopped = False
        self._has_total = queue.total is not None
        self._shared = shared
        self._line = shared.line
        self._alarm = Alarm()
        self._has_answer = asyncio.Event()  # cleared while a claim is on its way through the line
        self._has_answer.set()
        self._herd = Herd(queue.concurrency, place=shared.place, tell=partial(shared.tell, queue.name), others=shared.others)
        self._is_only_called = False  # whether nothing but being called was a reason since the last scan
        self._is_only_polled = False  # likewise, the time-out
        self._looked_at = -inf  # when the last look was sent
        self._skipped_at = -inf  # when the last scan was sent that may have skipped something
        self._has_reason = True  # whether some lane has not seen it: then a slot that is freed is one, too
        self._short: set[str | None] = set()  # lanes whose scan came back short since the last look for what it skipped
        self._short_at = -inf  # when the last scan for general slots was sent that came back short
        self._look_seconds: float | None = None  # the pause before the look that is planned, or was made last; None: the first
        self._is_look_planned = self._is_look_due = False
        self._expires_at = inf  # when the next expires of what was claimed ahead, by `boottime`
        self._expiry: asyncio.TimerHandle | None = None

    # The loop.

    async def run(self) -> None:
        """Claim and start jobs until stopped."""
        self._shared.polling.add(self._time_out)
        if self._budget is not None:
            self._budget.watch(self._alarm.wake)
        while not self.is_stopped:
            lanes = await self._await_reason()
            if lanes:
                self._claim(lanes)
            elif self._is_look_due:
                with suppress(NoAnswer):  # the line says when it is worth while to ask again
                    await self._look_for_skipped()

    async def _await_reason(self) -> list[LaneSlots]:
        """Wait for a reason to look, and a free slot; the lanes that have both."""
        while True:
            self._shared.polling.begin()
            while not self._has_answer.is_set():
                await self._has_answer.wait()
            await self._line.wait_open()
            lanes = [] if self.is_stopped else self._hungry()
            if lanes or self._is_look_due or self.is_stopped:
                return lanes
            await self._alarm.sleep(inf)

    def _hungry(self) -> list[LaneSlots]:
        if self._budget is not None and not self._budget.left:
            return []
        unseen = [lane for lane in self.lanes.values() if lane.seen <= lane.reason]
        self._has_reason = bool(unseen)
        return [lane for lane in unseen if lane.slots.free or self._room(lane)]

    def _room(self, lane: LaneSlots) -> int:
        return self.stock.room if self.stock.most and lane is self.general else 0

    def _claim(self, lanes: Sequence[LaneSlots], *, at_once: bool = False) -> None:
        """Ask for jobs. What is claimed starts in the step in which the line has read it."""
        taken = {lane.name: lane.slots.take_free() for lane in lanes}
        for lane in lanes:
            lane.is_asking = True
        self._has_answer.clear()
        claim = Claim(
            self, self._scans(lanes, taken), taken, self._herd.begin(), is_only_called=self._is_only_called,
            is_only_polled=self._is_only_polled,
        )  # fmt: skip
        self._is_only_called = self._is_only_polled = False
        self._line.hand_in(claim, at_once=at_once)

    def take_in(self, claim: "Claim", found: Sequence[Scanned]) -> None:
        """Start what a claim has found (nothing: it was not answered), and give back the slots that are left of its own."""
        started = 0
        try:
            count = sum(len(one.jobs) for one in found)
            needs_look = bool(count) if claim.is_only_polled else not claim.is_only_called or claim.answers_for > count
            for scan, one in zip(claim.scans, found, strict=bool(found)):
                self._saw(scan, one, needs_look=needs_look)
                for job in self.startable(one.jobs):
                    started += self._start_or_stock(job, scan, claim.taken)
            if self.stock.without_slot > self.stock.most:
                raise SlotsError(f"{self.queue} claimed more than may wait")
        finally:
            if self.stock.kept:
                asyncio.get_running_loop().call_soon(self._fill_kept)
            for name, slots in claim.taken.items():
                self.lanes[name].is_asking = False
                self.lanes[name].slots.give_back(slots)
            if self._budget is not None:
                self._budget.started(started)
                self._budget.give_back(sum(scan.limit for scan in claim.scans) - started)
            self._herd.end(claim.answers_for, found, can_claim=self._can_claim())
            self._has_answer.set()
        if self.stock.most and found and not self.is_stopped:
            lanes = self._hungry()
            if lanes and not any(lane.slots.free for lane in lanes):
                self._claim(lanes, at_once=True)

    def _scans(self, lanes: Sequence[LaneSlots], taken: Mapping[str | None, int]) -> list[Scan]:
        now, limit = time.monotonic(), _as_many if self._budget is None else self._budget.take
        ahead = self.stock.ahead
        return [
            Scan(self.queue, lane.name, count, lane.start.next(now), taken[lane.name], ahead if self._room(lane) else 0)
            for lane in lanes
            if (count := limit(taken[lane.name] + self._room(lane)))
        ]

    def _saw(self, scan: Scan, found: Scanned, *, needs_look: bool) -> None:
        lane = self.lanes[scan.lane]
        lane.start.made(found.start, full=found.is_full, last=found.last, at=found.sent_at, seconds=found.seconds)
        if not found.is_full and is_front(found.start):
            lane.seen = found.call
            if lane is self.general:
                self._short_at = found.sent_at
            if needs_look:
                self._short.add(lane.name)
                self._skipped_at = found.sent_at
                self._plan_look()

    def _can_claim(self) -> bool:
        """Whether it could claim a job for its general slots (if it has any) at once."""
        if self.is_stopped or not self._line.is_open or (self._budget is not None and not self._budget.left):
            return False
        lanes = [self.general] if self.general.slots.size else self.lanes.values()
        return any(lane.slots.free or self._room(lane) for lane in lanes)

    def _start_or_stock(self, job: Claimed, scan: Scan, taken: dict[str | None, int]) -> bool:
        """Start it in a slot that was taken, or one that has become free since; else it waits for one. Whether it has a slot."""
        stock, lanes = self.stock, self.lanes
        # (A suspect that waited would be on probation before it runs.)
        may_wait = stock.most and not (job.suspicion or self._shared.turnstile.is_held(job))
        for name in (scan.lane, None, job.lane) if len(lanes) > 1 else _GENERAL:
            if taken.get(name):
                taken[name] -= 1
            elif name not in lanes or not (lanes[name].slots.free and lanes[name].slots.take(1)):
                continue
            if may_wait:
                stock.add(job)
                stock.kept.append(name)
            else:
                self.start(job, name)
            return True
        if may_wait:
            stock.add(job)
            if job.start_by < self._expires_at:
                self._plan_expiry(job.start_by)
        elif job.suspicion or self._shared.turnstile.is_held(job):
            self._line.give_back([job])
        else:
            raise SlotsError(f"{self.queue} claimed more than it has slots for")
        return False

    def _fill_kept(self) -> None:
        """Fill the slots that were kept for what waits."""
        kept, self.stock.kept = self.stock.kept, []
        for name in kept:
            self._pass_on(name)

    # Reasons to look.

    def wake(self, *, front: bool = False) -> None:
        """There is a reason to look; `front`: perhaps before the jobs that were claimed last."""
        self._is_only_called = False
        self._note(self.lanes.values(), front=front)

    def answers_for(self, type: str, version: int) -> bool:
        """Whether it claims a job that is pending now, and answers for it: it is to be woken in this step."""
        definition, general = self._shared.handlers.get(type), self.general
        if definition is None or definition.version < version or type not in self._shared.turnstile.types():
            return False
        if not self._can_claim() or not general.slots.free or general.slots.free <= self._herd.told:
            return False
        self._herd.answer_for(1, passes=0, can_claim=True)
        return True

    def hear(self, lot: Lot | None, *, front: bool, is_own: bool) -> None:
        """Jobs became pending, as a notification says: some of the runners that hear it are called (`runtime/herd.py`)."""
        called = 1 if lot is None else self._herd.called(lot)
        if lot is None:
            self._herd.all_called()
            self.wake(front=front)
        elif is_own:  # it was woken, and has looked if it could
            if called > 0 and not self._can_claim() and not self.general.is_asking:
                self._herd.answer_for(called, passes=lot.passes, can_claim=False)
        elif called > 0:
            self._is_only_called = self._is_only_called or not self._is_hungry
            self._note(self.lanes.values(), front=front)
            self._herd.answer_for(called, passes=lot.passes, can_claim=self._can_claim() or self.general.is_asking)
        else:
            self._note([lane for lane in self.lanes.values() if not (lane.slots.free or lane.is_asking)], front=front)
            if called < 0:
                seconds, since = LOOKS_AFTER_SECONDS[-called - 1], time.monotonic()
                asyncio.get_running_loop().call_later(seconds, self._see_to, self._line.calls, since)

    def _note(self, lanes: Collection[LaneSlots], *, front: bool) -> None:
        self._is_only_polled = False
        for lane in lanes:
            lane.reason = self._line.calls
        if front:
            for lane in self.lanes.values():
                lane.start.hint()
        if lanes:
            self._has_reason = True
            self._alarm.wake()

    @property
    def _is_hungry(self) -> bool:
        return any(lane.seen <= lane.reason for lane in self.lanes.values())

    def _see_to(self, calls: int, since: float) -> None:
        """Others were called then: were they there? Whatever was seen since says so."""
        if self.general.seen > calls or self._looked_at - since >= FRESH_SECONDS:
            return
        if self._can_claim():
            self._short.update(self.lanes)
            self._look()
        else:
            self._note(self.lanes.values(), front=False)

    def _time_out(self) -> None:
        is_rest = not self._is_hungry
        if is_rest:
            self._herd.found_by_poll()
        self.wake(front=True)
        self._is_only_polled = is_rest

    def stop(self) -> None:
        """Claim nothing any more, and give back what waits."""
        self.is_stopped = True
        self.give_back_waiting()
        self._plan_expiry(inf)
        self._herd.stop()
        self._alarm.wake()

    # What expires while it waits here.

    def _plan_expiry(self, at: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expires_at = at
        seconds = max(at - boottime(), 0.0) + TIMER_MARGIN_SECONDS
        self._expiry = None if at == inf else asyncio.get_running_loop().call_later(seconds, self._give_back_expired)

    def _watch_expiry(self, waiting: Iterable[Claimed]) -> None:
        at = min((job.start_by for job in waiting), default=inf)
        if at < self._expires_at:
            self._plan_expiry(at)

    def _give_back_expired(self) -> None:
        """What has expired holds nothing up any more: its key goes on, and tasks that wait for it are told."""
        self.give_back_waiting(has_expired)
        self._plan_expiry(self.stock.expires_at)

    # What may have been skipped.

    def _plan_look(self) -> None:
        if not self._is_look_planned:
            self._is_look_planned = True
            first = SECOND_LOOK_SECONDS if self._shared.others() else LONELY_LOOK_SECONDS
            asyncio.get_running_loop().call_later(self._look_seconds or first, self._look)

    def _look(self) -> None:
        self._is_look_due = not self.is_stopped and bool(self._short)
        if self._is_look_due:
            self._alarm.wake()
        else:
            self._is_look_planned = False

    async def _look_for_skipped(self) -> None:
        """Look at what the scans may have skipped. (Whatever slots are free: the next that is freed does not ask.)"""
        self._looked_at = time.monotonic()
        found = await self._line.look([(self.queue, lane) for lane in self._short])
        was_skipped = any((self.queue, lane) in found for lane in self._short)
        was_early = self._looked_at - self._skipped_at < FRESH_SECONDS
        self._is_look_due = self._is_look_planned = False
        if was_early and not was_skipped:
            self._plan_look()
            return
        self._short.clear()
        if was_skipped:
            self._look_seconds = min(2 * (self._look_seconds or SECOND_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
            self._herd.found_by_look()
            self.wake()
        else:
            self._look_seconds = None

    # Attempts.

    @property
    def is_quiet(self) -> bool:
        """Whether nothing that is known of waits for a free general slot."""
        is_seen = self.general.seen > self.general.reason and time.monotonic() - self._short_at < QUIET_SECONDS
        return is_seen and not self.is_stopped and self._budget is None

    def startable(self, claimed: Sequence[Claimed]) -> Sequence[Claimed]:
        """What was claimed, in the order in which it starts. What may not start here any more is given back."""
        if self.is_stopped:
            self._line.give_back(claimed)
            return ()
        for job in filter(_followers, claimed):
            job.followers.wait_in(self.stock)
            self._line.give_back(job.followers.cut(self._shared.turnstile.is_held))
            self._watch_expiry(job.followers)
        ordered = sorted(claimed, key=self._order)
        if claimed and claimed[0].suspicion:  # it must not wait for a slot
            ordered.sort(key=_suspicion, reverse=True)
        return ordered

    def start(self, job: Claimed, lane: str | None) -> None:
        """Run it in a task of its own, in a slot of this kind that was taken for it."""
        shared = self._shared
        attempt = Attempt(job, shared.handlers[job.type], lane, shared.surroundings)
        shared.attempts.add(attempt)
        if job.losses:
            shared.probation.began(job)
        attempt.start(self._ended)

    def _ended(self, attempt: Attempt, ack: Ack) -> None:
        """The handler has ended: its slot is free, whatever becomes of the outcome."""
        job, shared = attempt.claimed, self._shared
        shared.note(attempt, ack)
        shared.attempts.remove(attempt)
        following = self._next_of_run(attempt, ack) if job.followers else None
        if following is not None:  # its key's next job is here: nobody needs to look for it
            ack = msgspec.structs.replace(ack, key_queue=None)
        waited = self._pass_on(attempt.lane)
        if following is not None:
            self._start_if_free(following)
        if (job.workflow_id is not None and ack.is_final) or job.limit_key is not None or self._has_total:
            self.wake()  # what it lets go, no scan has seen: it is claimed in the call that writes its outcome
        elif self._has_reason and self._alarm.is_asleep and (waited is None or self.stock.room):
            self._alarm.wake()
        shared.turnstile.ended(job)
        if job.serialization_key is not None:
            if self.stock.most and ack.outcome.kind == "completed" and not attempt.completed_in_transaction:
                self.stock.completed()
            shared.keys.put(attempt, ack)
        elif attempt.completed_in_transaction:
            shared.verify(attempt, ack)
        else:
            self._line.put(ack)
        if job.losses:
            shared.probation.ended(job)

    def _pass_on(self, lane: str | None) -> Claimed | None:
        """A slot is not used any more: it is the next one's that waits, which starts, or free."""
        waited = self.stock.take(lane) if self.stock.most else None
        if waited is not None:
            self.start(waited, lane)
        else:
            self.lanes[lane].slots.give_back()
        return waited

    def _next_of_run(self, attempt: Attempt, ack: Ack) -> Claimed | None:
        """The next of its key's line that was claimed with it: it waits for a slot now. Or these are given back."""
        run = attempt.claimed.followers
        if ack.outcome.kind != "completed" or attempt.completed_in_transaction or run.is_broken or self.is_stopped:
            self.stock.was_cut_short()
            self._line.give_back(run.cut())
            return None
        following: Claimed = run.next()
        self.stock.add(following, since=run.since)
        return following

    def _start_if_free(self, following: Claimed) -> None:
        """The slot in front of it was kept for others: perhaps one is free that is not."""
        for name in (None, following.lane) if len(self.lanes) > 1 else ():
            if name in self.lanes and self.stock.has(following) and self.lanes[name].slots.take(1):
                waited = self.stock.take(name)
                if waited is None:
                    self.lanes[name].slots.give_back()
                else:
                    self.start(waited, name)

    def take_quiet_slots(self, most: int) -> int:
        """Take so many general slots for next heads, or as many as are free: for `start_in`. None unless the queue is quiet, and
        none where a scan brings more of the key than its head.
        """
        return self.general.slots.take(most) if self.is_quiet and not self.stock.most else 0

    def start_in(self, slots: int, claimed: Sequence[Claimed]) -> None:
        """Start these in general slots that were taken before. Those that are not used are free again."""
        try:
            for job in self.startable(claimed):
                slots -= 1
                self.start(job, None)
        finally:
            if slots:
                self.general.slots.give_back(slots)
                if self._has_reason:
                    self._alarm.wake()

    def give_back_waiting(self, condition: Callable[[Claimed], bool] = lambda _: True) -> None:
        """Give back the jobs that wait for a slot, all or those of which this is true."""
        if self.stock:
            self._line.give_back(self.stock.take_if(condition))


def _as_many(count: int) -> int:
    return count
