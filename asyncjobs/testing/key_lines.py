"""What serialization keys do, in a few lines: for jobs in memory, and for the model that the SQL is compared with."""

from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec


class LineJob(msgspec.Struct, eq=False):
    """One job. `status` is that of the table; a job that waits in the line is `waiting`, one that is not in it may be, too."""

    id: int
    key: str | None
    halts: bool
    status: str = "waiting"
    asked: bool = False  # to end, while it runs
    halted: bool = False


J = TypeVar("J", bound=LineJob)


class KeyLines(Generic[J]):
    """Lines of jobs. A line's first job is its head if it is anything but `waiting`; `settle` makes it one."""

    def __init__(self) -> None:
        self.lines: dict[str | None, list[J]] = {}
        self.paused: set[str | None] = set()

    def settle(self, keys: Iterable[str | None]) -> None:
        """Dispatch the head of each key that has none and is not paused."""
        for key in keys:
            line = self.lines.get(key, [])
            if line and line[0].status == "waiting" and key not in self.paused:
                self.due(line[0])

    def join(self, job: J) -> None:
        """To the end of the line."""
        job.status = "waiting"
        self.lines.setdefault(job.key, []).append(job)

    def is_in_line(self, job: J) -> bool:
        """Whether it has a place in its key's line."""
        return job in self.lines.get(job.key, ())

    def due(self, job: J) -> None:
        """It may be claimed, unless its key is paused."""
        job.status = "paused" if job.key in self.paused else "pending"

    def end(self, job: J, status: str) -> None:
        """It ended: the next one is the head, unless it halts its key."""
        job.status, job.asked = status, False
        if status == "dead" and job.halts:
            job.halted = True
        elif self.is_in_line(job):
            self.leave(job)

    def leave(self, job: J) -> None:
        """It has no place any more: the next one is the head."""
        self.lines[job.key].remove(job)
        self.settle([job.key])

    def again(self, job: J, status: str) -> None:
        """It did not end: it keeps its place. Whoever asked for its end gets it now."""
        if job.asked:
            self.end(job, "cancelled")
        elif status == "pending":
            self.due(job)
        else:
            job.status = status
