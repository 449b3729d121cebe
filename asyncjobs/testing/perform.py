"""One attempt of one job, in memory: the handler as a runner would call it, without a database.

    assert await perform(add.new(1, 2)) == 3

The payload goes through JSON and back, the handler gets a real JobContext, its timeout holds, `ctx.use` opens and closes, the
app's hooks are round it, and what it returns must be storable. `ctx.progress` is checked and forgotten.
`ctx.complete(connection)` writes nothing; its result is what `perform` returns. What the handler enqueues is kept in memory,
by the `captured` block round the call if there is one.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from asyncjobs.app import AsyncJobs
from asyncjobs.context import JobContext, current
from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.new_job import admit
from asyncjobs.errors import AmbiguousApp, InvalidOption
from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.outcome import Cancel, Dead, Retry, Snooze, Verdict, verdict_in
from asyncjobs.open.current_app import keeper, open_apps
from asyncjobs.runtime.attempt import Attempt, Surroundings
from asyncjobs.runtime.resources import Resources
from asyncjobs.runtime.threads import Threads
from asyncjobs.telemetry.events import AttemptEnded, Events
from asyncjobs.telemetry.log_keys import name_job
from asyncjobs.testing.captured import Captured
from asyncjobs.testing.rows import attempts_of, claimed_of, job_of

N = TypeVar("N")

_CLOSE_SECONDS: Final = 5.0


async def perform(new: NewJob[N], /, *, attempt: int = 1, jobs: AsyncJobs | None = None) -> N | Verdict:
    """What the handler of this job answers, a value or a verdict, also one that it raises; what else it raises is raised.

    `attempt` is the ordinal that it is told. `jobs` is the app it runs in, by default the one that includes the type. Raises also
    what would fail the attempt: AttemptTimeout, UnstorableResult, a verdict's delay that is none.
    """
    app = _app_of(new) if jobs is None else jobs
    kept = keeper.get()
    row = admit(new.row, new.handler, app.queues, app.settings) if app.includes(new.handler) else new.row
    most = attempts_of(row)
    if not 1 <= attempt <= most:
        raise InvalidOption(f"attempt={attempt}: {new.type} has attempts 1 to {most}.", option="attempt")
    performance = _Performance(app, new.handler, kept if isinstance(kept, Captured) and kept.app is app else Captured(app))
    return cast("N | Verdict", await performance.of(row, attempt))


def _app_of(new: NewJob[Any]) -> AsyncJobs:
    kept = keeper.get()
    if isinstance(kept, Captured) and kept.app.includes(new.handler):
        return kept.app
    including = [app for app in open_apps() if app.includes(new.handler)] or new.handler.apps()
    apps = [app for app in including if isinstance(app, AsyncJobs)]
    if len(apps) > 1:
        raise AmbiguousApp(f'job "{new.type}" is in {len(apps)} AsyncJobs: write perform(..., jobs=...).')
    return apps[0] if apps else AsyncJobs()


class _Performance:
    """The handler of one attempt, watched, and what surrounds it."""

    def __init__(self, app: AsyncJobs, definition: JobDefinition, kept: Captured) -> None:
        self._app = app
        self._kept = kept
        self._handler = definition
        self._answer: object = None
        self._completed: list[str | None] = []
        # What an attempt asks of a handler.
        self.function: Callable[..., Any] = self._watched_async if definition.is_async else self._watched
        self.is_async, self.wraps_async, self.version = definition.is_async, definition.wraps_async, definition.version
        self.keeps_payload = definition.keeps_payload
        self.redact, self.paged = definition.redact, definition.paged
        self.takes_context = definition.takes_context
        self.retrying, self.paged = definition.retrying, definition.paged
        self.decode_payload = definition.decode_payload
        self.encode_result = definition.encode_result

    def _watched(self, *args: Any, **kwargs: Any) -> object:
        with self._noting_verdicts():
            self._answer = self._handler.function(*args, **kwargs)
        return self._answer

    async def _watched_async(self, *args: Any, **kwargs: Any) -> object:
        with self._noting_verdicts():
            self._answer = await self._handler.function(*args, **kwargs)
        return self._answer

    @contextmanager
    def _noting_verdicts(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            self._answer = verdict_in(error)
            raise

    async def of(self, row: NewRow, number: int) -> object:
        """What the handler answered; raises what failed the attempt."""
        ended: list[AttemptEnded] = []
        events, threads = Events(), Threads()
        resources = Resources(events=events)
        events.subscribe(ended.append, AttemptEnded)
        attempt = Attempt(_claimed(row, number), self, row.lane, self._surroundings(events, threads, resources))
        task = attempt.start(_nothing)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            attempt.cancel("shutdown")
            await asyncio.wait([task])
            raise
        finally:
            threads.close()
            await resources.close(time.monotonic() + _CLOSE_SECONDS)
            await resources.let_go()
        if ended[0].error is not None:
            raise ended[0].error
        return self._handler.decode_result(self._completed[-1]) if self._completed else self._checked(self._answer)

    def _checked(self, answer: object) -> object:
        match answer:
            case Snooze(delay) | Retry(delay) if delay is not None:
                duration_seconds(delay, name=f"{type(answer).__name__}(delay)")
            case Snooze() | Retry() | Cancel() | Dead():
                pass
            case _:
                self.encode_result(answer)
        return answer

    def _surroundings(self, events: Events, threads: Threads, resources: Resources) -> Surroundings:
        settings = self._app.settings
        return Surroundings(
            open_context=self._open_context, name_job=name_job, events=events, runner_id=lambda: 0, threads=threads,
            max_result_bytes=settings.max_result_bytes, max_error_bytes=settings.max_error_bytes,
            report_progress=_forget, complete=self._complete,
            complete_sync=self._complete_sync, was_committed=_yes,
            share=resources.use, hooks=self._app.hooks.attempt,
        )  # fmt: skip

    def _open_context(self, attempt: Attempt) -> JobContext[AsyncJobs]:
        context = JobContext(jobs=self._app, attempt=attempt)
        current.set(context)
        keeper.set(self._kept)
        return context

    async def _complete(self, _: Attempt, __: object, result: str | None, ___: str | None) -> None:
        self._completed.append(result)

    def _complete_sync(self, _: Attempt, __: object, result: str | None, ___: str | None) -> None:
        self._completed.append(result)


def _claimed(row: NewRow, number: int) -> Claimed:
    job = job_of(row)
    return claimed_of(job, row.payload, number, token=job.id, place=job.id)


def _nothing(_: Attempt, __: Ack) -> None:
    pass


async def _yes(_: Attempt, /, *, is_patient: bool) -> bool:  # noqa: ARG001 - as attempts ask
    return True


def _forget(_: Attempt) -> None:
    pass


__all__ = ["perform"]
