"""Any connection of a runner breaks, falls silent, is slow or loses an answer: nothing is lost, no attempt is spent."""

import pytest

from asyncjobs.store.database import Database
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import eventually
from tests.support.outage import at_work

pytestmark = [pytest.mark.proof, pytest.mark.usefixtures("auditor")]

ROLES = ("finish", "listener", "heartbeat", "notifier", "pool", "duties", "enqueue plain", "enqueue keyed", "enqueue dedup", None)

#: Those that connect again by themselves.
EAGER = ("finish", "listener", "heartbeat")


@pytest.mark.parametrize("how", ["reset", "close", "drop_next_response", "silence"])
@pytest.mark.parametrize("role", ROLES)
async def test_one_connection_is_lost(database: Database, recorder: Recorder, role: str | None, how: str) -> None:
    async with Proxy(database.dsn) as proxy, at_work(proxy.dsn, recorder, connect_timeout=40) as work:
        getattr(proxy, how)(role)
        work.enqueues()
        await work.ends()


@pytest.mark.parametrize("role", ROLES)
async def test_one_connection_is_slow(database: Database, recorder: Recorder, role: str | None) -> None:
    async with Proxy(database.dsn) as proxy, at_work(proxy.dsn, recorder, connect_timeout=40) as work:
        proxy.delay(0.2, role)
        work.enqueues()
        await work.ends()


@pytest.mark.parametrize("role", ROLES)
async def test_one_connection_is_refused_for_a_while(database: Database, recorder: Recorder, role: str | None) -> None:
    async with Proxy(database.dsn) as proxy, at_work(proxy.dsn, recorder, connect_timeout=40) as work:
        before = proxy.accepted
        proxy.refuse(role)
        proxy.reset(role)
        work.enqueues()
        work.gate.set()
        await eventually(lambda: proxy.accepted > before or role not in EAGER, description="it tries to connect")
        proxy.heal()
        await work.ends()
