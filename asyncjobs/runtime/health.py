"""How an app and its runners are, without asking the database: what a health endpoint answers with."""

from typing import Final, Literal

import msgspec

#: A turn of the loop that claims ends or fails within 20 s, whatever the database does: after this long it never will.
STANDSTILL_SECONDS: Final = 60.0


class RunnerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One runner. Ages are seconds since a loop turned last; None before it did."""

    id: int
    name: str | None = None  # what people call it
    queues: list[str]
    notify: Literal["listen", "poll", "probing"]  # "poll": notifications do not arrive, or are not asked for
    is_listening: bool  # a connection LISTENs
    running: int  # handlers that run now
    waiting: int  # jobs that were claimed ahead, and wait for a slot
    stuck: int  # of those that run: went on for 5 s after they should have ended
    free_slots: int
    unwritten: int  # outcomes that wait to be written
    refused: int = 0  # of these: that the database refuses to write, each time it is asked; the log says why
    refused_rows: int = 0  # jobs to be promoted or rescued, keys and gates that it refuses to write; others go on without them
    answered_age_seconds: float  # since the database answered a claim or an ack; at rest up to the poll interval
    turn_age_seconds: float  # since the loop that claims and acks turned; a call of a silent database ends after 20 s
    beat_age_seconds: float | None
    loop_stalled_seconds: float  # for how long the event loop has not turned although it was asked to
    is_alive: bool  # it turned within stall_limit, and claims within a minute: otherwise nothing but a new process helps
    leases: list[str]  # the duties that it does for all, under leases
    schedules_age_seconds: float | None  # since it looked at its schedules; at rest up to schedule_interval
    failed_schedules: list[str] = []  # of its own, that could not make their jobs, as it saw last; they are tried again
    differing_limits: list[str] = []  # that others had declared otherwise when this runner did: what it declares counts now
    is_confirmed: bool  # no other can have declared this runner dead
    outdated_by: str | None = None  # the migration that this program is too old for: it claims nothing any more
    is_stopping: bool
    error: str | None  # why the last call of the database failed, None when it did not

    @property
    def problems(self) -> list[str]:
        """What keeps it from doing what it is for, in words; nothing when it does."""
        wrong = {
            "it is stopping": self.is_stopping,
            "it does not know yet whether notifications arrive": self.notify == "probing",
            "its listener is not connected": self.notify == "listen" and not self.is_listening,
            "it may have been declared dead: no beat was confirmed for too long": not self.is_confirmed,
            f"a newer asyncjobs changed the schema ({self.outdated_by}): update this program": self.outdated_by is not None,
            "the last call of the database failed": self.error is not None,
            "the loop that claims jobs and writes outcomes stands still": self.turn_age_seconds >= STANDSTILL_SECONDS,
        }
        return [problem for problem, is_so in wrong.items() if is_so]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The app in this process."""

    is_open: bool
    runners: list[RunnerHealth]
    troubles: list[str] = []  # parts of the app that ended though they had not been stopped, and are being started again
    needs_runner: bool = False  # it was asked about as a process that runs jobs: without a runner it is not ready

    @property
    def is_alive(self) -> bool:
        """Liveness: every runner's event loop has turned within `stall_limit`, the loop that claims within a minute.

        A database that is away changes nothing.
        """
        return all(runner.is_alive for runner in self.runners)

    @property
    def problems(self) -> list[str]:
        """Why it is not ready, in words."""
        if not self.is_open:
            return ["the app is not open"]
        if self.needs_runner and not self.runners:
            return ["no runner has started"]
        of_runners = [f"runner {runner.name or runner.id}: {problem}" for runner in self.runners for problem in runner.problems]
        return [*self.troubles, *of_runners]

    @property
    def is_ready(self) -> bool:
        """Readiness: the app is open, and every runner has the database, its listener (if it listens), and is not stopping.

        An app that is open and runs nothing is ready to enqueue. Where that is not enough, ask `health(runs=True)`.
        """
        return not self.problems
