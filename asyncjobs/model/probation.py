"""A runner died. Which of its jobs killed it? All of them are taken back, and the one that did it must not do it for ever.

1. A first loss spends the attempt, and the job comes back as ordinary work: a hundred that were lost together run again at once.
2. To blame for a runner's end is the one job that was on probation there, or the only job that it had. It pays for this end and
   for the earlier ones that it did not pay for; with its last attempt it is dead.
3. A job that is lost again before an attempt of it has ended, and is not to blame, pays nothing (five times in a row at most).
4. If no job is to blame, those lost for the second time that had not outlived 2 s are suspects. So are those lost for the third
   time, whatever they had outlived: one of them may kill later.
5. A suspect is on probation from its claim until it has ended or has run for 3 s; after a third loss for 30 s, or more if it had
   outlived more. Then its row says that it is cleared, and only then the runner claims the next suspect. So a runner has one on
   probation at a time, beside other work.
6. A job that is found to be to blame clears the suspects that were lost together with it before. An attempt that ends clears its
   job; one that is given back does not.
7. What was claimed behind the head of its key (`runtime/followers.py`) may have killed the runner, or may not have begun: it pays
   nothing, and has been lost once, unless another job is to blame. What was lost before is in no run, and is claimed alone.

So a job that kills within 2 s ends after `max_attempts` kills (with two attempts after three, unless it ran alone: the second
kill only finds the suspects; and after one more where the first kill was in the middle of a run), and its neighbours lose one
attempt each. A runner that dies before it has written that its suspect is cleared leaves a suspect. A rescuer that dies between
two batches of a runner's jobs leaves the answer to rule 2 in `former_runners`, where the next one reads it.
`store/routines/rescue` does what is said here to rows (`blame`, `judge`, `clear_suspects`); the functions below are what tests
compare that with, and the marks and times are taken from here. The runner's side is `runtime/probation.py`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

#: What a job that was lost is seen to outlive, and how long a suspect of the first degree is on probation. The next degrees take
#: ten times as long each. A job that kills does so after about as long as the last time, on a busy machine half as much again.
OUTLIVED_SECONDS: Final = 2.0
PROBATION_SECONDS: Final = 3.0
_HIGHEST: Final = 5
_MOST_SPARED: Final = 5


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a dead runner had, as its row was."""

    id: int
    attempts: int  # the lost one counted
    max_attempts: int
    losses: int = 0  # in a row, before this one
    suspicion: int = 0  # its degree, if it was on probation
    outlived: int = 0  # how many of the marks at 2 s, 20 s, 200 s, …


class Judgement(msgspec.Struct, frozen=True):
    """What becomes of it."""

    attempts: int
    losses: int
    suspicion: int
    is_dead: bool


def probation_seconds(suspicion: int) -> float:
    """For how long a suspect of this degree is on probation."""
    return PROBATION_SECONDS * 10.0 ** (suspicion - 1)


def mark_seconds(outlived: int) -> float | None:
    """When a job that has outlived so many marks outlives the next one."""
    return OUTLIVED_SECONDS * 10.0**outlived if outlived < _HIGHEST - 1 else None


def blamed(lost: Sequence[Lost]) -> int | None:
    """The job that is to blame for the end of a runner that had these."""
    suspects = lost if len(lost) == 1 else [job for job in lost if job.suspicion > 0]
    return suspects[0].id if len(suspects) == 1 else None


def judge(job: Lost, blamed: int | None) -> Judgement:
    """What becomes of a job whose runner died of the job `blamed` (None: it is not known which)."""
    if job.id == blamed:
        spared = min(max(job.losses - 1, 0), _MOST_SPARED)
        attempts = min(job.attempts + spared, max(job.attempts, job.max_attempts))
        suspicion = max(job.suspicion, 1 if job.losses and not job.outlived else 0)
        return _judgement(job, attempts, 1, suspicion)
    if blamed is not None:
        return _judgement(job, job.attempts - (1 if job.losses else 0), max(job.losses, 1), 0)
    attempts = job.attempts - (1 if 1 <= job.losses <= _MOST_SPARED else 0)
    return _judgement(job, attempts, job.losses + 1, _suspicion(job.losses, job.outlived))


def _judgement(job: Lost, attempts: int, losses: int, suspicion: int) -> Judgement:
    return Judgement(attempts, losses, suspicion, attempts >= job.max_attempts)


def _suspicion(losses: int, outlived: int) -> int:
    if losses <= 1:
        return 1 if losses and not outlived else 0
    return min(max(outlived + 1, losses), _HIGHEST)
