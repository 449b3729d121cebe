"""What an app is to its parts: its job types, its circuit breakers, and what keeps its jobs in memory in a test.

`AsyncJobs` imports all of these, so none of them imports `AsyncJobs`, not even for its type.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.hooks import Hooks
from asyncjobs.handles import JobHandle, Waiter, Watching
from asyncjobs.model.finding import Found
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.model.workflow import FlowPlan, WorkflowRow
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.settings import Settings
from asyncjobs.store.workflows import CancelOutcome, Spawned, Written

N = TypeVar("N")


class Breaker(Protocol):
    """What tells one circuit breaker from another."""

    @property
    def service(self) -> str:
        """The service's name."""
        ...


class Keeper(Protocol):
    """Keeps the jobs that are enqueued in one app."""

    @property
    def app(self) -> "OwningApp":
        """The app."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where a thread has done what is asynchronous, if it runs; None: in a loop of its own."""
        ...

    def keep(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Keep them; what became of each. DuplicateJob."""
        ...

    def keep_workflow(self, plan: FlowPlan, rows: Sequence[NewRow]) -> Written:
        """Keep a workflow. DuplicateJob."""
        ...

    def spawn(self, job_id: int, token: int, first: int, rows: Sequence[NewRow]) -> Spawned:
        """Keep what a member adds to its workflow."""
        ...

    def workflow(self, workflow_id: int) -> WorkflowRow | None:
        """The workflow as it is now."""
        ...

    def member_counts(self, workflow_id: int) -> dict[str, int]:
        """How many of its jobs have which status."""
        ...

    def members(self, workflow_id: int, before: int | None, limit: int) -> Found:
        """A page of its jobs, the highest ids first."""
        ...

    def cancel_workflow(self, workflow_id: int, message: str) -> CancelOutcome:
        """End what has not ended of it; what runs is asked to."""
        ...

    async def wait_workflow(self, workflow_id: int, timeout: float | None) -> None:
        """Return when it has ended, or does not go on."""
        ...

    async def get(self, job_id: int) -> Job | None:
        """The job as it is now."""
        ...

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job when it has ended."""
        ...

    async def watch(self, job_ids: Sequence[int], told: Callable[[], None], *, timeout: float | None) -> Watching:
        """Watch these jobs until they have ended."""
        ...


class Memory(Keeper, Protocol):
    """Stands in for the whole database of an app."""

    @property
    def pid(self) -> int:
        """The process that it is in."""
        ...

    @property
    def breakers(self) -> Breakers:
        """The app's circuit breakers."""
        ...

    def enter(self) -> None:
        """As the app is opened, in the loop that runs here."""
        ...

    def leave(self) -> None:
        """Undo one `enter`."""
        ...


class OwningApp(Waiter, Protocol):
    """The app that a job type or a circuit breaker is part of."""

    @property
    def memory(self) -> Memory | None:
        """What stands in for its database in a test."""
        ...

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
