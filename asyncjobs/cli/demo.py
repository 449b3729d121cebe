"""`asyncjobs demo`: jobs that fail, come again, wait for their turn and die, on a PostgreSQL of the demo's own.

It never looks at an app, a DSN or the environment: whatever they name stays untouched. The server and its data are gone when it
ends. What it counts in its last line is seen by the handlers themselves, not read back from the tables.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from asyncjobs import JobContext
from asyncjobs.app import AsyncJobs
from asyncjobs.cli import screen
from asyncjobs.cli.failures import NOT_DONE
from asyncjobs.cli.kit import Asked, Group, Number, option, verb
from asyncjobs.declare.definition import NewJob
from asyncjobs.model.job import Job
from asyncjobs.settings import Backoff, Queue

_ACCOUNTS = 20
_FAILS = 0.1
_DOOMED_EVERY = 50


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the jobs."""

    enqueued: int
    completed: int
    dead: int
    lost: int
    retries: int
    overlapped: int
    out_of_order: int


def add_to(program: Group) -> None:
    """Declare the verb."""
    count = option("--jobs", "count", type=Number(min=1, max=100_000), default=1_000, show_default=True, help="How many jobs.")
    verb(program, "demo", count, opens=False, needs_no_app=True)(demo)


async def demo(asked: Asked, count: int) -> int | None:
    """Watch jobs run, fail, come again and die, on a PostgreSQL of its own.

    One in ten fails at first, one in fifty for good, and those of an account run one after another.
    Ends with 1 when a job was lost, or one of a key overlapped another or came out of order: that would be a bug.
    """
    from asyncjobs.testing.server import FAST, temporary

    server = temporary(FAST, durable=False)
    dsn = await asyncio.to_thread(server.__enter__)
    try:
        with _quiet(), screen.progress(f"running {count:,} jobs") as told:
            tally, text = await _Bank(dsn).run(count, told)
    finally:
        await asyncio.to_thread(server.__exit__, None, None, None)
    fields = msgspec.structs.asdict(tally)
    asked.answer(tally, lambda: f"{text}\n\ndemo: {' '.join(f'{name}={value}' for name, value in fields.items())}")
    return NOT_DONE if tally.lost or tally.overlapped or tally.out_of_order else None


@contextmanager
def _quiet() -> Generator[None]:
    """Failures are the point: their lines would hide what is to be seen."""
    logger = logging.getLogger("asyncjobs")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Bank:
    """Bookings of accounts, one after another for each; one in ten fails at first, one in fifty for good."""

    def __init__(self, dsn: str) -> None:
        self._jobs = AsyncJobs(dsn, auto_migrate=True, queues=[Queue("default", concurrency=20)])
        self._busy: set[int] = set()
        self._seen: defaultdict[int, list[int]] = defaultdict(list)
        self._overlapped = self._retries = 0
        self._chance = random.Random()
        self._ended = 0
        self._book = self._jobs.job("book", serialize_by="account_{account}", max_attempts=3, backoff=Backoff(0.02))(self.book)

    async def book(self, ctx: JobContext, account: int, number: int) -> int:
        """The handler."""
        self._overlapped += account in self._busy
        self._busy.add(account)
        try:
            await asyncio.sleep(self._chance.uniform(0, 0.005))
            if ctx.attempt > 1:
                self._retries += 1
            if number % _DOOMED_EVERY == _DOOMED_EVERY - 1 or (ctx.attempt == 1 and self._chance.random() < _FAILS):
                raise ConnectionError("the bank did not answer")
            self._seen[account].append(number)
            return number
        finally:
            self._busy.discard(account)

    async def run(self, count: int, told: Callable[[int], None]) -> tuple[Tally, str]:
        """Enqueue all, run all; what came of them, and a table."""
        news: list[NewJob[int]] = [self._book.new(account=number % _ACCOUNTS, number=number) for number in range(count)]
        async with self._jobs.runner():
            handles = await self._jobs.enqueue_many(news)
            ended: list[Job] = []
            for handle in handles:
                ended.append(await handle.wait())
                told(len(ended))
            table = await self._table()
        statuses = [job.status for job in ended]
        completed, dead = statuses.count("completed"), statuses.count("dead")
        return Tally(
            enqueued=count,
            completed=completed,
            dead=dead,
            lost=count - completed - dead,
            retries=self._retries,
            overlapped=self._overlapped,
            out_of_order=sum(seen != sorted(seen) for seen in self._seen.values()),
        ), table

    async def _table(self) -> str:
        dead_letters = (await self._jobs.admin.dead_letters(limit=5)).dead_letters
        rows = [(one.job_id, one.type, one.attempts, one.error_message) for one in dead_letters]
        return "the last of the dead letters:\n" + screen.table(("job", "type", "attempts", "error"), rows)
