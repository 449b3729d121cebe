"""Whatever is asked for that cannot be meant is answered by a page with a status: never a traceback, never a silent guess."""

from urllib.parse import quote

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.dashboard import Dashboard
from asyncjobs.store.database import Connection
from tests.dashboard.conftest import Served
from tests.support.browser import Browser

pytestmark = pytest.mark.asyncio(loop_scope="module")

BAD = {
    "/jobs?statsu=dead": "There is no 'statsu' here, but type, status,",
    "/jobs?status=gone": "status: there is no 'gone', but waiting,",
    "/jobs?type=a&type=b": "type was given 2 times",
    "/jobs?before=0": "before: '0' is no id",
    "/jobs?before=-1": "before: '-1' is no id",
    "/jobs?before=9223372036854775808": "is no id",
    "/jobs?parent=x": "parent: 'x' is no id",
    "/jobs?payload=x": "payload: a field and its value",
    "/jobs?payload={": "payload is no JSON object",
    "/jobs?payload=a%3D%22%5Cu0000%22": "in which no text has a NUL",
    "/jobs?payload=" + quote('{"a":' * 2000): "payload",
    "/jobs?type=%00": "no NUL",
    "/jobs?type=%FF": "no text",
    "/jobs?type=" + "x" * 5000: "at most 4096 characters",
    "/jobs?" + "&".join(f"status={n}" for n in range(3000)): "too many",
    "/?window=2h": "window: there is no '2h', but 1h,",
    "/dead?died_after=yesterday": "died_after: how long ago, as 15m, 1h, 2d, or an instant, as",
    "/dead?acknowledged=maybe": "but no, yes, all",
    "/dead?before=x": "is no id",
    "/trace": "id is missing",
    "/key": "key is missing",
    "/keys?before=1": "There is no 'before' here, but after, stuck.",
    "/queues?x=1": "but nothing",
    "/jobs/99999999999999999999": "is no id",
    "/live/job": "id is missing",
    "/live/queues?x=1": "but nothing",
    "/jobs/1/data.json?what=else": "but payload, result",
}  # fmt: skip


@pytest.mark.parametrize("path", list(BAD), ids=lambda path: path[:40])
async def test_a_bad_query_is_a_page_with_a_reason(browser: Browser, path: str) -> None:
    page = await browser.get(path)
    assert page.status == 400, page.text
    assert BAD[path] in page.text
    assert "Traceback" not in page.html


@pytest.mark.parametrize(
    "path", ["/jobs/999999", "/dead/999999", "/nowhere", "/jobs/x", "/jobs/999999/data.json", "/static/x", "/login"]
)
async def test_what_is_not_there_is_a_404_page(browser: Browser, path: str) -> None:
    page = await browser.get(path)
    assert (page.status, bool(page.text)) == (404, True)


async def test_odd_searches_find_nothing_and_say_so(browser: Browser) -> None:
    for value in (
        "1e999999",
        "a" * 4000,
        "'; DROP TABLE jobs; --",
        "%",
        "\u202e",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ):
        for query in ({"type": value}, {"payload": f"a={value}"}, {"error": value}, {"key": value}):
            page = await browser.get("/jobs", params=query)
            assert (page.status, "No job fits on this page." in page.text) == (200, True), (query, page.text)


@pytest.mark.parametrize(
    ("verb", "fields", "status", "said"),
    [
        ("jobs/cancel", {}, 400, "Tick the jobs"),
        ("jobs/cancel", {"all": "yes"}, 400, "every job there is"),
        ("jobs/cancel", {"id": "x"}, 400, "is no id"),
        ("jobs/cancel", {"id": "999999", "sure": "yes"}, 404, "there is no job 999999"),
        ("jobs/cancel", {"job": "1"}, 400, "There is no 'job' here"),
        ("jobs/cancel", {"all": "yes", "status": "gone"}, 400, "there is no 'gone'"),
        ("keys/release", {"key": "nobody"}, 404, "it is idle"),
        ("keys/release", {}, 400, "key is missing"),
        ("pause", {}, 400, "Say what"),
        ("pause", {"queue": "a", "type": "b"}, 400, "Say what"),
        ("pause", {"what": "table", "name": "jobs"}, 400, "there is no 'table'"),
        ("pause", {"queue": "q" * 100}, 400, "at most 63"),
        ("schedules/run", {"name": "nobody"}, 404, 'there is no schedule "nobody"'),
        ("breakers/open", {"service": "nobody"}, 404, 'there is no circuit breaker "nobody"'),
        ("breakers/open", {"service": "mail-service", "for": "-1"}, 400, "for: a number of seconds"),
        ("breakers/open", {"service": "mail-service", "for": "nan"}, 400, "for: a number of seconds"),
        ("limits/set", {"name": "images", "each": "0"}, 400, "each: a number of jobs above 0, or none."),
        ("limits/set", {"name": "nobody", "each": "2"}, 404, "nobody"),
        ("dead/requeue", {"id": "999999"}, 404, "there is no dead letter 999999"),
        ("no/verb", {}, 404, "There is no such page."),
    ],
)
async def test_a_bad_form_is_a_page_with_a_reason(
    browser: Browser, verb: str, fields: dict[str, str], status: int, said: str
) -> None:
    page = await browser.send(verb, fields)
    assert (page.status, said in page.text) == (status, True), page.text


async def test_a_form_of_another_kind_or_size_is_refused(browser: Browser) -> None:
    await browser.get("/queues")
    for body, kind, status in (
        (b"{}", "application/json", 415),
        (b"--x\r\n", "multipart/form-data; boundary=x", 415),
        (b"csrf=" + b"x" * 300_000, "application/x-www-form-urlencoded", 413),
        ("csrf=ä".encode(), "application/x-www-form-urlencoded", 400),
        (b"csrf=%FF", "application/x-www-form-urlencoded", 400),
        (b"", "application/x-www-form-urlencoded", 403),
    ):
        response = await browser.http.post("/do/pause", content=body, headers={"content-type": kind})
        assert (response.status_code, "Traceback" in response.text) == (status, False), kind


async def test_a_job_that_is_not_open_here_is_a_503_page() -> None:
    async with Browser(Dashboard(AsyncJobs("postgresql://localhost/none"), auth=lambda request: "ada")) as browser:
        page = await browser.get("/")
    assert (page.status, "AsyncJobs" in page.text) == (503, True)


async def test_a_database_that_fails_is_a_503_page_and_no_detail(
    served: Served, rows: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: object) -> None:
        raise ConnectionRefusedError("10.0.0.7:5432")

    monkeypatch.setattr(served.jobs.admin, "_do", fail)
    async with served.browser() as browser:
        page = await browser.get("/queues")
        assert (page.status, "The database does not answer." in page.text, "10.0.0.7" in page.html) == (503, True, False)
