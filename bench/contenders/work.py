"""What the jobs of a benchmark do: nothing, or what real handlers do."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

Work = Callable[[], Awaitable[None]]

CPU_SECONDS = 0.005


@asynccontextmanager
async def work_named(name: str, dsn: str) -> AsyncGenerator[Work | None]:
    """What is to be awaited for each job; None for "nothing". Others: "sleep SECONDS", "http URL", "cpu", "sqlalchemy"."""
    kind, _, argument = name.partition(" ")
    if kind == "nothing":
        yield None
    elif kind == "sleep":
        yield lambda: asyncio.sleep(float(argument))
    elif kind == "http":
        async with _http(argument) as work:
            yield work
    elif kind == "cpu":
        yield _cpu
    elif kind == "sqlalchemy":
        async with _sqlalchemy(dsn) as work:
            yield work
    else:
        raise ValueError(f"no work is named {name}")


async def _cpu() -> None:
    """Computes in the event loop's thread, as the small CPU part of a handler does."""
    until = time.thread_time() + CPU_SECONDS
    while time.thread_time() < until:
        sum(range(100))


@asynccontextmanager
async def _http(url: str) -> AsyncGenerator[Work]:
    import httpx

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None, max_keepalive_connections=200)) as client:

        async def work() -> None:
            (await client.post(url, json={"event": "paid"})).raise_for_status()

        yield work


@asynccontextmanager
async def _sqlalchemy(dsn: str) -> AsyncGenerator[Work]:
    """Two statements and a commit, on an engine of the program's own."""
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"), pool_size=20)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (id bigserial PRIMARY KEY, cents integer NOT NULL)"))

    async def work() -> None:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("INSERT INTO bookings (cents) VALUES (1990)"))
            await session.execute(text("SELECT count(*) FROM bookings WHERE id < 10"))

    try:
        yield work
    finally:
        await engine.dispose()
