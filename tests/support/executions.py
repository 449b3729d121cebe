"""A table of what handlers did: each execution, when it began and when it ended. Constraints of the table find overlaps.

It is reached directly, whatever happens to the runner's own connections. What a process was doing when it was killed, or frozen,
is no execution any more: the test says so with `bury`, before anybody else is given its jobs.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg
import msgspec

from asyncjobs.store.database import Connection

_TABLES = """
CREATE TABLE public.ran (
    job_id bigint NOT NULL, key text, pid int NOT NULL, number bigserial,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(), ended_at timestamptz);
CREATE UNIQUE INDEX one_at_a_time ON public.ran (job_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX one_of_a_key ON public.ran (key) WHERE ended_at IS NULL AND key IS NOT NULL;
CREATE TABLE public.overlaps (job_id bigint NOT NULL, what text NOT NULL);
"""


class Executions(msgspec.Struct, frozen=True):
    """What the table says."""

    times: dict[int, int]  # how often each job was executed
    overlaps: list[str]
    out_of_order: list[int]  # jobs that began after one that joined their key's line later
    unended: int


class Ran:
    """The table. `create` it once; each process has a connection of its own to it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()

    def close(self) -> None:
        """Drop the connection."""
        self._connection.terminate()

    async def _fetch(self, statement: str, *args: object) -> list[asyncpg.Record]:
        async with self._turn:
            return await self._connection.fetch(statement, *args)

    @classmethod
    async def connect(cls, dsn: str) -> "Ran":
        """For a process that executes."""
        settings = {"application_name": "ran"}
        return cls(await asyncpg.connect(dsn, timeout=10, command_timeout=30, server_settings=settings))

    async def create(self) -> None:
        """Make the tables."""
        await self._connection.execute(_TABLES)

    @asynccontextmanager
    async def execution(self, job_id: int, key: str | None) -> AsyncGenerator[None]:
        """The body is one execution. Notes it when it overlaps with another one of this job, or of this key."""
        statement = "INSERT INTO public.ran (job_id, key, pid) VALUES ($1, $2, $3) RETURNING number"
        try:
            [row] = await self._fetch(statement, job_id, key, os.getpid())
        except asyncpg.UniqueViolationError as error:
            await self._fetch("INSERT INTO public.overlaps VALUES ($1, $2)", job_id, str(error))
            raise
        try:
            yield
        finally:
            await self._fetch("UPDATE public.ran SET ended_at = clock_timestamp() WHERE number = $1", row["number"])

    async def bury(self, pid: int) -> None:
        """This process executes nothing any more."""
        await self._connection.execute(
            "UPDATE public.ran SET ended_at = clock_timestamp() WHERE pid = $1 AND ended_at IS NULL", pid
        )

    async def executions(self) -> Executions:
        """What was executed so far. Order is that of the ids: for jobs of a key that one caller enqueued one after the other."""
        times = await self._connection.fetch("SELECT job_id, count(*) AS times FROM public.ran GROUP BY 1")
        overlaps = await self._connection.fetch("SELECT job_id, what FROM public.overlaps")
        late = await self._connection.fetch(
            "SELECT job_id FROM"
            " (SELECT job_id, key, min(number) AS first FROM public.ran WHERE key IS NOT NULL GROUP BY 1, 2) AS one"
            " WHERE EXISTS (SELECT FROM public.ran AS other"
            " WHERE other.key = one.key AND other.job_id > one.job_id AND other.number < one.first)"
        )
        unended = await self._connection.fetchval("SELECT count(*) FROM public.ran WHERE ended_at IS NULL")
        return Executions(
            times={row["job_id"]: row["times"] for row in times},
            overlaps=[f"job {row['job_id']}: {row['what']}" for row in overlaps],
            out_of_order=[row["job_id"] for row in late],
            unended=unended,
        )
