"""Wait for many jobs at once: `gather` and `as_completed`.

1. Handles may be of several apps, all of them open in this loop; of one job there may be several. There is no task for a handle:
   the caller's own task looks, for each app by a statement however many jobs are missing (`runtime/watch.py` says when).
2. What a job ended in is read with the look that sees it. JobDied, JobCancelled, ResultUnavailable, and JobNotFound of one that
   is not there (not committed yet, rolled back, pruned), are its answer.
3. After `timeout` seconds, in all, WaitTimeout names what is missing; 0 looks once. The caller may be cancelled: nothing is left
   of the wait, and the jobs go on.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Generic, Literal, TypeVar, cast, final, overload

from asyncjobs.errors import InvalidOption, JobError, WaitTimeout
from asyncjobs.handles import JobHandle, Waiter, Watching, app_of, failure_of, result_from, timeout_seconds
from asyncjobs.model.ending import Ending
from asyncjobs.model.names import kind_of
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.open_app import not_found
from asyncjobs.runtime.watch import BATCH, Pace

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
R_co = TypeVar("R_co", covariant=True)


@final
class Ended(Generic[R_co]):
    """A job that has ended, and what it ended in: what `as_completed` yields. It is like a future that is done."""

    __slots__ = ("_error", "_result", "handle")

    def __init__(self, handle: JobHandle[R_co], ending: Ending) -> None:
        self.handle = handle
        self._error: JobError | None = None
        self._result: Any = None
        try:
            self._result = _result(handle, ending)
        except JobError as error:
            self._error = error

    def __repr__(self) -> str:
        return f"<Ended id={self.id}{'' if self._error is None else f' {type(self._error).__name__}'}>"

    @property
    def id(self) -> int:
        """The job's id."""
        return self.handle.id

    def result(self) -> R_co:
        """What the handler returned; raises JobDied, JobCancelled, ResultUnavailable or JobNotFound."""
        if self._error is not None:
            raise self._error
        return cast("R_co", self._result)

    def exception(self) -> JobError | None:
        """What `result` would raise, None when it would not."""
        return self._error


# A tuple is iterable, too: mypy objects, and the first overload that fits counts.
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A]], /, *, timeout: Duration | None = None, return_exceptions: Literal[False] = False
) -> tuple[A]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], JobHandle[B]], /, *, timeout: Duration | None = None, return_exceptions: Literal[False] = False
) -> tuple[A, B]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], JobHandle[B], JobHandle[C]],
    /,
    *,
    timeout: Duration | None = None,
    return_exceptions: Literal[False] = False,
) -> tuple[A, B, C]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], JobHandle[B], JobHandle[C], JobHandle[D]],
    /,
    *,
    timeout: Duration | None = None,
    return_exceptions: Literal[False] = False,
) -> tuple[A, B, C, D]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], JobHandle[B], JobHandle[C], JobHandle[D], JobHandle[E]],
    /,
    *,
    timeout: Duration | None = None,
    return_exceptions: Literal[False] = False,
) -> tuple[A, B, C, D, E]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], JobHandle[B], JobHandle[C], JobHandle[D], JobHandle[E], JobHandle[F]],
    /,
    *,
    timeout: Duration | None = None,
    return_exceptions: Literal[False] = False,
) -> tuple[A, B, C, D, E, F]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], ...], /, *, timeout: Duration | None = None, return_exceptions: Literal[False] = False
) -> tuple[A, ...]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    handles: tuple[JobHandle[A], ...], /, *, timeout: Duration | None = None, return_exceptions: bool
) -> tuple[A | JobError, ...]: ...
@overload
async def gather(
    handles: Iterable[JobHandle[A]], /, *, timeout: Duration | None = None, return_exceptions: Literal[False] = False
) -> list[A]: ...
@overload
async def gather(
    handles: Iterable[JobHandle[A]], /, *, timeout: Duration | None = None, return_exceptions: bool
) -> list[A | JobError]: ...
async def gather(
    handles: Iterable[JobHandle[Any]], /, *, timeout: Duration | None = None, return_exceptions: bool = False
) -> Any:
    """The results of all these jobs, in the order of their handles: of a tuple a tuple, of anything else a list.

    The first job that is seen to have ended otherwise raises JobDied, JobCancelled, ResultUnavailable or JobNotFound at once; the
    others go on. With `return_exceptions=True` these stand in the results' places, and so does WaitTimeout for what had not ended
    after `timeout` seconds. Else WaitTimeout is raised, and `.missing` has the ids.
    """
    waited = _checked(handles)
    seconds = timeout_seconds(timeout)
    answers: list[Any] = [None] * len(waited)
    seen: list[int] = []
    try:
        async with aclosing(_endings(waited, seconds)) as endings:
            async for at, ending in endings:
                seen.append(at)
                try:
                    answers[at] = _result(waited[at], ending)
                except JobError as error:
                    if not return_exceptions:
                        raise
                    answers[at] = error
    except WaitTimeout:
        if not return_exceptions:
            raise
        for at in set(range(len(waited))).difference(seen):
            answers[at] = late([waited[at].id], seconds)
    return tuple(answers) if isinstance(handles, tuple) else answers


async def as_completed(handles: Iterable[JobHandle[A]], /, *, timeout: Duration | None = None) -> AsyncGenerator[Ended[A]]:
    """Each of these jobs when it has ended, by `async for`: `ended.result()`, `ended.handle`.

    Those that are seen at once come in the order of their handles. WaitTimeout when some are missing `timeout` seconds after the
    first step.
    """
    waited = _checked(handles)
    async with aclosing(_endings(waited, timeout_seconds(timeout))) as endings:
        async for at, ending in endings:
            yield Ended(waited[at], ending)


def _checked(handles: object) -> Sequence[JobHandle[Any]]:
    if not isinstance(handles, Iterable):
        raise InvalidOption(f"{kind_of(handles)} was given where handles are waited for: write [handle, ...].", option="handles")
    waited = list(cast("Iterable[object]", handles))
    for one in waited:
        if not isinstance(one, JobHandle):
            raise InvalidOption(f"{kind_of(one)} is no handle: give what `enqueue` returned, or `handle(id)`.", option="handles")
    return cast("list[JobHandle[Any]]", waited)


async def _endings(handles: Sequence[JobHandle[Any]], seconds: float | None) -> AsyncGenerator[tuple[int, Ending]]:
    """Each handle's position with the ending of its job, as they are seen. WaitTimeout."""
    wait = _Wait(seconds)
    try:
        await wait.open(handles)
        while wait.goes_on:
            for one in await wait.look():
                yield one
            if wait.goes_on:
                await wait.until_due()
    finally:
        wait.close()


class _Wait:
    """One wait for many handles."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._until = None if seconds is None else self._loop.time() + seconds
        self._told = asyncio.Event()
        self._watches: list[tuple[Watching, dict[int, list[int]]]] = []  # and by id, which handles are of that job
        self._pace = Pace(0, 0.0)
        self._looks = 0  # that are left, when there is no time at all

    async def open(self, handles: Sequence[JobHandle[Any]]) -> None:
        """Find the apps of the handles, and watch their jobs."""
        by_app: dict[int, tuple[Waiter, dict[int, list[int]]]] = {}
        for at, handle in enumerate(handles):
            app = app_of(handle)
            by_app.setdefault(id(app), (app, {}))[1].setdefault(handle.id, []).append(at)
        for app, places in by_app.values():
            watch = await app.watch(list(places), self._told.set, timeout=self._seconds)
            self._watches.append((watch, places))
        most = max((len(places) for _, places in by_app.values()), default=0)
        self._pace = Pace(most, self._loop.time())
        self._looks = -(-most // BATCH)

    def close(self) -> None:
        """Watch nothing any more."""
        for watch, _ in self._watches:
            watch.close()

    @property
    def goes_on(self) -> bool:
        """Whether some of them have not been seen to end."""
        return any(watch.missing for watch, _ in self._watches)

    def missing(self) -> list[int]:
        """The ids of the jobs that have not been seen to end."""
        return [job_id for watch, _ in self._watches for job_id in watch.missing]

    async def look(self) -> list[tuple[int, Ending]]:
        """What has ended since the last look."""
        began_at = self._loop.time()
        everywhere = self._seconds == 0 or self._pace.is_poll_due(began_at)
        found: list[tuple[int, Ending]] = []
        try:
            async with asyncio.timeout_at(self._until if self._seconds else None):
                for watch, places in self._watches:
                    if watch.missing:
                        found += [(at, one) for one in await watch.look(everywhere=everywhere) for at in places[one.id]]
        except WaitTimeout:  # where nothing is left to run, in a test
            raise
        except TimeoutError:
            raise self._late() from None
        missing = sum(len(watch.missing) for watch, _ in self._watches)
        self._pace.looked(self._loop.time(), began_at=began_at, everywhere=everywhere, missing=missing)
        found.sort(key=_place)
        return found

    async def until_due(self) -> None:
        """Wait until another look is due. WaitTimeout when the time is over before."""
        if self._seconds == 0:
            self._looks -= 1
            if self._looks <= 0:
                raise self._late()
            return
        while not all(watch.has_all for watch, _ in self._watches):
            self._told.clear()
            due = self._pace.next_at(has_news=any(watch.has_news for watch, _ in self._watches))
            if self._loop.time() >= due:
                return
            await self._sleep(due)

    async def _sleep(self, due: float) -> None:
        """Until that instant, or until something is told. WaitTimeout."""
        try:
            async with asyncio.timeout_at(due if self._until is None else min(due, self._until)):
                await self._told.wait()
        except TimeoutError:
            if self._until is not None and self._loop.time() >= self._until:
                raise self._late() from None

    def _late(self) -> WaitTimeout:
        return late(self.missing(), self._seconds)


def late(missing: Sequence[int], seconds: float | None) -> WaitTimeout:
    """What is said when these jobs have not ended after so many seconds."""
    which = f"job {missing[0]}" if len(missing) == 1 else f"{len(missing):,} jobs, job {missing[0]} among them,"
    return WaitTimeout(f"{which} had not ended after {seconds or 0:g} s.", job_id=missing[0], missing=missing)


def _place(found: tuple[int, Ending]) -> int:
    return found[0]


def _result(handle: JobHandle[Any], ending: Ending) -> Any:
    if ending.status is None:
        raise not_found(ending.id)
    failure = None if ending.job is None else failure_of(ending.job)
    if failure is not None:
        raise failure
    return result_from(handle, ending.type, ending.result, ending.result_dropped)
