"""A short soak: runners killed, the server restarted, a runner cut off; more enqueues than can be (`make soak` is long)."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.hostile.conftest import migrated
from tests.soak.__main__ import SERVER
from tests.soak.storm import Plan, Storm
from tests.support.embedded import open_folder
from tests.support.own_server import OwnServer, started


@pytest.fixture(scope="module")
def server() -> Generator[OwnServer]:
    with open_folder() as folder, started(folder / "server", SERVER) as running:
        migrated(running)
        yield running


async def test_nothing_is_lost_overlaps_or_loses_its_order_in_a_storm_of_kills(
    server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCJOBS_DSN", server.dsn)
    plan = Plan(jobs=20_000, kills=3, kill_every=1.0, restarts=1, partitions=1, ahead=2_000, runner_timeout=2.4, seconds=600)
    report = await Storm(server, plan, tmp_path).run()
    assert report.verdict.is_clean, str(report.verdict)
    assert report.accepted >= plan.jobs
    assert (report.kills >= plan.kills, report.restarts, report.partitions) == (True, 1, 1)
