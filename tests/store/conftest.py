"""Fixtures of the store's tests."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store.database import Connection, Database
from tests.support.claims import Claims


@pytest.fixture
async def claims(database: Database, connection: Connection) -> AsyncGenerator[Claims]:
    """A registered runner's claims and acks. What it still runs at the end is completed."""
    link = database.link("finish")
    made = await Claims(link, connection).register()
    yield made
    await link.close()
    await made.end_all()
