"""Every page shows what there is, to people without JavaScript, too; what is hostile in it is text and nothing else."""

import re
from urllib.parse import quote

import pytest

from asyncjobs.dashboard.views import PAGES
from asyncjobs.store import overview
from asyncjobs.store.database import Connection
from tests.dashboard.conftest import Served
from tests.support.browser import Browser
from tests.support.shop import IMAGE, KEY, SCRIPT

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = [
    "/?queue=default",
    "/", "/?window=24h", "/?window=7d&type=email", "/jobs", "/jobs?status=dead&status=failed", "/jobs/largest", "/jobs/running",
    "/dead/errors", "/keys?stuck=age", "/keys",
    "/keys?after=dest_0", "/key?key=dest_1", "/key?key=nobody", f"/key?key={quote(KEY)}", "/dead", "/dead?acknowledged=all",
    "/queues", "/schedules", "/runners", "/breakers", "/limits", "/doctor", "/workflows", "/audit",
    "/audit?by=ada&verb=jobs&via=cli&since=1h",
    "/trace?id=order-1", f"/trace?id={quote(IMAGE)}",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_every_page_answers(browser: Browser, path: str) -> None:
    page = await browser.get(path)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert len(page.having("h1")) == 1


async def test_a_job_of_every_status_has_its_page(browser: Browser, ids: dict[str, int]) -> None:
    for name, job_id in ids.items():
        page = await browser.get(f"/jobs/{job_id}")
        assert (page.status, name, len(page.having("h1"))) == (200, name, 1)


async def test_the_first_page_shows_numbers_and_charts(browser: Browser) -> None:
    page = await browser.get("/")
    assert "2 dead letters" in page.text
    assert "1 halted keys" in page.text
    assert all(found["aria-label"] for found in page.having("svg", role="img"))
    assert "Throughput" in page.text
    assert "webhook" in page.text
    of_one = await browser.get("/?type=email")
    assert "Charts are of type email only" in of_one.text


async def test_a_job_page_tells_its_life_and_why_it_does_not_run(browser: Browser, ids: dict[str, int]) -> None:
    page = await browser.get(f"/jobs/{ids['failed']}")
    assert "Why it is not running: " in page.text
    assert "its next attempt is due at" in page.text
    assert "attempt 1 failed TimeoutError : no answer within 5 s" in page.text
    assert "Traceback (most recent call last)" in page.text


async def test_a_job_page_names_parent_children_key_and_trace(browser: Browser, ids: dict[str, int]) -> None:
    parent = await browser.get(f"/jobs/{ids['pending']}")
    assert parent.having("a", href=f"/jobs/{ids['processing']}")
    child = await browser.get(f"/jobs/{ids['processing']}")
    assert child.having("a", href=f"/jobs/{ids['pending']}")
    assert child.having("a", href="/trace?id=order-1")
    waiting = await browser.get(f"/jobs/{ids['waiting']}")
    assert waiting.having("a", href="/key?key=dest_1")
    assert "is halted by job" in waiting.text


async def test_a_trace_shows_children_below_their_parents(browser: Browser, ids: dict[str, int]) -> None:
    page = await browser.get("/trace?id=order-1")
    assert page.html.index(f">{ids['pending']}<") < page.html.index(f">{ids['processing']}<")
    assert page.having("span", **{"class": "tree d1"})


async def test_a_key_page_shows_head_reason_and_line(browser: Browser, ids: dict[str, int]) -> None:
    page = await browser.get("/key?key=dest_1")
    assert f"Blocked: halted by job {ids['halting']}: RuntimeError: gone" in page.text
    assert "Jobs in the line 4" in page.text
    links = [found["href"] for found in page.having("a") if (found["href"] or "").startswith("/jobs/")]
    assert links[-1] == f"/jobs/{ids['waiting']}"
    idle = await browser.get("/key?key=nobody")
    assert "it is idle" in idle.text


async def test_jobs_are_found_by_what_is_known(browser: Browser, ids: dict[str, int]) -> None:
    searches = {
        "type=webhook&status=failed": "failed",
        "correlation_id=order-1&status=pending": "pending",
        "payload=to%3Dada@example.com": "pending",
        "payload=" + quote('{"to": "ada@example.com"}'): "pending",
        "error=onerror&status=dead": "dead",
        f"parent={ids['pending']}": "processing",
        "key=dest_1&status=dead": "halting",
    }
    for query, name in searches.items():
        page = await browser.get(f"/jobs?{query}")
        assert [found["value"] for found in page.having("input", name="id")] == [str(ids[name])], query
    assert "jobs looked at, at most 10,000 a page" in (await browser.get("/jobs?type=webhook")).text


async def test_pages_of_jobs_follow_each_other(browser: Browser, ids: dict[str, int]) -> None:
    page = await browser.get(f"/jobs?before={ids['scheduled']}&queue=default")
    assert max(int(found["value"] or 0) for found in page.having("input", name="id")) == ids["processing"]
    assert page.having("a", href="/jobs?queue=default")


async def test_a_large_payload_is_cut_on_its_page_and_whole_as_a_file(browser: Browser, ids: dict[str, int]) -> None:
    page = await browser.get(f"/jobs/{ids['large']}")
    assert "only the beginning is shown" in page.text
    assert len(page.html) < 60_000
    file = await browser.get(f"/jobs/{ids['large']}/data.json")
    assert file.headers["content-type"] == "application/json"
    assert file.headers["content-disposition"] == f'attachment; filename="job-{ids["large"]}-payload.json"'
    assert len(file.html) > 1 << 20
    listed = await browser.get("/jobs")
    assert len(listed.html) < 60_000


async def test_what_is_hostile_is_text(browser: Browser, ids: dict[str, int]) -> None:
    paths = ["/jobs", "/keys", "/dead", "/breakers", "/limits", "/queues", f"/key?key={quote(KEY)}", f"/trace?id={quote(IMAGE)}"]
    paths.append(f"/jobs?error={quote(SCRIPT)}")
    paths += [f"/jobs/{ids[name]}" for name in ("hostile", "failed", "dead", "completed", "large", "head")]
    for path in paths:
        page = await browser.get(path)
        assert page.status == 200
        scripts = [found.get("src") for found in page.having("script")]
        assert len(scripts) == 1, path
        assert str(scripts[0]).startswith("/static/dashboard.js?v=")
        assert all(not name.startswith("on") and name != "style" for _, found in page.elements for name in found), path
        assert all(str(found.get("src")).startswith("/static/icon.svg") for found in page.having("img")), path
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f]", page.text), path


async def test_everything_has_a_label(browser: Browser, ids: dict[str, int]) -> None:
    for path in (*PATHS, f"/jobs/{ids['pending']}", "/dead/1"):
        page = await browser.get(path)
        labelled = {found.get("for") for found in page.having("label")}
        for tag in ("input", "select"):
            for found in page.having(tag):
                if found.get("type") != "hidden" and found.get("id") is not None:
                    assert found["id"] in labelled, (path, found)
        identities = [found["id"] for _, found in page.elements if found.get("id")]
        assert len(identities) == len(set(identities)), path


async def test_every_path_is_tested() -> None:
    tested = {path.partition("?")[0] for path in PATHS} | {
        "/jobs/{id:int}",
        "/jobs/{id:int}/data.json",
        "/dead/{id:int}",
        "/workflows/{id:int}",
    }
    assert {path for path, _ in PAGES if not path.startswith("/live/")} == tested


async def test_pages_say_when_a_runner_counted_what_there_is_much_of(
    served: Served, rows: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MANY", 3)
    async with served.browser() as browser:
        assert "as a runner counted them" not in (await browser.get("/")).text
        await rows.execute("SELECT asyncjobs.count_depths(NULL, NULL, NULL, 3)")
        try:
            assert "as a runner counted them" in (await browser.get("/?window=24h")).text
            assert "as a runner counted them" in (await browser.get("/queues")).text
        finally:
            await rows.execute("DELETE FROM asyncjobs.job_depths")
