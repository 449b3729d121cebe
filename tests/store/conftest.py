"""Fixtures of the store's tests."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store.database import Connection, Database
from tests.support.claims import Claims
from tests.support.peers import Peers, peers


@pytest.fixture
async def claims(database: Database, connection: Connection) -> AsyncGenerator[Claims]:
    """A registered runner's claims and acks. What it still runs at the end is completed."""
    link = database.link("finish")
    made = await Claims(link, connection).register()
    yield made
    await link.close()
    await made.end_all()


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    """Two processes that enqueue, claim and ack. A suite that leaves jobs behind overrides it."""
    async with peers(database) as made:
        yield made
