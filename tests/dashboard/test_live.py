"""Pages that renew themselves: what a stream sends, and to whom."""

import asyncio
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.dashboard import Viewer
from asyncjobs.dashboard import live as module
from asyncjobs.dashboard.live import STREAM_SECONDS
from asyncjobs.dashboard.views import PAGES
from asyncjobs.declare.new_job import named
from asyncjobs.store.database import Connection
from asyncjobs.store.pool import Pool
from tests.dashboard.conftest import Served
from tests.support.browser import Browser

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams end after their first reading."""
    monkeypatch.setattr(module, "STREAM_SECONDS", 0.0)


def events(text: str) -> list[tuple[str, str]]:
    """The events of a stream, with their data."""
    found: list[tuple[str, str]] = []
    for block in text.split("\n\n"):
        lines = [line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")]
        fields = [name for name, _ in lines]
        if "event" in fields:
            found.append(
                (next(text for name, text in lines if name == "event"), "\n".join(t for name, t in lines if name == "data"))
            )
    return found


async def test_every_page_that_moves_has_a_stream_that_sends_its_part(
    browser: Browser, jobs: AsyncJobs, ids: dict[str, int]
) -> None:
    async with jobs.workflow("flow") as flow:
        flow.add(named("webhook", {}, {"delay": 3_600.0}, jobs.handlers, jobs.settings))
    for path in (
        "/",
        "/jobs",
        "/jobs?type=email",
        "/queues",
        "/keys",
        "/key?key=dest_1",
        "/runners",
        "/schedules",
        "/breakers",
        "/limits",
        f"/jobs/{ids['pending']}",
        f"/workflows/{flow.id}",
        "/workflows",
    ):
        page = await browser.get(path)
        (region,) = (found for _, found in page.elements if "data-live" in found)
        stream = await browser.http.get(str(region["data-live"]))
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.text.startswith("retry: 1000\n\n")
        [(event, html)] = events(stream.text)
        assert event == "fragment"
        assert "<table" in html
        assert "csrf" not in html, "a part that all see has nothing of one viewer's"
    assert sum(path.startswith("/live/") for path, _ in PAGES) == 13


async def test_viewers_share_readings_and_not_buttons(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    take = Pool.take

    def counted(self: Pool) -> Any:
        nonlocal taken
        taken += 1
        return take(self)

    monkeypatch.setattr(Pool, "take", counted)
    site = served.site(auth=lambda request: Viewer(request.headers["x-user"], may_act=request.headers["x-user"] == "ada"))
    async with Browser(site) as browser:
        streams = [browser.http.get("/live/queues", headers={"x-user": name}) for name in ("ada", "bob", "eve", "bob")]
        texts = [answer.text for answer in await asyncio.gather(*streams)]
    assert taken == 2, "stats and pauses, once for all four"
    assert texts[1] == texts[2] == texts[3]
    assert ("Pause" in texts[0], "formaction" in texts[1]) == (True, False)
    assert site.news.followers == 0


async def test_a_stream_of_what_is_not_there_is_refused(browser: Browser) -> None:
    assert (await browser.http.get("/live/job?id=999999")).status_code == 404


async def test_a_database_that_is_away_is_news(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: object) -> None:
        raise ConnectionRefusedError("10.0.0.7:5432")

    monkeypatch.setattr(served.jobs.admin, "_do", fail)
    async with served.browser() as browser:
        stream = await browser.http.get("/live/queues")
    assert stream.status_code == 200
    assert events(stream.text) == [
        ("trouble", "The database does not answer. Jobs that run go on; this page works again when it does.")
    ]


async def test_lines_of_hostile_data_do_not_make_events(browser: Browser, rows: Connection) -> None:
    await rows.execute(
        "UPDATE asyncjobs.serialized_jobs SET halt_reason = E'x\\n\\nevent: evil\\ndata: y\\r\\rz' WHERE halted_at IS NOT NULL"
    )
    stream = await browser.http.get("/live/key?key=dest_1")
    assert [name for name, _ in events(stream.text)] == ["fragment"]
    assert "\r" not in stream.text


async def test_streams_end_before_a_server_has_waited_for_long() -> None:
    assert STREAM_SECONDS <= 10
