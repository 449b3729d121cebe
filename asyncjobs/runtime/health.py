"""How an app and its runners are, without asking the database: what a health endpoint answers with."""

from typing import Literal

import msgspec


class RunnerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One runner. Ages are seconds since a loop turned last; None before it did."""

    id: int
    queues: list[str]
    notify: Literal["listen", "poll", "probing"]  # "poll": notifications do not arrive, or are not asked for
    is_listening: bool
    running: int  # handlers that run now
    waiting: int  # jobs that were claimed ahead, and wait for a slot
    stuck: int  # of these: went on for 5 s after they should have ended
    free_slots: int
    unwritten: int  # outcomes that wait to be written
    answered_age_seconds: float  # since the database answered a claim or an ack; at rest up to the poll interval
    beat_age_seconds: float | None
    leases: list[str]  # the duties that it does for all, under leases
    schedules_age_seconds: float | None  # since it looked at its schedules; at rest up to schedule_interval
    is_confirmed: bool  # nobody can have declared this runner dead
    is_stopping: bool
    error: str | None  # why the last call of the database failed, None when it did not


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The app in this process."""

    is_open: bool
    runners: list[RunnerHealth]

    @property
    def is_ready(self) -> bool:
        """Whether work gets done: the app is open, and every runner is confirmed, without an error, and not stopping."""
        return self.is_open and all(r.is_confirmed and r.error is None and not r.is_stopping for r in self.runners)
