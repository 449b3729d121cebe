"""What pages cost beside very many jobs: roll-ups and indexes, never a walk through what is finished.

Counted here are the server's pages, which a busy machine does not change; the time is a proof.
"""

import statistics
import time

import pytest

from asyncjobs.store.database import Connection
from tests.support.browsing import Browser
from tests.support.costs import Cost, Meter
from tests.support.crowds import crowd

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: More than one look at jobs takes in (10,000).
FINISHED = 12_000

PAGES = [
    "/", "/?window=24h", "/?window=30d", "/jobs", "/jobs?status=pending", "/jobs?status=completed&type=type3",
    "/jobs?status=dead", "/jobs?payload=to%3Duser7@example.com", "/jobs?correlation_id=trace9", "/jobs/largest",
    "/keys", "/key?key=dest_1", "/dead", "/dead?type=type1", "/queues", "/schedules", "/runners", "/breakers", "/trace?id=trace9",
]  # fmt: skip


async def costs(browser: Browser, rows: Connection) -> dict[str, Cost]:
    """What each page made the server do."""
    found: dict[str, Cost] = {}
    meter = Meter(rows, "asyncjobs")
    for path in PAGES:
        browser_news(browser)
        await meter.set()
        assert (await browser.get(path)).status == 200, path
        found[path] = await meter.read()
    return found


def browser_news(browser: Browser) -> None:
    """Nothing is shared with the page before."""
    browser.http._transport.app.news.forget()  # type: ignore[attr-defined]


async def test_no_page_costs_more_beside_more_finished_jobs(browser: Browser, rows: Connection) -> None:
    await crowd(rows, finished=FINISHED)
    await costs(browser, rows)  # plans and caches
    before = await costs(browser, rows)
    await crowd(rows, finished=2 * FINISHED)
    after = await costs(browser, rows)
    grown = {path: (before[path].buffers, after[path].buffers) for path in PAGES}
    assert {path: cost for path, cost in grown.items() if cost[1] > 1.2 * cost[0] + 100} == {}
    assert {path: cost.statements for path, cost in after.items() if cost.statements > 10} == {}
    assert all(cost.transactions == 0 for cost in after.values()), "reading writes nothing"


@pytest.mark.proof
async def test_pages_answer_in_300_ms_beside_a_million_finished_and_200_000_live_jobs(browser: Browser, rows: Connection) -> None:
    await crowd(rows, finished=1_000_000, live=150_000, waiting=50_000, dead=5_000, types=20)
    took: dict[str, float] = {}
    for path in PAGES:
        times: list[float] = []
        for _ in range(6):
            browser_news(browser)
            began = time.perf_counter()
            assert (await browser.get(path)).status == 200
            times.append(time.perf_counter() - began)
        took[path] = statistics.median(times[1:])
    print(*(f"{seconds * 1000:6.0f} ms  {path}" for path, seconds in took.items()), sep="\n")  # noqa: T201
    assert {path: seconds for path, seconds in took.items() if seconds >= 0.3} == {}
