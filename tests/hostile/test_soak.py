"""A short soak: runners killed, the server restarted, a runner cut off; more enqueues than can be (`make soak` is long)."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.hostile.conftest import migrated
from tests.soak.__main__ import SERVER
from tests.soak.overload import Load, Overload
from tests.soak.storm import Plan, Storm
from tests.support.embedded import open_folder
from tests.support.own_server import OwnServer, started

pytestmark = pytest.mark.direct("has a server of its own")


@pytest.fixture(scope="module")
def server() -> Generator[OwnServer]:
    with open_folder() as folder, started(folder / "server", SERVER) as running:
        migrated(running)
        yield running


@pytest.fixture
def fresh(server: OwnServer) -> OwnServer:
    """With a database of the test's own."""
    server.fresh()
    return server


async def test_nothing_is_lost_overlaps_or_loses_its_order_in_a_storm_of_kills(fresh: OwnServer, tmp_path: Path) -> None:
    plan = Plan(jobs=8_000, kills=3, kill_every=1.0, restarts=1, partitions=1, ahead=2_000, runner_timeout=2.4, seconds=600)
    report = await Storm(fresh, plan, tmp_path).run()
    assert report.verdict.is_clean, str(report.verdict)
    assert report.accepted >= plan.jobs
    assert (report.kills >= plan.kills, report.restarts, report.partitions) == (True, 1, 1)


async def test_more_enqueues_than_can_be_lose_nothing_and_are_over_when_they_end(fresh: OwnServer, tmp_path: Path) -> None:
    load = Load(measure_seconds=0.3, seconds=0.3, most_in_flight=11_000, least_rate=60_000)
    report = await Overload(fresh, load, tmp_path).run()
    assert report.verdict.is_clean, str(report.verdict)
    assert report.accepted + report.turned_away >= report.arrived
    assert max(report.client_mib) < report.client_mib[0] + 150.0
    assert max(report.runner_mib) < report.runner_mib[0] + 50.0
    # Nothing is left of the queue: a job does not wait behind it any more.
    assert report.after.started_ms < report.during.started_ms
