"""A recorder of events: what happened, in order, and the history of attempts that follows from it.

    recorder = Recorder()
    recorder.watch(jobs.events)
    …
    await recorder.wait_for(AttemptEnded, lambda event: event.job_id == handle.id)

Moments are seconds of `time.monotonic`, which processes of one machine share. A recorder with a `spool` also appends what the
auditor needs to a file, line by line, so that it survives a SIGKILL of its process.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

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
from asyncjobs.testing.attempts import Attempt, Recorded, attempts_in

E = TypeVar("E", bound=Event)

#: What the history of attempts is made of.
_SPOOLED: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        AttemptStarted,
        AttemptEnded,
        OutcomeWritten,
        ClaimWasLost,
        JobsGivenBack,
        JobsRescued,
        RunnerDied,
        RunnerLostItself,
    )
}


class Recorder:
    """Keeps every event of what it watches. May watch several apps; may be fed from any thread."""

    def __init__(self, *, spool: Path | None = None) -> None:
        self.recorded: list[Recorded] = []
        self._spool = spool
        self._waiting: list[Callable[[Event], None]] = []

    def watch(self, events: Events) -> Callable[[], None]:
        """Record these events from now on; returns what ends it."""
        return events.subscribe(self.record)

    def record(self, event: Event) -> None:
        """Keep one event, as of now."""
        recorded = Recorded(time.monotonic(), event)
        self.recorded.append(recorded)
        if self._spool is not None and type(event).__name__ in _SPOOLED:
            with self._spool.open("ab") as file:
                file.write(_encode(recorded))
        for waiting in tuple(self._waiting):
            waiting(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of this kind so far, in order."""
        return [recorded.event for recorded in self.recorded if isinstance(recorded.event, kind)]

    def attempts(self, job_id: int | None = None) -> list[Attempt]:
        """The attempts so far, in the order they started: all, or those of one job."""
        return [attempt for attempt in attempts_in(self.recorded) if job_id in (None, attempt.job_id)]

    async def wait_for(self, kind: type[E], where: Callable[[E], bool] | None = None, *, timeout: float = 5.0) -> E:
        """The first event of this kind (for which `where` holds), also one that was recorded before the call.

        Raises TimeoutError after `timeout` seconds.
        """
        loop = asyncio.get_running_loop()
        found: asyncio.Future[E] = loop.create_future()

        def resolve(event: E) -> None:
            if not found.done():
                found.set_result(event)

        def look(event: Event) -> None:
            if isinstance(event, kind) and (where is None or where(event)):
                loop.call_soon_threadsafe(resolve, event)

        self._waiting.append(look)
        try:
            for recorded in tuple(self.recorded):
                look(recorded.event)
            return await asyncio.wait_for(found, timeout)
        except TimeoutError:
            raise TimeoutError(f"no such {kind.__name__} within {timeout:g} s") from None
        finally:
            self._waiting.remove(look)

    def read(self, spool: Path) -> None:
        """Add what the recorder of a process that is gone spooled. Attempts that have no end there died with it."""
        lines = spool.read_bytes().split(b"\n")[:-1]  # what follows the last line's end was cut off by a kill
        recorded = [_decode(line) for line in lines]
        unended = [attempt for attempt in attempts_in(recorded) if attempt.ended_at is None and not attempt.claim_lost]
        deaths = [Recorded(recorded[-1].at, _death(attempt)) for attempt in unended]
        self.recorded = sorted([*self.recorded, *recorded, *deaths], key=lambda entry: entry.at)


def _death(attempt: Attempt) -> Event:
    return ClaimWasLost(job_id=attempt.job_id, token=attempt.token, runner_id=attempt.runner_id, during="the process's life")


def _encode(recorded: Recorded) -> bytes:
    fields = msgspec.to_builtins(recorded.event, enc_hook=repr)
    return msgspec.json.encode({"at": recorded.at, "kind": type(recorded.event).__name__, "fields": fields}) + b"\n"


def _decode(line: bytes) -> Recorded:
    entry: dict[str, Any] = msgspec.json.decode(line)
    fields = {name: value for name, value in entry["fields"].items() if name != "error"}
    return Recorded(entry["at"], _SPOOLED[entry["kind"]](**fields))
