"""What the type checkers cannot see, with what they infer instead. A note that changes is progress, or a regression.

Each of these is refused, or found out, when the program runs (tests/unit/test_bad_input.py). Both checkers reveal the type after the
mark of a line; where they differ, mypy reveals the first and pyright the second.
"""

from typing import Any, Protocol, reveal_type

from asyncjobs import AsyncJobs, JobContext, Snooze

jobs = AsyncJobs()


class HasAttempt(Protocol):
    @property
    def attempt(self) -> int: ...


@jobs.job("any first")
async def any_first(payload: Any) -> None: ...


@jobs.job("any first of two")
async def any_first_of_two(payload: Any, n: int) -> None: ...


@jobs.job("object first")
async def object_first(payload: object, n: int) -> None: ...


@jobs.job("protocol first")
async def protocol_first(x: HasAttempt) -> None: ...


@jobs.job("optional context")
async def optional_context(ctx: JobContext | None, n: int) -> None: ...


@jobs.job("star")
async def star(*args: int) -> None: ...


@jobs.job("two stars")
async def two_stars(**kwargs: int) -> None: ...


@jobs.job("context second")
async def context_second(n: int, ctx: JobContext) -> None: ...


@jobs.job("returns any")
async def returns_any(n: int) -> Any: ...


@jobs.job("only snooze")
async def only_snooze(n: int) -> Snooze:
    return Snooze(1)


class Methods:
    @jobs.job("method")
    async def method(self, n: int) -> None: ...


reveal_type(any_first)  # AsyncJobType[Any, Any] | AsyncJobType[(), None]
reveal_type(any_first_of_two)  # AsyncJobType[Any, Any] | AsyncJobType[(n: int), None]
reveal_type(object_first)  # AsyncJobType[(n: int), None]
reveal_type(protocol_first)  # AsyncJobType[(), None]
reveal_type(optional_context)  # AsyncJobType[(n: int), None]
reveal_type(star)  # AsyncJobType[(*args: int), None]
reveal_type(two_stars)  # AsyncJobType[(**kwargs: int), None]
reveal_type(context_second)  # AsyncJobType[(n: int, ctx: JobContext[AsyncJobs]), None]
reveal_type(returns_any)  # AsyncJobType[(n: int), Any]
reveal_type(only_snooze)  # AsyncJobType[(n: int), Never] | AsyncJobType[(n: int), Unknown]
reveal_type(Methods.method)  # AsyncJobType[(self: Methods, n: int), None]
jobs.runner(queues="mail")
