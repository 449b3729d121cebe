"""Workflows in the dashboard: the list, and each as a picture that fits, whatever the workflow is like."""

from collections.abc import Callable
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.dashboard.graphs import MOST_BOXES, draw
from asyncjobs.declare.definition import NewJob
from asyncjobs.declare.new_job import named
from asyncjobs.model.workflow import Bunch
from tests.support.browser import Browser
from tests.support.shop import IMAGE, SCRIPT

module = pytest.mark.asyncio(loop_scope="module")


def new(jobs: AsyncJobs, name: str, **payload: str) -> NewJob[Any]:
    return named(name, payload, {"delay": 3_600.0}, jobs.handlers, jobs.settings)


def bunch(number: int, gates: tuple[int, ...] = (), waits: tuple[int, ...] = (), **more: object) -> Bunch:
    given = {"type": "step", "status": "pending", "count": 1} | more
    return Bunch(gates=gates, waits=waits, first=number, job_id=number + 1, **given)  # type: ignore[arg-type]


def test_a_group_of_thousands_is_one_box_between_what_is_before_and_behind_it() -> None:
    picture = draw([
        bunch(0, (1,)), bunch(1, (2,), (1,), count=9_000, status="completed"), bunch(2, (2,), (1,), count=1_000, status="dead"),
        bunch(3, (), (2,), status="blocked", type="report"), bunch(4, (), (), after=(2,), type="clean up"),
    ])  # fmt: skip
    assert [(box.type, box.level, box.count, box.ended) for box in picture.boxes] == [
        ("step", 0, 1, 0), ("step", 1, 10_000, 10_000), ("report", 2, 1, 0), ("clean up", 2, 1, 0),
    ]  # fmt: skip
    assert [part.kind for part in picture.boxes[1].parts] == ["good", "bad"]
    assert [line.is_loose for line in picture.lines] == [False, False, True]
    assert len({(box.x, box.y) for box in picture.boxes}) == 4
    assert not picture.is_merged


def test_what_is_crowded_at_a_level_is_a_box_of_each_type_and_the_others_stay() -> None:
    ends = tuple(range(101, 131))
    bunches = [bunch(0, (1,)), *(bunch(end, (end,), (1,), type="ab"[end % 2]) for end in ends), bunch(31, (), ends)]
    picture = draw(bunches)
    assert [(box.type, box.level, box.count) for box in picture.boxes] == [
        ("step", 0, 1),
        ("b", 1, 15),
        ("a", 1, 15),
        ("step", 2, 1),
    ]
    assert picture.is_merged
    first, *_, last = picture.boxes
    assert first.y == last.y == (picture.boxes[1].y + picture.boxes[2].y) // 2, "in the middle of what is behind it"


def test_a_long_chain_is_a_box_that_says_so_and_nothing_recurses() -> None:
    picture = draw([bunch(at, (at + 1,), (at,) if at else ()) for at in range(5_000)])
    assert [(box.count, box.levels) for box in picture.boxes] == [(5_000, 5_000)]
    assert picture.is_merged


@pytest.mark.parametrize(
    "type_of", [lambda at: f"t{at % 3}", lambda at: f"t{at}", lambda at: "t" if at % 2 else f"u{at}"], ids=["few", "all", "some"]
)
def test_a_picture_fits_whatever_the_workflow(type_of: Callable[[int], str]) -> None:
    for bunches in (
        [bunch(at, (at + 1,), (at,) if at else (), type=type_of(at)) for at in range(1_000)],
        [bunch(at, (), (1,), type=type_of(at)) for at in range(1_000)],
    ):
        picture = draw(bunches)
        assert 0 < len(picture.boxes) <= MOST_BOXES
        assert sum(box.count for box in picture.boxes) == 1_000
    assert draw([]).boxes == []


def test_what_is_spawned_stands_beside_who_spawned_it() -> None:
    picture = draw([
        bunch(0, (1,)), bunch(1, (2,), (1,), type="crawl"), bunch(9, (2,), type="page", count=7, is_spawned=True),
        bunch(2, (), (2,), type="end"),
    ])  # fmt: skip
    assert {box.type: box.level for box in picture.boxes} == {"step": 0, "crawl": 1, "page": 1, "end": 2}


@module
async def test_the_list_and_a_picture_of_three_jobs(browser: Browser, jobs: AsyncJobs) -> None:
    async with jobs.workflow(f"import {SCRIPT}") as flow:
        first = flow.add(new(jobs, "webhook", url="a"))
        flow.add(new(jobs, "webhook", url=IMAGE), after=first, when="ended")
        flow.add(new(jobs, "email", to="ada"), after=first)
    page = await browser.get("/workflows?state=open")
    assert page.having("a", href=f"/workflows/{flow.id}")
    assert (page.status, SCRIPT in page.html, "import" in page.text) == (200, False, True)
    one = await browser.get(f"/workflows/{flow.id}")
    assert "0 of 3 jobs have ended" in one.text
    assert [found["href"] for found in one.having("a") if f"/jobs/{first.id}" == found["href"]]
    assert one.html.count('<path class="wait') == 2
    assert one.html.count("wait loose") == 1
    assert (SCRIPT in one.html, IMAGE in one.html) == (False, False)
    job = await browser.get(f"/jobs/{first.id}")
    assert job.having("a", href=f"/workflows/{flow.id}")
    assert job.having("a", href=f"/jobs?workflow={flow.id}")
    assert one.having("a", href=f"/jobs?workflow={flow.id}")
    found = await browser.get(f"/jobs?workflow={flow.id}&status=blocked")
    assert len(found.having("input", name="id")) == 2
    assert one.having("a", href=f"/jobs?workflow={flow.id}&status=blocked")
    assert str(flow.id) in [field["value"] for field in found.having("input", name="workflow")]
    assert (await browser.get("/jobs?workflow=x")).status == 400
    assert (await browser.get("/workflows/999999999")).status == 404
    assert (await browser.get("/workflows?state=what")).status == 400


@module
async def test_a_workflow_of_ten_thousand_is_a_small_page(browser: Browser, jobs: AsyncJobs) -> None:
    async with jobs.workflow("wide") as flow:
        many = flow.add_many(new(jobs, "webhook", url=str(number)) for number in range(10_000))
        flow.add(new(jobs, "email", to="ada"), after=many)
    page = await browser.get(f"/workflows/{flow.id}")
    assert "0 of 10,000 ended" in page.text
    assert "the first 10,000 jobs of 10,001" in page.text
    assert len(page.html) < 100_000
    following = await browser.get(f"/workflows/{flow.id}?after=99")
    assert following.status == 200
    await jobs.admin.cancel_workflow(flow.id)
