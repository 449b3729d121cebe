"""What attempts did, in a file of each process that no SIGKILL takes away: 40 bytes an event, and nothing kept in memory.

A process that runs for a million jobs would grow by a recorder's events alone. Moments are seconds of `time.monotonic`, which
processes of one machine share; an event is in the file when `emit` returns, since what was written is the kernel's.
"""

import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from asyncjobs.telemetry.events import (
    AttemptEnded,
    AttemptStarted,
    ClaimWasLost,
    Event,
    Events,
    JobsGivenBack,
    JobsRescued,
    OutcomeWritten,
    RunnerDied,
    RunnerLostItself,
)
from asyncjobs.testing.attempts import Recorded

_RECORD: Final = struct.Struct(
    "<dBBxxIqqq"
)  # when, kind, word, ordinal of the attempt (of an outcome: in a transaction), job, token, runner
_KINDS: Final[tuple[type[Event], ...]] = (
    AttemptStarted, AttemptEnded, OutcomeWritten, ClaimWasLost, JobsRescued, JobsGivenBack, RunnerDied, RunnerLostItself,
)  # fmt: skip
_WORDS: Final = (
    "", "completed", "retry", "snooze", "cancel", "dead", "interrupted", "failed", "scheduled", "cancelled", "pending", "paused",
    "waiting",
)  # fmt: skip
SIZE: Final = _RECORD.size


class Entry(NamedTuple):
    """One event, of one job; of all jobs of a runner where `job_id` is 0."""

    at: float
    kind: int
    word: int
    number: int
    job_id: int
    token: int
    runner_id: int

    @property
    def packed(self) -> bytes:
        """As it is in a file."""
        return _RECORD.pack(*self)

    def event(self, key: str | None) -> Recorded:
        """What happened, as a recorder has it."""
        return Recorded(self.at, _MAKERS[self.kind](self, key))


def spool(events: Events, path: Path) -> Callable[[], None]:
    """Write these events there from now on; returns what ends it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(event: Event) -> None:
        if type(event) in _KINDS:
            at = getattr(event, "began_at", None) or time.monotonic()
            os.write(file, b"".join(_records(at, event)))

    return events.subscribe(write)


def _records(at: float, event: Event) -> Iterator[bytes]:
    kind = _KINDS.index(type(event))
    word = _WORDS.index(getattr(event, "outcome", None) or getattr(event, "status", None) or "")
    token, runner_id = (getattr(event, name, 0) for name in ("token", "runner_id"))
    number = int(event.in_transaction) if isinstance(event, OutcomeWritten) else getattr(event, "attempt", 0)
    ids: list[int] = getattr(event, "job_ids", None) or [getattr(event, "job_id", 0)]
    for job_id in ids:
        yield _RECORD.pack(at, kind, word, number, job_id, token, runner_id)


def unpacked(content: bytes | bytearray) -> Iterator[Entry]:
    """The entries that were packed one after the other; one that is cut off at the end is left out."""
    return map(Entry._make, _RECORD.iter_unpack(memoryview(content)[: len(content) - len(content) % SIZE]))


def entries(path: Path) -> Iterator[Entry]:
    """What is in a file, in order. What a kill cut off is left out; its process's open attempts end with what it wrote last."""
    open_attempts: dict[int, Entry] = {}
    at = 0.0
    for entry in unpacked(path.read_bytes()):
        at = entry.at
        if entry.kind == STARTED:
            open_attempts[entry.token] = entry
        elif entry.kind == _ENDED:
            open_attempts.pop(entry.token, None)
        yield entry
    for entry in open_attempts.values():
        yield entry._replace(at=at, kind=_LOST)


STARTED, _ENDED, _LOST = (_KINDS.index(kind) for kind in (AttemptStarted, AttemptEnded, ClaimWasLost))
_MAKERS: Final[tuple[Callable[[Entry, str | None], Event], ...]] = (
    lambda entry, key: AttemptStarted(
        job_id=entry.job_id, type="soak", queue="default", attempt=entry.number, token=entry.token, runner_id=entry.runner_id,
        serialization_key=key,
    ),
    lambda entry, key: AttemptEnded(
        job_id=entry.job_id, type="soak", queue="default", attempt=entry.number, token=entry.token, runner_id=entry.runner_id,
        serialization_key=key, outcome=_WORDS[entry.word],
    ),
    lambda entry, _: OutcomeWritten(
        job_id=entry.job_id, token=entry.token, runner_id=entry.runner_id, status=_WORDS[entry.word],
        in_transaction=bool(entry.number),
    ),
    lambda entry, _: ClaimWasLost(job_id=entry.job_id, token=entry.token, runner_id=entry.runner_id, during="its life"),
    lambda entry, _: JobsRescued(job_ids=[entry.job_id], reason=""),
    lambda entry, _: JobsGivenBack(runner_id=entry.runner_id, job_ids=[entry.job_id], reason=""),
    lambda entry, _: RunnerDied(runner_id=entry.runner_id, unchanged_seconds=0.0),
    lambda entry, _: RunnerLostItself(runner_id=entry.runner_id, reason=""),
)  # fmt: skip
