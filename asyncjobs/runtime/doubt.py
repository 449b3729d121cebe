"""The doubt of a lost answer: what became of a call that the server may have carried out, or may still carry out.

The answer never comes: the connection was lost, a time-out passed, or the call line's task was ended. Or it came, and something
in it could not be read or taken in here, whatever error that was. Outcomes and claims are in doubt. What follows:

1. After a pause the line reads back by id and token which outcomes are still to be written, and sends only those; and it reads
   which jobs are processing under this runner's name that are not in its ledger, and gives them back with their attempts.
2. Both readings are made on the line's own connection while no call of its own is under way. The server may still be working on
   the lost call when they are made. So an outcome that was sent twice and comes back "lost" is read back once more, and stray
   claims are looked for again with every `runner_timeout` that passes (`every_seconds`); so is one whose row a
   caller's transaction holds.
3. The giving back may be carried out late itself: it names the last token that was drawn before it, and leaves later claims
   alone.
4. When the process is gone with the answer, an outcome, the next head of its key and the call's claims are in the database
   together or not at all: jobs that ended stay ended, heads are found by the poll of others, claims are taken back by the rescue.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from asyncjobs.model.claim import Ack
from asyncjobs.runtime.ledger import Ledger
from asyncjobs.runtime.tokens import Tokens
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import jobs
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import Events, JobsGivenBack


class _UntilTakenIn:
    """A class of its own: a generator takes three times as much, in every call."""

    __slots__ = ("_acks", "_doubt")

    def __init__(self, doubt: "Doubt", acks: Sequence[Ack]) -> None:
        self._doubt = doubt
        self._acks = acks

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, Exception):
            self._doubt.raised_by(self._acks)


class Doubt:
    """Finds out what became of the calls of one call line that were not answered."""

    def __init__(
        self,
        link: Link,
        ledger: Ledger,
        *,
        tokens: Tokens,
        wakes: Wakes,
        events: Events,
        runner_id: Callable[[], int],
        every_seconds: float,
    ) -> None:
        self._link = link
        self._ledger = ledger
        self._tokens = tokens
        self._wakes = wakes
        self._events = events
        self._runner_id = runner_id
        self._every_seconds = every_seconds
        self._twice: set[int] = set()  # tokens of outcomes that were sent before, without an answer
        self.is_raised = False  # since a call that was not answered
        self.due_at = time.monotonic() + every_seconds

    def raised_by(self, acks: Sequence[Ack]) -> None:
        """A call with these outcomes was sent, and is not answered."""
        self.is_raised = True
        self._twice.update(ack.token for ack in acks)

    def until_taken_in(self, acks: Sequence[Ack]) -> AbstractContextManager[None]:
        """The call has answered: what goes wrong from here on leaves it open what became of its claims, and of its outcomes."""
        return _UntilTakenIn(self, acks)

    def is_due(self, now: float) -> bool:
        """Whether it is time to find out."""
        return self.is_raised or now >= self.due_at

    async def settle(self, acks: Sequence[Ack], lost: Collection[int]) -> None:
        """Outcomes of a call that has answered. Of one that was sent before, "lost" may mean that the first call wrote it."""
        if not self._twice:
            self._ledger.settle(acks, lost)
            return
        lost = frozenset(lost)
        doubtful = [ack for ack in acks if ack.token in lost and ack.token in self._twice]
        for ack in acks:
            if ack not in doubtful:
                self._forget(ack, is_lost=ack.token in lost)
        if doubtful:  # an answer that does not come leaves them in `_twice`: they are sent, and read, once more
            self._resolve(doubtful, await jobs.still_processing(self._link, doubtful))

    async def resolve(self) -> None:
        """Read back what the outcomes in doubt came to, and give back claims that nothing here knows of."""
        sent = [self._ledger.unwritten[token] for token in self._twice if token in self._ledger.unwritten]
        if sent:
            self._resolve(sent, await jobs.still_processing(self._link, sent))
        ours = {*self._ledger.claims, *(ack.id for ack in self._ledger.unwritten.values())}
        strays = await jobs.give_back(self._link, self._runner_id(), sorted(ours), last_token=self._tokens.last)
        self.is_raised = False
        self._twice.intersection_update(self._ledger.unwritten)
        self.due_at = time.monotonic() + self._every_seconds
        if strays:
            ids = [job_id for job_id, _ in strays]
            self._events.emit(JobsGivenBack(runner_id=self._runner_id(), job_ids=ids, reason="claim was not answered"))
        for queue in {queue for _, queue in strays}:
            self._wakes.pending(queue, front=True)

    def _resolve(self, acks: Sequence[Ack], state: Mapping[int, bool]) -> None:
        """Strike off those that were written, or whose claim is lost."""
        for ack in acks:
            if state.get(ack.token) is not True:
                self._forget(ack, is_lost=ack.token not in state)

    def _forget(self, ack: Ack, *, is_lost: bool) -> None:
        self._twice.discard(ack.token)
        self._ledger.forget(ack, is_lost=is_lost)
