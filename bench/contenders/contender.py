"""What a contender written in Python is, and what its handlers write down."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import asyncpg

from bench.contenders.work import Work


class Payload(NamedTuple):
    """What a job carries: its number, when it was enqueued, and its key, if it has one."""

    number: int
    at: float
    key: str


class Contender(ABC):
    """One way to enqueue and to run jobs. A subclass says how; `handled` is what its handler has to await, once a job."""

    #: Of the library that it uses.
    version: str
    #: The statement that counts the jobs that are neither finished nor in the future.
    LEFT: str
    #: The statement that leaves of all jobs what their runs would have left.
    FINISH: str

    def __init__(self, dsn: str, options: dict[str, Any]) -> None:
        self.dsn = dsn
        self.options = options
        #: How many keys the jobs have that it is about to run.
        self.keys = 0
        self.notes = Notes()

    async def handled(self, number: int, at: float, key: str) -> None:
        """What each job does."""
        notes = self.notes
        now = time.monotonic()
        if not notes.count and not notes.began:
            notes.began = now
        if at:
            notes.waits.append(now - at)
        if key:
            notes.start(key, number)
        if notes.work is not None:
            await notes.work()
        if key:
            await asyncio.sleep(0)  # else none that does nothing could be seen to overlap another
            notes.running.discard(key)
        notes.count += 1
        notes.last = time.monotonic()
        if notes.spans is not None:
            notes.spans.append((key, now, notes.last))
        if notes.count % notes.every == 0:
            notes.ended.append(notes.last)

    @abstractmethod
    async def prepare(self) -> None:
        """Make its tables."""

    @abstractmethod
    def enqueueing(self, connections: int) -> AbstractAsyncContextManager[None]:
        """`enqueue` and `enqueue_all` are called in it; who needs connections for that may use so many."""

    @abstractmethod
    async def enqueue(self, job: Payload) -> None:
        """One job, which is committed when this returns."""

    @abstractmethod
    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        """Many in one call, due so many seconds from now."""

    @abstractmethod
    def working(self, concurrency: int) -> AbstractAsyncContextManager[None]:
        """A worker is up while it is open; leaving it stops the worker in good order."""

    async def left(self) -> int:
        """How many jobs are neither finished nor in the future."""
        async with _connected(self.dsn) as connection:
            count: int = await connection.fetchval(self.LEFT)
            return count

    async def finish(self) -> None:
        """Make of all jobs finished ones."""
        async with _connected(self.dsn) as connection:
            await connection.execute(self.FINISH, timeout=None)


class Notes:
    """What the handlers of one worker write down."""

    def __init__(self, work: Work | None = None, every: int = 1_000_000, *, spans: bool = False) -> None:
        self.work = work
        #: Of each job its key, and when its handler began and ended.
        self.spans: list[tuple[str, float, float]] | None = [] if spans else None
        self.every = every
        self.count = 0
        self.began = self.last = 0.0
        self.ended: list[float] = []
        self.waits: list[float] = []
        self.running: set[str] = set()
        self.latest: dict[str, int] = {}
        self.disordered = 0

    def start(self, key: str, number: int) -> None:
        if key in self.running or self.latest.get(key, -1) > number:
            self.disordered += 1
        self.running.add(key)
        self.latest[key] = number


@asynccontextmanager
async def _connected(dsn: str) -> "AsyncGenerator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()
