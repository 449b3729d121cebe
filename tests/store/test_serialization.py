"""The rules of keys, one a test: what lets a key go on, what holds it, who stands where in its line."""

import json
from typing import Any

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.store import callers, jobs, overview, runners, serialized
from asyncjobs.store.database import Database
from tests.support.factories import a_row
from tests.support.holding import pause_key
from tests.support.peers import Peers
from tests.support.rows import each
from tests.support.scenarios import sweep


@pytest.mark.matrix("schema")
async def test_jobs_of_a_key_run_one_at_a_time_in_the_order_of_their_enqueues(database: Database) -> None:
    link = database.link("enqueue")
    try:
        ids = await jobs.reserve_ids(link, 3)
        await jobs.enqueue(link, [a_row(serialization_key="k")] * 3, ids, [1, 2, 3])
        assert [(place.id, place.dispatched) for place in await serialized.line(link, "k", 9)] == [
            (ids[0], True), (ids[1], False), (ids[2], False),
        ]  # fmt: skip
        await serialized.cancel(link, ids[0], "no")
        await serialized.purge_key(link, "k", "no", 9)
        await serialized.cancel(link, ids[1], "no")
        assert await serialized.line(link, "k", 9) == []
    finally:
        await link.close()


async def test_jobs_of_different_types_share_a_key(pair: Peers) -> None:
    ids = [await pair.a.enqueue("k", type) for type in ("email", "report", "email")]
    assert [job.id for job in await pair.a.claim()] == ids[:1]
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL")
    assert await pair.drain() == ids


async def test_only_heads_can_be_claimed(pair: Peers) -> None:
    heads = [await pair.a.enqueue(key, times=3) - 2 for key in ("x", "y", "z")]
    assert [job.id for job in await pair.b.claim()] == heads
    assert await pair.a.claim() == []


@each("kind", ["completed", "dead", "cancel"])
async def test_end_of_the_head_lets_the_next_one_go_in_the_same_transaction(pair: Peers, kind: OutcomeKind) -> None:
    second = await pair.a.enqueue(times=3) - 1
    answer = await pair.a.ack(await pair.a.claim_one(), kind, message="no")
    assert answer.heads == ["default"]
    assert [state for _, state in await pair.line()] == ["pending", "waiting"]
    assert (await pair.a.claim_one()).id == second


async def test_head_that_ends_and_the_next_that_is_claimed_are_one_call(pair: Peers) -> None:
    second = await pair.a.enqueue(times=2)
    head = await pair.a.claim_one()
    answer = await pair.a.finish([Ack(head.id, head.token, Outcome(kind="completed"))], limit=5)
    assert [job.id for job in answer.claimed] == [second]
    assert answer.heads == []


@each("kind", ["retry", "snooze", "interrupted"])
async def test_head_that_comes_back_holds_its_key_and_keeps_its_place(pair: Peers, kind: OutcomeKind) -> None:
    first = await pair.a.enqueue(times=2) - 1
    await pair.a.ack(await pair.a.claim_one(), kind, delay_seconds=3600.0 if kind != "interrupted" else 0.0)
    await pair.b.enqueue()
    if kind != "interrupted":
        assert await pair.a.claim() == []
        await pair.promote()
    assert await pair.drain() == [first, first + 1, first + 2]


async def test_dead_head_of_a_type_that_halts_stops_its_key_with_the_reason(pair: Peers) -> None:
    first = await pair.a.enqueue(times=2, on_dead="halt") - 1
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no such account")
    assert await pair.a.claim() == []
    await sweep(pair)
    [state] = await serialized.keys(pair.a.link, "", 9)
    assert (state.head_id, state.blocked) == (first, f"halted by job {first}: no such account")
    assert await pair.line() == [(first, "halted"), (first + 1, "waiting")]
    await serialized.release_key(pair.a.link, "k")


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("on_dead", ["advance", "halt"])
async def test_head_of_a_dead_runner_follows_the_same_rules(pair: Peers, attempts: int, on_dead: str) -> None:
    first = await pair.a.enqueue(times=2, on_dead=on_dead, max_attempts=attempts) - 1
    await pair.a.claim_one()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(pair.b.link, 10, max_errors=10)
    states = [state for _, state in await pair.line()]
    if attempts == 3:
        assert states == ["pending", "waiting"]
        assert (await pair.b.claim_one()).id == first
    elif on_dead == "advance":
        assert states == ["pending"]
    else:
        assert states == ["halted", "waiting"]
    await pair.promises_hold()


async def test_delayed_job_joins_at_the_end_when_it_is_due_and_holds_nobody_up_until_then(pair: Peers) -> None:
    late = await pair.a.enqueue(delay_seconds=3600.0)
    first = await pair.a.enqueue(times=2) - 1
    assert await pair.status(late) == "scheduled"
    head = await pair.a.claim_one()
    assert head.id == first
    await pair.promote()
    assert await pair.line() == [(first, "processing"), (first + 1, "waiting"), (late, "waiting")]
    await pair.a.ack(head)
    assert await pair.drain() == [first + 1, late]


async def test_delayed_jobs_join_in_the_order_in_which_they_are_due(pair: Peers) -> None:
    delays = {5.0: 0, 3.0: 0, 4.0: 0}
    for delay in delays:
        delays[delay] = await pair.a.enqueue(delay_seconds=delay)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET run_at = run_at - interval '1 hour'")
    await pair.b.link.fetch("promote_keyed", ["k"], 100)
    assert await pair.drain() == [delays[delay] for delay in sorted(delays)]


async def test_delayed_job_of_an_idle_key_is_its_head_when_it_is_due(pair: Peers) -> None:
    late = await pair.a.enqueue(delay_seconds=3600.0)
    await pair.promote()
    assert await pair.line() == [(late, "pending")]


async def test_priority_orders_the_heads_of_keys_and_never_the_jobs_of_one(pair: Peers) -> None:
    first = await pair.a.enqueue("x", priority=200)
    urgent = await pair.a.enqueue("x", priority=1)
    other = await pair.a.enqueue("y", priority=50)
    assert await pair.drain(pair.a) == [other, first, urgent]


async def test_waiting_job_has_its_dedup_key_until_it_ended(pair: Peers) -> None:
    await pair.a.enqueue()
    waiting = await pair.a.enqueue(dedup_key="d")
    assert await pair.a.enqueue(dedup_key="d") == waiting
    assert await pair.a.enqueue("other", dedup_key="d") == waiting
    await serialized.cancel(pair.a.link, waiting, "no")
    assert await pair.a.enqueue(dedup_key="d") != waiting
    await pair.drain()
    await pair.promises_hold()


async def test_dedup_key_is_free_when_the_head_has_ended(pair: Peers) -> None:
    for _ in range(2):
        job_id = await pair.a.enqueue(dedup_key="d")
        assert await pair.drain() == [job_id]
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_key_that_ended_leaves_nothing_behind(pair: Peers) -> None:
    kinds: list[OutcomeKind] = ["completed", "dead", "cancel"]
    for kind in kinds:
        await pair.a.enqueue()
        await pair.a.ack(await pair.a.claim_one(), kind, message="no")
        for table in ("serialized_jobs", "dispatch_requests", "pauses"):
            assert await pair.admin.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0


async def test_blocked_keys_of_every_kind_delay_no_other_key(pair: Peers) -> None:
    """Not due, halted, paused, of a type without a handler, held by a dead runner."""
    await pair.a.enqueue("snoozed", times=2)
    await pair.a.ack(await pair.a.claim_one(), "snooze", delay_seconds=3600.0)
    await pair.a.enqueue("failed", times=2)
    await pair.a.ack(await pair.a.claim_one(), "retry", delay_seconds=3600.0)
    await pair.a.enqueue("halted", times=2, on_dead="halt")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    await pair.a.enqueue("orphan", times=2)
    await pair.a.claim_one()
    await pair.a.enqueue("paused", times=2)
    await pause_key(pair.a.link, "paused", None, None)
    await pair.a.enqueue("unknown", "nobody's", times=2)
    await pair.a.enqueue("delayed", delay_seconds=3600.0)
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    ids = [await pair.b.enqueue("free") for _ in range(3)]
    assert await pair.drain(pair.b) == ids


async def test_get_trace_and_stats_cover_jobs_that_wait(pair: Peers) -> None:
    waiting = await pair.a.enqueue(times=2, correlation_id="c", payload={"to": "a"}, dedup_key=None)
    job = await jobs.get(pair.a.link, waiting)
    assert job is not None
    assert (job.status, job.payload, job.serialization_key, job.correlation_id) == ("waiting", {"to": "a"}, "k", "c")
    assert [each.status for each in await overview.trace(pair.a.link, "c", 9)] == ["pending", "waiting"]
    counts = {(count.type, count.status): count.count for count in await overview.counts(pair.a.link)}
    assert counts == {("email", "pending"): 1, ("email", "waiting"): 1}


async def test_dispatch_keeps_everything_that_was_asked_for(pair: Peers) -> None:
    """A waiting job has its columns in another table; it is the same job afterwards."""
    asked: dict[str, Any] = {"lane": "fast", "version": 3, "priority": 7, "max_attempts": 9, "timeout_seconds": 12.5}
    asked |= {"correlation_id": "c", "parent_job_id": 5, "created_by": "me", "dedup_key": "d", "on_dead": "halt", "queue": "mail"}
    asked |= {"trace_context": "00-1", "payload": {"n": 1}}
    await pair.a.enqueue()
    waiting = await pair.a.enqueue(**asked)
    before = await jobs.get(pair.a.link, waiting)
    await pair.a.ack(await pair.a.claim_one())
    after = await jobs.get(pair.a.link, waiting)
    assert before is not None
    assert after is not None
    changed = {name for name in after.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    assert changed <= {"status", "run_at", "updated_at"}
    assert (after.lane, after.version, after.priority, after.max_attempts, after.created_by) == ("fast", 3, 7, 9, "me")
    row = await pair.admin.fetchrow("SELECT on_dead, enqueue_token FROM asyncjobs.jobs WHERE id = $1", waiting)
    assert row is not None
    assert row["on_dead"] == "halt"
    assert row["enqueue_token"] is not None


async def test_job_completed_in_its_handlers_transaction_lets_its_key_go_when_it_is_settled(pair: Peers) -> None:
    second = await pair.a.enqueue(times=2)
    head = await pair.a.claim_one()
    await pair.b.begin()
    assert await callers.complete(await pair.b.link.connection(), pair.database, callers.Completion(head.id, head.token, "1"))
    await pair.b.commit()
    await sweep(pair)  # its runner lives: the handler may still run
    assert await pair.line() == [(head.id, "completed"), (second, "waiting")]
    assert await jobs.verify_completed(pair.a.link, head.id, head.token) == ["default"]
    assert await pair.line() == [(second, "pending")]


async def test_job_completed_in_its_handlers_transaction_by_a_process_that_died_lets_its_key_go_with_the_sweep(
    pair: Peers,
) -> None:
    second = await pair.a.enqueue(times=2)
    head = await pair.a.claim_one()
    await callers.complete(await pair.b.link.connection(), pair.database, callers.Completion(head.id, head.token, "1"))
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await sweep(pair)
    assert await pair.line() == [(second, "pending")]
    assert await pair.admin.fetchval("SELECT runner_id FROM asyncjobs.jobs WHERE id = $1", head.id) is None


async def test_sweep_leaves_halted_paused_and_running_keys_alone(pair: Peers) -> None:
    await pair.a.enqueue("halted", times=2, on_dead="halt")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    await pause_key(pair.a.link, "paused", None, None)
    await pair.a.enqueue("paused", times=2)
    await pair.a.enqueue("running", times=2)
    await pair.a.claim_one()
    before = [await pair.line(key) for key in ("halted", "paused", "running")]
    found = await serialized.sweep(pair.a.link, "", 100)
    assert (found.stalled, found.ended, found.requests) == ([], [], {})
    await serialized.advance(pair.a.link, ["halted", "paused", "running"], [])
    assert [await pair.line(key) for key in ("halted", "paused", "running")] == before


async def test_sweep_goes_through_all_keys_page_by_page(pair: Peers) -> None:
    for number in range(7):
        await pair.a.enqueue(f"key {number}")
    await pair.admin.execute("DELETE FROM asyncjobs.jobs")
    after, ended, pages = "", 0, 0
    while True:
        found = await serialized.sweep(pair.a.link, after, 3)
        ended, pages = ended + len(found.ended), pages + 1
        for job_id in found.ended:
            await serialized.release_ended(pair.a.link, job_id)
        if found.last is None:
            break
        after = found.last
    assert (ended, pages) == (7, 3)


async def test_sweep_goes_through_all_waiting_jobs_page_by_page(pair: Peers) -> None:
    await pair.a.enqueue()
    delayed = [await pair.a.enqueue(delay_seconds=3600.0) for _ in range(7)]
    await pair.promote()
    await pair.admin.execute("DELETE FROM asyncjobs.serialized_jobs WHERE id = ANY ($1)", delayed[::2])
    lost: list[int] = []
    after, pages = None, 0
    while pages == 0 or after:
        found = await serialized.sweep(pair.a.link, "", 3, after_waiting=after)
        lost, after, pages = lost + found.lost, found.last_waiting, pages + 1
    assert (lost, pages) == (delayed[::2], 3)
    assert await serialized.rejoin(pair.a.link, [*delayed]) == 4
    await pair.promote()
    assert [job_id for job_id, _ in await pair.line()] == [delayed[0] - 1, *delayed[1::2], *delayed[::2]]


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.proof)])
async def test_one_call_takes_any_number_of_keys_and_at_most_4096_locks(pair: Peers, count: int) -> None:
    link = pair.database.link("bulk", command_timeout=120)
    try:
        ids = await jobs.reserve_ids(link, count)
        connection = await link.connection()
        transaction = connection.transaction()
        await transaction.start()
        rows = [a_row(serialization_key=f"key {number}") for number in range(count)]
        await jobs.enqueue(link, rows, ids, ids, timeout=120)
        locks = await pair.admin.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        assert 4000 < locks <= 4096
        await transaction.commit()
    finally:
        await link.close()
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending'") == count


async def test_claim_reads_no_more_when_keys_have_a_backlog(pair: Peers) -> None:
    """Only heads are in the index that a claim reads: the cost is the same with 4,000 jobs waiting behind them."""
    for key in range(20):
        await pair.a.enqueue(f"key {key}")
    alone = await _claims_buffers(pair)
    for key in range(20):
        await pair.a.enqueue(f"key {key}", times=200)
    await pair.admin.execute("VACUUM ANALYZE asyncjobs.jobs")
    assert await _claims_buffers(pair) <= alone + 5


@pytest.mark.parametrize(
    "call",
    [
        "asyncjobs.dispatch_keys(ARRAY['k'])",
        "asyncjobs.look_at_keys('', NULL, 5)",
        "asyncjobs.purge_key('k', 'no', 1)",
    ],
)
async def test_reads_no_more_when_a_key_has_a_backlog(pair: Peers, call: str) -> None:
    """Also with a plan that was made before anybody analyzed: that once collected and sorted the whole line for its first job."""
    await pair.a.enqueue(times=1_500)
    few = min([await _buffers(pair, call) for _ in range(2)])
    await pair.a.enqueue(times=4_000)
    assert await _buffers(pair, call) <= few + 20


async def _buffers(pair: Peers, call: str) -> int:
    """What the call reads on a key whose head has just gone, in pages. It is rolled back."""
    transaction = pair.admin.transaction()
    await transaction.start()
    await pair.admin.execute("DELETE FROM asyncjobs.serialized_jobs WHERE dispatched_at IS NOT NULL")
    [root] = json.loads(await pair.admin.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM {call}"))
    await transaction.rollback()
    return int(root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"])


async def _claims_buffers(pair: Peers) -> int:
    """What a claim of ten jobs reads, in pages. It is rolled back."""
    call = "SELECT count(*) FROM asyncjobs.claim(1, 'default', NULL, 10, -1, -1, ARRAY['email'], false, 1, 1)"
    pages: list[int] = []
    for _ in range(2):  # the first fills the caches of the catalog
        transaction = pair.admin.transaction()
        await transaction.start()
        [root] = json.loads(await pair.admin.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}"))
        await transaction.rollback()
        pages.append(root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"])
        await pair.admin.execute("VACUUM asyncjobs.jobs")
    return pages[-1]
