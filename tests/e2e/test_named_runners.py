"""A runner's name: in health, in lists (also when it has ended), in its log; no name is no trouble."""

from typing import Any

import pytest

from asyncjobs import AsyncJobs, InvalidName
from asyncjobs.dashboard import Dashboard
from asyncjobs.store import runners
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import RunnerStarted
from asyncjobs.testing import Recorder
from tests.support.browser import Browser
from tests.support.cli import cli


async def test_its_name_is_shown_wherever_it_is(dsn: str) -> None:
    jobs, recorder = AsyncJobs(dsn), Recorder()
    recorder.watch(jobs.events)
    async with jobs.runner(name="mail-1"), jobs.runner():
        named, other = jobs.health().runners
        assert (named.name, other.name) == ("mail-1", None)
        assert sorted(str(one.name) for one in await jobs.admin.runners(former=0)) == ["None", "mail-1"]
        assert (await recorder.wait_for(RunnerStarted, lambda one: one.name == "mail-1")).runner_id == named.id
        shown = await cli("runners", "--dsn", dsn)
        assert "mail-1" in shown.out
    async with jobs:
        assert sorted(str(one.name) for one in await jobs.admin.runners() if one.ended_at) == ["None", "mail-1"]


async def test_a_problem_names_it(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    async with jobs.runner(name="mail-1") as runner:
        await runner.stop()
        problems = jobs.health().problems
        assert problems
        assert all(one.startswith("runner mail-1: ") for one in problems)


async def test_the_dashboard_shows_it_of_one_that_lives_and_of_one_that_has_ended(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    async with jobs:
        async with jobs.runner(name="mail-1") as runner, Browser(Dashboard(jobs, auth=lambda request: "ada")) as browser:
            assert f"mail-1 {runner.id} " in (await browser.get("/runners")).text
        async with Browser(Dashboard(jobs, auth=lambda request: "ada")) as browser:
            assert f"mail-1 {runner.id} " in (await browser.get("/runners")).text


@pytest.mark.parametrize("name", ["", " a", "a\nb", 7, "x" * 64])
async def test_what_is_no_name_is_refused(dsn: str, name: Any) -> None:
    jobs = AsyncJobs(dsn)
    with pytest.raises(InvalidName, match="runner name"):
        async with jobs.runner(name=name):
            raise AssertionError
    with pytest.raises(InvalidName, match="runner name"):
        await jobs.run(name=name, until_idle=True)


async def test_a_runner_that_died_keeps_its_name(database: Database) -> None:
    link = database.link("test")
    await runners.register(link, 7, host="h", pid=1, version="1", queues=["default"], types=[], name="a")
    await runners.bury(link, {7: (await runners.look(link)).beats[7]})
    [former] = await runners.everybody(link, 10)
    assert (former.id, former.name, former.died_at is None) == (7, "a", False)
    await link.close()
