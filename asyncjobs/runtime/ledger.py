"""The ledger of a runner: the claims that are its own, and the outcomes that are not written yet.

1. **A claim is ours from its answer until its outcome is written**: the ledger says so, in one place, whatever part has the job
   meanwhile (a slot, the stock, an actor, a verifier, the call line).
2. A claimed job that is in the ledger already (its claim was lost, and it came back before the handler noticed) is given back
   with its attempt, due in 5 s.
3. An outcome is struck off when it is written, or found to be lost, by the call line or elsewhere. Claims go by their tokens: the
   call that wrote an outcome may have claimed the same job anew.
4. Each outcome that is struck off is told once: as written, to the sinks and to the tasks that wait for the end of the job or for
   its next time; or as lost (`ClaimWasLost`), which is a typed outcome, never success, never sent again.
5. An outcome that the database refuses, alone and in every other form (`call_line.py`, 3), is **set aside**: it is in no batch,
   and is tried by itself after 0.1 s, then after twice as long each time, up to 30 s, until it is written or lost. Each refusal
   is told (`OutcomeRefused`). The job stays ours meanwhile: what it ended in is here only.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final

import msgspec

from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.turnstile import Turnstile
from asyncjobs.runtime.wakes import SOON_SECONDS, Wakes
from asyncjobs.telemetry.events import ClaimWasLost, Events, OutcomeRefused, OutcomeWritten

_losses: Final = attrgetter("losses")
_STILL_RUNNING_DELAY_SECONDS: Final = 5.0
_LONGEST_ASIDE_SECONDS: Final = 30.0


class _Refusals(msgspec.Struct):
    """How often the database has refused an outcome, and when it is asked again."""

    count: int = 0
    due_at: float = 0.0


class Ledger:
    """What is claimed by one runner, and what is to be written of it."""

    def __init__(
        self, *, turnstile: Turnstile, probation: Probation, wakes: Wakes, events: Events, runner_id: Callable[[], int]
    ) -> None:
        self._turnstile = turnstile
        self._probation = probation
        self._wakes = wakes
        self._events = events
        self._runner_id = runner_id
        self._claims: dict[int, int] = {}
        self.unwritten: dict[int, Ack] = {}  # by token: each claim has its own
        self._aside: dict[int, _Refusals] = {}  # of these

    @property
    def claims(self) -> Mapping[int, int]:
        """The jobs whose claims are ours, and their tokens."""
        return self._claims

    @property
    def aside(self) -> int:
        """How many outcomes are set aside."""
        return len(self._aside)

    def is_aside(self, ack: Ack) -> bool:
        """Whether this one is."""
        return ack.token in self._aside

    @property
    def has_ready(self) -> bool:
        """Whether an outcome waits that is not set aside."""
        return len(self.unwritten) > len(self._aside) and (not self._aside or bool(self.ready(1)))

    def ready(self, most: int, also: Collection[int] = ()) -> list[Ack]:
        """The first of those. What is set aside (here, or `also` by its token) keeps back those behind it in its run."""
        if not self._aside and not also:
            return list(islice(self.unwritten.values(), most))
        return list(islice(self._free(also), most))

    def _free(self, also: Collection[int]) -> Iterator[Ack]:
        kept: set[int] = set()  # runs, by identity
        for token, ack in self.unwritten.items():
            if token in self._aside or token in also:
                kept.add(id(ack.followers))
            elif ack.followers is None or id(ack.followers) not in kept:
                yield ack

    @property
    def has_run(self) -> bool:
        """Whether the outcome that came last is of a run that goes on: others follow soon, and nobody waits for it."""
        last = next(reversed(self.unwritten.values()), None)
        return last is not None and bool(last.followers)

    @property
    def aside_due_at(self) -> float:
        """When the next one that is set aside is to be tried again."""
        return min([one.due_at for one in self._aside.values()], default=inf)

    def due_aside(self, now: float, most: int) -> list[Ack]:
        """Those that are to be tried again now."""
        return list(islice((self.unwritten[token] for token, one in self._aside.items() if one.due_at <= now), most))

    def set_aside(self, token: int, error: Exception) -> None:
        """The database refuses to write this claim's outcome, in whatever form."""
        ack, refusals = self.unwritten[token], self._aside.setdefault(token, _Refusals())
        refusals.count += 1
        seconds = backoff_seconds(refusals.count, _LONGEST_ASIDE_SECONDS, 0.0)
        refusals.due_at = time.monotonic() + seconds
        self._events.emit(
            OutcomeRefused(
                job_id=ack.id, token=token, runner_id=self._runner_id(), error=error, refusals=refusals.count,
                again_in_seconds=seconds,
            )
        )  # fmt: skip

    def enter(self, claimed: Sequence[Claimed], followers: Sequence[Claimed] = ()) -> Collection[int]:
        """They are ours from now on. Those that are already are given back: these jobs."""
        tokens = {job.id: job.token for job in (*claimed, *followers)} if followers else {job.id: job.token for job in claimed}
        doubled = tokens.keys() & self._claims.keys()
        if any(map(_losses, claimed)):
            for job in claimed:
                if job.losses:
                    self._probation.claimed(job)
        if doubled:
            cut = [job for one in claimed if one.followers for job in one.followers.cut(lambda job: job.id in doubled)]
            self.give_back(cut)
            self.give_back([job for job in claimed if job.id in doubled], delay_seconds=_STILL_RUNNING_DELAY_SECONDS)
            for job_id in doubled:
                del tokens[job_id]
        self._claims.update(tokens)
        return doubled

    def give_back(self, claimed: Sequence[Claimed], *, delay_seconds: float = 0.0) -> None:
        """These do not start here, nor do their followers: their attempts have not begun."""
        for job in claimed:
            outcome = Outcome(kind="interrupted", delay_seconds=delay_seconds, is_begun=False)
            self.unwritten[job.token] = Ack(job.id, job.token, outcome, start_by=job.start_by, number=job.number)
            self._turnstile.ended(job)
            if job.followers:
                self.give_back(job.followers.cut())
            if job.losses:
                self._probation.ended(job)

    def strike(self, acks: Sequence[Ack]) -> None:
        """These claims are ours no more. (Their jobs may have others.)"""
        claims = self._claims
        for ack in acks:
            if claims.get(ack.id) == ack.token:
                del claims[ack.id]

    def settle(self, acks: Sequence[Ack], lost: Collection[int]) -> None:
        """Outcomes of a call that has answered, and whose claims are struck off: these tokens' are lost, the others written."""
        if self._aside:
            for ack in acks:
                self._aside.pop(ack.token, None)
        if lost or self._events.wants(OutcomeWritten):
            for ack in acks:
                self.forget(ack, is_lost=ack.token in lost)
            return
        for ack in [ack for ack in acks if ack.followers is not None]:
            ack.followers.settled(completed=ack.outcome.kind == "completed")
        has_waiters = self._wakes.has_waiters
        for ack in acks:
            del self.unwritten[ack.token]
            if has_waiters or ack.outcome.kind != "completed":
                self._announce(ack)

    def forget(self, ack: Ack, *, is_lost: bool) -> None:
        """An outcome that waited here was written, or is lost."""
        self.unwritten.pop(ack.token, None)
        self._aside.pop(ack.token, None)
        if ack.followers is not None:
            ack.followers.settled(completed=ack.outcome.kind == "completed" and not is_lost)
        self.ended(ack, is_lost=is_lost)

    def ended(self, ack: Ack, *, is_lost: bool, in_transaction: bool = False) -> None:
        """Strike off a claim whose outcome was written, or lost; wherever that was found."""
        self.strike([ack])
        if is_lost:
            self._events.emit(ClaimWasLost(job_id=ack.id, token=ack.token, runner_id=self._runner_id(), during="ack"))
        else:
            self._announce(ack, in_transaction=in_transaction)

    def _announce(self, ack: Ack, *, in_transaction: bool = False) -> None:
        """Tell of an outcome that was written."""
        status = ack.final_status
        if self._events.wants(OutcomeWritten):
            told = OutcomeWritten(
                job_id=ack.id, token=ack.token, runner_id=self._runner_id(), status=status, in_transaction=in_transaction
            )
            self._events.emit(told)
        if status in {"failed", "scheduled"}:
            self._wakes.due_in(ack.outcome.delay_seconds, in_process_only=ack.outcome.delay_seconds >= SOON_SECONDS)
        elif status != "pending":
            self._wakes.ended(ack.id)
        if ack.start_by < inf and not ack.is_final:
            self._wakes.expires_in(max(ack.start_by - boottime(), 0.0))
