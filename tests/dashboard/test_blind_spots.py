"""What is asked at three in the morning, and answered by a page."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.admin import Admin
from asyncjobs.dashboard import Dashboard
from asyncjobs.store.database import Connection
from tests.dashboard.conftest import Served
from tests.support.browser import Browser, Page
from tests.support.factories import insert, insert_job, insert_runner

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_overview_says_what_the_doctor_finds_about_work(browser: Browser, rows: Connection, jobs: AsyncJobs) -> None:
    await insert(rows, "pauses", kind="queue", name="mail", paused_by="ada", reason="tax season")
    page = await browser.get("/")
    for one in await jobs.admin.worries():
        assert one.what in page.text
    assert 'queue "mail" since' in page.text
    assert page.having("a", href="/doctor")
    await rows.execute("DELETE FROM asyncjobs.pauses WHERE name = 'mail'")


async def test_viewers_of_the_doctor_share_his_visit(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0
    doctor = Admin.doctor

    async def counted(self: Any) -> Any:
        nonlocal visits
        visits += 1
        return await doctor(self)

    monkeypatch.setattr(Admin, "doctor", counted)
    async with Browser(served.site()) as browser:
        await asyncio.gather(*(browser.get("/doctor") for _ in range(20)))
    assert visits == 1


async def test_dashboard_without_an_app_knows_what_is_behind_a_breaker(shop_dsn: str, rows: Connection) -> None:
    await rows.execute(
        "INSERT INTO asyncjobs.types (digest, version, priority, max_attempts, max_depth, max_payload_bytes, name, type, queue, "
        "breaker, on_dead, tags, redact, schema, sieve, queues) VALUES (77, 1, 100, 3, 9, 9, 'fax', 'fax', 'default', "
        "'fax-service', 'advance', '{}', '{}', '{}', '$', '{}')"
    )
    await insert(rows, "circuit_breakers", service_name="fax-service", state="open")
    async with AsyncJobs(shop_dsn) as stranger, Browser(Dashboard(stranger, auth=lambda _: "ada")) as browser:
        page = await browser.get("/breakers")
        assert "fax-service" in page.text
        assert "behind it: fax" in page.text


async def test_keys_that_are_stuck_have_a_page_of_their_own(browser: Browser, rows: Connection) -> None:
    for order in ("age", "depth"):
        page = await browser.get(f"/keys?stuck={order}")
        assert "nothing of them moves by itself" in page.text
        assert "halted by job" in page.text
    assert (await browser.get("/keys?stuck=size")).status == 400


async def test_dead_letters_are_requeued_by_error_from_their_page(browser: Browser, rows: Connection) -> None:
    for number in range(3):
        job_id = await insert_job(rows, status="dead", type="fax", error_message=f"OSError: line {number} is busy")
        await rows.execute(
            "INSERT INTO asyncjobs.dead_letter_jobs (job_id, original_job, error_message) "
            "SELECT j.id, to_jsonb(j), j.error_message FROM asyncjobs.jobs AS j WHERE j.id = $1", job_id
        )  # fmt: skip
    page = await browser.get("/dead/errors?type=fax&since=1h")
    assert "OSError: line # is busy" in page.text
    form = [
        (found["name"], found["value"]) for found in page.having("input", type="hidden") if found["name"] not in {"csrf", "back"}
    ]
    asked = await browser.send("dead/requeue", form)
    assert "Requeue all 3 dead letters that fit?" in asked.text
    done = await browser.send("dead/requeue", [*form, ("sure", "yes")])
    assert "3 requeued" in done.text
    assert "OSError" not in (await browser.get("/dead/errors?type=fax")).text


async def test_dead_letters_are_filtered_by_time(browser: Browser, rows: Connection) -> None:
    died_at = datetime.now(UTC) - timedelta(hours=5)
    letter = await insert(rows, "dead_letter_jobs", job_id=5, original_job='{"type": "ancient letter"}', died_at=died_at)
    for path, is_there in (
        ("died_after=6h", True),
        ("died_after=4h", False),
        ("died_before=4h", True),
        ("died_before=6h", False),
    ):
        page = await browser.get(f"/dead?type=ancient%20letter&{path}")
        assert (f"/dead/{letter['id']}" in page.html) == is_there, path
    await rows.execute("DELETE FROM asyncjobs.dead_letter_jobs WHERE id = $1", letter["id"])


async def fresh(served: Served, path: str) -> Page:
    """The page as somebody sees it who shares no reading."""
    async with served.browser() as browser:
        return await browser.get(path)


async def test_schedule_that_never_ticked_says_so_on_its_page(served: Served, rows: Connection) -> None:
    assert "never" in (await fresh(served, "/schedules")).text
    was = await rows.fetchval("SELECT last_tick FROM asyncjobs.schedules")
    await rows.execute("UPDATE asyncjobs.schedules SET last_job_id = 1, last_tick = now() - interval '2 hours'")
    page = await fresh(served, "/schedules")
    assert "never" not in page.text
    assert "2 h ago" in page.text
    await rows.execute("UPDATE asyncjobs.schedules SET last_job_id = NULL, last_tick = $1", was)


async def test_runner_whose_sessions_have_ended_is_marked_on_its_page(served: Served, rows: Connection) -> None:
    assert "its sessions have ended" not in (await fresh(served, "/runners")).text
    await insert_runner(rows, id=4712, session=2**30)
    assert "its sessions have ended" in (await fresh(served, "/runners")).text
    await rows.execute("DELETE FROM asyncjobs.runners WHERE id = 4712")


async def test_that_no_runner_lives_is_the_first_thing_that_the_first_page_says(served: Served, rows: Connection) -> None:
    assert "No runner lives: " not in (await fresh(served, "/")).text
    await rows.execute("DELETE FROM asyncjobs.runners WHERE id = 4711")
    was = await rows.fetch("UPDATE asyncjobs.runners SET stopped_at = now() RETURNING id")
    text = (await fresh(served, "/")).text
    assert was
    assert text.index("No runner lives: nothing is being run.") < text.index("oldest pending")
    await rows.execute("UPDATE asyncjobs.runners SET stopped_at = NULL")


async def test_what_runs_for_longest_has_a_page(browser: Browser, rows: Connection) -> None:
    await insert_runner(rows, id=4711, slots='{"default": {"": 9}}')
    job_id = await insert_job(
        rows, status="processing", type="slow", runner_id=4711, started_at=datetime.now(UTC) - timedelta(hours=3)
    )
    page = await browser.get("/jobs/running")
    assert page.text.index(str(job_id)) == min(page.text.index(str(job_id)), page.text.index("slow"))
    assert "3 h ago" in page.text
    await rows.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL, claim_token = NULL WHERE id = $1", job_id)
    await rows.execute("DELETE FROM asyncjobs.runners WHERE id = 4711")


async def test_jobs_are_filtered_by_time_and_the_list_renews_itself(browser: Browser, rows: Connection) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=5)
    old = await insert_job(rows, status="dead", type="ancient", updated_at=long_ago, created_at=long_ago)
    assert f"/jobs/{old}" in (await browser.get("/jobs?type=ancient&since=6h")).html
    assert f"/jobs/{old}" in (await browser.get("/jobs?type=ancient&until=1h")).html
    assert f"/jobs/{old}" not in (await browser.get("/jobs?type=ancient&until=6h")).html
    page = await browser.get("/jobs?type=ancient&since=1h")
    assert f"/jobs/{old}" not in page.html
    assert page.having("a", href="/jobs")  # clear
    [region] = [found for _, found in page.elements if "data-live" in found]
    assert region["data-live"] == "/live/jobs?type=ancient&since=1h"
    assert not [found for _, found in (await browser.get("/jobs?error=x")).elements if "data-live" in found]
    assert (await browser.get("/jobs?since=yesterday")).status == 400


async def test_counts_stand_beside_the_statuses(browser: Browser, rows: Connection) -> None:
    waiting = await rows.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending'")
    page = await browser.get("/jobs")
    assert f"pending {waiting:,}" in page.text
    assert "to be retried" in page.text


async def test_bar_of_a_chart_leads_to_the_jobs_of_its_step(browser: Browser, rows: Connection) -> None:
    empty: list[int] = []
    at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    await insert(rows, "job_metrics", job_type="barred", status="dead", minute=at, count=3, queue_seconds=0.0, run_seconds=0.0,
                 queue_time=empty, run_time=empty)  # fmt: skip
    page = await browser.get("/?type=barred")
    links = [str(found["href"]) for found in page.having("a") if "since=" in str(found.get("href"))]
    inside = at + timedelta(seconds=30)
    job_id = await insert_job(rows, status="dead", type="barred", updated_at=inside, created_at=inside)
    assert any("status=failed&status=dead" in link for link in links)
    assert links
    for link in set(links):
        assert f"/jobs/{job_id}" in (await browser.get(link)).html, link


async def test_only_verbs_that_can_be_done_are_offered(browser: Browser, ids: dict[str, int]) -> None:
    offered = {
        "completed": {"delete"}, "dead": {"retry", "delete"}, "pending": {"cancel", "kill"},
        "processing": {"fail", "cancel", "kill"},
        "scheduled": {"retry", "cancel", "kill"},
    }  # fmt: skip
    for status, verbs in offered.items():
        page = await browser.get(f"/jobs/{ids[status]}")
        labels = {"Retry": "retry", "Fail the attempt": "fail", "Cancel": "cancel", "Kill": "kill", "Delete": "delete"}
        found = {verb for label, verb in labels.items() if f">{label}</button>" in page.html}
        assert found == verbs, status


async def test_charts_are_of_one_queue_where_that_is_asked(browser: Browser, rows: Connection, jobs: AsyncJobs) -> None:
    await rows.execute(
        "INSERT INTO asyncjobs.types (digest, version, priority, max_attempts, max_depth, max_payload_bytes, name, type, queue, "
        "on_dead, tags, redact, schema, sieve, queues) VALUES (78, 1, 100, 3, 9, 9, 'queued', 'queued', 'elsewhere', "
        "'advance', '{}', '{}', '{}', '$', '{}')"
    )
    await rows.execute(
        "INSERT INTO asyncjobs.types (digest, version, priority, max_attempts, max_depth, max_payload_bytes, name, type, queue, "
        "on_dead, tags, redact, schema, sieve, queues) VALUES (79, 1, 100, 3, 9, 9, 'other', 'other', 'here', "
        "'advance', '{}', '{}', '{}', '$', '{}')"
    )
    empty: list[int] = []
    at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    for type, count in (("queued", 7), ("other", 5)):
        await insert(rows, "job_metrics", job_type=type, status="completed", minute=at, count=count, queue_seconds=0.0,
                     run_seconds=0.0, queue_time=empty, run_time=empty)  # fmt: skip
    assert sum(step.attempts for step in await jobs.admin.series(queue="elsewhere")) == 7
    page = await browser.get("/?queue=elsewhere")
    assert "7 attempts ended" in page.html
    assert "queue=elsewhere" in page.html, "bars lead to the jobs of the queue"
