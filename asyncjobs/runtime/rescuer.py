"""Take back the jobs of runners that died.

One runner rescues for all, under the lease of the duty `rescue`; that one and the few that would follow it observe all others, so
that a fail-over costs no time. What may happen, in this order:

1. A look, one statement: every runner's beat, and whether a job names a runner that does not exist. With nothing to do that
   is all. A runner that is alone has no other to look at, and after a look that found nothing it looks at every third pass only,
   for what an operator's SQL may have left. The heartbeat tells it that it is alone: at each beat it hears how many runners
   there are, and when that changes the rescuer is woken.
2. A runner whose beat stayed the same for `runner_timeout` of our own clock, or whose process our kernel does not have any more
   (the rules are in `model/liveness.py`), is deleted, if its beat is still the one we saw, and kept among the former runners. Of
   several rescuers one deletes it. A claim of it that is in flight holds its row: then it is left alone until the next pass. One
   that had said that it stops has not died (`runtime/remains.py`).
3. In a *new* statement, after that commit: the jobs whose runner does not exist fail with RunnerLost and are due at once, or
   die with their last attempt; those of one that had stopped are given back, with the attempt. What had ended in its
   handler's transaction is settled: its keys are let go. A claim either committed before the delete, and is seen here, or finds
   its runner gone and claims nothing. With both in one statement, claims in flight were never seen: orphans for ever.
   A job that the database refuses to take back is set aside (`runtime/set_aside.py`), and keeps no other from its rescue.
4. The queues are woken, here and by NOTIFY.

A rescuer that dies between 2 and 3 leaves orphans, which every look of the others reports (so do runners that stopped without
ending their attempts in time). One that dies between 3 and 4 leaves pending jobs to the poll.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from asyncjobs.model.liveness import DeadRunner, Liveness
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.duties import Duty
from asyncjobs.runtime.machine import is_gone, machine
from asyncjobs.runtime.set_aside import SetAside
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import runners
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import Events, JobsGivenBack, JobsRescued, RunnerDied

#: Of a runner that is alone, so many intervals are between two looks.
_ALONE_INTERVALS: Final = 3
#: After a pass in which a row was refused.
_NEXT_SECONDS: Final = 0.05


class Rescuer(Duty):
    """Observes runners and takes back the jobs of dead ones. The link may be shared with other duties."""

    name: ClassVar[str] = "rescuer"
    duty = "rescue"

    def __init__(
        self,
        link: Link,
        wakes: Wakes,
        *,
        events: Events,
        interval_seconds: float = 5.0,
        runner_timeout_seconds: float = 30.0,
        batch: int = 100,
        max_errors: int = 10,
        clock: Callable[[], float] = boottime,
        observes: Callable[[], bool] = lambda: True,
        is_only_runner: Callable[[], bool] = lambda: False,
        lost: Callable[[str, str], None] = lambda _type, _status: None,
        runner_id: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._observes = observes  # also when it is not this runner's turn
        self._is_only_runner = is_only_runner
        self._lost = lost  # for the roll-ups
        self._runner_id = runner_id
        self._next_look_at = 0.0  # as long as it is alone
        self._set_aside = SetAside[int]("rescue", "job", events)
        self._link = link
        self._wakes = wakes
        self._batch = batch
        self._max_errors = max_errors
        self._clock = clock
        # Looks are an interval apart. One that comes after more than half the timeout may have slept through the others' beats.
        longest_gap = max(runner_timeout_seconds / 2, 2 * interval_seconds)
        self._liveness = Liveness(timeout_seconds=runner_timeout_seconds, longest_gap_seconds=longest_gap)

    async def pass_(self) -> float | None:
        """Look, and rescue if there is anything to rescue."""
        if self._has_nobody_to_look_at():
            return None
        buried, orphans = await self._look()
        if not buried and not orphans:
            return None
        await self._set_aside.due(self._rescue_only)
        aside = self._set_aside.rows
        rescued = await self._set_aside.unless_refused(
            runners.rescue(self.turn.guard(self._link), self._batch, max_errors=self._max_errors, aside=aside),
            partial(runners.orphans, self._link, self._batch, aside=aside),
            self._rescue_only,
        )
        if rescued is None:
            return _NEXT_SECONDS
        self._tell(rescued)
        return 0.0 if rescued.more else None

    async def _rescue_only(self, ids: list[int]) -> None:
        self._tell(await runners.rescue(self.turn.guard(self._link), len(ids), max_errors=self._max_errors, only=ids))

    @property
    def refused(self) -> int:
        """How many jobs are set aside."""
        return len(self._set_aside)

    def _tell(self, rescued: runners.Rescued) -> None:
        self.items = (self.items or 0) + len(rescued.ids) + len(rescued.given_back)
        if rescued.ids:
            self.events.emit(JobsRescued(job_ids=rescued.ids, reason="RunnerLost"))
        if rescued.given_back:
            self.events.emit(JobsGivenBack(runner_id=self._runner_id(), job_ids=rescued.given_back, reason="its runner stopped"))
        for type, status in rescued.attempts:
            self._lost(type, status)
        self._wakes.became_pending(rescued.queues, urgent=rescued.queues, for_all=rescued.suspects)
        if self.items:
            self._wakes.due_in(0.0, in_process_only=True)  # what has expired, or is to be tried again soon

    async def aside(self) -> None:
        """Observe: the runner that takes over knows already since when a runner is silent. A process that is gone here is told
        by whoever is here; the one whose turn it is finds its jobs.
        """
        if self._observes() and not self._has_nobody_to_look_at():
            dead, _ = await self._observe()
            gone = [one for one in dead if not one.unchanged_seconds]
            await self._bury(self._link, gone)

    def aside_seconds(self) -> float:
        """The interval: observations have to be close to each other."""
        return self.interval_seconds * (0.9 + 0.2 * self._chance())

    def _has_nobody_to_look_at(self) -> bool:
        return self._is_only_runner() and self._clock() < self._next_look_at

    async def _observe(self) -> tuple[list[DeadRunner], bool]:
        was_only_runner, self._next_look_at = self._is_only_runner(), 0.0
        sent_at = self._clock()
        try:
            seen = await runners.look(self._link)
        except BaseException:
            self._liveness.fail()
            raise
        if was_only_runner and len(seen.beats) <= 1 and not seen.orphans:
            self._next_look_at = sent_at + (_ALONE_INTERVALS - 0.5) * self.interval_seconds
        dead = self._liveness.look(seen.beats, sent_at=sent_at, answered_at=self._clock())
        here, silent = machine(), {one.id for one in dead}
        gone = [
            id for id, (where, pid) in seen.places.items()
            if here is not None and where == here and id not in silent and is_gone(pid)
        ]  # fmt: skip
        if gone:
            dead += [DeadRunner(id, seen.beats[id], 0.0) for id in await runners.cut_off(self._link, gone)]
        return dead, seen.orphans

    async def _look(self) -> tuple[bool, bool]:
        dead, orphans = await self._observe()
        return await self._bury(self.turn.guard(self._link), dead), orphans

    async def _bury(self, link: Link, dead: list[DeadRunner]) -> bool:
        if not dead:
            return False
        unchanged = {runner.id: runner.unchanged_seconds for runner in dead}
        buried = await runners.bury(link, {runner.id: runner.beat for runner in dead})
        for id, died in buried.items():
            if died:
                self.events.emit(RunnerDied(runner_id=id, unchanged_seconds=unchanged[id]))
        return bool(buried)
