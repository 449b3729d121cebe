"""What keys do, in a few lines: the model that the real SQL is compared with. Its lines are those of jobs kept in memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from asyncjobs.model.probation import Lost, blamed, judge
from asyncjobs.testing.key_lines import KeyLines, LineJob

FINAL: Final = frozenset({"completed", "dead", "cancelled"})


class ModelJob(LineJob, eq=False):
    """One job."""

    attempts: int = 0
    losses: int = 0
    suspicion: int = 0
    lost_with: int | None = None  # the runner for whose end no job was to blame

    def lost(self, max_attempts: int) -> Lost:
        """As its row is when its runner is gone."""
        return Lost(id=self.id, attempts=self.attempts, max_attempts=max_attempts, losses=self.losses, suspicion=self.suspicion)


class KeyModel(KeyLines[ModelJob]):
    """Lines of jobs, and what operators and rescues do with them."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[int, ModelJob] = {}

    def join(self, job: ModelJob) -> None:
        """To the end of the line."""
        self.jobs[job.id] = job
        super().join(job)

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

    def order(self) -> Mapping[str | None, list[int]]:
        """Of all lines."""
        return {key: [job.id for job in line] for key, line in self.lines.items() if line}
