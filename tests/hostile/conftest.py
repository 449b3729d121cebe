"""A server of the module's own, and a migrated database on it for each test, which the auditor looks at in the end."""

import asyncio
from collections.abc import Generator

import pytest

from asyncjobs.store.database import Database
from asyncjobs.store.migrate import migrate
from asyncjobs.testing import install_line
from tests.support.embedded import open_folder
from tests.support.own_server import OwnServer, started


@pytest.fixture(scope="module")
def _own() -> Generator[OwnServer]:
    with open_folder() as folder, started(folder / "server") as server:
        migrated(server)
        yield server


def migrated(server: OwnServer) -> None:
    """Make the schema in its database."""
    asyncio.run(_migrate(server.dsn))


async def _migrate(dsn: str) -> None:
    database = Database(dsn)
    await migrate(database)
    await install_line(database)


@pytest.fixture
def own(_own: OwnServer) -> Generator[OwnServer]:
    """A server to be broken, with a new database. It is as it was when the test ends: up, and with the settings it had."""
    _own.fresh()
    yield _own
    _own.tidy()
