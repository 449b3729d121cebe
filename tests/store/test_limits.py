"""Limits, as far as SQL goes: who gets a permit, whose turn it is, what frees one, and what a crash leaves."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from asyncjobs.model.claim import Scan
from asyncjobs.store import jobs, limits
from asyncjobs.store.database import Database
from tests.support.claims import SUSPECT, Claims, an_ack
from tests.support.factories import a_row, insert_job, insert_runner
from tests.support.limiting import NAME, declare, enqueue, keys, promote, state


async def test_a_key_has_no_more_permits_than_its_limit_says(claims: Claims) -> None:
    await declare(claims.connection, each=2)
    await enqueue(claims, *["api:a"] * 5, *["api:b"] * 5)
    assert sorted(map(str, keys(await claims.claim(10)))) == ["api:a"] * 2 + ["api:b"] * 2
    assert await claims.claim(10) == []
    assert await state(claims.connection, "api:a") == "full"


async def test_a_permit_that_is_freed_goes_to_the_next_in_the_same_call(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    first, second = await enqueue(claims, "api:a", "api:a")
    [job] = await claims.claim(10)
    finished = await claims.finish([an_ack(job)], [Scan("default", None, 10)])
    assert ([job.id], [one.id for one in finished.claimed]) == ([first], [second])
    assert finished.heads == [], "it was used up, so nobody has to be told"


@pytest.mark.parametrize("kind", ["completed", "retry", "snooze", "cancel", "dead", "interrupted"])
async def test_whatever_ends_an_attempt_frees_its_permit(claims: Claims, kind: str) -> None:
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a")
    [job] = await claims.claim(10)
    await claims.claim(10)
    delay = {"delay_seconds": 60.0} if kind in {"retry", "snooze"} else {}
    finished = await claims.ack(an_ack(job, kind, **delay))
    assert set(finished.heads) == {"default"}
    assert len(await claims.claim(10)) == 1


@pytest.mark.parametrize("call", ["finish", "finish_one", "finish_completed"])
async def test_each_statement_that_completes_a_job_frees_its_permit(claims: Claims, call: Any) -> None:
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a")
    [job] = await claims.claim(10)
    await claims.claim(10)
    assert await state(claims.connection, "api:a") == "full"
    finished = await claims.complete(call, an_ack(job))
    assert finished.heads == ["default"]
    assert await state(claims.connection, "api:a") == "open"


async def test_an_attempt_that_lost_its_claim_frees_nothing(claims: Claims) -> None:
    """The heartbeat was lost, the job was rescued and runs anew; the old attempt ends later (failure 33)."""
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a")
    [job] = await claims.claim(10)
    await claims.give_back([])
    await promote(claims)
    [again] = await claims.claim(10)
    finished = await claims.finish([an_ack(job)], [Scan("default", None, 10)])
    assert (finished.lost, finished.claimed) == ([job.token], [])
    assert again.token != job.token


async def test_a_killed_runner_keeps_its_permits_until_the_rescue_and_leaks_none(claims: Claims) -> None:
    """SIGKILL in a deployment: the limit holds from the first claim of the next runner on (failure 34)."""
    await declare(claims.connection, each=2)
    await enqueue(claims, *["api:a"] * 4)
    assert len(await claims.claim(10)) == 2
    other = await Claims(claims.link, claims.connection, runner_id=2, token_base=6).register()
    assert await other.claim(10) == []
    await claims.connection.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await claims.connection.fetch("SELECT rescued FROM asyncjobs.rescue(100, 10)")
    assert await other.claim(10) == [], "the promoters have not been there yet"
    assert list((await promote(claims)).opened) == ["default"]
    assert len(await other.claim(10)) == 2
    assert await other.claim(10) == []


async def test_what_is_throttled_is_in_the_way_of_nothing(claims: Claims) -> None:
    """12,000 jobs of a full tenant stand first (failure 37)."""
    await declare(claims.connection, each=1)
    await enqueue(claims, *["api:full"] * 12_000)
    assert keys(await claims.claim(10)) == ["api:full"]
    await enqueue(claims, "api:other", None)
    assert keys(await claims.claim(10)) == ["api:other", None]


async def test_a_total_holds_over_all_keys_and_its_release_is_told(claims: Claims) -> None:
    await declare(claims.connection, total=3, each=2)
    await enqueue(claims, *["api:a"] * 5, *["api:b"] * 5)
    claimed = await claims.claim(10)
    assert len(claimed) == 3
    assert await claims.claim(10) == []
    assert await claims.connection.fetchval("SELECT is_full FROM asyncjobs.limits")
    finished = await claims.ack(an_ack(claimed[0]), an_ack(claimed[1]))
    assert finished.heads == ["default"]
    assert len(await claims.claim(10)) == 2


async def test_a_limit_without_keys_is_one_key(claims: Claims) -> None:
    await declare(claims.connection, total=2)
    await enqueue(claims, *[NAME] * 5)
    assert keys(await claims.claim(10)) == [NAME] * 2
    assert await claims.claim(10) == []


async def test_a_total_of_a_queue_counts_every_job_of_it(claims: Claims) -> None:
    await declare(claims.connection, "default", kind="queue", total=3)
    await enqueue(claims, None, None, "api:a", "api:a", None)
    claimed = await claims.claim(10)
    assert len(claimed) == 3
    assert await claims.claim(10) == []
    finished = await claims.finish([an_ack(claimed[0])], [Scan("default", None, 10)])
    assert len(finished.claimed) == 1


async def test_nothing_with_a_limit_is_claimed_ahead_of_a_slot(claims: Claims) -> None:
    await declare(claims.connection, each=9)
    await enqueue(claims, *["api:a"] * 9, *[None] * 9)
    finished = await claims.finish(scans=[Scan("default", None, 12, slots=3)])
    assert keys(finished.claimed).count("api:a") == 3
    assert len(finished.claimed) == 12
    await declare(claims.connection, "other", kind="queue", total=9)
    await enqueue(claims, *[None] * 9, queue="other")
    assert len((await claims.finish(scans=[Scan("other", None, 12, slots=3)])).claimed) == 3


async def test_keys_are_served_in_turn(claims: Claims) -> None:
    await declare(claims.connection, each=100)
    await enqueue(claims, *["api:big"] * 50)
    await enqueue(claims, *["api:small"] * 5)
    served = [keys(await claims.claim(1))[0] for _ in range(10)]
    assert served.count("api:small") == 5


async def test_a_key_that_rested_has_no_claim_to_what_it_did_not_use(claims: Claims) -> None:
    await declare(claims.connection, each=100)
    await enqueue(claims, "api:late")
    assert keys(await claims.claim(1)) == ["api:late"]
    await enqueue(claims, *["api:busy"] * 60)
    for _ in range(30):
        await claims.claim(1)
    await enqueue(claims, *["api:late"] * 20)
    served = [keys(await claims.claim(1))[0] for _ in range(10)]
    assert 4 <= served.count("api:late") <= 6


async def test_a_limit_of_double_weight_is_served_twice_as_often(claims: Claims) -> None:
    await declare(claims.connection, "heavy", weight=2)
    await declare(claims.connection, "light", weight=1)
    await enqueue(claims, *["heavy"] * 40, *["light"] * 40)
    served = [keys(await claims.claim(1))[0] for _ in range(30)]
    assert 18 <= served.count("heavy") <= 22


async def test_priority_decides_within_a_key_and_between_those_with_and_without_a_limit(claims: Claims) -> None:
    await declare(claims.connection, each=9)
    usual, plain = (await enqueue(claims, "api:a", None))[:2]
    (urgent,) = await enqueue(claims, "api:a", priority=1)
    (first,) = await enqueue(claims, None, priority=0)
    order = [(await claims.claim(1))[0].id for _ in range(4)]
    assert order == [first, urgent, usual, plain]


async def test_lanes_have_turns_of_their_own(claims: Claims) -> None:
    await declare(claims.connection, each=9)
    await enqueue(claims, *["api:a"] * 3, lane="slow")
    await enqueue(claims, *["api:a"] * 3, lane="fast")
    assert {job.lane for job in await claims.claim(9, lane="fast")} == {"fast"}
    assert {job.lane for job in await claims.claim(9)} == {"slow"}


async def test_two_queues_share_the_permits_of_a_key(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    await claims.connection.execute("UPDATE asyncjobs.runners SET queues = '{default,other}'")
    await enqueue(claims, "api:a")
    await enqueue(claims, "api:a", queue="other")
    [job] = await claims.claim(9)
    assert await claims.claim(9, queue="other") == []
    finished = await claims.ack(an_ack(job))
    assert finished.heads == ["other"]
    assert len(await claims.claim(9, queue="other")) == 1


async def test_a_paused_queue_or_type_gives_no_permit(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a")
    for kind, name in (("queue", "default"), ("type", "email")):
        await claims.connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ($1, $2)", kind, name)
        assert await claims.claim(9) == []
        await claims.connection.execute("DELETE FROM asyncjobs.pauses")
    assert len(await claims.claim(9)) == 1


async def test_a_next_job_of_a_key_is_not_handed_over_past_its_limit(claims: Claims) -> None:
    """The permit of the one that ended is free, and it is a claim that gives it; the turn of another key may come first."""
    await declare(claims.connection, each=1)
    first, second = await enqueue(claims, None, "api:a", serialization_key="k")
    (other,) = await enqueue(claims, "api:a")
    jobs_of = {job.id: job for job in await claims.claim(9)}
    assert sorted(jobs_of) == [first, other]
    finished = await jobs.finish_one(claims.link, 1, an_ack(jobs_of[first]), "default", ["email"], next_token=77)
    assert (finished.claimed, finished.heads) == ([], ["default"])
    assert await claims.claim(9) == []
    await promote(claims)
    finished = await claims.finish([an_ack(jobs_of[other])], [Scan("default", None, 9)])
    assert [job.id for job in finished.claimed] == [second]
    await claims.ack(an_ack(finished.claimed[0]))


async def test_a_suspect_needs_a_permit_and_is_claimed_alone(claims: Claims) -> None:
    await declare(claims.connection, each=5)
    for _ in range(2):
        await insert_job(claims.connection, limit_key="api:a", **SUSPECT)
    await claims.connection.execute("SELECT asyncjobs.request_opening(ARRAY(SELECT id FROM asyncjobs.jobs), false)")
    await promote(claims)
    assert len((await claims.finish(scans=[Scan("default", None, 9)])).claimed) == 1


async def test_what_has_expired_takes_no_permit(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    late, good = await enqueue(claims, "api:a", "api:a")
    await claims.connection.execute("UPDATE asyncjobs.jobs SET start_before = now() - interval '1 s' WHERE id = $1", late)
    finished = await claims.finish(scans=[Scan("default", None, 9)])
    assert [job for job, _ in finished.expired] == [late]
    assert [job.id for job in (await claims.claim(9)) or finished.claimed] == [good]


async def test_a_rate_lets_a_burst_through_and_the_promoters_open_the_key_in_time(claims: Claims) -> None:
    await declare(claims.connection, every=0.2, burst=3)
    await enqueue(claims, *[NAME] * 9)
    assert len(await claims.claim(9)) == 3
    assert await state(claims.connection) == "closed"
    promoted = await promote(claims)
    assert promoted.next_due_seconds is not None
    assert 0.05 < promoted.next_due_seconds <= 0.2
    await claims.connection.execute("SELECT pg_sleep(0.25)")
    assert list((await promote(claims)).opened) == ["default"]
    assert len(await claims.claim(9)) == 1


async def test_a_clock_that_was_put_back_silences_no_key(claims: Claims) -> None:
    await declare(claims.connection, every=0.2, burst=3)
    await enqueue(claims, *[NAME] * 9)
    await claims.connection.execute("UPDATE asyncjobs.limit_keys SET tat = now() + interval '1 hour'")
    assert len(await claims.claim(9)) == 3


async def test_throttled_closes_the_key_for_so_long(claims: Claims) -> None:
    await declare(claims.connection, each=2)
    await enqueue(claims, *["api:a"] * 3, "api:b")
    job = next(one for one in await claims.claim(4) if one.limit_key == "api:a")
    throttle = "SELECT asyncjobs.throttle_key($1, $2, $3)"
    assert await claims.connection.fetchval(throttle, job.id, job.token, 0.3)
    assert not await claims.connection.fetchval(throttle, job.id, job.token + 1, 60.0), "the claim is another's"
    assert (await claims.finish([an_ack(job, "interrupted")], [Scan("default", None, 9)])).claimed == []
    assert await state(claims.connection, "api:a") == "closed"
    await claims.connection.execute("SELECT pg_sleep(0.35)")
    await promote(claims)
    assert len(await claims.claim(9)) == 1


async def test_a_job_of_a_callers_transaction_is_opened_after_its_commit(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    row = a_row(limit_key="api:a")
    text = msgspec.json.encode([{**msgspec.to_builtins(row), "enqueue_token": 1}]).decode()
    async with claims.connection.transaction():
        await claims.connection.execute("SELECT asyncjobs.enqueue_in_transaction($1, NULL)", text)
    await promote(claims)
    assert keys(await claims.claim(9)) == ["api:a"]


async def test_what_is_due_is_opened_by_the_promoters(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", delay_seconds=0.05)
    assert await claims.claim(9) == []
    await claims.connection.execute("SELECT pg_sleep(0.1)")
    assert list((await promote(claims)).opened) == ["default"]
    assert len(await claims.claim(9)) == 1


async def test_an_operators_value_beats_declarations_until_it_is_reset(claims: Claims) -> None:
    connection = claims.connection
    await declare(connection, each=1)
    await enqueue(claims, *["api:a"] * 6)
    assert len(await claims.claim(9)) == 1
    assert await connection.fetchval("SELECT asyncjobs.set_limit('limit', 'api', '{\"each\": 3}', 'ann')")
    assert await declare(connection, each=2) == [NAME]
    await promote(claims)
    assert len(await claims.claim(9)) == 2
    assert await connection.fetchval("SELECT asyncjobs.set_limit('limit', 'api', NULL, 'ann')")
    assert await connection.fetchval("SELECT each FROM asyncjobs.limits") == 2
    assert not await connection.fetchval("SELECT asyncjobs.set_limit('limit', 'nothing', NULL, 'ann')")


async def test_what_an_operators_hand_makes_pending_is_found_by_the_sweep(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    (job_id,) = await enqueue(claims, "api:a")
    await claims.connection.execute("UPDATE asyncjobs.jobs SET status = 'paused'")
    assert await claims.claim(9) == []
    assert await state(claims.connection, "api:a") == "idle"
    await claims.connection.execute("UPDATE asyncjobs.jobs SET status = 'pending'")
    assert await claims.claim(9) == []
    assert await limits.sweep(claims.link, None, 100) == (None, 1)
    await promote(claims)
    assert [job.id for job in await claims.claim(9)] == [job_id]
    assert await limits.sweep(claims.link, None, 100) == (None, 0)


async def test_a_claim_that_cannot_close_a_key_leaves_it_open(claims: Claims, database: Database) -> None:
    """What is being added is not committed: its lock says so (rule 4)."""
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a")
    async with claims.connection.transaction():
        await claims.connection.execute("SELECT asyncjobs.open_turns('{}', '{api:a}', '{default}', ARRAY[''], '{full}')")
        [job] = await claims.claim(9)
        assert await state(claims.connection, "api:a") == "open"
        await insert_job(claims.connection, limit_key="api:a")
    finished = await claims.finish([an_ack(job)], [Scan("default", None, 9)])
    assert len(finished.claimed) == 1, "what was added meanwhile is found"


async def test_two_claims_do_not_count_the_same_permits(claims: Claims, database: Database) -> None:
    """Two claims count zero and take different rows: the second one passes over the key (failure 36)."""
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a")
    await insert_runner(claims.connection, id=2)
    async with claims.connection.transaction():
        taken = await claims.connection.fetch(
            "SELECT id FROM asyncjobs.claim(1, 'default', NULL, 9, -1, -1, '{email}', false, 5, 0, '{}', 1, 9)"
        )
        assert len(taken) == 1
        (urgent,) = await enqueue(claims, "api:a", priority=0)
        assert (await claims.finish(scans=[Scan("default", None, 9)])).claimed == []
    assert await claims.claim(9) == []
    assert await claims.connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", urgent) == "pending"


async def test_delay_and_expires_count_from_the_time_it_is_due(claims: Claims) -> None:
    """`delay=2h, expires=1h` expires in 3 h, with a limit, too (failure 39)."""
    await declare(claims.connection, each=1)
    (job_id,) = await enqueue(claims, "api:a", delay_seconds=7200.0, expires_seconds=3600.0)
    row = await claims.row(job_id)
    assert row["start_before"] - row["created_at"] == timedelta(hours=3)


async def test_idle_keys_are_pruned_but_for_a_thousand_and_come_back(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    await claims.connection.execute(
        """INSERT INTO asyncjobs.limit_keys (key) SELECT 'api:' || n FROM generate_series(1, 1010) AS n;
        INSERT INTO asyncjobs.limit_turns (key, queue, name, state, served)
        SELECT 'api:' || n, 'default', 'api', 'idle', n FROM generate_series(1, 1010) AS n"""
    )
    (busy,) = await enqueue(claims, "api:1")
    assert await claims.connection.fetchval("SELECT asyncjobs.prune_limit_keys(100)") == 9
    assert await state(claims.connection, "api:2") is None
    assert await state(claims.connection, "api:1") == "open"
    (again,) = await enqueue(claims, "api:2")
    assert sorted(job.id for job in await claims.claim(9)) == [busy, again]


async def test_a_job_that_is_replaced_has_the_key_of_its_new_payload(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    given = {"dedup_key": "d", "on_duplicate": "replace"}
    first = await enqueue(claims, "api:a", **given)
    assert await enqueue(claims, "api:b", **given) == first
    await promote(claims)
    [job] = await claims.claim(9)
    assert job.limit_key == "api:b"
    await claims.ack(an_ack(job))
