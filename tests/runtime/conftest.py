from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store.database import Connection, Database
from tests.support.claiming import Claiming
from tests.support.claims import Claims


@pytest.fixture
async def claiming(database: Database, connection: Connection) -> AsyncGenerator[Claiming]:
    """Claims of a runner's, as long as a test lets them go on."""
    claims = await Claims(database.link("finish"), connection).register()
    yield Claiming(claims, connection)
    await claims.end_all()
    await claims.link.close()
