"""Keys on one runner: actors, each with an `asyncio.Queue` of what happens to the keys of its partition.

The truth about a key is in `serialized_jobs` (`runtime/serializer.py` has the protocol); an actor's memory is what is in
flight. All that a runner does for keys goes through here:

1. *The outcome of a job with a key*: put here by its coordinator when the attempt has ended. The actor takes all outcomes that
   wait, decides what may start in the slots that were freed, and hands both to the call line, in one step. It does not wait for
   the answer: what was claimed starts in the step in which the line has read it.
2. *The hand-over.* The next head of a key may have a general slot, without a scan, if nothing else waits for one: the
   outcome is final, the queue is quiet (`runtime/coordinator.py`), and such a slot is free, which the actor then takes. Else
   the coordinator is woken before the line is: the head becomes pending behind all that is, and takes part in the scan of
   the same call. (Starting it always: with 60 hot keys of 200 jobs each, 100 one-job keys started after 10,099
   jobs, and a job of priority 1 after 10,000; with this rule after 149 and 50.)
3. A hand-over is a scan for the slots that the actor holds. Alone in its call, with one outcome, it starts that key's next job
   (`finish_one`). With others it is merged with the queue's other scans: the head has become pending behind all that is, and
   each slot gets what is first. What a pause, a stop or a breaker keeps from starting is not claimed, or given back; the slot,
   too.
4. An outcome that is not final (a retry, a snooze, an interruption) goes the same way, and holds its key: it frees no slot for
   it.
5. A job that was completed inside its handler's transaction is passed on to the verifier, which lets its key go.
6. *A key that is to be advanced* (a request, what the sweep found): those that wait are advanced in one call, on a connection
   of the pool and beside the outcomes. A key that is locked is tried again soon, then left to the next sweep, and delays no
   other. One that the database refuses to advance is set aside (`runtime/set_aside.py`), and goes by itself when the sweep finds
   it.
7. An actor that is started again begins with what it had taken: an outcome is the actor's until the line has it, a key until
   its call was answered. Slots that were taken for next heads are with their hand-over until the line answers or refuses it, and
   no end of an actor changes that.

There are four: all hand in to one line, so that more of them would buy nothing, and each costs a step of a task (16: 23.3 µs a
job at ten slots, 4: 22.8, 1: 19.8; what differs between keys is what the database does, and advancing, which waits beside).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias
from zlib import crc32

import anyio
import msgspec

from asyncjobs.model.claim import Ack, Scan
from asyncjobs.runtime import points
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.orders import Scanned
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.set_aside import SetAside
from asyncjobs.runtime.verifier import Verifier
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import serialized
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events, KeysAdvanced

PARTITIONS: Final = 4
_BATCH: Final = 500
#: A key that is locked is tried again after 50 ms, 100 ms … 6.4 s, and then left to the sweep.
_FIRST_PAUSE_SECONDS: Final = 0.05
_TRIES: Final = 8


class DueKey(msgspec.Struct):
    """A key whose head is to be dispatched."""

    key: str
    requests: list[int]
    tries: int = 0


_Ended: TypeAlias = tuple[Attempt, Ack]


class Advancer:
    """Dispatches the heads of keys that wait for it, for one actor."""

    def __init__(self, pool: Pool, wakes: Wakes, *, events: Events) -> None:
        self._pool = pool
        self._wakes = wakes
        self._events = events
        self._wanted: dict[str, DueKey] = {}
        self._batch: dict[str, DueKey] = {}  # taken, and not dispatched yet
        self._is_wanted = asyncio.Event()
        self.aside = SetAside[str]("advance", "key", events)

    def put(self, wanted: DueKey) -> None:
        """Dispatch this key's head, if none is; drop the requests for it."""
        known = self._wanted.setdefault(wanted.key, wanted)
        if known is not wanted:
            known.requests += wanted.requests
        self._is_wanted.set()

    async def run(self) -> None:
        """Dispatch until cancelled. Run again it begins with what it had taken; what fails is found by the next sweep."""
        while True:
            await self._take()
            try:
                await self._advance_all()
            except Exception as error:  # noqa: BLE001 - one pass of a service
                self._events.emit(DatabaseFailed(during="advance keys", error=error))
            self._batch = {}

    async def _take(self) -> None:
        while not self._batch:
            await self._is_wanted.wait()
            for key in list(self._wanted)[:_BATCH]:
                self._batch[key] = self._wanted.pop(key)
            if not self._wanted:
                self._is_wanted.clear()

    async def _advance_all(self) -> None:
        """Keys that were refused before go by themselves; a batch that is refused goes by halves."""
        refused = {*self.aside.rows}
        for key in self._batch.keys() & refused:
            await self.aside.whole([key], self._advance_only)
        await self.aside.whole([key for key in self._batch if key not in refused], self._advance_only)

    async def _advance_only(self, keys: list[str]) -> None:
        await self._advance({key: self._batch[key] for key in keys})

    async def _advance(self, batch: Mapping[str, DueKey]) -> None:
        if points.active:
            await points.reach("advance.send")
        async with self._pool.take() as link:
            done = await serialized.advance(
                link, list(batch), [number for wanted in batch.values() for number in wanted.requests]
            )
        if points.active:
            await points.reach("advance.sent")
        for key in done.blocked:
            self._put_later(batch[key])
        if done.count:
            self._events.emit(KeysAdvanced(count=done.count))
        self._wakes.became_pending(done.queues, urgent=done.queues)

    def _put_later(self, wanted: DueKey) -> None:
        wanted.tries += 1
        if wanted.tries < _TRIES:
            pause = _FIRST_PAUSE_SECONDS * 2.0 ** (wanted.tries - 1)
            asyncio.get_running_loop().call_later(pause, self.put, wanted)


class HandOver:
    """Slots that were taken for next heads, on their way through the line: each ends in an attempt, or is free again."""

    def __init__(self, coordinator: Coordinator, slots: int, head_of: Ack | None) -> None:
        self.scans = (Scan(coordinator.queue, None, slots, coordinator.general.start.floor),)
        self.head_of = head_of
        self.is_over = False
        self._coordinator = coordinator
        self._slots = slots

    def answered(self, found: list[Scanned]) -> None:
        """Start what was claimed."""
        self.is_over = True
        self._coordinator.start_in(self._slots, found[0].jobs)

    def refused(self) -> None:
        """The call failed, or was not made: the coordinator looks."""
        self.is_over = True
        self._coordinator.start_in(self._slots, ())
        self._coordinator.wake(front=True)


class Actor:
    """One partition of the keys."""

    def __init__(self, line: CallLine, queues: Queues, verifier: Verifier, pool: Pool, wakes: Wakes, *, events: Events) -> None:
        self._line = line
        self._queues = queues
        self._verifier = verifier
        self.advancer = Advancer(pool, wakes, events=events)
        self.items: asyncio.Queue[_Ended | DueKey] = asyncio.Queue()  # outlives the task
        self.taken: list[Ack] = []  # of these the line does not know yet
        self._passed_on: asyncio.Event | None = None  # while a task waits for it

    async def run(self) -> None:
        """Take what waits, decide, and hand it in, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.advancer.run, name="asyncjobs advance keys")
            while True:
                await self._take()
                self._pass_on()
        raise RuntimeError("it was ended by the end of its advancer")  # a cancellation of that alone ends the group in silence

    async def _take(self) -> None:
        """All that waits. What is left of a task that was ended before comes first."""
        if not self.taken:
            self._note(await self.items.get())
        for _ in range(self.items.qsize()):
            self._note(self.items.get_nowait())

    def _note(self, item: _Ended | DueKey) -> None:
        if isinstance(item, DueKey):
            self.advancer.put(item)
            return
        attempt, ack = item
        if attempt.completed_in_transaction:
            self._verifier.verify(attempt, ack)
        else:
            self.taken.append(ack)

    def _pass_on(self) -> None:
        """To the line; and next heads may have as many slots as are free, or the coordinator looks."""
        acks = self.taken
        ended: dict[str, int] = {}  # by queue
        for ack in acks:
            if ack.key_queue is not None and ack.is_final:
                ended[ack.key_queue] = ended.get(ack.key_queue, 0) + 1
        for queue, count in ended.items():
            self._hand_over(self._queues[queue], count, acks[0] if len(acks) == 1 else None)
        for ack in acks:
            self._line.put(ack)
        self.taken = []
        if self._passed_on is not None and self.items.empty():
            self._passed_on.set()
            self._passed_on = None

    def _hand_over(self, coordinator: Coordinator, count: int, head_of: Ack | None) -> None:
        slots = coordinator.take_quiet_slots(count)
        if slots < count:
            coordinator.wake()
        if slots:
            self._line.hand_in(HandOver(coordinator, slots, head_of))

    @property
    def unwritten(self) -> int:
        """How many items wait, of which no other part knows yet."""
        return self.items.qsize() + len(self.taken)

    async def wait_passed_on(self) -> None:
        """Wait until that is none."""
        while self.unwritten:
            self._passed_on = self._passed_on or asyncio.Event()
            await self._passed_on.wait()


class KeyActors:
    """The actors of a runner."""

    def __init__(
        self,
        line: CallLine,
        queues: Queues,
        verifier: Verifier,
        pool: Pool,
        wakes: Wakes,
        *,
        events: Events,
        partitions: int = PARTITIONS,
    ) -> None:
        self.actors = [Actor(line, queues, verifier, pool, wakes, events=events) for _ in range(partitions)]

    def put(self, attempt: Attempt, ack: Ack) -> None:
        """An attempt of a job with a key has ended."""
        self._actor(attempt.claimed.serialization_key or "").items.put_nowait((attempt, ack))

    def advance(self, key: str, requests: Sequence[int] = ()) -> None:
        """Dispatch this key's head, if none is; drop the requests for it."""
        self._actor(key).items.put_nowait(DueKey(key, [*requests]))

    def _actor(self, key: str) -> Actor:
        return self.actors[crc32(key.encode()) % len(self.actors)]

    @property
    def refused(self) -> int:
        """How many keys the database refuses to advance."""
        return sum(len(actor.advancer.aside) for actor in self.actors)

    @property
    def unwritten(self) -> int:
        """How many items wait, of which no other part knows yet."""
        return sum(actor.unwritten for actor in self.actors)

    async def wait_passed_on(self) -> None:
        """Wait until all that was put is the line's, the verifier's or under way."""
        for actor in self.actors:
            await actor.wait_passed_on()
