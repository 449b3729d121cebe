"""What is behind the doors of `doors.py`: an app, the rows that an enqueue leaves, and what is notified with its commit."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Final, cast

from asyncjobs import AsyncJobs, JobContext, Lane, Limit, Queue
from asyncjobs.store.database import Connection
from tests.support.doors import Door, Refused, doors_to

Options = Mapping[str, Any]

TABLES: Final = ("jobs", "serialized_jobs", "dedup_keys", "replacements", "dispatch_requests")
#: What an enqueue of the app's own writes at once, and one in a caller's transaction leaves to the promoters.
LIMIT_TABLES: Final = ("limit_requests", "limit_turns", "limit_keys")
#: What is another with each enqueue.
FRESH: Final = {"id", "job_id", "place", "enqueue_token", "updated_at", "created_at", "dispatched_at"}

ALL_ROWS: Final = "SELECT " + ", ".join(
    f"ARRAY(SELECT t FROM asyncjobs.{name} AS t ORDER BY t) AS {name}" for name in (*TABLES, *LIMIT_TABLES)
)

Rows = dict[str, list[dict[str, Any]]]


class Shop:
    """An app with a type of which everything is declared, and one of which nothing is; open, and nothing runs."""

    def __init__(self, dsn: str, connection: Connection) -> None:
        self.dsn, self.connection = dsn, connection
        self.heard: list[str] = []
        self.is_heard = asyncio.Event()
        self.ran: list[int] = []
        self.broken: list[str] = []
        queues = [Queue("default"), Queue("mail", lanes={"fast": Lane(3, timeout=7), "slow": 2}), Queue("other")]
        self.jobs = AsyncJobs(dsn, poll_interval=300, queues=queues)

        @self.jobs.job(
            "email", queue="mail", lane="fast", priority=40, max_attempts=5, on_dead="halt", serialize_by="inbox_{to}", version=2,
            upgrades={1: lambda fields: fields}, limit=Limit("mails", each=3, by="of_{to}"),
        )  # fmt: skip
        async def email(ctx: JobContext, to: str, number: int = 5, tags: list[str] | None = None) -> int:
            self.ran.append(ctx.job.id)
            return number

        @self.jobs.job("note", max_attempts=4)
        async def note(to: str, number: int = 5, tags: list[str] | None = None) -> None: ...

    @asynccontextmanager
    async def doors(self) -> AsyncGenerator[dict[str, Door]]:
        """All of them that lead to the server."""
        async with AsyncExitStack() as stack:
            yield {name: await stack.enter_async_context(door(self.jobs, self.dsn)) for name, door in doors_to(self.dsn).items()}

    @contextmanager
    def cell(self, door: str, case: object) -> Generator[None]:
        """What fails in it is told with all others that did."""
        try:
            yield
        except (AssertionError, Refused) as error:
            self.broken.append(f"{door}, {case}: {error!r}")

    async def enqueue(self, type: str, payload: Any, options: Options) -> int:
        """On the app's own connections."""
        return (await self.jobs.enqueue(type, payload, **cast("Any", options))).id

    async def written(self) -> Rows:
        """What can be seen from outside."""
        row = await self.connection.fetchrow(ALL_ROWS)
        assert row is not None
        return {table: [dict(one) for one in row[table]] for table in (*TABLES, *LIMIT_TABLES)}

    async def empty(self) -> None:
        """All is as it was."""
        await self.connection.execute(";".join(f"DELETE FROM asyncjobs.{table}" for table in (*TABLES, *LIMIT_TABLES)))

    async def all_heard(self) -> list[str]:
        """What was notified since the last time: notifications come in the order of their commits."""
        self.is_heard.clear()
        await self.connection.execute("SELECT pg_notify($1, 'end')", self.jobs.lifecycle.texts().channel)
        await asyncio.wait_for(self.is_heard.wait(), 30)
        found, self.heard = self.heard, []
        return found

    def hear(self, _connection: Any, _process: int, _channel: str, payload: Any) -> None:
        """A notification."""
        if payload == "end":
            self.is_heard.set()
        else:
            self.heard.append(payload)


def alike(tables: Rows, options: Options) -> list[Any]:
    """The rows without what differs from one enqueue to the next; instants as the time since the enqueue."""
    began = next((row["created_at"] for row in tables["jobs"]), None)

    def plain(value: Any) -> Any:
        if not isinstance(value, datetime) or value == options.get("run_at"):
            return value
        assert began is not None
        return ((value - began).total_seconds() + 1) // 5

    return [{name: plain(value) for name, value in row.items() if name not in FRESH} for table in TABLES for row in tables[table]]
