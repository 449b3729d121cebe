"""The dashboard as people use it, in a browser: each page, each verb, by mouse and by keyboard, with and without JavaScript.

Pictures of the pages are left in $ASYNCJOBS_ARTEFACTS, or in a temporary folder (`asyncjobs-pictures`).
"""

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from fastapi import FastAPI

from asyncjobs.dashboard import Dashboard, Tokens, live
from asyncjobs.dashboard.verbs import VERBS
from asyncjobs.declare.new_job import named
from asyncjobs.store.database import Connection
from tests.dashboard.conftest import Served
from tests.support.chromium import Person, chromium, serving, somebody
from tests.support.factories import insert, insert_job, insert_place
from tests.support.shop import IMAGE, KEY

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

PAGES = {
    "overview": "/", "jobs": "/jobs", "search": "/jobs?status=failed&status=dead", "largest": "/jobs/largest", "keys": "/keys",
    "key": "/key?key=dest_1", "hostile-key": f"/key?key={quote(KEY)}", "dead": "/dead", "dead-letter": "/dead/1",
    "queues": "/queues", "schedules": "/schedules", "runners": "/runners", "breakers": "/breakers", "doctor": "/doctor",
    "running": "/jobs/running", "stuck": "/keys?stuck=age", "dead-errors": "/dead/errors", "workflows": "/workflows",
    "audit": "/audit", "limits": "/limits", "trace": "/trace?id=order-1", "problem": "/jobs?statsu=dead",
}  # fmt: skip
JOBS = ("failed", "hostile", "large", "dead", "completed", "waiting", "processing")
LOOKS = {
    "light-1400": (1400, 900, "light"),
    "dark-1400": (1400, 900, "dark"),
    "light-360": (360, 740, "light"),
    "dark-400": (400, 740, "dark"),
    "dark-1920": (1920, 1080, "dark"),
}

TOKEN = "operator-0123456789"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(served: Served) -> AsyncGenerator[str]:
    """Where the dashboard is: mounted in an app."""
    live.STREAM_SECONDS = 1.0  # type: ignore[misc] # so that the server stops soon
    app = FastAPI()
    app.mount("/ops/jobs", served.site(allow_anonymous=True, title="shop"))
    async with serving(app) as (address, _):
        yield f"{address}/ops/jobs"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome() -> AsyncGenerator[Any]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def ada(chrome: Any, base: str) -> AsyncGenerator[Person]:
    async with somebody(chrome, base) as person:
        yield person


@pytest.mark.parametrize("look", list(LOOKS))
async def test_every_page_is_fit_for_everybody(chrome: Any, base: str, ids: dict[str, int], look: str) -> None:
    width, height, scheme = LOOKS[look]
    paths = PAGES | {f"job-{name}": f"/jobs/{ids[name]}" for name in JOBS}
    faults: dict[str, list[str]] = {}
    async with somebody(chrome, base, viewport={"width": width, "height": height}, color_scheme=scheme) as person:
        for name, path in paths.items():
            await person.goes(path)
            faults[name] = await person.faults()
            await person.takes_a_picture(f"{look}-{name}")
    assert {name: found for name, found in faults.items() if found} == {}


async def test_what_is_hostile_stays_inert(chrome: Any, base: str, ids: dict[str, int]) -> None:
    async with somebody(chrome, base) as person:
        paths = [*PAGES.values(), f"/trace?id={quote(IMAGE)}", *(f"/jobs/{ids[name]}" for name in ids)]
        for path in paths:
            await person.goes(path)
            assert not (await person.page.title()).startswith("owned"), path
            assert await person.page.locator("main img, main script, main [onerror]").count() == 0, path
        await person.goes(f"/jobs/{ids['large']}")
        assert "only the beginning is shown" in await person.page.locator("main").inner_text()
        await person.goes(f"/jobs/{ids['completed']}")
        assert "invoice⟨U+202E⟩gpj.exe" in await person.page.locator("pre").first.inner_text()


async def test_pages_renew_themselves_until_they_are_told_not_to(ada: Person, rows: Connection) -> None:
    await ada.goes("/queues")
    state = ada.page.locator("[data-state]")
    await state.get_by_text("live", exact=True).wait_for()
    await insert_job(rows, type="appeared")
    await ada.page.get_by_role("rowheader", name="appeared").wait_for()
    await ada.clicks("Pause updates")
    assert await state.inner_text() == "paused"
    await insert_job(rows, type="unseen")
    await ada.clicks("Resume updates")
    await ada.page.get_by_role("rowheader", name="unseen").wait_for()


async def test_a_page_that_renews_itself_does_not_take_the_focus_away(ada: Person, rows: Connection) -> None:
    await ada.goes("/queues")
    await ada.page.locator("[data-state]").get_by_text("live", exact=True).wait_for()
    button = ada.page.locator("[data-live] button").first
    await button.focus()
    await ada.page.keyboard.press("Shift+Tab")
    await ada.page.keyboard.press("Tab")
    name = await button.get_attribute("aria-label")
    await insert_job(rows, type="meanwhile")
    await ada.page.locator("[data-state]").get_by_text("waits for you").wait_for()
    assert await ada.page.evaluate("document.activeElement.getAttribute('aria-label')") == name
    await ada.page.evaluate("document.activeElement.blur()")
    await ada.page.get_by_role("rowheader", name="meanwhile").wait_for()


async def test_everything_is_reached_by_keyboard_in_the_order_of_reading(ada: Person, ids: dict[str, int]) -> None:
    await ada.goes(f"/jobs/{ids['pending']}")
    await ada.page.locator("[data-toggle]").click()
    await ada.page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    await ada.goes(f"/jobs/{ids['cancelled']}")
    await ada.page.keyboard.press("Tab")
    assert await ada.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    stops: list[float] = []
    for _ in range(40):
        await ada.page.keyboard.press("Tab")
        stop = await ada.page.evaluate(
            "() => { const one = document.activeElement; if (one === document.body) return null;"
            " const all = [...document.querySelectorAll('*')]; const style = getComputedStyle(one);"
            " const isSeen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;"
            " return [all.indexOf(one), isSeen, one.outerHTML.slice(0, 80)]; }"
        )
        if stop is None:
            break
        assert stop[1], f"the focus is not seen on {stop[2]}"
        stops.append(stop[0])
    assert len(stops) > 10
    assert stops == sorted(stops)


async def test_a_verb_is_used_by_keyboard_alone(ada: Person, rows: Connection) -> None:
    job_id = await insert_job(rows, type="typed")
    await ada.goes(f"/jobs/{job_id}")
    for _ in range(40):
        await ada.page.keyboard.press("Tab")
        if await ada.page.evaluate("document.activeElement.textContent") == "Cancel":
            break
    await ada.page.keyboard.press("Enter")
    await ada.page.get_by_role("heading", name="Are you sure?").wait_for()
    assert await ada.page.evaluate("document.activeElement.name") == "sure"
    await ada.page.keyboard.press("Enter")
    await ada.page.locator(".say[role=status]").wait_for()
    assert await rows.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", job_id) == "cancelled"


async def test_jobs_are_searched_ticked_and_taken(ada: Person, rows: Connection) -> None:
    for number in range(3):
        await insert_job(rows, type="clicked", payload=f'{{"number": {number}}}')
    await ada.goes("/jobs")
    await ada.page.get_by_label("Type").fill("clicked")
    await ada.page.get_by_label("Payload contains").fill("number=2")
    await ada.clicks("Search")
    assert await ada.page.locator("tbody tr").count() == 1
    await ada.page.get_by_label("Payload contains").fill("")
    await ada.clicks("Search")
    await ada.page.get_by_label("Tick all on this page").check()
    assert await ada.page.locator("[data-ticked]").inner_text() == "3 ticked"
    await ada.clicks("Cancel")
    await ada.confirms()
    assert await ada.told() == "3 jobs: 3 cancelled."
    await ada.clicks("Retry all")
    assert "this would change 3 of 3 jobs" in await ada.page.locator("main").inner_text()
    await ada.confirms()
    assert await ada.told() == "Retry all that fit: 3 retried."
    await ada.page.locator("tbody input").first.check()
    await ada.clicks("Kill")
    await ada.page.get_by_role("link", name="No, go back").click()
    await ada.page.locator("tbody input").first.check()
    await ada.clicks("Kill")
    await ada.confirms()
    await ada.clicks("Retry")
    assert "Tick the jobs that are meant" in await ada.page.locator("main").inner_text()


async def test_one_job_is_taken_on_its_page(ada: Person, rows: Connection, ids: dict[str, int]) -> None:
    await ada.goes(f"/jobs/{ids['processing']}")
    await ada.page.get_by_label("Why, for the record").fill("it hangs")
    await ada.clicks("Fail the attempt")
    await ada.confirms()
    assert await ada.told() == f"Job {ids['processing']} runs, and was asked to end."
    await ada.goes(f"/jobs/{ids['scheduled']}")
    await ada.clicks("Retry")
    assert "retried (was scheduled)" in await ada.told()
    job_id = await insert_job(rows, type="late", status="scheduled")
    await ada.goes(f"/jobs/{job_id}")
    await ada.page.locator("summary", has_text="Change").click()
    await ada.page.get_by_label("Priority").fill("3")
    await ada.clicks("Change")
    assert await ada.told() == f"Job {job_id}: changed (was scheduled)."
    await ada.clicks("Cancel")
    await ada.confirms()
    await ada.clicks("Delete")
    await ada.confirms()
    assert await ada.told() == f"Job {job_id}: deleted (was cancelled)."


async def test_a_key_is_held_and_let_go(ada: Person, rows: Connection, ids: dict[str, int]) -> None:
    await ada.goes("/keys")
    await ada.page.get_by_label("Go to a key").fill("dest_1")
    await ada.clicks("Go")
    await ada.page.get_by_label("Why, for the record").fill("moving")
    await ada.clicks("Pause")
    assert "by anonymous: moving" in await ada.page.locator("[data-live]").inner_text()
    await ada.clicks("Resume")
    await ada.clicks("Release")
    await ada.confirms()
    assert f"job {ids['halting']} stays dead" in await ada.told()
    await ada.clicks("Skip the head")
    await ada.confirms()
    assert "is cancelled" in await ada.told()
    await ada.clicks("Purge the line")
    await ada.confirms()
    assert "2 jobs cancelled" in await ada.told()
    dead = await insert_job(rows, status="dead", type="webhook", serialization_key="dest_2")
    now = await rows.fetchval("SELECT now()")
    await insert_place(rows, "dest_2", dead, is_head=True, halt_reason="no", halted_at=now)
    await ada.goes("/keys")
    await ada.clicks("Release key dest_2")
    await ada.confirms()
    assert "goes on" in await ada.told()


async def test_queues_and_types_are_held_and_let_go(ada: Person) -> None:
    await ada.goes("/queues")
    await ada.clicks("Pause queue mail")
    assert await ada.told() == 'Queue "mail" is paused. What runs goes on.'
    await ada.clicks("Resume queue mail")
    await ada.clicks("Drain queue mail")
    assert "nothing of it runs any more" in await ada.told()
    await ada.clicks("Resume queue mail")
    await ada.clicks("Pause type webhook")
    await ada.clicks("Resume type webhook")
    await ada.page.get_by_label("What").select_option("type")
    await ada.page.get_by_label("Name", exact=True).fill("email")
    await ada.page.get_by_label("Why, for the record").fill("provider down")
    await ada.clicks("Pause")
    assert "provider down" in await ada.page.locator("[data-live]").inner_text()
    await ada.clicks("Resume type email")
    assert await ada.told() == 'Type "email" goes on.'
    await ada.page.get_by_label("Why all of it, for the record").fill("maintenance at noon")
    await ada.clicks("Pause everything")
    assert await ada.told() == "Everything is paused. What runs goes on."
    assert "maintenance at noon" in await ada.page.locator("[data-live]").inner_text()
    assert await ada.page.get_by_role("button", name="Pause everything").count() == 0
    await ada.clicks("Resume everything")
    await ada.clicks("Drain everything")
    await ada.clicks("Resume everything")


async def test_dead_letters_are_acknowledged_and_requeued(ada: Person) -> None:
    await ada.goes("/dead/1")
    await ada.clicks("Requeue as a new job")
    assert "requeued as job" in await ada.told()
    await ada.clicks("Requeue once more")
    await ada.goes("/dead")
    await ada.page.locator("tbody input").first.check()
    await ada.clicks("Acknowledge")
    assert "1 acknowledged" in await ada.told()
    await ada.page.get_by_label("Show").select_option("all")
    await ada.clicks("Search")
    await ada.page.locator("tbody input").first.check()
    await ada.clicks("Requeue")
    await ada.goes("/dead")
    for verb in ("Requeue all", "Acknowledge all"):
        if await ada.page.get_by_role("button", name=verb).count():
            await ada.clicks(verb)
            await ada.confirms()


async def test_schedules_and_breakers_are_worked(ada: Person) -> None:
    await ada.goes("/schedules")
    await ada.clicks("Run now nightly <b>")
    assert "made job" in await ada.told()
    await ada.clicks("Disable nightly <b>")
    await ada.clicks("Enable nightly <b>")
    await ada.page.get_by_label("Why, for the record").fill("holidays")
    await ada.clicks("Disable")
    assert "holidays (by anonymous)" in await ada.page.locator("[data-live]").inner_text()
    await ada.goes("/breakers")
    await ada.clicks("Open mail-service")
    await ada.clicks("Reset mail-service")
    assert await ada.told() == 'Breaker "mail-service" is closed.'
    await ada.page.get_by_role("combobox", name="Service").select_option("mail-service")
    await ada.page.get_by_label("For seconds").fill("60")
    await ada.clicks("Open")
    assert await ada.told() == 'Breaker "mail-service" is open for 60 s.'


async def test_workflows_are_cancelled_and_retried(ada: Person, served: Served) -> None:
    async with served.jobs.workflow("import") as flow:
        flow.add(named("webhook", {}, {"delay": 3_600.0}, served.jobs.handlers, served.jobs.settings))
    await ada.goes("/workflows")
    await ada.goes(f"/workflows/{flow.id}")
    await ada.clicks("Cancel")
    await ada.confirms()
    assert await ada.told() == f"Workflow {flow.id} is being cancelled."
    await ada.clicks("Retry what died")
    await ada.confirms()
    assert f"Workflow {flow.id}: " in await ada.told()


async def test_limits_are_set_reset_and_opened(ada: Person, rows: Connection) -> None:
    await insert(rows, "limits", kind="limit", name="api", declared='{"each": 2}')
    await insert(
        rows,
        "limit_keys",
        key="api:a",
        closed_until=await rows.fetchval("SELECT now() + interval '1 hour'"),
        closed_seconds=3600.0,
    )
    await insert_job(rows, type="plain", limit_key="api:a")
    await ada.goes("/limits")
    await ada.page.get_by_role("combobox", name="Limit").select_option("api")
    await ada.page.get_by_label("Total").fill("7")
    await ada.clicks("Set")
    assert await ada.told() == 'Limit "api": total 7, each 2, until it is reset.'
    await ada.clicks("Reset api")
    assert await ada.told() == 'Limit "api": total none, each 2, as programs declare it.'
    await ada.clicks("Open api:a")
    assert await ada.told() == 'Limit key "api:a" is open.'


async def test_what_is_old_is_pruned(ada: Person, rows: Connection) -> None:
    await insert_job(rows, status="completed", completed_at=await rows.fetchval("SELECT now() - interval '30 days'"))
    await ada.goes("/doctor")
    await ada.clicks("Prune…")
    await ada.confirms()
    assert "Deleted 1 ended jobs" in await ada.told()


async def test_pages_and_verbs_work_without_javascript(chrome: Any, base: str, rows: Connection) -> None:
    job_id = await insert_job(rows, type="plain")
    async with somebody(chrome, base, java_script_enabled=False) as person:
        await person.goes("/")
        assert await person.page.locator("svg path").count() > 3
        await person.goes("/jobs?type=plain")
        await person.page.locator("tbody input").first.check()
        await person.clicks("Cancel")
        await person.confirms()
        assert f"Job {job_id}: cancelled" in await person.told()
        await person.goes("/queues")
        await person.clicks("Pause queue mail")
        await person.clicks("Resume queue mail")
        assert "goes on" in await person.told()


async def test_people_log_in_and_out(chrome: Any, served: Served) -> None:
    async with serving(Dashboard(served.jobs, auth=Tokens(operator=TOKEN))) as (address, _), somebody(chrome, address) as person:
        await person.goes("/jobs?status=dead")
        await person.takes_a_picture("login")
        assert await person.faults() == []
        await person.page.get_by_label("Token").fill("wrong")
        await person.clicks("Log in")
        assert "This is not the token." in await person.page.locator("main").inner_text()
        await person.page.get_by_label("Token").fill(TOKEN)
        await person.page.keyboard.press("Enter")
        await person.page.wait_for_url(address + "/jobs?status=dead")
        await person.clicks("Log out", within="body")
        await person.page.get_by_label("Token").wait_for()


async def test_a_server_that_stops_does_not_wait_for_open_pages(chrome: Any, served: Served) -> None:
    context = await chrome.new_context()
    async with serving(Dashboard(served.jobs, allow_anonymous=True)) as (address, server):
        person = Person(await context.new_page(), address)
        await person.goes("/queues")
        await person.page.locator("[data-state]").get_by_text("live", exact=True).wait_for()
        server.should_exit = True
    await person.page.locator("[data-state]").get_by_text("not connected").wait_for()
    await context.close()


async def test_every_verb_was_used_here() -> None:
    assert len(VERBS) == 25, "a new verb: use it here, as people do"
