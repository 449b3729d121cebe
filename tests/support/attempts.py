"""Attempts of made-up jobs, without a database."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from asyncjobs import JobContext
from asyncjobs.app import AsyncJobs
from asyncjobs.context import current
from asyncjobs.declare.definition import JobDefinition, TypeOptions
from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime.attempt import Attempt, Surroundings
from asyncjobs.runtime.resources import Resources
from asyncjobs.runtime.threads import Threads
from asyncjobs.telemetry.events import Events
from asyncjobs.telemetry.log_keys import name_job
from tests.support.claims import a_claimed


class Runs:
    """Runs attempts and keeps how they ended. What they share may be given: `Runs(max_result_bytes=10)`."""

    def __init__(self, **surroundings: Any) -> None:
        self.events = Events()
        self._app = AsyncJobs()
        self.contexts: list[JobContext] = []
        self.acks: list[Ack] = []
        self.reports: list[tuple[float, str] | None] = []
        self.completions: list[tuple[Any, str | None, str | None]] = []
        given: dict[str, Any] = {
            "events": self.events,
            "open_context": self._open_context,
            "name_job": name_job,
            "runner_id": lambda: 7,
            "threads": Threads(),
            "max_result_bytes": 1000,
            "max_error_bytes": 1000,
            "report_progress": lambda attempt: self.reports.append(attempt.reported),
            "complete": self._complete,
            "complete_sync": self._complete_sync,
            "was_committed": self._was_committed,
            "share": Resources(events=self.events).use,
        }
        self.surroundings = Surroundings(**(given | surroundings))

    def _open_context(self, attempt: Attempt) -> JobContext:
        context = JobContext(jobs=self._app, attempt=attempt)
        current.set(context)
        self.contexts.append(context)
        return context

    async def _complete(self, _attempt: Attempt, connection: Any, result: str | None, dropped: str | None) -> None:
        self.completions.append((connection, result, dropped))

    def _complete_sync(self, _attempt: Attempt, connection: Any, result: str | None, dropped: str | None) -> None:
        self.completions.append((connection, result, dropped))

    async def _was_committed(self, _attempt: Attempt, /, *, is_patient: bool) -> bool | None:
        return True

    def make(self, function: Callable[..., Any], /, *, timeout: float | None = None, **fields: Any) -> Attempt:
        """An attempt of a job with this handler that was not started yet; `payload` may be a mapping."""
        payload = fields.pop("payload", {})
        claimed = a_claimed(
            payload=payload if isinstance(payload, str) else json.dumps(payload),
            timeout_seconds=timeout, **fields,
        )  # fmt: skip
        return self.of(claimed, function)

    def of(self, claimed: Claimed, function: Callable[..., Any]) -> Attempt:
        """An attempt of this job."""
        handler = JobDefinition(claimed.type, function, TypeOptions(), declared_at="test")
        return Attempt(claimed, handler, None, self.surroundings)

    def start(self, attempt: Attempt) -> "asyncio.Task[None]":
        """Start it."""
        return attempt.start(lambda _attempt, ack: self.acks.append(ack))

    async def run(self, function: Callable[..., Any], /, **fields: Any) -> Outcome:
        """How the attempt ended. Its task never raises."""
        task = self.start(self.make(function, **fields))
        await asyncio.wait([task], timeout=10)
        assert task.done(), "the attempt has not ended"
        assert task.exception() is None
        [ack] = self.acks[-1:]
        return ack.outcome
