"""What tests of handlers need that complete their jobs in transactions of their own."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.store.database import Connection


@pytest.fixture
async def effects(connection: Connection) -> None:
    await connection.execute("CREATE TABLE effects (job_id bigint)")


@pytest.fixture
async def held() -> AsyncGenerator[list[Any]]:
    """Connections that a handler leaves with a transaction open."""
    made: list[Any] = []
    yield made
    for connection in made:
        await connection.close()
