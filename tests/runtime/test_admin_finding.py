"""Jobs found by what is known of them, trees of one user action, and verbs on all that fit, with a dry run."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, JobType, Queue
from asyncjobs.errors import UsageError
from asyncjobs.model.finding import ManyVerb, outcome_of
from asyncjobs.model.status import TRANSITIONS
from asyncjobs.store import finding, listing
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.support.eventually import patience
from tests.support.factories import insert_job, insert_place, insert_runner, insert_waiting


class Shop:
    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue("default", concurrency=2)])

        @self.app.job("visit", max_attempts=1)
        async def visit(customer: int, key: str | None = None) -> None:
            await asyncio.Event().wait()

        @visit.serialize_by
        def key_of(customer: int, key: str | None = None) -> str | None:
            return key

        @self.app.job("order")
        async def order(ctx: JobContext, parts: int) -> None:
            for part in range(parts):
                await pack.enqueue(part)

        @self.app.job("pack")
        async def pack(part: int) -> None:
            return None

        self.visit: JobType[..., None] = visit
        self.order = order


@pytest.fixture
async def shop(dsn: str) -> AsyncGenerator[Shop]:
    made = Shop(dsn)
    async with made.app:
        yield made


async def test_jobs_are_found_by_each_filter_and_by_all_together(shop: Shop) -> None:
    admin = shop.app.admin
    one = await shop.visit.using(correlation_id="c1").enqueue(1)
    head, behind = await shop.visit.enqueue(2, "k"), await shop.visit.using(correlation_id="c1").enqueue(3, "k")
    late = await shop.visit.using(delay=3600).enqueue(4)

    every = [one.id, head.id, behind.id, late.id]

    async def found(**which: Any) -> list[int]:
        ids = [job.id for job in (await admin.find(**which)).jobs]
        assert ids == sorted(ids, reverse=True)
        return [job_id for job_id in every if job_id in ids]

    assert await found() == every
    assert await found(correlation_id="c1") == [one.id, behind.id]
    assert await found(status="pending") == [one.id, head.id]
    assert await found(status=["waiting", "scheduled"]) == [behind.id, late.id]
    assert await found(status="waiting") == [behind.id]
    assert await found(status=["failed", "scheduled"]) == [late.id]
    assert await found(status="processing") == await found(status="dead") == await found(type="order") == []
    assert await found(key="k") == [head.id, behind.id]
    assert await found(payload={"customer": 3}) == [behind.id]
    assert await found(queue="default", type="visit", key="k", status="pending") == [head.id]
    await admin.kill(one.id, "Out of stock")
    assert await found(error="out OF") == await found(status="dead") == await found(status="dead", type="visit") == [one.id]
    page = await admin.find(limit=3)
    by_id = sorted(every, reverse=True)
    assert ([job.id for job in page.jobs], page.next) == (by_id[:3], by_id[2])
    rest = await admin.find(limit=3, before=page.next)
    assert ([job.id for job in rest.jobs], rest.next, rest.looked) == (by_id[3:], None, 1)


async def test_jobs_are_found_by_their_workflow(shop: Shop) -> None:
    admin = shop.app.admin
    await shop.visit.enqueue(1)
    async with shop.app.workflow("tour") as flow:
        first = flow.add(shop.visit.new(2))
        flow.add(shop.visit.new(3), after=first)
    ids = [first.id + 1, first.id]
    for workflow in (flow.id, flow, shop.app.workflow_of(flow.id)):
        assert [job.id for job in (await admin.find(workflow=workflow)).jobs] == ids
    assert [job.id for job in (await admin.find(workflow=flow, status="blocked")).jobs] == ids[:1]
    assert [job.id for job in (await admin.rows(workflow=flow, payload={"customer": 2})).jobs] == ids[1:]
    assert (await admin.find(workflow=flow.id + 1)).jobs == []
    for wrong in ("7", True, 1.5, object()):
        with pytest.raises(UsageError, match="is no workflow: give its id, or its handle"):
            await admin.find(workflow=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="out of its range"):
        await admin.find(workflow=1 << 70)
    done = await admin.cancel_all(workflow=shop.app.workflow_of(flow.id))
    assert done.changed == 2
    entry = (await admin.audit()).entries[0]
    assert (entry.verb, entry.target) == ("jobs.cancel", f"all jobs with workflow={flow.id}")


async def test_a_look_is_bounded_says_so_and_goes_on(database: Database, connection: Connection) -> None:
    ids = [await insert_job(connection, type="rare" if number == 0 else "common") for number in range(25)]
    link = database.link("test")
    before, looks = None, 0
    try:
        while True:
            page = await finding.find(link, {"type": "rare"}, before=before, limit=5, look=10)
            looks += 1
            assert page.looked <= 10
            if page.next is None:
                break
            assert page.ids == []
            before = page.next
    finally:
        await link.close()
    assert (page.ids, looks) == ([ids[0]], 3)


async def test_look_along_both_tables_passes_over_nothing(database: Database, connection: Connection) -> None:
    """Where one table was cut, the other is not believed below that id."""
    head = await insert_waiting(connection, "k")
    await connection.execute("UPDATE asyncjobs.serialized_jobs SET dispatched_at = now() WHERE id = $1", head)
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE id = $1", head)
    ids = [await insert_waiting(connection, "k") if number % 3 else await insert_job(connection) for number in range(30)]
    link = database.link("test")
    seen: list[int] = []
    before = None
    try:
        while True:
            page = await finding.find(link, {}, before=before, limit=4, look=5)
            seen += page.ids
            if page.next is None:
                break
            before = page.next
    finally:
        await link.close()
    assert seen == [*reversed(ids), head]


async def test_tree_of_one_user_action(shop: Shop) -> None:
    handle = await shop.order.using(correlation_id="click-1").enqueue(3)
    async with shop.app.runner(), patience(20):
        while len((await shop.app.admin.find(correlation_id="click-1", status="completed")).jobs) < 4:
            await asyncio.sleep(0.01)
    [root] = await shop.app.admin.tree("click-1")
    assert (root.job.id, [child.job.payload for child in root.children]) == (handle.id, [{"part": number} for number in range(3)])
    assert await shop.app.admin.tree("no such") == []


async def test_children_are_found_also_while_they_wait_and_without_a_correlation_id(
    database: Database, connection: Connection
) -> None:
    parent = await insert_job(connection)
    head = await insert_job(connection, serialization_key="k", parent_job_id=parent)
    await insert_place(connection, "k", head, is_head=True)
    behind = await insert_waiting(connection, "k", parent_job_id=parent)
    await insert_waiting(connection, "k", parent_job_id=behind)
    link = database.link("test")
    try:
        assert [row.id for row in await listing.children(link, parent, {}, 10)] == [head, behind]
        assert [row.id for row in await listing.children(link, parent, {}, 1)] == [head]
        page = await finding.find(link, {"parent_job_id": parent}, before=None, limit=10)
        assert (page.ids, page.looked) == ([behind, head], 2)
    finally:
        await link.close()


async def test_all_that_fit_are_cancelled_and_a_dry_run_says_how_many(shop: Shop, recorder: Recorder) -> None:
    admin = shop.app.admin
    handles = [await shop.visit.enqueue(number, "k" if number % 2 else None) for number in range(250)]
    async with shop.app.runner(grace=0):
        await recorder.wait_for(AttemptStarted, timeout=20)
        async with patience(20):
            while len((await admin.find(status="processing")).jobs) < 2:
                await asyncio.sleep(0.01)
        planned = await admin.cancel_all(type="visit", dry_run=True)
        assert (planned.outcomes, planned.changed) == ({"cancelled": 248, "requested": 2}, 250)
        done = await admin.cancel_all("closed", type="visit")
        assert sum(done.outcomes.values()) == 250
        assert set(done.outcomes) <= {"cancelled", "requested"}
        for handle in handles:
            job = await handle.wait(timeout=20)
            assert (job.status, job.error_message) == ("cancelled", "closed")
    assert (await admin.cancel_all(type="visit")).outcomes == {"final": 250}


async def test_all_that_fit_are_killed_and_retried(shop: Shop) -> None:
    admin = shop.app.admin
    for number in range(5):
        await shop.visit.enqueue(number, "k")
    assert (await admin.kill_all("poison", key="k", payload={"customer": 0})).outcomes == {"dead": 1}
    assert (await admin.fail_all("now", will_retry=True, key="k", status=["pending", "waiting"])).outcomes == {
        "pending": 1, "waiting": 3
    }  # fmt: skip
    assert (await admin.fail_all("now", will_retry=False, key="k", status="waiting")).outcomes == {"dead": 3}
    assert (await admin.retry_all(status="dead", dry_run=True)).outcomes == {"retried": 4}
    assert (await admin.retry_all(status="dead")).outcomes == {"retried": 4}
    assert [place.type for place in await admin.line("k")] == ["visit"] * 5


@pytest.mark.parametrize("verb", ["cancel_all", "kill_all", "retry_all"])
async def test_verb_on_everything_there_is_is_refused(shop: Shop, verb: str) -> None:
    with pytest.raises(UsageError, match=f"admin.{verb} would take every job there is"):
        await getattr(shop.app.admin, verb)(type=None)


async def test_job_that_a_transaction_holds_does_not_keep_the_others(shop: Shop, connection: Connection) -> None:
    handles = [await shop.visit.enqueue(number) for number in range(3)]
    for verb in ("end_job", "end_jobs"):  # which is tried again
        await connection.execute(f"ALTER ROUTINE asyncjobs.{verb} SET lock_timeout = '0.1s'")
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", handles[1].id)
        assert (await shop.app.admin.cancel_all(type="visit")).outcomes == {"cancelled": 2, "busy": 1}


@pytest.mark.parametrize("verb", ["cancel", "kill", "fail", "retry"])
async def test_what_a_dry_run_says_is_what_happens(shop: Shop, connection: Connection, verb: ManyVerb) -> None:
    await insert_runner(connection, id=1)
    admin = shop.app.admin
    verbs: dict[str, Any] = {"cancel": admin.cancel, "kill": admin.kill, "retry": admin.retry}
    states: list[Any] = [status for status in TRANSITIONS if status not in {"waiting", "blocked"}]
    found: dict[str, tuple[str, str | None]] = {}
    for status in states:
        job_id = await insert_job(connection, status=status)
        if status == "dead":
            await connection.execute("SELECT asyncjobs.bury(ARRAY[$1::bigint])", job_id)
        done = await (admin.fail(job_id, will_retry=True) if verb == "fail" else verbs[verb](job_id))
        found[status] = (done.outcome, done.was)
    assert found == {status: (outcome_of(verb, status), status) for status in states}
    await connection.execute("DELETE FROM asyncjobs.runners")
    await connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL WHERE status = 'processing'"
    )
