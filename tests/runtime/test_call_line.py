"""The conversation of a runner with the database about its jobs, when nothing goes wrong and when claims are lost."""

import asyncio
from typing import Any

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime import points
from asyncjobs.settings import Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AcksWritten, ClaimWasLost, JobsClaimed, JobsGivenBack, OutcomeWritten
from tests.support.at_work import at_work
from tests.support.eventually import eventually
from tests.support.factories import insert_job, insert_place, insert_runner, insert_waiting


async def test_claims_what_is_pending_into_the_free_slots_best_first(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        await rig.enqueue(2)
        [urgent] = await rig.enqueue(priority=1)
        rig.wake()
        running = await rig.wait_running(2)
        assert running[0] == urgent
        assert [event.wanted for event in rig.of(JobsClaimed)][-1] == 2


async def test_slot_that_is_freed_takes_the_next_job_in_the_call_that_writes_the_outcome(
    database: Database, connection: Connection
) -> None:
    calls: list[str] = []

    async def note(point: str) -> None:
        calls.append(point)

    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        first, second = await rig.enqueue(2)
        rig.wake()
        await rig.wait_running(1)
        with points.installed(note):
            rig.put(first)
            await eventually(lambda: list(rig.host.running) == [second], description="the second runs")
        assert calls == ["finish.send", "finish.sent"]
        assert (await rig.row(first))["status"] == "completed"


async def test_outcomes_that_come_while_a_call_is_under_way_share_the_next(database: Database, connection: Connection) -> None:
    calls: list[str] = []
    go = asyncio.Event()

    async def hold(point: str) -> None:
        calls.append(point)
        await go.wait()

    async with at_work(database, connection, Queue(concurrency=5)) as rig:
        await rig.enqueue(5)
        rig.wake()
        running = await rig.wait_running(5)
        with points.installed(hold):
            rig.put(running[0])
            await eventually(lambda: calls, description="the call is under way")
            for job_id in running[1:]:
                rig.put(job_id)
            go.set()
            await rig.wait_idle()
        assert calls.count("finish.send") == 2
        assert len(rig.of(OutcomeWritten)) == 5


async def test_every_claim_has_a_token_of_its_own(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=3)) as rig:
        await rig.enqueue(9)
        rig.wake()
        for _ in range(3):
            for job_id in await rig.wait_running(3):
                rig.put(job_id)
            await rig.wait_idle()
        tokens = [job.token for job in rig.host.started]
        assert len(set(tokens)) == 9
        assert {token >> 32 for token in tokens} == {5}


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL, runner_id = NULL",
        "UPDATE asyncjobs.jobs SET claim_token = 1, runner_id = 2",
        "UPDATE asyncjobs.jobs SET status = 'cancelled', completed_at = now(), runner_id = NULL",
        "DELETE FROM asyncjobs.jobs",
    ],
)
async def test_outcome_of_a_lost_claim_is_told_as_lost_once_and_never_sent_again(
    database: Database, connection: Connection, sql: str
) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        await connection.execute(sql)
        before = await rig.row(job_id)
        ack = rig.put(job_id)
        await rig.wait_idle()
        assert [(event.job_id, event.token, event.during) for event in rig.of(ClaimWasLost)] == [(job_id, ack.token, "ack")]
        assert rig.of(OutcomeWritten) == []
        if before is None or before["status"] != "pending":  # a pending one is claimed again
            assert await rig.row(job_id) == before
        await connection.execute("UPDATE asyncjobs.jobs SET runner_id = 1 WHERE runner_id = 2")


async def test_job_that_was_taken_away_and_comes_back_is_not_started_a_second_time(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL")
        rig.wake()
        await eventually(lambda: rig.of(OutcomeWritten), description="the second claim is given back")
        row = await rig.row(job_id)
        due = await connection.fetchval("SELECT run_at - now() > interval '4 seconds' FROM asyncjobs.jobs")
        assert (row["status"], row["attempts"], due, len(rig.host.started)) == ("scheduled", 1, True, 1)
        rig.put(job_id)
        await rig.wait_idle()
        assert len(rig.of(ClaimWasLost)) == 1
        assert rig.woken.due[0] == 5.0


async def test_job_that_its_settler_still_looks_after_is_not_started_again(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        rig.complete_in_transaction(job_id)
        assert ([ack.id for ack in rig.verified], [*rig.line.claims]) == ([job_id], [job_id])
        await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL")
        rig.wake()
        await eventually(lambda: rig.of(OutcomeWritten), description="the second claim is given back")
        assert [job.id for job in rig.host.started] == [job_id]
        rig.line.lost(rig.verified.pop())
        assert [*rig.line.claims] == []


async def test_retry_tells_the_promoter_and_an_end_tells_the_waiters(database: Database, connection: Connection) -> None:
    ended: list[str] = []
    async with at_work(database, connection) as rig:
        first, second, third = await rig.enqueue(3)
        rig.wakes.wait_for([first], lambda _: ended.append("first"))
        rig.wakes.wait_for([second], lambda _: ended.append("second"))
        rig.wake()
        await rig.wait_running(3)
        rig.put(first)
        rig.put(second, "retry", delay_seconds=3.5)
        rig.put(third, "snooze", delay_seconds=60)
        await rig.wait_idle()
        assert (ended, sorted(rig.woken.due), rig.notified) == (["first"], [3.5, 60], ["d"])


async def test_next_of_a_key_that_is_not_claimed_here_is_told_to_the_others(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue(serialization_key="k")
        await insert_place(connection, "k", job_id, is_head=True)
        await insert_waiting(connection, "k", queue="elsewhere")
        rig.wake()
        await rig.wait_running(1)
        rig.put(job_id)
        await rig.wait_idle()
        assert (rig.notified, rig.woken.queues) == (["q1:elsewhere"], [("elsewhere", False)])


async def test_runner_whose_row_is_gone_is_told_and_claims_nothing_until_it_resumes(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection) as rig:
        await rig.wait_idle()
        [job_id] = await rig.enqueue()
        await connection.execute("DELETE FROM asyncjobs.runners")
        rig.wake()
        await eventually(lambda: rig.host.deaths, description="the runner is told")
        await insert_runner(connection, id=2)
        rig.wake()
        await asyncio.sleep(0.05)
        assert (rig.host.deaths, rig.host.started) == (1, [])
        rig.host.runner_id = 2
        rig.line.resume()
        await rig.wait_running(1)
        assert (await rig.row(job_id))["runner_id"] == 2


async def test_call_of_a_former_id_says_nothing_of_the_present_one(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        await rig.wait_idle()

        async def die(point: str) -> None:
            if point == "finish.send" and rig.host.runner_id == 1:
                await connection.execute("DELETE FROM asyncjobs.runners")
            elif point == "finish.sent" and rig.host.runner_id == 1:  # the heartbeat finds it, and the runner registers anew
                await insert_runner(connection, id=2)
                rig.host.runner_id = 2
                rig.line.resume()

        with points.installed(die):
            rig.wake()
            await eventually(lambda: rig.is_satisfied, description="it has looked under its new id")
        [job_id] = await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        assert (rig.host.deaths, (await rig.row(job_id))["runner_id"]) == (0, 2)


async def test_claim_that_answers_under_a_former_id_is_given_back(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        await insert_runner(connection, id=2)
        [job_id] = await rig.enqueue()

        async def register_anew(point: str) -> None:
            if point == "finish.sent" and rig.host.runner_id == 1:
                rig.host.runner_id = 2

        with points.installed(register_anew):
            rig.wake()
            await rig.wait_running(1)
        row = await rig.row(job_id)
        assert (row["runner_id"], row["attempts"], len(rig.host.started)) == (2, 1, 1)
        assert rig.host.deaths == 0


async def test_runner_that_may_be_declared_dead_claims_nothing_and_still_writes(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        rig.host.is_confirmed = False
        await rig.enqueue()
        rig.wake()
        rig.put(job_id)
        await rig.wait_idle()
        await asyncio.sleep(0.05)
        assert ((await rig.row(job_id))["status"], rig.host.running) == ("completed", {})
        rig.host.is_confirmed = True  # nobody tells
        await rig.wait_running(1)


async def test_claim_that_answers_after_the_stop_is_given_back_with_its_attempt(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue()

        async def stop(point: str) -> None:
            if point == "finish.sent":
                rig.coordinators[0].stop()

        with points.installed(stop):
            rig.wake()
            await eventually(lambda: rig.of(OutcomeWritten), description="the claim is given back")
        await rig.wait_idle()
        row = await rig.row(job_id)
        assert (row["status"], row["attempts"], row["runner_id"], rig.host.started) == ("pending", 0, None, [])
        assert rig.notified == ["q1:default"]


async def test_claiming_stops_before_more_outcomes_wait_than_four_times_the_concurrency(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        looks = len(rig.of(JobsClaimed))
        go, claims = asyncio.Event(), list[int]()

        async def hold(point: str) -> None:
            if point == "finish.send":
                claims.append(len(rig.of(JobsClaimed)) - looks)
                await go.wait()

        with points.installed(hold):
            rig.line.put(Ack(1, 1, Outcome(kind="completed")))
            await eventually(lambda: claims, description="a call is under way")
            for number in range(6):
                rig.line.put(Ack(1000 + number, 1000 + number, Outcome(kind="completed")))
            rig.wake()
            await asyncio.sleep(0.01)
            assert rig.line._may_claim() is False  # seven, of which one is written now
            go.set()
            await rig.wait_idle()
        await eventually(lambda: len(rig.of(JobsClaimed)) > looks, description="claiming goes on")


async def test_row_that_runs_nowhere_is_given_back_with_each_reconciliation(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=5), reconcile_seconds=0.1) as rig:
        [job_id, verifying] = await rig.enqueue(2)
        rig.wake()
        await rig.wait_running(2)
        rig.complete_in_transaction(verifying)
        stray = await insert_job(connection, status="processing", runner_id=1, claim_token=5 << 32, attempts=2, type="unknown")
        event: Any = await eventually(lambda: rig.of(JobsGivenBack), description="the stray is given back")
        assert event[0].job_ids == [stray]
        row = await rig.row(stray)
        assert (row["status"], row["attempts"], row["claim_token"]) == ("pending", 1, None)
        assert [(await rig.row(one))["status"] for one in (job_id, verifying)] == ["processing"] * 2
        assert ("default", True) in rig.woken.queues


async def test_poll_looks_from_the_front_without_a_reason(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, poll_seconds=0.05) as rig:
        await rig.wait_idle()
        await rig.enqueue()
        await rig.wait_running(1)


async def test_job_rows_of_strangers_are_not_touched(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        rig.line.put(Ack(1, 12345, Outcome(kind="completed")))
        await rig.wait_idle()
        assert len(rig.of(ClaimWasLost)) == 1


async def test_slots_that_were_freed_during_a_call_are_asked_for_in_the_next_one(
    database: Database, connection: Connection
) -> None:
    go = asyncio.Event()
    sent: list[str] = []

    async def hold(point: str) -> None:
        sent.append(point)
        await go.wait()

    async with at_work(database, connection, Queue(concurrency=3)) as rig:
        first, second, third, fourth, fifth, _ = await rig.enqueue(6)
        rig.wake()
        await rig.wait_running(3)
        with points.installed(hold):
            rig.put(first)
            await eventually(lambda: sent, description="the call is under way")
            rig.put(second)
            go.set()
            await eventually(lambda: fifth in rig.host.running, description="the slot of the second is filled")
        assert [(len(one.tokens), one.claimed) for one in rig.of(AcksWritten)] == [(1, 1), (1, 1)]
        assert {*rig.host.running} == {third, fourth, fifth}
