"""What keys do, in a few lines: the model that the real SQL is compared with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from asyncjobs.model.probation import Lost, blamed, judge

FINAL: Final = frozenset({"completed", "dead", "cancelled"})


class ModelJob(msgspec.Struct):
    """One job. `status` is that of the table; a job that waits in the line is `waiting`, one that is not in it may be, too."""

    id: int
    key: str
    halts: bool
    status: str = "waiting"
    attempts: int = 0
    asked: bool = False  # to end, while it runs
    halted: bool = False
    losses: int = 0
    suspicion: int = 0
    lost_with: int | None = None  # the runner for whose end no job was to blame

    def lost(self, max_attempts: int) -> Lost:
        """As its row is when its runner is gone."""
        return Lost(id=self.id, attempts=self.attempts, max_attempts=max_attempts, losses=self.losses, suspicion=self.suspicion)


class KeyModel:
    """Lines of jobs. A line's first job is its head if it is anything but `waiting`; `settle` makes it one."""

    def __init__(self) -> None:
        self.jobs: dict[int, ModelJob] = {}
        self.lines: dict[str, list[ModelJob]] = {}
        self.paused: set[str] = set()

    def settle(self, keys: Iterable[str]) -> None:
        """Dispatch the head of each key that has none and is not paused."""
        for key in keys:
            line = self.lines.get(key, [])
            if line and line[0].status == "waiting" and key not in self.paused:
                line[0].status = "pending"

    def join(self, job: ModelJob) -> None:
        """To the end of the line."""
        job.status = "waiting"
        self.jobs[job.id] = job
        self.lines.setdefault(job.key, []).append(job)

    def due(self, job: ModelJob) -> None:
        """It may be claimed, unless its key is paused."""
        job.status = "paused" if job.key in self.paused else "pending"

    def end(self, job: ModelJob, status: str) -> None:
        """It ended: the next one is the head, unless it halts its key."""
        job.status, job.asked = status, False
        if status == "dead" and job.halts:
            job.halted = True
        elif job in self.lines.get(job.key, []):
            self.lines[job.key].remove(job)
            self.settle([job.key])

    def again(self, job: ModelJob, status: str) -> None:
        """It did not end: it keeps its place. Whoever asked for its end gets it now."""
        if job.asked:
            self.end(job, "cancelled")
        elif status == "pending":
            self.due(job)
        else:
            job.status = status

    def lose(self, runner: int, lost: Sequence[ModelJob], max_attempts: int) -> None:
        """A runner died that had these."""
        killer = blamed([job.lost(max_attempts) for job in lost])
        before = None if killer is None else self.jobs[killer].lost_with
        for job in self.jobs.values():
            if before is not None and job.lost_with == before and job.status == "pending" and job.suspicion:
                job.losses, job.suspicion = 1, 0
        for job in lost:
            verdict = judge(job.lost(max_attempts), killer)
            job.attempts, job.losses, job.suspicion = verdict.attempts, verdict.losses, verdict.suspicion
            job.lost_with = runner if killer is None else job.lost_with
            if verdict.is_dead and not job.asked:
                self.end(job, "dead")
            else:
                self.again(job, "pending")

    def retry(self, job: ModelJob) -> str:
        """An operator's retry; the outcome that the verb must tell."""
        if job.status not in {"scheduled", "failed", "dead", "cancelled"}:
            return "final" if job.status == "completed" else job.status
        if job.status in FINAL:
            job.attempts = job.losses = job.suspicion = 0
        job.halted = False
        if job in self.lines.get(job.key, []):
            self.due(job)
        else:
            self.join(job)
            self.settle([job.key])
        return "retried"

    def cancel(self, job: ModelJob) -> str:
        """An operator's cancel; the outcome that the verb must tell."""
        if job.status in FINAL:
            return "final"
        if job.status == "processing":
            job.asked = True
            return "requested"
        self.end(job, "cancelled")
        return "cancelled"

    def ids(self, where: Callable[[ModelJob], bool] = lambda job: True) -> list[int]:
        """The jobs for which this holds."""
        return [job.id for job in self.jobs.values() if where(job)]

    def statuses(self) -> Mapping[int, str]:
        """Of all jobs."""
        return {job.id: job.status for job in self.jobs.values()}

    def order(self) -> Mapping[str, list[int]]:
        """Of all lines."""
        return {key: [job.id for job in line] for key, line in self.lines.items() if line}
