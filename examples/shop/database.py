"""Where the shop keeps its rows: `$ASYNCJOBS_DSN`, or the private PostgreSQL of `embedded://`."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from asyncjobs import JobContext, embedded


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """What a customer ordered, and what became of it."""

    __tablename__ = "shop_orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int]
    status: Mapped[str] = mapped_column(default="placed")


@cache
def private_server() -> embedded.Server:
    """The server of `embedded://`; it is kept for as long as this process lives."""
    return embedded.start_sync()


@cache
def engine() -> AsyncEngine:
    """The shop's connections, to the database that its jobs are in."""
    dsn = os.environ.get("ASYNCJOBS_DSN") or private_server().dsn
    return create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))


async def session() -> AsyncGenerator[AsyncSession]:
    """For endpoints, which commit by themselves."""
    async with AsyncSession(engine()) as opened:
        yield opened


@asynccontextmanager
async def session_of(ctx: JobContext) -> AsyncGenerator[AsyncSession]:
    """For handlers: one for each attempt."""
    async with AsyncSession(engine(), expire_on_commit=False) as opened:
        yield opened


async def create_tables() -> None:
    """Make the shop's tables where they are not there yet. A real shop has alembic for this."""
    async with engine().begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
