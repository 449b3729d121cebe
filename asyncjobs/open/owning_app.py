"""What an app is to its parts: its job types, its circuit breakers, and what keeps its jobs in memory in a test.

`AsyncJobs` imports all of these, so none of them imports `AsyncJobs`, not even for its type.
"""

import asyncio
from typing import Protocol, TypeVar

from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.hooks import Hooks
from asyncjobs.handles import JobHandle, Waiter
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.settings import Settings

N = TypeVar("N")


class Breaker(Protocol):
    """What tells one circuit breaker from another."""

    @property
    def service(self) -> str:
        """The service's name."""
        ...


class OwningApp(Waiter, Protocol):
    """The app that a job type or a circuit breaker is part of."""

    @property
    def settings(self) -> Settings:
        """Its settings."""
        ...

    @property
    def hooks(self) -> Hooks:
        """Its hooks."""
        ...

    @property
    def opened_in(self) -> int | None:
        """The process that it is open in, None when it is closed."""
        ...

    @property
    def was_opened(self) -> bool:
        """Whether it has ever been open."""
        ...

    def includes(self, definition: JobDefinition) -> bool:
        """Whether this very declaration is part of it."""
        ...

    def includes_breaker(self, breaker: Breaker) -> bool:
        """Whether this very circuit breaker is part of it."""
        ...

    def loop(self, what: str) -> asyncio.AbstractEventLoop:
        """The loop that it is open in, or NotOpen in words that begin with `what`."""
        ...

    def open_breakers(self, what: str) -> Breakers:
        """The breakers, for its own loop; NotOpen, WrongLoop."""
        ...

    def breakers_in(self, what: str) -> Breakers:
        """The breakers, for any thread; NotOpen."""
        ...

    async def enqueue(self, job: NewJob[N], /) -> JobHandle[N]:
        """Make a job durable."""
        ...

    def enqueue_sync(self, job: NewJob[N], /) -> JobHandle[N]:
        """`enqueue` without awaiting it."""
        ...

    async def enqueue_one(self, new: NewJob[N], /) -> JobHandle[N]:
        """`enqueue` where nothing but the job matters."""
        ...
