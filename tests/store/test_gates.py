"""Gates, rule by rule (`store/routines/gates`), and what others lost their dependents by."""

import asyncio

import pytest

from asyncjobs.store import serialized, workflows
from tests.support import flows
from tests.support.peers import Peers

CHAIN: list[flows.Gate] = [([0], [1]), ([1], [2])]


async def test_members_start_at_once_and_dependents_when_all_they_wait_for_have_completed(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])])
    assert await flow.statuses() == ["pending", "pending", "blocked"]
    first, second = await pair.a.claim(2)
    await pair.a.ack(first)
    assert await flow.statuses() == ["completed", "processing", "blocked"]
    await pair.a.ack(second)
    assert await flow.statuses() == ["completed", "completed", "pending"]
    assert await flow.state() == "running"
    await pair.drain(pair.a)
    assert await flow.state() == "completed"


async def test_a_chain_goes_on_in_the_call_that_acks_its_link(pair: Peers) -> None:
    flow = await flows.write(pair, 3, CHAIN)
    job = await pair.a.claim_one()
    for _ in range(2):
        finished = await pair.a.complete_all([job], limit=1)
        (job,) = finished.claimed
    await pair.a.ack(job)
    assert await flow.statuses() == ["completed"] * 3


async def test_last_two_members_end_in_transactions_that_overlap(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])])
    (first,), (second,) = await pair.a.claim(1), await pair.b.claim(1)
    await pair.a.begin()
    await pair.a.ack(first)
    await pair.b.begin()
    await asyncio.wait_for(pair.b.ack(second), 5)  # nobody waits for a gate
    await pair.a.commit()
    assert (await flow.statuses())[2] == "blocked"
    assert await flows.settle(pair, by=pair.a) == 0, "what is not committed is not seen"
    await pair.b.commit()
    await flows.settle(pair)
    assert await flow.statuses() == ["completed", "completed", "pending"]
    await pair.drain(pair.a)


@pytest.mark.parametrize("commits", ["a first", "b first"])
async def test_whoever_commits_last_leaves_it_to_the_folders(pair: Peers, commits: str) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])])
    (first,), (second,) = await pair.a.claim(1), await pair.b.claim(1)
    for peer, job in ((pair.a, first), (pair.b, second)):
        await peer.begin()
        await peer.ack(job)
    for peer in (pair.a, pair.b) if commits == "a first" else (pair.b, pair.a):
        await peer.commit()
    await flows.settle(pair)
    assert (await flow.statuses())[2] == "pending"
    await pair.drain(pair.a)


async def test_a_crash_before_the_commit_has_changed_nothing(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    await pair.a.begin()
    await pair.a.ack(job)
    await pair.a.rollback()
    assert await flow.statuses() == ["processing", "blocked"]
    await pair.a.ack(job)
    assert await flow.statuses() == ["completed", "pending"]
    await pair.drain(pair.a)


async def test_outcome_under_a_token_that_is_lost_does_not_arrive(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0, 1], [2])])
    job, other = await pair.a.claim(2)
    await pair.a.ack(job)
    assert (await pair.a.ack(job)).lost == [job.token]  # the same outcome, sent twice
    assert (await flow.statuses())[2] == "blocked"
    await pair.a.ack(other)
    await pair.drain(pair.a)
    assert await flow.state() == "completed"


async def test_dependent_of_two_gates_waits_for_both(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0], [2]), ([1], [2])])
    first, second = await pair.a.claim(2)
    await pair.a.ack(first)
    assert (await flow.statuses())[2] == "blocked"
    await pair.a.ack(second)
    assert (await flow.statuses())[2] == "pending"
    await pair.drain(pair.a)


async def test_a_result_is_looked_up_and_not_looked_for(pair: Peers) -> None:
    flow = await flows.write(pair, 2000, [([0], list(range(1, 2000)))])
    async with pair.admin.transaction():
        rows = await pair.admin.fetch("SELECT * FROM asyncjobs.member_results($1, '[[0, 0], [7, 9]]')", flow.ids[1000])
        assert sorted(row["number"] for row in rows) == [0, 7, 8, 9]
        read = await pair.admin.fetchval(
            "SELECT sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_xact_user_tables WHERE schemaname = 'asyncjobs'"
        )
        assert read < 20
    await flows.cancel(pair, flow.id)


async def test_dead_member_ends_who_waits_for_it_with_a_sentence_level_by_level(pair: Peers) -> None:
    flow = await flows.write(pair, 3, CHAIN)
    assert await flows.run(pair, flow, deaths=[0]) == [0]
    assert await flow.statuses() == ["dead", "cancelled", "cancelled"]
    said = f"upstream {flow.ids[0]} (email) died"
    assert [await flow.says(1), await flow.says(2)] == [said, said]
    assert await flow.state() == "broken"


async def test_ended_gates_open_whatever_their_members_ended_in(pair: Peers) -> None:
    flow = await flows.write(pair, 4, [([0, 1], {2: "ended", 3: "completed"})])
    assert sorted(await flows.run(pair, flow, deaths=[0])) == [0, 1, 2]
    assert await flow.statuses() == ["dead", "completed", "completed", "cancelled"]


async def test_retry_of_the_dead_member_brings_back_what_its_death_cancelled(pair: Peers) -> None:
    flow = await flows.write(pair, 4, [*CHAIN, ([2], [3])])
    await flows.run(pair, flow, deaths=[0])
    assert (await serialized.retry(pair.a.link, flow.ids[0], "ada")).outcome == "retried"
    await flows.settle(pair)
    assert await flow.statuses() == ["pending", "blocked", "blocked", "blocked"]
    assert [await flow.says(number) for number in range(4)] == [None] * 4
    assert await flow.state() == "running"
    assert await flows.run(pair, flow) == [0, 1, 2, 3]
    assert await flow.state() == "completed"


async def test_retry_in_the_middle_of_the_cascade_takes_it_back(pair: Peers) -> None:
    flow = await flows.write(pair, 4, [*CHAIN, ([2], [3])])
    job = await pair.a.claim_one()
    await pair.a.ack(job, "dead", message="no")  # one level was cancelled, the others are not
    assert await flow.statuses() == ["dead", "cancelled", "blocked", "blocked"]
    await serialized.retry(pair.a.link, flow.ids[0], "ada")
    await flows.settle(pair)
    assert await flow.statuses() == ["pending", "blocked", "blocked", "blocked"]
    assert await flows.run(pair, flow) == [0, 1, 2, 3]


async def test_who_comes_back_and_completes_before_its_return_was_folded_brings_the_next_back(pair: Peers) -> None:
    flow = await flows.write(pair, 4, [([0], [1]), ([1], [2]), ([2], [3])])
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    await flows.settle(pair)
    assert await flow.statuses() == ["dead", "cancelled", "cancelled", "cancelled"]
    assert (await serialized.retry(pair.a.link, flow.ids[0], "ada")).outcome == "retried"
    for number in (0, 1):  # and no folder has looked since
        job = await pair.a.claim_one()
        assert flow.number(job.id) == number
        await pair.a.ack(job)
    assert await flow.state() == "running"
    await flows.settle(pair)
    assert await flows.run(pair, flow) == [2, 3]
    assert await flow.state() == "completed"


async def test_dependent_of_two_broken_gates_comes_back_with_the_second(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0], [2]), ([1], [2])])
    await flows.run(pair, flow, deaths=[0, 1])
    await serialized.retry(pair.a.link, flow.ids[0], "ada")
    await flows.settle(pair)
    assert (await flow.statuses())[2] == "cancelled"
    assert await flows.run(pair, flow) == [0]
    await serialized.retry(pair.a.link, flow.ids[1], "ada")
    assert await flows.run(pair, flow) == [1, 2]
    assert await flow.state() == "completed"


async def test_what_an_ended_gate_released_is_not_released_again(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], {1: "ended"})])
    assert await flows.run(pair, flow, deaths=[0]) == [0, 1]
    await serialized.retry(pair.a.link, flow.ids[0], "ada")
    assert await flows.run(pair, flow) == [0]
    assert await flow.statuses() == ["completed", "completed"]


async def test_member_that_its_gate_has_ended_is_not_retried_itself(pair: Peers) -> None:
    flow = await flows.write(pair, 3, CHAIN)
    await flows.run(pair, flow, deaths=[0])
    verb = await serialized.retry(pair.a.link, flow.ids[2], "ada")
    assert (verb.outcome, verb.other_id) == ("broken", flow.ids[0])
    assert str(flow.ids[0]) in verb.told(flow.ids[2])


async def test_member_that_was_cancelled_while_it_waited_waits_again_when_it_is_retried(pair: Peers) -> None:
    flow = await flows.write(pair, 3, CHAIN)
    assert (await serialized.cancel(pair.a.link, flow.ids[1], "no")).outcome == "cancelled"
    await flows.settle(pair)
    assert await flow.statuses() == ["pending", "cancelled", "cancelled"]
    assert await flow.says(2) == f"upstream {flow.ids[1]} (email) was cancelled"
    assert (await serialized.retry(pair.a.link, flow.ids[1], "ada")).outcome == "retried"
    await flows.settle(pair)
    assert await flow.statuses() == ["pending", "blocked", "blocked"]
    assert await flows.run(pair, flow) == [0, 1, 2]


async def test_keyed_dependent_joins_its_line_when_it_is_released(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])], fields={1: {"serialization_key": "k"}})
    other = await pair.a.enqueue("k")
    assert await pair.line() == [(other, "pending")]
    await pair.a.ack((await pair.a.claim(1))[0])
    await pair.promote()
    assert await pair.line() == [(other, "pending"), (flow.ids[1], "waiting")]
    assert await pair.drain() == [other, flow.ids[1]]


async def test_dependent_whose_time_has_not_come_is_scheduled_and_its_expiry_counts_from_its_time(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0], [1, 2])], fields={1: {"delay_seconds": 600.0}, 2: {"expires_seconds": 60.0}})
    await pair.admin.execute("UPDATE asyncjobs.jobs SET run_at = run_at - interval '300 s',"
                             " start_before = start_before - interval '300 s' WHERE status = 'blocked'")  # fmt: skip
    await pair.a.ack(await pair.a.claim_one())
    assert await flow.statuses() == ["completed", "scheduled", "pending"]
    left = await pair.admin.fetchval(
        "SELECT extract(epoch FROM start_before - now())::int FROM asyncjobs.jobs WHERE id = $1", flow.ids[2]
    )
    assert 55 <= left <= 60
    await pair.promote()
    await pair.drain(pair.a)


async def test_dependent_of_a_paused_type_is_paused_when_it_is_released(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    await pair.admin.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('type', 'email')")
    await pair.a.ack(job)
    assert await flow.statuses() == ["completed", "paused"]
    await pair.admin.execute("DELETE FROM asyncjobs.pauses")
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE status = 'paused'")
    await pair.drain(pair.a)


async def test_released_job_comes_before_what_was_enqueued_later(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    later = await pair.a.enqueue(None, times=3)
    await pair.a.ack(job)
    assert (await pair.drain(pair.a))[0] == flow.ids[1]
    assert later


async def test_many_dependents_are_released_in_batches_and_nobody_waits_for_them(pair: Peers) -> None:
    flow = await flows.write(pair, 1201, [([0], list(range(1, 1201)))])
    await pair.a.ack(await pair.a.claim_one())
    assert (await flow.statuses()).count("pending") == 500
    await flows.settle(pair)
    assert (await flow.statuses()).count("pending") == 1200
    await flows.cancel(pair, flow.id)


async def test_gate_that_opens_while_it_takes_back_many_releases_them_all(pair: Peers) -> None:
    flow = await flows.write(pair, 1201, [([0], list(range(1, 1201)))])
    await flows.run(pair, flow, deaths=[0])
    assert (await flow.statuses()).count("cancelled") == 1200
    await serialized.retry(pair.a.link, flow.ids[0], "ada")
    assert (await flow.statuses()).count("blocked") == 500
    (job,) = await pair.a.claim(1)
    await pair.a.ack(job)  # the others are to be taken back yet
    await flows.settle(pair)
    assert (await flow.statuses()).count("pending") == 1200
    await flows.cancel(pair, flow.id)


async def test_dependent_whose_row_is_held_is_passed_over_and_released_later(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0], [1, 2])])
    job = await pair.a.claim_one()
    async with pair.admin.transaction():
        await pair.admin.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", flow.ids[1])
        await asyncio.wait_for(pair.a.ack(job), 5)
        row = await pair.b.link.fetch("fold_left_over", 10, [], None)
        assert row[0]["more"] is False, "the folders are told, and try again"
    assert await flow.statuses() == ["completed", "blocked", "pending"]
    await flows.settle(pair)
    assert await flow.statuses() == ["completed", "pending", "pending"]
    await pair.drain(pair.a)


async def test_cancel_of_a_workflow_ends_what_waits_and_asks_what_runs(pair: Peers) -> None:
    flow = await flows.write(pair, 4, [([0, 1], [2]), ([2], {3: "ended"})])
    job = (await pair.a.claim(1))[0]
    assert await flows.cancel(pair, flow.id) == "requested"
    assert await flow.statuses() == ["processing", "cancelled", "cancelled", "cancelled"]
    assert await flow.state() == "cancelling"
    assert await flows.cancel(pair, flow.id) == "cancelling"
    await pair.a.ack(job)
    await flows.settle(pair)
    assert await flow.state() == "broken"
    assert await flows.cancel(pair, flow.id) == "ended"
    assert await flows.cancel(pair, 4711) == "unknown"


async def test_no_gate_of_a_workflow_that_is_being_cancelled_releases_although_the_canceller_died(pair: Peers) -> None:
    flow = await flows.write(pair, 3, [([0], {1: "ended"}), ([1], [2])])
    job = await pair.a.claim_one()
    await workflows.request_cancel(pair.a.link, flow.id, "no")  # and then it is gone
    await pair.a.ack(job)
    await flows.settle(pair)
    assert await flow.statuses() == ["completed", "cancelled", "cancelled"]
    assert await flow.says(1) == "no"
    other = await flows.write(pair, 2, [([0], [1])])
    await workflows.request_cancel(pair.a.link, other.id, "no")
    await flows.sweep(pair)
    assert await other.statuses() == ["cancelled", "cancelled"]


async def test_retry_after_a_cancel_brings_the_workflow_back(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    await flows.cancel(pair, flow.id)
    assert (await serialized.retry(pair.a.link, flow.ids[1], "ada")).outcome == "broken" or (await flow.statuses())[
        1
    ] == "blocked"
    await serialized.retry(pair.a.link, flow.ids[0], "ada")
    await flows.settle(pair)
    if (await flow.statuses())[1] == "cancelled":
        await serialized.retry(pair.a.link, flow.ids[1], "ada")
    assert await flows.run(pair, flow) == [0, 1]
    assert await flow.state() == "completed"


async def test_what_is_done_after_all_of_a_cancelled_workflow_waits_for_it_again_when_both_are_retried(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], {1: "ended"})])
    assert await flows.cancel(pair, flow.id) == "requested"
    await flows.settle(pair)
    for job_id in flow.ids:
        assert (await serialized.retry(pair.a.link, job_id, "ada")).outcome == "retried"
    await flows.settle(pair)
    assert await flow.statuses() == ["pending", "blocked"]
    assert await flows.run(pair, flow) == [0, 1]


async def test_empty_workflow_has_ended(pair: Peers) -> None:
    flow = await flows.write(pair, 0, [])
    assert await flow.state() == "completed"


async def test_a_member_of_three_gates_is_acked_in_any_order_without_a_deadlock(pair: Peers) -> None:
    flow = await flows.write(pair, 13, [(list(range(12)), [12]), (list(range(11, -1, -1)), [12]), ([0, 5, 11], [12])])
    for _ in range(3):
        (mine, mine2), (other, other2) = await pair.a.claim(2), await pair.b.claim(2)
        await pair.a.begin()
        await pair.b.begin()
        await pair.a.ack(mine)
        await asyncio.wait_for(pair.b.ack(other2), 5)
        await pair.a.ack(mine2)
        await asyncio.wait_for(pair.b.ack(other), 5)
        await pair.b.commit()
        await pair.a.commit()
    await flows.settle(pair)
    assert await flow.statuses() == ["completed"] * 12 + ["pending"]
    await pair.drain(pair.a)


async def test_lost_notifications_cost_an_interval_and_nothing_else(pair: Peers) -> None:
    """What lies in `arrivals` is folded by whoever looks, however it came there."""
    flow = await flows.write(pair, 2, [([0], [1])])
    async with pair.admin.transaction():
        await pair.admin.fetch("SELECT asyncjobs.try_lock_gates((SELECT array_agg(id) FROM asyncjobs.gates))")
        await pair.a.ack(await pair.a.claim_one())
        fold = await workflows.fold(pair.b.link)
        assert (fold.gates, fold.more) == (0, True)
    assert (await flow.statuses())[1] == "blocked"
    fold = await workflows.fold(pair.b.link)
    assert (fold.gates, fold.queues, fold.more) == (2, ["default"], False)
    await pair.drain(pair.a)


async def test_claims_acks_and_enqueues_wait_for_no_fold_that_is_under_way(pair: Peers) -> None:
    """A fold has gates, rows of dependents and the end of a workflow, and its commit is yet to come."""
    flow = await flows.write(pair, 6, [([0, 1], [3, 4]), ([0, 1, 2], [5])])
    other = await flows.write(pair, 1, [])
    jobs = await pair.a.claim(4)
    async with pair.admin.transaction():
        await pair.admin.fetch("SELECT asyncjobs.try_lock_gates((SELECT array_agg(id) FROM asyncjobs.gates))")
        await pair.a.complete_all([jobs[0], jobs[1], jobs[3]])  # these arrive with the folders
    await pair.b.begin()
    assert (await workflows.fold(pair.b.link)).queues == ["default"] * 2
    await pair.a.enqueue(None, times=2)
    async with asyncio.timeout(5):
        claimed = (await pair.a.complete_all([jobs[2]], limit=1)).claimed
        claimed += (await pair.a.finish([pair.a.completion(claimed[0])], limit=10)).claimed
        await pair.a.enqueue(None)
    assert len(claimed) == 2
    assert await flow.statuses() == ["completed", "completed", "completed", "blocked", "blocked", "blocked"]
    await pair.b.commit()
    assert await other.state() == "completed"
    await flows.settle(pair)
    assert (await flow.statuses())[3:] == ["pending"] * 3
    await pair.a.ack(claimed[1])
    await pair.drain(pair.a)
    assert await flow.state() == "completed"
