"""The page of a workflow in a browser: with three members and ten thousand, small and large, light and dark, and as it moves.

Pictures are left where those of `test_browser.py` are.
"""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from asyncjobs import NewJob, Workflow
from asyncjobs.dashboard import live
from asyncjobs.declare.new_job import named
from asyncjobs.store.database import Connection
from tests.dashboard.conftest import Served
from tests.support.chromium import Person, chromium, serving, somebody

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

LOOKS = {
    f"{scheme}-{width}": (width, height, scheme) for width, height in ((400, 800), (1400, 900)) for scheme in ("light", "dark")
}
#: Too low a contrast in the picture, and boxes that are cut or cover each other.
_IN_THE_PICTURE = r"""() => {
  const faults = [], numbers = (text) => (text.match(/[\d.]+/g) || []).slice(0, 3).map(Number);
  const linear = (part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => colour.map(linear).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const ratio = (one, other) => {
    const pair = [light(one), light(other)].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  };
  const svg = document.querySelector(".graph svg"), panel = numbers(getComputedStyle(svg.querySelector(".box")).fill);
  for (const text of svg.querySelectorAll("text")) {
    const found = ratio(numbers(getComputedStyle(text).fill), panel);
    if (found < 4.5) faults.push(`contrast ${found.toFixed(2)}: ${text.textContent}`);
    const box = text.parentElement.querySelector(".box").getBoundingClientRect(), own = text.getBoundingClientRect();
    if (own.right > box.right + 0.5) faults.push(`sticks out of its box: ${text.textContent}`);
  }
  for (const part of svg.querySelectorAll(".box, .wait"))
    if (ratio(numbers(getComputedStyle(part).stroke), panel) < 3) { faults.push(`hardly seen: ${part.outerHTML}`); break; }
  const boxes = [...svg.querySelectorAll(".box")].map((box) => box.getBoundingClientRect());
  boxes.forEach((one, at) => boxes.slice(at + 1).forEach((other) => {
    if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom)
      faults.push("two boxes cover each other");
  }));
  return faults;
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(served: Served) -> AsyncGenerator[str]:
    live.STREAM_SECONDS = 1.0  # type: ignore[misc] # so that the server stops soon
    async with serving(served.site(allow_anonymous=True, title="shop")) as (address, _):
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome() -> AsyncGenerator[Any]:
    async with chromium() as browser:
        yield browser


def new(served: Served, type: str, **options: Any) -> NewJob[Any]:
    payload = {"email": {"to": "ada"}}.get(type, {})
    return named(type, payload, options, served.jobs.handlers, served.jobs.settings)


async def three(served: Served) -> Workflow:
    async with served.jobs.workflow("import") as flow:
        first = flow.add(new(served, "webhook"))
        flow.add(new(served, "email"), after=first, when="ended")
        flow.add(new(served, "webhook"), after=first)
    return flow


async def many(served: Served) -> Workflow:
    """Ten thousand: a chain before a wide group, groups of its own behind it, and one that waits for all."""
    async with served.jobs.workflow("wide and long") as flow:
        first = flow.add(new(served, "webhook"))
        for _ in range(20):
            first = flow.add(new(served, "email"), after=first)
        pages = flow.add_many((new(served, "webhook") for _ in range(9_000)), after=first)
        groups = [flow.add_many((new(served, "email") for _ in range(30)), after=pages) for _ in range(32)]
        flow.add(new(served, "webhook"), after=groups, when="ended")
        flow.add_many(new(served, "email") for _ in range(17))
    return flow


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def flows(served: Served, rows: Connection) -> dict[str, int]:
    """One of three, and one of ten thousand in the middle of its way."""
    small, large = await three(served), await many(served)
    statuses = """UPDATE asyncjobs.jobs SET status = $2, error_message = $3,
        completed_at = CASE WHEN $2 <> 'pending' THEN now() END WHERE id = ANY ($1)"""
    await rows.execute(statuses, large.ids[:6_000], "completed", None)
    await rows.execute(statuses, large.ids[6_000:6_200], "dead", "ValueError: no such page, and so on " * 10)
    await rows.execute(statuses, large.ids[6_200:6_250], "pending", None)
    return {"three": small.id, "many": large.id}


@pytest.mark.parametrize("look", list(LOOKS))
@pytest.mark.parametrize("size", ["three", "many"])
async def test_the_page_is_fit_for_everybody(chrome: Any, base: str, flows: dict[str, int], look: str, size: str) -> None:
    width, height, scheme = LOOKS[look]
    async with somebody(chrome, base, viewport={"width": width, "height": height}, color_scheme=scheme) as person:
        await person.goes(f"/workflows/{flows[size]}")
        await person.takes_a_picture(f"workflow-{size}-{look}")
        assert [*await person.faults(), *await person.page.evaluate(_IN_THE_PICTURE)] == []
        await person.page.get_by_text("In words", exact=True).click()
        assert await person.faults() == []


async def test_the_list_is_fit_for_everybody(chrome: Any, base: str, flows: dict[str, int]) -> None:
    async with somebody(chrome, base, viewport={"width": 400, "height": 800}) as person:
        await person.goes("/workflows")
        await person.takes_a_picture("workflows-light-400")
        assert await person.faults() == []
        await person.page.get_by_role("link", name=str(flows["three"]), exact=True).first.click()
        await person.page.wait_for_url(f"{base}/workflows/{flows['three']}")


async def test_the_graph_moves_and_stays_where_it_was_scrolled_to(
    chrome: Any, base: str, served: Served, rows: Connection
) -> None:
    flow = await many(served)
    end = "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now() WHERE id = ANY ($1)"
    async with somebody(chrome, base, viewport={"width": 400, "height": 800}) as person:
        await person.goes(f"/workflows/{flow.id}")
        await person.page.locator("[data-state]").get_by_text("live", exact=True).wait_for()
        await person.page.get_by_text("In words", exact=True).click()
        await person.page.evaluate("document.querySelector('.graph').scrollLeft = 200; document.activeElement.blur()")
        await rows.execute(end, flow.ids[:21])
        await rows.execute(end, flow.ids[21:5_021])
        await person.page.locator(".graph").get_by_text("5,000 of 9,000 ended").wait_for()
        assert await person.page.evaluate("document.querySelector('.graph').scrollLeft") == 200
        assert await person.page.evaluate("document.querySelector('#graph-in-words').open") is True
        await _focuses_a_box_that_stays(person, rows, flow)
    await served.jobs.admin.cancel_workflow(flow.id)


async def _focuses_a_box_that_stays(person: Person, rows: Connection, flow: Workflow) -> None:
    box = person.page.locator(f".graph a[href$='/jobs/{flow.ids[21]}']")
    await box.focus()
    await person.page.keyboard.press("Shift+Tab")
    await person.page.keyboard.press("Tab")
    await rows.execute(
        "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now() WHERE id = ANY ($1)", flow.ids[5_021:6_021]
    )
    await person.page.locator("[data-state]").get_by_text("waits for you").wait_for()
    assert await person.page.evaluate("document.activeElement.closest('.graph') !== null")
    await person.page.evaluate("document.activeElement.blur()")
    await person.page.locator(".graph").get_by_text("6,000 of 9,000 ended").wait_for()
