from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import Recorder
from tests.support.claiming import Claiming
from tests.support.claims import Claims
from tests.support.factories import insert_runner
from tests.support.scheduling import Make, Setup


@pytest.fixture
async def claiming(database: Database, connection: Connection) -> AsyncGenerator[Claiming]:
    """Claims of a runner's, as long as a test lets them go on."""
    claims = await Claims(database.link("finish"), connection).register()
    yield Claiming(claims, connection)
    await claims.end_all()
    await claims.link.close()


@pytest.fixture
async def make_scheduler(database: Database, recorder: Recorder, connection: Connection) -> Make:
    """Makes schedulers of runners 1 to 9."""
    for runner_id in range(1, 10):
        await insert_runner(connection, id=runner_id)
    return lambda *schedules, runner_id=1, **options: Setup(database, runner_id, *schedules, **options)
