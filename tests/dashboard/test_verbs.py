"""Every verb does from a page what it does in `jobs.admin`, asks first where something would be lost, and is recorded."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.dashboard.verbs import VERBS
from asyncjobs.declare.new_job import named
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import VerbUsed
from tests.dashboard.conftest import Served
from tests.support.browser import Browser, Page
from tests.support.factories import insert_job, insert_place
from tests.support.shop import IMAGE

pytestmark = pytest.mark.asyncio(loop_scope="module")

USED: set[str] = set()


@pytest.fixture
def told(served: Served) -> Iterator[list[VerbUsed]]:
    """What the app's events were told of verbs."""
    found: list[VerbUsed] = []
    unsubscribe = served.jobs.events.subscribe(found.append, VerbUsed)
    yield found
    unsubscribe()


class Operator:
    """Ada, who uses a verb and answers what she is asked."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    async def does(self, verb: str, fields: Any = (), *, asked: str | None = None, path: str = "/queues") -> Page:
        USED.add(verb)
        pairs = [("back", path), *(fields.items() if isinstance(fields, dict) else fields)]
        page = await self.browser.send(verb, pairs)
        if asked is not None:
            assert asked in page.text, page.text
            hidden = [(found["name"], found["value"]) for found in page.having("input", type="hidden") if found["name"] != "csrf"]
            assert (page.status, [pair for pair in pairs if pair[0] != "sure"]) == (200, [(n, v) for n, v in hidden])
            page = await self.browser.send(verb, [*hidden, ("sure", "yes")])
        assert page.status == 200, page.text
        assert page.url.path == path.partition("?")[0]
        return page


@pytest.fixture
def ada(browser: Browser) -> Operator:
    return Operator(browser)


async def status(rows: Connection, job_id: int) -> str:
    return str(await rows.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", job_id))


async def test_a_job_is_changed_and_deleted_and_who_did_it_is_told_once(
    ada: Operator, rows: Connection, told: list[VerbUsed]
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    job_id = await insert_job(rows, status="scheduled", run_at=later, type="changing")
    fields = {"id": str(job_id), "to_priority": "7", "to_max_attempts": "9", "to_timeout": "30", "to_delay": "60", "to_queue": ""}
    page = await ada.does("jobs/change", fields, path=f"/jobs/{job_id}")
    assert f"Job {job_id}: changed (was scheduled)." in page.text
    row = await rows.fetchrow("SELECT priority, max_attempts, timeout, run_at FROM asyncjobs.jobs WHERE id = $1", job_id)
    assert row
    assert (row["priority"], row["max_attempts"], row["timeout"]) == (7, 9, timedelta(seconds=30))
    assert row["run_at"] < later
    page = await ada.does("jobs/delete", {"id": str(job_id)}, asked=f"Delete job {job_id}?", path=f"/jobs/{job_id}")
    assert f"Job {job_id} was left as it is: scheduled." in page.text
    await ada.does("jobs/cancel", {"id": str(job_id)}, asked="Cancel", path=f"/jobs/{job_id}")
    page = await ada.browser.send("jobs/delete", [("back", f"/jobs/{job_id}"), ("id", str(job_id)), ("sure", "yes")])
    assert (page.status, page.url.path) == (200, "/jobs")
    assert f"Job {job_id}: deleted (was cancelled)." in page.text
    assert await rows.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE id = $1", job_id) == 0
    used = [(one.verb, one.by, one.outcome) for one in told if one.verb in {"jobs.change", "jobs.delete"}]
    changed = "changed: priority=7, delay=60.0, max_attempts=9, timeout=30.0"
    assert used == [("jobs.change", "ada", changed), ("jobs.delete", "ada", "scheduled"), ("jobs.delete", "ada", "deleted")]


async def test_all_that_have_a_tag_are_changed_and_deleted(ada: Operator, rows: Connection) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    ids = [await insert_job(rows, status="scheduled", run_at=later, tags=["nightly"]) for _ in range(3)]
    await ada.does("jobs/change", {"all": "yes", "tag": "nightly", "to_priority": "3"}, asked="this would change 3 of 3")
    assert await rows.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE priority = 3 AND id = ANY ($1)", ids) == 3
    await ada.does("jobs/cancel", {"all": "yes", "tag": "nightly"}, asked="this would change 3 of 3")
    await ada.does("jobs/delete", {"all": "yes", "tag": "nightly"}, asked="this would change 3 of 3")
    assert await rows.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE id = ANY ($1)", ids) == 0


@pytest.mark.parametrize(
    "fields", [{}, {"to_priority": "x"}, {"to_priority": "99999"}, {"to_delay": "-1"}, {"to_timeout": "0"}, {"to_other": "1"}]
)
async def test_a_change_that_cannot_be_meant_is_refused(browser: Browser, rows: Connection, fields: dict[str, str]) -> None:
    job_id = await insert_job(rows, status="scheduled", run_at=datetime.now(UTC) + timedelta(hours=1))
    page = await browser.send("jobs/change", [("id", str(job_id)), *fields.items()])
    assert page.status == 400
    assert await rows.fetchval("SELECT priority FROM asyncjobs.jobs WHERE id = $1", job_id) == 100


async def test_one_job_is_retried_cancelled_killed_and_failed(ada: Operator, rows: Connection, told: list[VerbUsed]) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    retried = await insert_job(rows, status="scheduled", run_at=later)
    page = await ada.does("jobs/retry", {"id": str(retried)}, path=f"/jobs/{retried}")
    assert f"Job {retried}: retried (was scheduled)." in page.text
    assert await status(rows, retried) == "pending"

    page = await ada.does("jobs/cancel", {"id": str(retried), "message": "a mistake"}, asked=f"Cancel job {retried}?")
    assert f"Job {retried}: cancelled (was pending)." in page.text
    said = await rows.fetchval("SELECT error_message FROM asyncjobs.jobs WHERE id = $1", retried)
    assert said == "a mistake (cancelled by ada)"

    killed = await insert_job(rows)
    await ada.does("jobs/kill", {"id": str(killed)}, asked=f"Kill job {killed}?")
    assert await status(rows, killed) == "dead"

    running = await insert_job(rows, status="processing")
    page = await ada.does("jobs/fail", {"id": str(running)}, asked="counts as failed")
    assert f"Job {running} runs, and was asked to end." in page.text
    assert await rows.fetchval("SELECT requested_outcome FROM asyncjobs.jobs WHERE id = $1", running) == "fail"

    page = await ada.does("jobs/cancel", {"id": str(killed), "sure": "yes"})
    assert f"Job {killed} was left as it is: dead." in page.text
    assert [(one.verb, one.by, one.target) for one in told] == [
        ("jobs.retry", "ada", f"job {retried}"),
        ("jobs.cancel", "ada", f"job {retried}"),
        ("jobs.kill", "ada", f"job {killed}"),
        ("jobs.fail", "ada", f"job {running}"),
        ("jobs.cancel", "ada", f"job {killed}"),
    ]


async def test_ticked_jobs_are_taken_together(ada: Operator, rows: Connection) -> None:
    ids = [await insert_job(rows, type="ticked") for _ in range(3)]
    page = await ada.does(
        "jobs/cancel", [("id", str(ids[0])), ("id", str(ids[2])), ("id", "999999")], asked="Cancel these 3 jobs?"
    )
    assert "3 jobs: 2 cancelled, 1 unknown." in page.text
    assert [await status(rows, job_id) for job_id in ids] == ["cancelled", "pending", "cancelled"]


async def test_all_that_fit_are_counted_before_they_are_taken(ada: Operator, rows: Connection) -> None:
    ids = [await insert_job(rows, type="bulk", payload='{"to": "a=b"}') for _ in range(3)]
    await insert_job(rows, type="bulk", status="completed", payload='{"to": "a=b"}')
    fields = [("all", "yes"), ("type", "bulk"), ("payload", "to=a=b")]
    page = await ada.browser.send("jobs/cancel", fields)
    assert "this would change 3 of 4 jobs. 3 cancelled 1 final" in page.text
    assert await status(rows, ids[0]) == "pending"
    page = await ada.does("jobs/cancel", fields, asked="Cancel all that fit")
    assert "3 cancelled, 1 final." in page.text
    assert "No job fits this filter." in (await ada.browser.send("jobs/retry", {"all": "yes", "type": "nobody"})).text
    nothing = await ada.browser.send("jobs/retry", {"all": "yes", "type": "bulk", "status": "completed"})
    assert "None of the jobs that fit can be retried." in nothing.text
    assert not nothing.having("button", name="sure")


async def test_a_key_is_paused_resumed_released_skipped_and_purged(ada: Operator, rows: Connection, ids: dict[str, int]) -> None:
    page = await ada.does("pause", {"key": "dest_1", "reason": "<b>maintenance</b>"}, path="/key?key=dest_1")
    assert "by ada : <b>maintenance</b>" in page.text
    await ada.does("resume", {"key": "dest_1"})
    page = await ada.does("keys/release", {"key": "dest_1"}, asked="3 jobs behind it go on", path="/key?key=dest_1")
    assert f'Key "dest_1" goes on; job {ids["halting"]} stays dead.' in page.text
    assert "Jobs in the line 3" in page.text

    head = await rows.fetchval(
        "SELECT id FROM asyncjobs.serialized_jobs WHERE serialization_key = 'dest_1' AND dispatched_at IS NOT NULL"
    )
    page = await ada.does("keys/skip", {"key": "dest_1"}, asked="The head is cancelled.")
    assert f'Key "dest_1": job {head} is cancelled.' in page.text
    page = await ada.does("keys/purge", {"key": "dest_1"}, asked='Cancel all 2 jobs of key "dest_1"?')
    assert "2 jobs cancelled." in page.text
    assert await rows.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs WHERE serialization_key = 'dest_1'") == 0


async def test_skipping_the_head_of_a_halted_key_releases_it(ada: Operator, rows: Connection) -> None:
    dead = await insert_job(rows, status="dead", type="webhook", serialization_key="halted")
    await insert_place(rows, "halted", dead, is_head=True, halted_at=datetime.now(UTC), halt_reason="no")
    page = await ada.does("keys/skip", {"key": "halted"}, asked="The head stays dead.")
    assert f'Key "halted" goes on; job {dead} stays dead.' in page.text


async def a_dead_letter(rows: Connection, **columns: Any) -> int:
    job_id = await insert_job(rows, status="dead", attempts=3, **columns)
    await rows.execute("SELECT asyncjobs.bury(ARRAY[$1::bigint])", job_id)
    return int(await rows.fetchval("SELECT id FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", job_id))


async def test_dead_letters_are_acknowledged_and_requeued(ada: Operator, rows: Connection) -> None:
    one, two, three = [await a_dead_letter(rows, type="dead_letter", error_message="no") for _ in range(3)]
    page = await ada.does("dead/acknowledge", {"id": str(one)}, path=f"/dead/{one}")
    assert "Dead letters: 1 acknowledged." in page.text
    assert "by ada" in page.text
    page = await ada.does("dead/requeue", {"id": str(two)}, path=f"/dead/{two}")
    assert f"Dead letter {two}: requeued as job" in page.text
    assert (await ada.browser.send("dead/requeue", {"id": str(two)})).status == 409
    await ada.does("dead/requeue", {"id": str(two), "force": "yes"})
    page = await ada.does("dead/requeue", [("id", str(two)), ("id", str(three)), ("id", "999999")])
    assert "1 requeued, 1 requeued before, duplicate, busy or unreadable, 1 unknown" in page.text
    assert (
        await rows.fetchval("SELECT created_by FROM asyncjobs.jobs WHERE type = 'dead_letter' AND status = 'pending' LIMIT 1")
        == "ada"
    )


async def test_all_dead_letters_that_fit_are_counted_before_they_are_taken(ada: Operator, rows: Connection) -> None:
    for _ in range(4):
        await a_dead_letter(rows, type="dead_letters")
    fields = {"all": "yes", "type": "dead_letters"}
    page = await ada.does("dead/requeue", fields, asked="Requeue all 4 dead letters that fit?")
    assert "4 requeued" in page.text
    await a_dead_letter(rows, type="dead_letters")
    page = await ada.does("dead/acknowledge", fields, asked="Acknowledge all 1 dead letters that fit?")
    assert "1 acknowledged" in page.text
    assert "There is nothing to do" in (await ada.browser.send("dead/acknowledge", fields)).text


async def test_queues_and_types_are_paused_resumed_and_drained(ada: Operator, rows: Connection, told: list[VerbUsed]) -> None:
    page = await ada.does("pause", {"queue": "mail", "reason": "provider down"})
    assert 'Queue "mail" is paused. What runs goes on.' in page.text
    assert "by ada : provider down" in page.text, "what was read before the verb is not shown after it"
    assert "was paused before" in (await ada.does("pause", {"queue": "mail"})).text
    await ada.does("resume", {"queue": "mail"})
    page = await ada.does("pause", {"what": "type", "name": "emial"})
    assert "is it spelled right?" in page.text
    await ada.does("resume", {"type": "emial"})
    page = await ada.does("drain", {"queue": "default"})
    assert "of its jobs still run" in page.text
    page = await ada.does("resume", {"queue": "default"})
    assert 'Queue "default" goes on.' in page.text
    assert {one.by for one in told} == {"ada"}


async def test_everything_is_paused_for_a_reason_and_resumed(ada: Operator) -> None:
    assert (await ada.browser.get("/queues")).having("input", name="all", value="all")
    page = await ada.does("pause", {"all": "all", "reason": "maintenance"})
    assert "Everything is paused. What runs goes on." in page.text
    assert "ada maintenance" in page.text
    assert not page.having("input", name="all")
    assert "Everything goes on." in (await ada.does("resume", {"all": "all"})).text
    assert "maintenance" in (await ada.does("drain", {"all": "all", "reason": "maintenance"})).text
    await ada.does("resume", {"all": "all"})


async def test_breakers_are_opened_and_reset(ada: Operator) -> None:
    page = await ada.does("breakers/open", {"service": "mail-service", "message": "provider down"}, path="/breakers")
    assert 'Breaker "mail-service" is open until it is reset.' in page.text
    assert "provider down (opened by ada)" in page.text
    await ada.does("breakers/open", {"service": "mail-service", "for": "60"}, path="/breakers")
    page = await ada.does("breakers/reset", {"service": "mail-service"}, path="/breakers")
    assert 'Breaker "mail-service" is closed.' in page.text


async def test_limits_are_set_and_reset_and_their_keys_opened(ada: Operator) -> None:
    page = await ada.does("limits/set", {"name": "images", "kind": "limit", "each": "5", "total": "none"}, path="/limits")
    assert 'Limit "images": total none, each 5, until it is reset.' in page.text
    assert "by ada" in page.text
    page = await ada.does("limits/reset", {"name": "images"}, path="/limits")
    assert 'Limit "images": total none, each 2, as programs declare it.' in page.text
    page = await ada.does("limits/set", {"name": "webhooks", "kind": "queue", "total": "3"}, path="/limits")
    assert 'Queue "webhooks": total 3, each none, until it is reset.' in page.text
    assert page.having("button", value="webhooks", name="queue") != []
    page = await ada.does("limits/reset", {"queue": "webhooks"}, path="/limits")
    assert 'Queue "webhooks": total 9, each none, as programs declare it.' in page.text
    assert page.having("button", value="webhooks", name="queue") == []
    page = await ada.does("limits/open", {"key": f"images:{IMAGE}"}, path="/limits")
    assert "is open." in page.text


async def test_schedules_run_now_are_disabled_and_enabled(ada: Operator, served: Served) -> None:
    async with served.jobs.runner(queues=[Queue("idle")]):
        pass  # it declares the schedules
    page = await ada.does("schedules/run", {"name": "report"}, path="/schedules")
    assert 'Schedule "report": made job' in page.text
    page = await ada.does("schedules/disable", {"name": "report", "reason": "holidays"}, path="/schedules")
    assert "by an operator: holidays (by ada)" in page.text
    page = await ada.does("schedules/enable", {"name": "report"}, path="/schedules")
    assert 'Schedule "report" ticks again.' in page.text


async def test_a_workflow_is_cancelled_and_what_was_cancelled_is_retried(
    ada: Operator, jobs: AsyncJobs, rows: Connection, told: list[VerbUsed]
) -> None:
    step = named("webhook", {}, {"delay": 3_600.0}, jobs.handlers, jobs.settings)
    async with jobs.workflow("nightly") as flow:
        flow.add(step, after=flow.add(step))
    fields, path = {"id": str(flow.id), "message": "not wanted"}, f"/workflows/{flow.id}"
    page = await ada.does("workflows/cancel", fields, asked="2 of its 2 jobs have not ended", path=path)
    assert f"Workflow {flow.id} is being cancelled" in page.text
    await rows.execute("SELECT asyncjobs.fold_left_over(200)")
    assert await jobs.workflow_of(flow.id).counts() == {"cancelled": 2}
    page = await ada.does("workflows/retry", fields, asked="What has run is not undone", path=path)
    assert "jobs retried" in page.text
    await rows.execute("SELECT asyncjobs.fold_left_over(200)")
    assert await jobs.workflow_of(flow.id).counts() == {"pending": 1, "blocked": 1}
    assert [(one.verb, one.by) for one in told] == [("workflows.cancel", "ada"), ("workflows.retry", "ada")]
    await jobs.admin.cancel_workflow(flow.id)


async def test_what_is_old_is_pruned_after_a_count(ada: Operator, rows: Connection) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=30)
    job_id = await insert_job(rows, status="completed", completed_at=long_ago)
    page = await ada.does("prune", (), asked="1 ended jobs", path="/doctor")
    assert "Deleted 1 ended jobs" in page.text
    assert await status(rows, job_id) == "None"
    assert "There is nothing to prune" in (await ada.browser.send("prune")).text


async def test_a_verb_that_fails_is_recorded_as_such(ada: Operator, told: list[VerbUsed]) -> None:
    await ada.browser.send("keys/release", {"key": "nobody", "sure": "yes"})
    assert [(one.verb, one.target, one.outcome) for one in told] == [("keys.release", "key nobody", "KeyNotFound")]


async def test_every_verb_is_tested() -> None:
    assert {verb.name for verb in VERBS} == USED
