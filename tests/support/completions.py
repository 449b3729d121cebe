"""Handlers that complete their jobs in transactions of their own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from asyncjobs import AsyncJobs, JobContext
from asyncjobs.store.database import Connection


@asynccontextmanager
async def in_asyncpg(dsn: str, job_id: int) -> AsyncGenerator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO effects VALUES ($1)", job_id)
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def in_session(dsn: str, job_id: int) -> AsyncGenerator[Any]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("INSERT INTO effects VALUES (:id)"), {"id": job_id})
            yield session
    finally:
        await engine.dispose()


@asynccontextmanager
async def in_psycopg(dsn: str, job_id: int) -> AsyncGenerator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("INSERT INTO effects VALUES (%s)", [job_id])
        yield connection


async def found(connection: Connection) -> tuple[Any, int]:
    """The one job's row, and how many effects there are."""
    row = await connection.fetchrow("SELECT * FROM asyncjobs.jobs ORDER BY id LIMIT 1")
    return row, await connection.fetchval("SELECT count(*) FROM effects")


async def left_open(jobs: AsyncJobs, ctx: JobContext, held: list[Any], result: object = None) -> None:
    """Complete the job in a transaction that nobody ends."""
    held.append(await asyncpg.connect(str(jobs.dsn)))
    await held[0].execute("BEGIN")
    await ctx.complete(held[0], result)
