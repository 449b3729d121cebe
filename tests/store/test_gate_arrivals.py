"""Every way in which a member ends arrives at its gates, and what is kept and pruned of a workflow (`store/routines/gates`)."""

import asyncio
from typing import Any

import pytest

from asyncjobs.errors import DuplicateJob
from asyncjobs.store import callers, door, due, jobs, runners, serialized, workflows
from tests.support import flows
from tests.support.factories import a_row
from tests.support.peers import Peers


async def test_member_that_is_killed_arrives(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    assert (await serialized.end(pair.a.link, flow.ids[0], "dead", "poison")).outcome == "dead"
    await flows.settle(pair)
    assert await flow.statuses() == ["dead", "cancelled"]


async def test_an_operator_cancels_the_last_member_that_runs(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], {1: "ended"})])
    job = await pair.a.claim_one()
    assert (await serialized.cancel(pair.b.link, job.id, "no")).outcome == "requested"
    await pair.a.ack(job, "interrupted")
    assert await flow.statuses() == ["cancelled", "pending"]
    await pair.drain(pair.a)


async def test_an_operator_cancels_the_last_member_that_waits(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], {1: "ended"})], fields={0: {"serialization_key": "k", "delay_seconds": 60.0}})
    assert (await serialized.cancel(pair.b.link, flow.ids[0], "no")).outcome == "cancelled"
    assert await flow.statuses() == ["cancelled", "pending"]
    await pair.drain(pair.a)


async def test_keyed_member_arrives_by_the_lean_call_of_its_key(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])], fields={0: {"serialization_key": "k"}, 1: {"serialization_key": "k"}})
    job = await pair.a.claim_one()
    finished = await pair.a.complete(job)
    (job,) = finished.claimed
    assert (await flow.statuses()) == ["completed", "processing", "blocked"]
    finished = await pair.a.complete(job)
    assert finished.heads == ["default"]
    assert (await flow.statuses())[2] == "pending"
    await pair.drain(pair.a)


async def test_what_has_arrived_does_not_arrive_again_whoever_looks(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])])
    (job,) = await pair.a.claim(1)
    await pair.a.ack(job)
    await serialized.release_ended(pair.b.link, job.id)
    assert await jobs.verify_completed(pair.b.link, job.id, job.token) is not None
    await flows.settle(pair)
    assert (await flow.statuses())[2] == "blocked"
    await pair.drain(pair.a)


async def test_member_whose_process_is_lost_is_rescued_and_arrives_at_last(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], {1: "ended"})], fields={0: {"max_attempts": 1}})
    await pair.a.claim_one()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    rescued = await runners.rescue(pair.b.link, 10, max_errors=10)
    assert rescued.dead == [flow.ids[0]]
    assert await flow.statuses() == ["dead", "pending"]
    await pair.drain(pair.b)


async def test_member_that_expires_arrives(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], {2: "ended"})], fields={
        0: {"expires_seconds": 60.0}, 1: {"expires_seconds": 60.0, "serialization_key": "k", "delay_seconds": 30.0}})  # fmt: skip
    await pair.admin.execute("UPDATE asyncjobs.jobs SET start_before = now() - interval '1 s', run_at = least(run_at, now())"
                             " WHERE start_before IS NOT NULL")  # fmt: skip
    promoted, _ = await due.promote(pair.b.link, 1000)
    if promoted.keys:
        await due.promote_keyed(pair.b.link, promoted.keys, 1000)
    await pair.promote()
    assert await flow.statuses() == ["cancelled", "cancelled", "pending"]
    await pair.drain(pair.a)


async def test_member_that_completes_in_its_handlers_transaction_arrives_when_its_handler_has_ended(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    await callers.complete(await pair.b.link.connection(), pair.database, callers.Completion(job.id, job.token, "1"))
    assert await flow.statuses() == ["completed", "blocked"]
    assert await jobs.verify_completed(pair.a.link, job.id, job.token) == ["default"]
    assert await flow.statuses() == ["completed", "pending"]
    await pair.drain(pair.a)


async def test_member_that_completed_in_a_transaction_of_a_process_that_died_arrives_with_the_rescue(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    await callers.complete(await pair.b.link.connection(), pair.database, callers.Completion(job.id, job.token, "1"))
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(pair.b.link, 10, max_errors=10)
    assert await flow.statuses() == ["completed", "pending"]
    await pair.drain(pair.b)


@pytest.mark.parametrize("by", [
    "UPDATE asyncjobs.jobs SET status = 'cancelled', completed_at = now() WHERE id = $1",
    "DELETE FROM asyncjobs.jobs WHERE id = $1",
])  # fmt: skip
async def test_end_that_a_strangers_sql_has_written_is_found_by_the_sweep(pair: Peers, by: str) -> None:
    flow = await flows.write(pair, 2, [([0], {1: "ended"})])
    await pair.admin.execute(by, flow.ids[0])
    await flows.sweep(pair)
    assert (await flow.statuses())[1] == "pending"
    await pair.drain(pair.a)
    assert await flow.state() == "broken"


async def _prune(pair: Peers) -> None:
    await pair.admin.execute("SELECT asyncjobs.prune(NULL, NULL, NULL, 100, '1 h', '1 h', '1 h', '1 h', '1 h', '{}', '{}')")


async def test_upstream_is_kept_while_a_sibling_has_not_ended_and_the_workflow_is_pruned_as_a_whole(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])])
    first, second = await pair.a.claim(2)
    await pair.a.ack(first)
    await pair.a.ack(second, "snooze", delay_seconds=3600)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET completed_at = completed_at - interval '2 h'")
    await _prune(pair)
    assert (await flow.statuses())[0] == "completed"
    await pair.promote()
    await pair.drain(pair.a)
    await _prune(pair)
    assert await flow.statuses() == ["completed"] * 3
    await pair.admin.execute("UPDATE asyncjobs.workflows SET ended_at = ended_at - interval '2 h'")
    await _prune(pair)
    assert await flow.statuses() == ["gone"] * 3
    for table in ("workflows", "gates", "members", "dependents", "arrivals"):
        assert await pair.admin.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0


async def test_member_alone_is_not_deleted(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [])
    await pair.drain(pair.a)
    assert (await serialized.delete(pair.a.link, flow.ids[0])).outcome == "member"


async def test_nothing_is_written_of_a_workflow_whose_transaction_is_rolled_back(pair: Peers) -> None:
    plan = flows.plan([([0], [1])])
    connection = await pair.a.link.connection()
    await pair.a.begin()
    written = await workflows.enqueue_in_transaction(connection, pair.database, plan, [a_row(), a_row(waits=True)])
    assert await workflows.get(pair.b.link, written.id) is None
    await pair.a.rollback()
    for table in ("workflows", "gates", "members", "dependents", "jobs"):
        assert await pair.admin.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0


async def test_workflow_whose_answer_was_lost_is_written_once(pair: Peers) -> None:
    plan, rows = flows.plan([([0], [1])]), [a_row(), a_row(waits=True)]
    ids = await door.give_ids(pair.a.link, 2)
    written = await workflows.enqueue(pair.a.link, plan, rows, ids, 7)
    again = await workflows.enqueue(pair.a.link, plan, rows, ids, 7, again=True)
    assert (again.id, again.ids) == (written.id, written.ids)
    await pair.drain(pair.a)


@pytest.mark.parametrize("fields", [{}, {"dedup_key": "x"}, {"serialization_key": "k"}], ids=str)
async def test_workflow_that_is_committed_while_it_is_sent_again_is_written_once(pair: Peers, fields: dict[str, Any]) -> None:
    plan, rows = flows.plan([([0], [1])]), [a_row(**fields), a_row(waits=True)]
    ids = await door.give_ids(pair.a.link, 2)
    await pair.a.begin()
    written = await workflows.enqueue(pair.a.link, plan, rows, ids, 7)
    again = asyncio.create_task(workflows.enqueue(pair.b.link, plan, rows, ids, 7, again=True))
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    assert ((await again).id, (await again).ids) == (written.id, written.ids)
    if "dedup_key" in fields:
        with pytest.raises(DuplicateJob, match=str(ids[0])):
            await flows.write(pair, 1, [], fields={0: fields})
    await pair.drain(pair.a)
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.workflows WHERE ended_at IS NOT NULL") == 1


async def test_member_whose_dedup_key_a_job_has_refuses_the_workflow_as_a_whole(pair: Peers) -> None:
    other = await pair.a.enqueue(None, dedup_key="x")
    with pytest.raises(DuplicateJob, match=str(other)):
        await flows.write(pair, 2, [([0], [1])], fields={1: {"dedup_key": "x"}})
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.workflows") == 0
    await pair.drain(pair.a)


async def test_dedup_key_of_a_broken_dependent_is_free_and_taken_back_if_nobody_has_it(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0], [1, 2])], fields={1: {"dedup_key": "x"}, 2: {"dedup_key": "y"}})
    await flows.run(pair, flow, deaths=[0])
    await pair.a.enqueue(None, dedup_key="x", delay_seconds=60.0)
    await serialized.retry(pair.a.link, flow.ids[0], "ada")
    await flows.settle(pair)
    assert await flow.statuses() == ["pending", "cancelled", "blocked"]
    assert await flows.run(pair, flow) == [0, 2]
    await pair.promote()
    await pair.drain(pair.a)
