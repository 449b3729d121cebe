"""The server ends while jobs run, in every way it can: attempts go on and are acknowledged afterwards, nothing runs twice."""

import pytest

from asyncjobs.store.database import Database
from asyncjobs.testing import Recorder
from tests.support.outage import at_work
from tests.support.own_server import End, OwnServer

pytestmark = [pytest.mark.usefixtures("database"), pytest.mark.direct("has a server of its own")]


@pytest.fixture
def database(own: OwnServer) -> Database:
    return Database(own.dsn)


@pytest.mark.parametrize(
    "how", ["crash", pytest.param("fast", marks=pytest.mark.proof), pytest.param("immediate", marks=pytest.mark.proof)]
)
async def test_attempts_outlive_a_server_that_ends_and_comes_back(own: OwnServer, recorder: Recorder, how: End) -> None:
    async with at_work(own.dsn, recorder) as work:
        with own.away(how):
            work.enqueues()
            await work.notices("Connect call failed")
        await own.back()
        await work.ends()


@pytest.mark.proof
@pytest.mark.parametrize("role", ["finish", "listener", "heartbeat", "notifier", "pool"])
async def test_attempts_outlive_the_crash_of_any_backend(own: OwnServer, recorder: Recorder, role: str) -> None:
    async with at_work(own.dsn, recorder) as work:
        assert own.kill_backend(role) >= 1
        work.enqueues()
        await work.notices()
        await work.ends()


async def test_nothing_is_lost_while_the_server_is_read_only(own: OwnServer, recorder: Recorder) -> None:
    async with at_work(own.dsn, recorder) as work:
        own.set(default_transaction_read_only="on")
        work.enqueues()
        await work.notices("in a read-only transaction")
        own.reset("default_transaction_read_only")
        await work.ends()


@pytest.mark.proof
async def test_nothing_is_lost_while_no_connection_is_left(own: OwnServer, recorder: Recorder) -> None:
    async with at_work(own.dsn, recorder) as work:
        with own.crowded():
            work.enqueues()
            await work.notices("too many clients")
        await work.ends()
