"""A standby is promoted: the runner follows it, and nothing that was acknowledged is lost, and no attempt is spent."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import RunnerRegistered
from asyncjobs.testing import Auditor, Proxy, Recorder
from tests.hostile.conftest import migrated
from tests.support.embedded import open_folder
from tests.support.eventually import Stopwatch, eventually
from tests.support.outage import Work, at_work
from tests.support.own_server import OwnServer, standby_of, started

pytestmark = [pytest.mark.proof, pytest.mark.direct("has a server of its own")]

PROMOTED_SECONDS = 5.0


@pytest.fixture
def _own() -> Generator[OwnServer]:
    """A server for each test: they end it twice, and its supervisor gives up at the sixth end within a minute."""
    with open_folder() as folder, started(folder / "server") as server:
        migrated(server)
        yield server


@pytest.fixture
async def standby(own: OwnServer) -> AsyncGenerator[OwnServer]:
    with open_folder() as folder, standby_of(own, Path(folder, "standby")) as server:
        server.use(own)
        yield server


def dsn_of(primary: str, standby: OwnServer) -> str:
    """Both hosts, as a user would write them."""
    parts = urlsplit(standby.dsn)
    credentials = parts.netloc.rpartition("@")[0]
    return parts._replace(netloc=f"{credentials}@{primary},{standby.address}").geturl()


async def keep_enqueuing(work: Work) -> None:
    """What returns is acknowledged."""
    while True:
        await work.enqueue()
        await asyncio.sleep(0.01)


async def promoted(work: Work, standby: OwnServer) -> float:
    """Promote, and the seconds until a job that was enqueued afterwards has been run."""
    standby.fetch("SELECT pg_promote()")
    watch = Stopwatch()
    await work.wait([await work.quick.enqueue()])
    return watch.stop()


async def test_runner_follows_the_standby_that_is_promoted(own: OwnServer, standby: OwnServer, recorder: Recorder) -> None:
    auditor = Auditor(Database(standby.dsn), recorder)
    async with at_work(dsn_of(own.address, standby), recorder) as work:
        enqueuing = asyncio.create_task(keep_enqueuing(work))
        await asyncio.sleep(0.3)  # a few hundred
        with own.away("crash"):
            await work.notices("no host accepts")
            assert await promoted(work, standby) <= PROMOTED_SECONDS
            enqueuing.cancel()
            with suppress(asyncio.CancelledError):
                await enqueuing
            await work.ends()
    assert len(recorder.of(RunnerRegistered)) == 1
    await auditor.check()


async def test_runner_follows_although_the_former_primary_is_silent(
    own: OwnServer, standby: OwnServer, recorder: Recorder
) -> None:
    auditor = Auditor(Database(standby.dsn), recorder)
    async with Proxy(own.dsn) as proxy, at_work(dsn_of(urlsplit(proxy.dsn).netloc.rpartition("@")[2], standby), recorder) as work:
        proxy.black_hole()
        await work.notices("TimeoutError")
        assert await promoted(work, standby) <= PROMOTED_SECONDS
        await work.ends()
    assert len(recorder.of(RunnerRegistered)) == 1
    await auditor.check()


async def test_runner_is_back_as_soon_after_an_outage_in_which_it_had_to_give_up(
    own: OwnServer, standby: OwnServer, recorder: Recorder
) -> None:
    """It cannot know that it was not declared dead: what ran is cancelled, and given back with its attempt."""
    auditor = Auditor(Database(standby.dsn), recorder)
    async with at_work(dsn_of(own.address, standby), recorder, heartbeat=5, runner_timeout=30) as work:
        with own.away("crash"):
            await eventually(lambda: not work.health.is_confirmed, description="it gives up", timeout=60, interval=0.1)
            await eventually(lambda: work.health.running == 0, description="what ran is cancelled")
            assert await promoted(work, standby) <= PROMOTED_SECONDS
            await work.ends()
    await auditor.check()


async def test_nothing_stays_on_a_primary_that_was_demoted_and_goes_on(
    own: OwnServer, standby: OwnServer, recorder: Recorder
) -> None:
    """Its listener would hear nothing any more, and its notifier tell nobody, without either noticing."""
    auditor = Auditor(Database(standby.dsn), recorder)
    async with at_work(dsn_of(own.address, standby), recorder, poll_interval=300) as work:
        own.set(default_transaction_read_only="on")
        assert await promoted(work, standby) <= PROMOTED_SECONDS
        left = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'asyncjobs %'"
        await eventually(lambda: own.fetch(left), description="every connection has left")
        await eventually(lambda: work.health.is_listening, description="it listens on the other")
        elsewhere = AsyncJobs(standby.dsn)
        elsewhere.stub("quick")(_stub)
        async with elsewhere:
            await work.wait([await elsewhere.enqueue("quick", {})])
        await work.ends()
    await auditor.check()


async def _stub(ballast: str = "") -> None: ...
