"""Where the tests run that jobs in memory and a real server both pass."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeAlias

from asyncjobs import AsyncJobs, Queue
from asyncjobs.testing import in_memory, override

Opening: TypeAlias = Callable[[AsyncJobs], AbstractAsyncContextManager[Any]]
SyncOpening: TypeAlias = Callable[[AsyncJobs], AbstractContextManager[Any]]


def make(**options: Any) -> AsyncJobs:
    """With one slot: what runs, runs in order on a server, too."""
    return AsyncJobs("postgresql://nowhere.invalid/x", queues=[Queue("default", concurrency=1), Queue("other")], **options)


def opening(dsn: str | None) -> Opening:
    """Open an app on this server; None: in memory."""
    if dsn is None:
        return in_memory

    @asynccontextmanager
    async def opened(jobs: AsyncJobs) -> AsyncGenerator[None]:
        with override(jobs, dsn=dsn):
            async with jobs:
                yield

    return opened


def placing(dsn: str | None) -> SyncOpening:
    """Have an app's jobs on this server, or in memory, for a plain test, that opens it or has it opened."""
    if dsn is None:
        return in_memory

    @contextmanager
    def placed(jobs: AsyncJobs) -> Generator[None]:
        with override(jobs, dsn=dsn, runs=False):
            yield

    return placed
