"""What the shop's tests need: the shop in memory, and on a database that a test has for itself."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from asyncjobs import JobContext
from asyncjobs.testing import in_memory, override

from . import database
from .database import Order
from .jobs import jobs
from .web import app


class Rows:
    """In place of a session: keeps orders in a dictionary."""

    def __init__(self) -> None:
        self.orders: dict[int, Order] = {}

    def add(self, order: Order) -> None:
        order.id = len(self.orders) + 1
        order.status = "placed"
        self.orders[order.id] = order

    async def get(self, _: type[Order], order_id: int) -> Order | None:
        return self.orders.get(order_id)

    async def get_one(self, _: type[Order], order_id: int) -> Order:
        return self.orders[order_id]

    async def flush(self) -> None: ...

    async def commit(self) -> None: ...


@pytest.fixture
def shop_in_memory() -> Generator[Rows]:
    """No database: jobs and orders are in memory."""
    rows = Rows()

    @asynccontextmanager
    async def rows_of(ctx: JobContext) -> AsyncGenerator[Any]:
        yield rows

    app.dependency_overrides[database.session] = lambda: rows
    with override(jobs, stand_ins={database.session_of: rows_of}), in_memory(jobs):
        yield rows
    app.dependency_overrides.clear()


@pytest.fixture
async def client(asyncjobs_dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the app, on a new database; jobs run when the test says so."""
    monkeypatch.setenv("ASYNCJOBS_DSN", asyncjobs_dsn)
    database.engine.cache_clear()
    await database.create_tables()
    with override(jobs, dsn=asyncjobs_dsn):
        async with jobs, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            yield client
    await database.engine().dispose()
    database.engine.cache_clear()
