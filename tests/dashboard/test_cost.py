"""What pages cost beside very many jobs: roll-ups and indexes, never a walk through what is finished.

Counted here are the server's pages, which a busy machine does not change; the time is a proof.
"""

import re
import time
from pathlib import Path

import pytest

from asyncjobs.store import overview
from asyncjobs.store.database import Connection
from tests.support.browser import Browser
from tests.support.costs import Cost, Meter
from tests.support.crowds import crowd

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: More than one look at jobs takes in (10,000).
FINISHED = 12_000

PAGES = [
    "/", "/?window=24h", "/?window=7d", "/?window=30d",
    "/?type=type1", "/?queue=default", "/jobs", "/jobs?status=pending", "/jobs?status=completed&type=type3",
    "/jobs?status=dead", "/jobs?payload=to%3Duser7@example.com", "/jobs?correlation_id=trace9", "/jobs/largest",
    "/jobs/running", "/dead/errors",
    "/keys?stuck=depth",
    "/jobs?status=dead&since=1h",
    "/keys", "/key?key=dest_1", "/dead", "/dead?type=type1", "/queues", "/schedules", "/runners", "/breakers", "/limits",
    "/trace?id=trace9",
    "/doctor", "/audit", "/audit?by=ada&since=1h",
]  # fmt: skip


#: Pages of the catalogs that a connection reads when it makes a plan anew; the finished jobs that come are twice as many pages.
PLANNING = 450

#: What no index serves: they look at the newest 10,000 jobs, and say so.
SEARCHES = {"/jobs?status=completed&type=type3", "/jobs?payload=to%3Duser7@example.com"}


async def costs(browser: Browser, rows: Connection) -> dict[str, Cost]:
    """What each page made the server do."""
    found: dict[str, Cost] = {}
    meter = Meter(rows, "asyncjobs")
    for path in [*PAGES, *PAGES]:  # plans are made anew after a vacuum; behind a pooler in more than one session
        browser_news(browser)
        assert (await browser.get(path)).status == 200, path
    for path in PAGES:
        browser_news(browser)
        await meter.set()
        assert (await browser.get(path)).status == 200, path
        found[path] = await meter.read()
    return found


def browser_news(browser: Browser) -> None:
    """Nothing is shared with the page before."""
    browser.http._transport.app.news._readings.clear()  # type: ignore[attr-defined]


async def test_no_page_costs_more_beside_more_finished_jobs(browser: Browser, rows: Connection) -> None:
    await crowd(rows, finished=FINISHED)
    before = await costs(browser, rows)
    await crowd(rows, finished=2 * FINISHED)
    after = await costs(browser, rows)
    grown = {path: (before[path].buffers, after[path].buffers) for path in PAGES if path not in SEARCHES}
    assert {path: cost for path, cost in grown.items() if cost[1] > 1.2 * cost[0] + PLANNING} == {}
    # The doctor's visit, which is one for all who look within some seconds, sends and hears a probe behind a pooler.
    assert {path: cost.statements for path, cost in after.items() if cost.statements > 10 + 2 * (path == "/doctor")} == {}
    assert {path for path, cost in after.items() if cost.transactions} <= {"/doctor"}, "reading writes nothing; a probe is sent"
    for path in SEARCHES:
        # And at the few that wait for their keys.
        text = (await browser.get(path)).text
        found = re.search(r"([\d,]+) jobs looked at, at most 10,000 a page", text)
        assert found is not None, path
        assert int(found[1].replace(",", "")) <= 10_100, path


@pytest.mark.proof
async def test_pages_take_less_than_300_ms_beside_a_million_finished_and_200_000_live(browser: Browser, rows: Connection) -> None:
    """Of the CPU, here and in the server added up. (On a busy machine 30 days took 220, other pages 40 to 160.)"""
    database = await rows.fetchval("SELECT quote_ident(current_database())")
    await rows.execute(f"ALTER DATABASE {database} SET max_parallel_workers_per_gather = 0")  # a worker's time would be missed
    await crowd(rows, finished=1_000_000, live=150_000, waiting=50_000, dead=5_000, types=20)
    await rows.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'asyncjobs%'")
    await rows.execute("SELECT asyncjobs.count_depths(NULL, NULL, NULL, $1)", overview.MANY)  # as a runner does
    took: dict[str, tuple[float, float, float]] = {}
    for path in PAGES:
        times: list[tuple[float, float, float]] = []
        for _ in range(4):
            browser_news(browser)
            before, began = await server_seconds(rows), (time.process_time(), time.perf_counter())
            assert (await browser.get(path)).status == 200
            here, wall = time.process_time() - began[0], time.perf_counter() - began[1]
            times.append((await server_seconds(rows) - before, here, wall))
        took[path] = sorted(times[1:], key=lambda one: one[0] + one[1])[1]
    for path, (server, here, wall) in took.items():
        print(f"{server * 1e3:5.0f} ms server {here * 1e3:5.0f} ms here {wall * 1e3:6.0f} ms in all  {path}")  # noqa: T201
    assert {path: cost for path, cost in took.items() if cost[0] + cost[1] >= 0.3} == {}


async def server_seconds(rows: Connection) -> float:
    """The CPU time of the backends that serve pages (one that ended meanwhile is not counted)."""
    pids = await rows.fetch("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'asyncjobs%'")
    stats = [Path(f"/proc/{row['pid']}/schedstat") for row in pids]
    return sum(int(stat.read_text().split()[0]) for stat in stats) / 1e9
