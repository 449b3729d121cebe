"""Each check of the auditor, seen to find what is wrong in made-up data and to be silent about what is right."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncjobs.store import serialized
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, JobsRescued
from asyncjobs.testing import Auditor, PromiseBroken, Recorder
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting
from tests.support.peers import peers

pytestmark = pytest.mark.unaudited("the data are wrong on purpose")

Arrange = Callable[[Connection], Awaitable[object]]


@pytest.fixture
async def auditor(database: Database) -> Auditor:
    return Auditor(database, Recorder())


async def dead_without_dead_letter(c: Connection) -> None:
    await insert_job(c, status="dead")


async def due_never(c: Connection) -> None:
    await insert_job(c, status="scheduled", run_at=datetime.max.replace(tzinfo=UTC))
    await c.execute("UPDATE asyncjobs.jobs SET run_at = 'infinity'")


async def pending_but_owned(c: Connection) -> None:
    await insert_job(c, runner_id=7)


async def token_twice(c: Connection) -> None:
    for _ in range(2):
        await insert_job(c, status="processing", claim_token=5)


async def too_many_attempts(c: Connection) -> None:
    await insert_job(c, status="completed", attempts=4)


async def no_attempt_left(c: Connection) -> None:
    await insert_job(c, status="failed", attempts=3)


async def uncounted_claim(c: Connection) -> None:
    await insert_job(c, status="processing", attempts=0)


async def no_place(c: Connection) -> None:
    await c.execute("SET session_replication_role = replica")  # past the trigger that draws it
    await insert_waiting(c, "k", place=None)


async def no_head(c: Connection) -> None:
    await insert_waiting(c, "k")


async def head_is_gone(c: Connection) -> None:
    await insert_place(c, "k", 900, is_head=True)


async def head_has_ended(c: Connection) -> None:
    job = await insert_job(c, status="completed", serialization_key="k")
    await insert_place(c, "k", job, is_head=True)


async def waits_and_has_ended(c: Connection) -> None:
    head = await insert_job(c, serialization_key="k")
    await insert_place(c, "k", head, is_head=True)
    job = await insert_job(c, status="cancelled", serialization_key="k")
    await insert_place(c, "k", job)


async def waiting_in_no_line(c: Connection) -> None:
    await insert_job(c, status="waiting", serialization_key="k")


async def runs_outside_of_its_line(c: Connection) -> None:
    await insert_job(c, serialization_key="k")


async def dedup_key_of_a_job_that_ended(c: Connection) -> None:
    job = await insert_job(c, status="completed", dedup_key="d")
    await insert(c, "dedup_keys", type="email", dedup_key="d", job_id=job)


async def live_job_without_its_dedup_key(c: Connection) -> None:
    await insert_job(c, dedup_key="d")


async def limited(c: Connection, **values: int) -> None:
    await insert(c, "limits", kind="limit", name="api", declared=json.dumps(values))


async def one_more_than_a_key_allows(c: Connection) -> None:
    await limited(c, each=1)
    for _ in range(2):
        await insert_job(c, status="processing", runner_id=1, limit_key="api:a")


async def one_more_than_a_total_allows(c: Connection) -> None:
    await limited(c, total=1)
    for key in "ab":
        await insert_job(c, status="processing", runner_id=1, limit_key=f"api:{key}")


async def one_more_than_a_queue_allows(c: Connection) -> None:
    await insert(c, "limits", kind="queue", name="default", declared='{"total": 1}')
    for key in "ab":
        await insert_job(c, status="processing", runner_id=1, limit_key=f"api:{key}")


async def waits_for_a_key_that_is_full_and_is_not(c: Connection) -> None:
    await limited(c, each=1)
    await insert(c, "limit_turns", key="api:a", queue="default", name="api", state="full")
    await insert_job(c, limit_key="api:a")


async def waits_for_a_key_that_is_not_there(c: Connection) -> None:
    await insert_job(c, limit_key="api:a")


async def waits_for_a_total_that_is_full_and_is_not(c: Connection) -> None:
    await limited(c, total=1)
    await c.execute("UPDATE asyncjobs.limits SET is_full = true")
    await insert(c, "limit_turns", key="api:a", queue="default", name="api")
    await insert_job(c, limit_key="api:a")


@pytest.mark.parametrize(
    ("arrange", "promise", "words"),
    [
        (one_more_than_a_key_allows, "P15", "2 ran with api:a, at most 1"),
        (one_more_than_a_total_allows, "P15", "2 ran with api, at most 1"),
        (one_more_than_a_queue_allows, "P15", "2 ran with queue default, at most 1"),
        (waits_for_a_key_that_is_full_and_is_not, "P15", "its limit key api:a is full"),
        (waits_for_a_key_that_is_not_there, "P15", "its limit key api:a is nowhere"),
        (waits_for_a_total_that_is_full_and_is_not, "P15", "its limit api is full"),
        (dead_without_dead_letter, "P1", "no dead letter"),
        (due_never, "P1", "due never"),
        (pending_but_owned, "P1", "owned by runner 7"),
        (token_twice, "P2", "token 5"),
        (too_many_attempts, "P7", "4 attempts of 3"),
        (no_attempt_left, "P7", "no attempt left"),
        (uncounted_claim, "P7", "no attempt was counted"),
        (no_place, "P1", "without a place"),
        (no_head, "P1", "no head"),
        (head_is_gone, "P1", "is gone"),
        (head_has_ended, "P1", "is completed"),
        (waits_and_has_ended, "P1", "is cancelled"),
        (waiting_in_no_line, "P1", "in no line"),
        (runs_outside_of_its_line, "P3", "not its head"),
        (dedup_key_of_a_job_that_ended, "P1", "still holds dedup key d"),
        (live_job_without_its_dedup_key, "P1", "does not hold its dedup key d"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_finds_in_the_tables(auditor: Auditor, connection: Connection, arrange: Arrange, promise: str, words: str) -> None:
    await arrange(connection)
    with pytest.raises(PromiseBroken) as caught:
        await auditor.check()
    assert [(found.promise, words in found.problem) for found in caught.value.violations if words in found.problem]
    assert {found.promise for found in caught.value.violations if words in found.problem} == {promise}


async def test_is_silent_about_jobs_in_every_legal_state(auditor: Auditor, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    for status in ("pending", "scheduled", "failed", "processing", "completed", "cancelled", "paused"):
        await insert_job(connection, status=status)
    dead = await insert_job(connection, status="dead", attempts=3)
    await insert(connection, "dead_letter_jobs", job_id=dead, original_job="{}")
    head = await insert_job(connection, serialization_key="k", dedup_key="d")
    await insert(connection, "dedup_keys", type="email", dedup_key="d", job_id=head)
    await insert_place(connection, "k", head, is_head=True)
    await insert_waiting(connection, "k")
    delayed = await insert_job(connection, status="waiting", serialization_key="k")
    await insert_place(connection, "k", delayed)
    await insert_waiting(connection, "paused key")
    await insert(connection, "pauses", kind="key", name="paused key")
    halted = await insert_job(connection, status="dead", attempts=3, serialization_key="halted")
    await insert(connection, "dead_letter_jobs", job_id=halted, original_job="{}")
    await insert_place(connection, "halted", halted, is_head=True, halted_at=datetime.now(UTC))
    await insert_waiting(connection, "halted")
    assert await auditor.violations() == []


async def test_finds_a_start_out_of_the_lines_order(auditor: Auditor, connection: Connection) -> None:
    first = await insert_waiting(connection, "k")
    second = await insert_waiting(connection, "k")
    await connection.execute("TRUNCATE asyncjobs.serialized_jobs, asyncjobs.jobs")
    for token, job in enumerate([second, first]):
        await insert_job(connection, id=job, status="completed", serialization_key="k", attempts=1)
        about: dict[str, Any] = {"job_id": job, "type": "email", "queue": "default", "attempt": 1, "token": token, "runner_id": 1}
        auditor.recorder.record(AttemptStarted(**about, serialization_key="k"))
        auditor.recorder.record(AttemptEnded(**about, outcome="completed", serialization_key="k"))
    assert [(found.promise, found.job_id) for found in await auditor.violations()] == [("P3", second)]


@pytest.mark.parametrize("is_by_hand", [True, False])
async def test_count_from_nothing_is_found_unless_an_operator_started_the_job_over(
    auditor: Auditor, connection: Connection, *, is_by_hand: bool
) -> None:
    """A death by its runner's is told by the rescue's process: of the attempt nothing is seen but that it was lost."""
    job = await insert_job(connection, status="dead", attempts=2)
    if is_by_hand:
        link = auditor.database.link("operator")
        await insert(connection, "dead_letter_jobs", job_id=job, original_job="{}")
        assert (await serialized.retry(link, job, "me")).outcome == "retried"
        await link.close()
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), attempts = 1")
    about: dict[str, Any] = {"job_id": job, "type": "email", "queue": "default", "runner_id": 1}
    auditor.recorder.record(AttemptStarted(**about, attempt=2, token=1))
    auditor.recorder.record(JobsRescued(job_ids=[job], reason="its runner was lost"))
    auditor.recorder.record(AttemptStarted(**about, attempt=1, token=2))
    auditor.recorder.record(AttemptEnded(**about, attempt=1, token=2, outcome="completed"))
    found = [one.job_id for one in await auditor.violations() if one.promise == "P7"]
    assert found == ([] if is_by_hand else [job])


async def test_finds_a_count_that_the_table_lost(auditor: Auditor, connection: Connection) -> None:
    job = await insert_job(connection, status="completed", attempts=1)
    about: dict[str, Any] = {"job_id": job, "type": "email", "queue": "default", "attempt": 2, "token": 1, "runner_id": 1}
    auditor.recorder.record(AttemptStarted(**about))
    auditor.recorder.record(AttemptEnded(**about, outcome="completed"))
    assert [(found.promise, found.job_id) for found in await auditor.violations()] == [("P7", job)]


async def test_finds_a_task_that_was_left_behind(auditor: Auditor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncjobs.testing.auditor._PATIENCE_SECONDS", 0.05)
    task = asyncio.create_task(asyncio.Event().wait(), name="forgotten")
    assert ["forgotten" in found.problem for found in await auditor.violations()] == [True]
    task.cancel()
    assert await auditor.violations() == []


async def test_finds_a_thread_that_was_left_behind(auditor: Auditor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncjobs.testing.auditor._PATIENCE_SECONDS", 0.05)
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait, name="asyncjobs heartbeat")
    thread.start()
    assert [found.promise for found in await auditor.violations()] == ["P13"]
    ends.set()
    thread.join()


@pytest.mark.direct("looks for the connections that asyncjobs itself has open")
async def test_finds_a_connection_and_an_open_transaction(
    auditor: Auditor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncjobs.testing.auditor._PATIENCE_SECONDS", 0.05)
    forgotten = await database.connect("finish")
    await forgotten.execute("BEGIN")
    (found,) = await auditor.violations()
    assert (found.promise, found.problem) == ("P13", "connection left behind: asyncjobs finish, idle in transaction")
    await forgotten.close()
    assert await auditor.violations() == []


async def test_finds_a_deadlock_once(auditor: Auditor, dsn: str) -> None:
    one, other = [await asyncpg.connect(dsn) for _ in range(2)]
    for number, session in enumerate((one, other)):
        await session.execute(f"SET deadlock_timeout = '10ms'; BEGIN; SELECT pg_advisory_xact_lock({number})")
    waits = [session.execute(f"SELECT pg_advisory_xact_lock({number})") for session, number in ((one, 1), (other, 0))]
    answers = await asyncio.gather(*waits, return_exceptions=True)
    assert asyncpg.DeadlockDetectedError in {type(answer) for answer in answers}
    for session in (one, other):
        await session.close()
    assert [(found.promise, found.problem) for found in await auditor.violations()] == [
        ("locks", "1 deadlocks were found by the server")
    ]
    auditor.deadlocks = 1
    assert await auditor.violations() == []


@pytest.mark.direct("looks for the connections that asyncjobs itself has open")
async def test_waits_for_what_is_just_ending(auditor: Auditor) -> None:
    task = asyncio.create_task(asyncio.sleep(0.1))
    assert await auditor.violations() == []
    assert task.done()


async def test_leaves_out_what_it_was_told_to(auditor: Auditor, connection: Connection) -> None:
    await dead_without_dead_letter(connection)
    await auditor.check(except_for={"P1"})


async def test_finds_two_jobs_of_one_dedup_key_that_lived_at_the_same_time(
    auditor: Auditor, database: Database, connection: Connection
) -> None:
    """Of which nothing is left to be seen: a retry that does not take its key again while the time of that lasts."""
    definition = await connection.fetchval("SELECT pg_get_functiondef('asyncjobs.take_dedup_key'::regproc)")
    assert "ELSE _by_hand OR d.expires_at" in definition
    async with peers(database) as pair:
        for is_broken in (False, True):
            if is_broken:
                await connection.execute(definition.replace("ELSE _by_hand OR d.expires_at", "ELSE d.expires_at"))
            first = await pair.a.enqueue(None, dedup_key="d", dedup_for_seconds=3600.0)
            await serialized.cancel(pair.a.link, first, "no")
            await serialized.retry(pair.a.link, first, "me")
            await connection.execute("UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s'")
            second = await pair.a.enqueue(None, dedup_key="d")
            await pair.drain()
            await connection.execute("UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s'")
            found = [violation for violation in await auditor.violations() if violation.promise == "dedup"]
            told = f"dedup: job {second} came to life beside job {first} of dedup key d of email"
            assert [str(violation) for violation in found] == ([told] if is_broken else [])
