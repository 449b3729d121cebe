"""Limits of jobs that are kept in memory: how many of a key and of a limit run at once, rates, and keys that a service closed.

The rules are those of `store/routines/limits`, for one process: what runs is counted by the jobs' own status. Keys have no turns
here: the next job is the one that stands first.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from asyncjobs.declare.limit import Limit
from asyncjobs.model.job import Job


class Running(Protocol):
    """A job that was started."""

    row: Job
    status: str


class MemoryLimits:
    """What of limits is remembered from one claim to the next."""

    def __init__(self) -> None:
        self._started: list[Running] = []
        self._tat: dict[str, datetime] = {}  # as `limit_keys` has it
        self._closed: dict[str, datetime] = {}

    def opens_at(self, job: Job, limit: Limit | None) -> datetime | None:
        """From when on its key has a permit by its rate, and by what a service said; None: always."""
        key = job.limit_key
        if key is None:
            return None
        times = [self._closed[key]] if key in self._closed else []
        if limit is not None and limit.rate is not None and key in self._tat:
            times.append(self._tat[key] - (limit.rate.burst - 1) * timedelta(seconds=limit.rate.every_seconds))
        return max(times, default=None)

    def allow(self, job: Job, limit: Limit | None, total: int | None, now: datetime) -> bool:
        """Whether it may start now. `total`: of its queue."""
        self._started = [one for one in self._started if one.status == "processing"]
        if total is not None and _count(one.row.queue == job.queue for one in self._started) >= total:
            return False
        opens_at = self.opens_at(job, limit)
        if limit is None or job.limit_key is None:
            return opens_at is None or opens_at <= now
        keys = [one.row.limit_key or "" for one in self._started]
        is_full = limit.each is not None and keys.count(job.limit_key) >= limit.each
        of_limit = _count(key.partition(":")[0] == limit.name for key in keys)
        return not (is_full or (limit.total is not None and of_limit >= limit.total)) and (opens_at is None or opens_at <= now)

    def start(self, kept: Running, limit: Limit | None, now: datetime) -> None:
        """It starts now."""
        self._started.append(kept)
        key = kept.row.limit_key
        if key is not None and limit is not None and limit.rate is not None:
            self._tat[key] = max(self._tat.get(key, now), now) + timedelta(seconds=limit.rate.every_seconds)

    def close(self, key: str, until: datetime) -> None:
        """A service said so."""
        self._closed[key] = max(self._closed.get(key, until), until)


def _count(those: Iterable[bool]) -> int:
    return sum(those)
