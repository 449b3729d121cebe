"""A job that kills its process, among others that do not: random fleets live by the rules of `model/probation.py`."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncjobs.model.probation import Lost, blamed, judge, mark_seconds, probation_seconds

#: From the death of a runner until its jobs are taken back.
TIMEOUT = 30.0


@dataclass(eq=False)
class Job:
    id: int
    seconds: float
    max_attempts: int
    kills: bool = False
    place: int = 0
    attempts: int = 0
    losses: int = 0
    suspicion: int = 0
    outlived: int = 0
    lost_with: "Runner | None" = None
    status: str = "pending"
    ended_at: float = 0.0

    def lost(self) -> Lost:
        return Lost(
            id=self.id, attempts=self.attempts, max_attempts=self.max_attempts, losses=self.losses, suspicion=self.suspicion,
            outlived=self.outlived,
        )  # fmt: skip


@dataclass(eq=False)
class Runner:
    slots: int
    running: dict[Job, object] = field(default_factory=dict)
    probation: Job | None = None


class Fleet:
    """Runners that claim, run, die and are replaced, in a time of their own."""

    def __init__(self, slots: list[int], jobs: list[Job]) -> None:
        self.now = 0.0
        self.jobs = jobs
        self.runners = [Runner(count) for count in slots]
        self.kills = 0
        self.rescued_at = 0.0
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), do))

    def run(self) -> None:
        self.claim_all()
        while self._events:
            self.now, _, do = heapq.heappop(self._events)
            do()

    def claim_all(self) -> None:
        for runner in self.runners:
            self.claim(runner)

    def claim(self, runner: Runner) -> None:
        pending = [job for job in self.jobs if job.status == "pending"]
        suspects = sorted((job for job in pending if job.suspicion), key=lambda job: (job.suspicion, job.place))
        if suspects and runner.probation is None and len(runner.running) < runner.slots:
            runner.probation = suspects[0]
            self.start(runner, suspects[0])
        for job in sorted((job for job in pending if not job.suspicion), key=lambda job: job.place):
            if len(runner.running) < runner.slots:
                self.start(runner, job)

    def start(self, runner: Runner, job: Job) -> None:
        job.status, job.attempts = "processing", job.attempts + 1
        attempt = runner.running[job] = object()

        def if_running(do: Callable[[Runner, Job], None]) -> Callable[[], None]:
            return lambda: do(runner, job) if runner.running.get(job) is attempt else None

        self.later(job.seconds, if_running(self.kill if job.kills else self.end))
        if job.suspicion:
            self.later(probation_seconds(job.suspicion), if_running(self.clear))
        for outlived in range(4) if job.losses else ():
            seconds = mark_seconds(outlived)
            assert seconds is not None
            self.later(seconds, if_running(lambda _, job, reached=outlived + 1: setattr(job, "outlived", reached)))  # type: ignore[misc]

    def clear(self, runner: Runner, job: Job) -> None:
        job.suspicion = 0
        runner.probation = None
        self.claim(runner)

    def end(self, runner: Runner, job: Job) -> None:
        del runner.running[job]
        job.status, job.ended_at = "completed", self.now
        if runner.probation is job:
            runner.probation = None
        self.claim(runner)

    def kill(self, runner: Runner, _job: Job | None = None) -> None:
        self.kills += 1
        lost = list(runner.running)
        runner.running = {}
        runner.slots = 0
        self.runners.append(Runner(max(len(lost), 1)))
        self.later(TIMEOUT, lambda: self.rescue(runner, lost))
        self.claim_all()

    def rescue(self, runner: Runner, lost: list[Job]) -> None:
        self.rescued_at = self.now
        killer = blamed([job.lost() for job in lost])
        for job in lost:
            if job.id == killer and job.lost_with is not None:
                self.clear_those_lost_with(job.lost_with)
        for job in lost:
            verdict = judge(job.lost(), killer)
            job.attempts, job.losses, job.suspicion, job.outlived = verdict.attempts, verdict.losses, verdict.suspicion, 0
            job.status = "dead" if verdict.is_dead else "pending"
            job.place = next(self._numbers)
            job.lost_with = runner if killer is None else job.lost_with
        self.claim_all()

    def clear_those_lost_with(self, runner: Runner) -> None:
        for job in self.jobs:
            if job.lost_with is runner and job.status == "pending":
                job.suspicion, job.losses = 0, min(job.losses, 1)


MOST = 40
#: What is allowed beyond the time that the jobs themselves take.
PACE = 15.0
seconds = st.sampled_from([0.01, 0.5, 1.0, 5.0, 60.0, 3600.0])
fleets = st.lists(st.integers(1, MOST), min_size=1, max_size=4)


def a_fleet(slots: list[int], jobs: list[Job]) -> Fleet:
    """All jobs run in the first runner."""
    for place, job in enumerate(jobs):
        job.place = place
    return Fleet([len(jobs), *slots], jobs)


def in_time(fleet: Fleet, jobs: list[Job]) -> float:
    """When jobs that became pending at the last rescue have ended, at the pace of any work."""
    own = [job.seconds for job in jobs] or [0.0]
    return fleet.rescued_at + sum(own) / sum(runner.slots for runner in fleet.runners) + max(own) + PACE


@given(
    owns=st.lists(seconds, max_size=MOST),
    slots=fleets,
    kills_after=st.floats(0, 1.9),
    at=st.integers(0, MOST),
    max_attempts=st.integers(2, 6),
)
@example(owns=[1.0] * MOST, slots=[MOST, MOST], kills_after=0.0, at=MOST, max_attempts=3)
@example(owns=[3600.0] * MOST, slots=[MOST], kills_after=1.9, at=MOST, max_attempts=3)
@example(owns=[60.0] * 5, slots=[2], kills_after=0.1, at=5, max_attempts=3)
@settings(max_examples=200, deadline=None)
def test_job_that_kills_ends_after_its_attempts_and_its_neighbours_lose_one(
    owns: list[float], slots: list[int], kills_after: float, at: int, max_attempts: int
) -> None:
    innocents = [Job(number, own, max_attempts) for number, own in enumerate(owns)]
    poison = Job(-1, kills_after, max_attempts, kills=True)
    fleet = a_fleet(slots, [*innocents[:at], poison, *innocents[at:]])
    fleet.run()
    assert poison.status == "dead"
    assert fleet.kills == max_attempts or (max_attempts == 2 and fleet.kills == 3)
    for job in innocents:
        assert (job.status, job.attempts <= 2) == ("completed", True)
        assert job.ended_at <= in_time(fleet, innocents)


@given(owns=st.lists(seconds, max_size=MOST), slots=fleets, kills_after=st.sampled_from([3.0, 25.0, 400.0, 5000.0]))
@example(owns=[3600.0] * 9, slots=[10], kills_after=60.0)
@settings(max_examples=100, deadline=None)
def test_job_that_kills_late_ends_and_spares_its_neighbours_too(owns: list[float], slots: list[int], kills_after: float) -> None:
    innocents = [Job(number, own, 3) for number, own in enumerate(owns)]
    poison = Job(-1, kills_after, 3, kills=True)
    fleet = a_fleet(slots, [*innocents, poison])
    fleet.run()
    assert poison.status == "dead"
    assert fleet.kills <= 6
    assert [(job.status, job.attempts <= 2) for job in innocents] == [("completed", True)] * len(innocents)


@given(owns=st.lists(seconds, min_size=1, max_size=MOST), slots=fleets)
@settings(max_examples=100, deadline=None)
def test_what_a_runner_lost_that_was_killed_from_outside_is_done_at_the_pace_of_any_work(
    owns: list[float], slots: list[int]
) -> None:
    jobs = [Job(number, own, 3) for number, own in enumerate(owns)]
    fleet = a_fleet(slots, jobs)
    fleet.later(0.0, lambda: fleet.kill(fleet.runners[0]))
    fleet.run()
    assert [(job.status, job.attempts) for job in jobs] == [("completed", 2)] * len(jobs)
    assert all(job.ended_at <= in_time(fleet, jobs) - PACE for job in jobs)


def test_job_that_has_one_attempt_only_is_dead_when_it_is_lost() -> None:
    jobs = [Job(1, 60.0, 1), Job(2, 60.0, 3), Job(-1, 0.0, 3, kills=True)]
    a_fleet([3], jobs).run()
    assert [job.status for job in jobs] == ["dead", "completed", "dead"]
