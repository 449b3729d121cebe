"""Why a job does not run: each state it can be in, by real rows, and the sentence an operator reads."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobNotFound, Queue, chain
from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database
from tests.support.claims import SUSPECT
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting
from tests.support.limiting import declare


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with AsyncJobs(dsn) as made:
        yield made


@pytest.fixture(autouse=True)
async def served(connection: Connection) -> None:
    await insert_runner(connection, id=1, queues=["default"], types=["email"])


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "completed": ({"status": "completed"}, "ended", "it is completed."),
    "cancelled": ({"status": "cancelled", "error_message": "no"}, "ended", "it is cancelled: no."),
    "running": ({"status": "processing", "runner_id": 1, "claim_token": 1, "attempts": 1}, "running", "it runs, on runner 1."),
    "lost": (
        {"status": "processing", "runner_id": 9, "claim_token": 1, "attempts": 1},
        "runner lost",
        "its runner 9 is gone: it is taken back by the next rescue, if another runner lives.",
    ),
    "another queue": ({"queue": "mail"}, "no runner for queue", 'no runner that lives serves the queue "mail".'),
    "another type": ({"type": "fax"}, "no handler", 'no runner that lives has a handler for "fax", none ever had.'),
    "held, unserved": (
        {"status": "paused", "type": "fax"},
        "no handler",
        'no runner that lives has a handler for "fax", none ever had.',
    ),
    "newer": (
        {"version": 2},
        "newer version",
        "no runner can run version 2 of this payload, those that live know 1 at most: it waits for one with the newer program.",
    ),
    "held, newer": (
        {"version": 3, "status": "paused"},
        "newer version",
        "no runner can run version 3 of this payload, those that live know 1 at most: it waits for one with the newer program.",
    ),
    "by hand": (
        {"status": "paused"},
        "paused",
        "it is paused by hand, until that or a resume of its type or key lets it go (or was, and is being made pending).",
    ),
    "in line": ({}, "waiting for a slot", 'it waits for a slot of the queue "default": 0 come first, 0 run.'),
}


@pytest.mark.parametrize("name", CASES)
async def test_each_state_has_its_reason(app: AsyncJobs, connection: Connection, name: str) -> None:
    columns, reason, sentence = CASES[name]
    job_id = await insert_job(connection, **columns)
    found = await app.admin.explain(job_id)
    assert (found.reason, found.status) == (reason, columns.get("status", "pending"))
    assert found.sentence == f"Job {job_id} ({columns.get('type', 'email')}): {sentence}"


async def test_job_of_a_runner_that_stops_is_said_to_be_given_back(
    app: AsyncJobs, connection: Connection, database: Database
) -> None:
    link = database.link("test")
    job_id = await insert_job(connection, status="processing", runner_id=2, claim_token=1, attempts=1)
    await insert_runner(connection, id=2, queues=["default"], types=["email"])
    at = await connection.fetchval("UPDATE asyncjobs.runners SET stopped_at = now() WHERE id = 2 RETURNING stopped_at")
    found = await app.admin.explain(job_id)
    assert (found.reason, found.since) == ("runner stopped", at)
    assert f": it runs, on runner 2, which stops since {at:%Y-%m-%d %H:%M:%S} UTC: if it does not end there," in found.sentence
    await runners.leave(link, 2)
    found = await app.admin.explain(job_id)
    assert (found.reason, found.since) == ("runner stopped", at)
    assert ": its runner 2 stopped, and its process is gone: it is given back with its attempt" in found.sentence
    await link.close()


async def test_runner_that_stops_serves_nothing(app: AsyncJobs, connection: Connection) -> None:
    job_id = await insert_job(connection)
    await connection.execute("UPDATE asyncjobs.runners SET stopped_at = now()")
    assert (await app.admin.explain(job_id)).reason == "no runner"


async def test_a_version_that_the_newest_runner_knows_waits_for_a_slot(app: AsyncJobs, connection: Connection) -> None:
    await insert_runner(connection, id=2, queues=["mail"], types=["email"], versions='{"email": 9}')
    await insert_runner(connection, id=3, queues=["default"], types=["email"], versions='{"email": 2}')
    reasons = [(await app.admin.explain(await insert_job(connection, version=version))).reason for version in (2, 3)]
    assert reasons == ["waiting for a slot", "newer version"]


async def test_a_job_that_is_not_due_says_when_it_is(app: AsyncJobs, connection: Connection) -> None:
    run_at = await connection.fetchval("SELECT now() + interval '90 minutes'")
    for status, what in (("scheduled", "it"), ("failed", "its next attempt")):
        job_id = await insert_job(connection, status=status, run_at=run_at)
        found = await app.admin.explain(job_id)
        assert (found.reason, found.until) == ("not due", run_at)
        assert f": {what} is due at {run_at:%Y-%m-%d %H:%M:%S} UTC, in 1:" in found.sentence
    job_id = await insert_job(connection, status="scheduled", run_at=run_at - timedelta(hours=3))
    assert (await app.admin.explain(job_id)).reason == "due"


async def test_the_place_in_line_counts_what_comes_first(app: AsyncJobs, connection: Connection) -> None:
    for priority in (100, 100, 1, 200):
        await insert_job(connection, priority=priority)
    await insert_job(connection, status="processing", runner_id=1, claim_token=1, attempts=1)
    found = await app.admin.explain(await insert_job(connection))
    assert (found.reason, found.ahead) == ("waiting for a slot", 3)
    assert found.sentence.endswith(': it waits for a slot of the queue "default": 3 come first, 1 run.')


@pytest.mark.parametrize(
    ("running", "lane", "sentence"),
    [
        ((None, None), None, 'all general slots of the queue "mail" are taken (2), and the others are kept for lanes'),
        ((None, None), "fast", 'it waits for a slot of the queue "mail"'),
        ((None, "fast", "fast"), "fast", 'all slots of its lane "fast" are taken (1), and so are the general ones (2)'),
        ((None, "fast"), None, 'it waits for a slot of the queue "mail"'),
        (("fast", "fast", "fast"), None, 'all general slots of the queue "mail" are taken (2), and the others'),
        (("slow", "slow"), "slow", 'all general slots of the queue "mail" are taken (2), and the others'),
    ],
)
async def test_a_lane_that_is_full_is_told_from_slots_that_are_kept_for_others(
    app: AsyncJobs, connection: Connection, running: tuple[str | None, ...], lane: str | None, sentence: str
) -> None:
    await insert_runner(connection, id=2, queues=["mail"], types=["email"], slots='{"mail": {"": 2, "fast": 1}}')
    for number, one in enumerate(running):
        await insert_job(connection, queue="mail", lane=one, status="processing", runner_id=2, claim_token=number, attempts=1)
    await insert_job(connection, queue="mail", priority=1)
    found = await app.admin.explain(await insert_job(connection, queue="mail", lane=lane))
    assert (found.reason, found.ahead) == ("waiting for a slot" if "waits" in sentence else "lane full", 1)
    assert sentence in found.sentence


async def test_queue_that_keeps_all_its_slots_for_lanes_says_that_nothing_else_runs_there(
    app: AsyncJobs, connection: Connection
) -> None:
    await insert_runner(connection, id=2, queues=["mail"], types=["email"], slots='{"mail": {"": 0, "fast": 1}}')
    found = await app.admin.explain(await insert_job(connection, queue="mail"))
    assert found.reason == "lane full"
    assert ': the queue "mail" keeps all its slots for lanes, and it has none of these: ' in found.sentence


async def test_a_suspect_is_told_what_it_waits_for(app: AsyncJobs, connection: Connection) -> None:
    await insert_job(connection)
    job_id = [await insert_job(connection, **SUSPECT) for _ in range(3)][-1]
    found = await app.admin.explain(job_id)
    assert (found.reason, found.ahead) == ("suspect", 2)
    assert "its runner died while it ran, 2 times in a row, and it may be why" in found.sentence
    assert found.sentence.endswith("watched there for 3 s at most: 2 come first.")


@pytest.mark.parametrize("kind", ["queue", "type"])
async def test_a_pause_is_named_with_its_reason(app: AsyncJobs, connection: Connection, kind: str) -> None:
    name = "default" if kind == "queue" else "email"
    await insert(connection, "pauses", kind=kind, name=name, reason="too many", paused_by="ada")
    job_id = await insert_job(connection, status="pending" if kind == "queue" else "paused")
    found = await app.admin.explain(job_id)
    assert found.reason == "paused"
    assert found.sentence.endswith(f': its {kind} "{name}" is paused by ada: too many.')


async def test_a_job_behind_its_keys_head_explains_the_head(app: AsyncJobs, connection: Connection) -> None:
    head = await insert_job(connection, status="processing", runner_id=1, claim_token=1, attempts=1, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    waiting = await insert_waiting(connection, "k")
    found = await app.admin.explain(waiting)
    assert (found.reason, found.status) == ("behind", "waiting")
    assert found.head is not None
    assert (found.head.job_id, found.head.reason) == (head, "running")
    assert found.sentence.endswith(f': it waits behind job {head} of its key "k". That one: it runs, on runner 1.')


async def test_a_halted_key_says_what_to_do(app: AsyncJobs, connection: Connection) -> None:
    head = await insert_job(connection, status="dead", serialization_key="k", error_message="no money")
    await insert(connection, "dead_letter_jobs", job_id=head, original_job="{}")
    halted_at = await connection.fetchval("SELECT now()")
    await insert_place(connection, "k", head, is_head=True, halted_at=halted_at, halt_reason="no money")
    found = await app.admin.explain(await insert_waiting(connection, "k"))
    assert (found.reason, found.since) == ("key halted", halted_at)
    assert f'its key "k" is halted by job {head}, which is dead: no money. Retry that job, or release the key.' in found.sentence


@pytest.mark.unaudited("a head that was not dispatched")
async def test_a_key_that_is_paused_or_about_to_be_dispatched(app: AsyncJobs, connection: Connection) -> None:
    waiting = await insert_waiting(connection, "k")
    assert (await app.admin.explain(waiting)).reason == "moving"
    await insert(connection, "pauses", kind="key", name="k")
    found = await app.admin.explain(waiting)
    assert (found.reason, found.sentence.partition(": ")[2]) == ("paused", 'its key "k" is paused.')


async def test_no_runner_at_all(app: AsyncJobs, connection: Connection) -> None:
    await connection.execute("DELETE FROM asyncjobs.runners")
    assert (await app.admin.explain(await insert_job(connection))).reason == "no runner"
    late = await insert_job(
        connection, status="scheduled", run_at=await connection.fetchval("SELECT now() - interval '1 minute'")
    )
    assert (await app.admin.explain(late)).reason == "no runner"


async def test_queue_and_type_are_served_but_not_by_the_same_runner(app: AsyncJobs, connection: Connection) -> None:
    await insert_runner(connection, id=2, queues=["mail"], types=["sms"])
    assert (await app.admin.explain(await insert_job(connection, queue="mail"))).reason == "no runner for both"


async def test_a_type_behind_an_open_breaker_says_until_when(dsn: str, connection: Connection) -> None:
    app = AsyncJobs(dsn)
    app.circuit_breaker("smtp")

    @app.job("email", breaker="smtp")
    async def email() -> None: ...

    async with app.runner(queues=[Queue("elsewhere")]):
        pass  # it has said what is behind which
    async with app:
        handle = await email.enqueue()
        assert (await app.admin.explain(handle.id)).reason == "waiting for a slot"
        await app.admin.open_breaker("smtp")
        found = await app.admin.explain(handle.id)
        assert (found.reason, found.until) == ("breaker open", None)
        assert found.sentence.endswith(': the circuit breaker of "smtp" is open, until it is reset.')
        await app.admin.open_breaker("smtp", for_=600)
        found = await app.admin.explain(handle.id)
        assert found.until is not None
        assert f"a probe is let through at {found.until:%H:%M:%S} UTC" in found.sentence
    async with AsyncJobs(dsn) as stranger:  # as `asyncjobs jobs explain` without an app
        assert (await stranger.admin.explain(handle.id)).reason == "breaker open"
        [breaker] = await stranger.admin.breakers()
        assert (breaker.service, breaker.types, breaker.declared) == ("smtp", ["email"], True)


async def blocked(connection: Connection, *upstream: int) -> int:
    """A job that waits for these others of its workflow."""
    job_id = await insert_job(connection, status="blocked", workflow_id=90)
    await insert(connection, "gates", id=91, workflow_id=90, size=10_000, missing=len(upstream), name="group pages")
    await insert(connection, "dependents", gate_id=91, job_id=job_id, rule="completed")
    for number, member in enumerate(upstream):
        await insert(connection, "members", job_id=member, workflow_id=90, number=number, gates=[91])
    await insert(connection, "members", job_id=job_id, workflow_id=90, number=len(upstream), gates=[])
    return job_id


async def _paused_key(connection: Connection) -> int:
    await insert(connection, "pauses", kind="key", name="k")
    job_id = await insert_job(connection, status="paused", serialization_key="k")
    await insert_place(connection, "k", job_id, is_head=True)
    return job_id


async def _behind_head(connection: Connection) -> int:
    head = await insert_job(connection, status="processing", serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    return await insert_waiting(connection, "k")


async def _halted(connection: Connection) -> int:
    head = await insert_job(connection, status="dead", serialization_key="k")
    await insert(connection, "dead_letter_jobs", job_id=head, original_job="{}")
    halted_at = await connection.fetchval("SELECT now()")
    await insert_place(connection, "k", head, is_head=True, halted_at=halted_at, halt_reason="no money")
    return await insert_waiting(connection, "k")


async def _closed(connection: Connection) -> int:
    await declare(connection, "api", each=1)
    closed_until = await connection.fetchval("SELECT now() + interval '1 hour'")
    await insert(connection, "limit_keys", key="api:a", closed_until=closed_until, closed_seconds=3600.0, closed_by=1)
    return await insert_job(connection, limit_key="api:a")


async def _of(connection: Connection, **columns: Any) -> int:
    if "late" in columns:
        columns["run_at"] = await connection.fetchval("SELECT now() + interval '1 hour'")
        del columns["late"]
    return await insert_job(connection, **columns)


CAUSES: dict[str, tuple[Callable[[Connection], Awaitable[int]], str]] = {
    "a paused key": (_paused_key, 'its key "k" is paused.'),
    "a halted key": (_halted, 'its key "k" is halted by job '),
    "behind its head": (_behind_head, "it waits behind job "),
    "a closed limit": (_closed, 'its limit key "api:a" is closed until '),
    "scheduled": (lambda c: _of(c, status="scheduled", late=True), "it is due at "),
    "a retry that is due later": (lambda c: _of(c, status="failed", late=True), "its next attempt is due at "),
    "running": (lambda c: _of(c, status="processing"), "it runs, on runner 1."),
    "no runner": (lambda c: _of(c, type="fax"), 'no runner that lives has a handler for "fax", none ever had.'),
}


@pytest.mark.unaudited("rows of a workflow that nobody has written")
@pytest.mark.parametrize("cause", CAUSES)
async def test_a_blocked_job_says_why_the_oldest_that_it_waits_for_does_not_run(
    app: AsyncJobs, connection: Connection, cause: str
) -> None:
    make, sentence = CAUSES[cause]
    oldest = await make(connection)
    others = [await insert_job(connection, status="processing") for _ in range(2)]
    found = await app.admin.explain(await blocked(connection, oldest, *others))
    assert found.reason == "blocked"
    said = f"it waits for 3 of 10,000 jobs of group pages, the oldest is job {oldest}: {sentence}"
    assert found.sentence.partition(": ")[2].startswith(said)
    assert found.head is not None
    assert found.head.job_id == oldest


@pytest.mark.unaudited("rows of a workflow that nobody has written")
async def test_the_oldest_may_wait_behind_another_of_its_key(app: AsyncJobs, connection: Connection) -> None:
    found = await app.admin.explain(await blocked(connection, await _behind_head(connection)))
    assert found.sentence.endswith(" That one: it runs, on runner 1.")


async def test_the_way_up_is_explained_for_three_jobs(dsn: str) -> None:
    app = AsyncJobs(dsn)

    @app.job("email")
    async def email() -> None: ...

    async with app:
        async with app.workflow("chain") as flow:
            chain(flow, *(email.new() for _ in range(6)))
        found = await app.admin.explain(flow.ids[5])
        await app.workflow_of(flow.id).cancel()
    assert found.sentence == (
        f"Job {flow.ids[5]} (email): it waits for email (member 4), which is job {flow.ids[4]}: "
        f"it waits for email (member 3), which is job {flow.ids[3]}: it waits for email (member 2), which is job {flow.ids[2]}: "
        f"it waits for email (member 1), which is job {flow.ids[1]}."
    )


async def test_an_unknown_job(app: AsyncJobs) -> None:
    with pytest.raises(JobNotFound):
        await app.admin.explain(4711)
