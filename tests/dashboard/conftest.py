"""One furnished shop for each file of tests, and browsers without a face that look at its dashboard.

The shop stays open for a file: its tests run on one loop (`pytest.mark.asyncio(loop_scope="module")`).
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from asyncjobs import AsyncJobs
from asyncjobs.dashboard import Dashboard
from asyncjobs.store.database import Connection
from asyncjobs.testing import Databases
from tests.support.browser import Browser
from tests.support.shop import furnish, shop


@pytest.fixture(scope="module")
def shop_dsn(_databases: Databases) -> Generator[str]:
    """The DSN of the file's own database."""
    made = _databases.create()
    yield made
    _databases.drop(made)


@pytest.fixture(scope="module")
def ids(shop_dsn: str) -> dict[str, int]:
    """The shop's jobs, put into that database."""

    async def put() -> dict[str, int]:
        connection = await asyncpg.connect(shop_dsn)
        try:
            return await furnish(connection)
        finally:
            await connection.close()

    return asyncio.run(put())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def jobs(shop_dsn: str, ids: dict[str, int]) -> AsyncGenerator[AsyncJobs]:
    """The shop, open."""
    async with shop(shop_dsn) as app:
        yield app


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rows(shop_dsn: str) -> AsyncGenerator[Connection]:
    """A connection to look at what was done."""
    connection = await asyncpg.connect(shop_dsn)
    yield connection
    await connection.close()


class Served:
    """Dashboards of the shop, and who looks at them."""

    def __init__(self, jobs: AsyncJobs) -> None:
        self.jobs = jobs

    def site(self, **settings: Any) -> Dashboard:
        return Dashboard(self.jobs, **(settings or {"auth": lambda request: "ada"}))

    @asynccontextmanager
    async def browser(self, **settings: Any) -> AsyncGenerator[Browser]:
        async with Browser(self.site(**settings)) as browser:
            yield browser


@pytest.fixture(scope="module")
def served(jobs: AsyncJobs) -> Served:
    return Served(jobs)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(served: Served) -> AsyncGenerator[Browser]:
    """Somebody who may do everything, and is called ada."""
    async with served.browser() as made:
        yield made
