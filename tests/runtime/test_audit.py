"""Who did what, to what, why and when: every verb of Python, the command line and SQL is in the trail."""

import inspect
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import click
import pytest

from asyncjobs import AsyncJobs, JobNotFound, Queue, UsageError
from asyncjobs.admin import Admin
from asyncjobs.admin.audit import MARK
from asyncjobs.cli.program import program
from asyncjobs.declare.new_job import named
from asyncjobs.model.audit import Entry
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import VerbUsed
from tests.support.cli import cli
from tests.support.factories import insert, insert_job

#: What changes nothing, or is not a verb.
LOOKS = {
    "longest_running", "stuck_keys", "dead_letter_errors", "worries",
    "acting", "audit", "breaker", "breakers", "children", "dead_letter", "dead_letters", "doctor", "explain", "find", "get",
    "glance", "history", "key", "keys", "largest", "leases", "line", "metrics", "noting", "pauses", "rows", "runners", "sample",
    "schedule", "schedules", "series", "stats", "trace", "trace_rows", "tree",
    "gates", "limit", "limit_keys", "limits", "member_counts", "members", "workflow", "workflow_graph", "workflows",
    "workflows_ended",
}  # fmt: skip
#: Of the command line: what looks, runs, or has a record of its own (`migrate`: the table of migrations).
CLI_LOOKS = {
    "jobs running", "dead errors",
    "run", "migrate", "dashboard", "demo", "stats", "top", "queues", "runners", "leases", "doctor", "audit", "pauses",
    "completion", "jobs list", "jobs show", "jobs explain", "jobs largest", "jobs trace", "dead list", "dead show", "keys list",
    "keys show", "schedules list", "schedules show", "breakers list", "breakers show", "limits list", "limits show",
    "workflows list", "workflows show",
}  # fmt: skip


@pytest.fixture
async def jobs(dsn: str) -> AsyncGenerator[AsyncJobs]:
    app = AsyncJobs(dsn, keep_completed=timedelta(days=999))  # its runner leaves to the command line what is old
    app.circuit_breaker("mail")

    @app.job("email")
    async def email(to: str = "ada") -> None: ...

    app.schedule("nightly", email.new(), cron="0 3 * * *")
    async with app, app.runner(queues=[Queue("elsewhere")]):
        yield app


async def last(jobs: AsyncJobs) -> Entry:
    return (await jobs.admin.audit(limit=1)).entries[0]


def verbs() -> dict[str, Any]:
    return {name: verb for name, verb in vars_of(Admin) if not name.startswith("_")}


def vars_of(kind: type) -> Iterator[tuple[str, Any]]:
    for one in kind.__mro__:
        yield from ((name, value) for name, value in vars(one).items() if inspect.isfunction(value))


def test_every_verb_that_changes_something_is_recorded_and_says_by_whom() -> None:
    unmarked = {name for name, verb in verbs().items() if not hasattr(verb, MARK)}
    assert unmarked == LOOKS
    nameless = {name for name, verb in verbs().items() if name not in LOOKS and "by" not in inspect.signature(verb).parameters}
    assert nameless == set()


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def test_every_command_that_changes_something_asks_by_whom_and_why() -> None:
    changing = {name for name, one in commands(program) if {"by", "why"} <= {parameter.name for parameter in one.params}}
    assert {name for name, _ in commands(program)} - changing == CLI_LOOKS


async def each_verb(jobs: AsyncJobs, admin: Admin, rows: Connection) -> list[tuple[str, str]]:  # noqa: PLR0915 - one line a verb
    """Use every verb; what the trail has to say of each: the verb, and its target."""
    dead = await insert_job(rows, status="dead", completed_at=datetime.now(UTC), type="email")
    letters = [await letter(rows, dead) for _ in range(4)]
    waiting = [await insert_job(rows, status="scheduled", run_at=datetime.now(UTC) + timedelta(hours=1)) for _ in range(6)]
    used: list[tuple[str, str]] = []
    for verb, job_id in zip((admin.cancel, admin.kill, admin.retry, admin.delete), waiting, strict=False):
        await verb(job_id)
        used.append((f"jobs.{verb.__name__}", f"job {job_id}"))
    await admin.fail(waiting[4], will_retry=True)
    await admin.change(waiting[4], priority=3)
    used += [("jobs.fail", f"job {waiting[4]}"), ("jobs.change", f"job {waiting[4]}")]
    for many in (admin.cancel_all, admin.kill_all, admin.retry_all, admin.delete_all):
        await many(type="nobody's")
        used.append((f"jobs.{many.__name__.removesuffix('_all')}", "all jobs with type=nobody's"))
    await admin.fail_all(will_retry=True, tag="a")
    await admin.change_all({"priority": 2}, tag="a")
    await admin.retry_dead(type="nobody's")
    used += [("jobs.fail", "all jobs with tag=a"), ("jobs.change", "all jobs with tag=a"),
             ("jobs.retry", "all dead jobs with type=nobody's")]  # fmt: skip
    await admin.acknowledge(letters[0])
    await admin.requeue(letters[1])
    await admin.acknowledge_all(type="x")
    await admin.requeue_all(type="x")
    used += [("dead.acknowledge", f"dead letter {letters[0]}"), ("dead.requeue", f"dead letter {letters[1]}"),
             ("dead.acknowledge", "all dead letters with type=x"), ("dead.requeue", "all dead letters with type=x")]  # fmt: skip
    await admin.pause(queue="mail")
    await admin.resume(queue="mail")
    await admin.pause_all()
    await admin.resume_all()
    await admin.pause_key("k")
    await admin.resume_key("k")
    await admin.drain(type="email", timeout=0)
    await admin.drain_all(timeout=0)
    used += [("pause", "queue mail"), ("resume", "queue mail"), ("pause", "everything"), ("resume", "everything"),
             ("pause", "key k"), ("resume", "key k"), ("drain", "type email"), ("drain", "everything")]  # fmt: skip
    for turn in (admin.disable_schedule, admin.enable_schedule, admin.run_schedule):
        await turn("nightly")
    used += [(f"schedules.{verb}", "schedule nightly") for verb in ("disable", "enable", "run")]
    for move in (admin.open_breaker, admin.reset_breaker):
        await move("mail")
    used += [("breakers.open", "breaker mail"), ("breakers.reset", "breaker mail")]
    async with jobs.workflow("import") as flow:
        flow.add(named("email", {}, {}, jobs.handlers, jobs.settings))
    await admin.retry_workflow(flow.id)
    await admin.cancel_workflow(flow.id)
    await insert(rows, "limits", kind="limit", name="api", declared='{"each": 2}')
    await insert(rows, "limit_keys", key="api:a")
    await admin.set_limit("api", total=3)
    await admin.reset_limit("api")
    await admin.open_limit_key("api:a")
    used += [("workflows.retry", f"workflow {flow.id}"), ("workflows.cancel", f"workflow {flow.id}"), ("limits.set", "limit api"),
             ("limits.reset", "limit api"), ("limits.open", "limit key api:a")]  # fmt: skip
    halted = await insert_job(rows, status="dead", completed_at=datetime.now(UTC), serialization_key="halted")
    await insert(rows, "serialized_jobs", id=halted, serialization_key="halted", dispatched_at=datetime.now(UTC),
                 halted_at=datetime.now(UTC), halt_reason="it died")  # fmt: skip
    await admin.purge_key("halted")
    await admin.release_key("halted")
    await admin.prune()
    return [*used, ("keys.purge", "key halted"), ("keys.release", "key halted"), ("prune", "what is old")]


async def letter(rows: Connection, job_id: int) -> int:
    made = await rows.fetchval(
        "INSERT INTO asyncjobs.dead_letter_jobs (job_id, original_job) SELECT j.id, to_jsonb(j) FROM asyncjobs.jobs AS j "
        "WHERE j.id = $1 RETURNING id", job_id,
    )  # fmt: skip
    return int(made)


@pytest.mark.unaudited("rows that no runner made")
async def test_each_verb_leaves_who_what_why_when_and_what_came_of_it(jobs: AsyncJobs, connection: Connection) -> None:
    told: list[VerbUsed] = []
    forget = jobs.events.subscribe(told.append, VerbUsed)
    began = datetime.now(UTC)
    admin = jobs.admin.acting("ada", why="the provider is back", via="dashboard")
    used = await each_verb(jobs, admin, connection)
    forget()
    found = [one for one in (await jobs.admin.audit(limit=200)).entries[::-1] if one.via != "sql"]
    assert [(one.verb, one.target) for one in found] == used
    assert {(one.by, one.via, one.why) for one in found} == {("ada", "dashboard", "the provider is back")}
    assert all(one.outcome and one.ended_at and began - timedelta(seconds=1) <= one.at <= one.ended_at for one in found)
    assert [(one.verb, one.target, one.by, one.why) for one in told] == [(*one, "ada", "the provider is back") for one in used]
    named = {getattr(verb, MARK) for name, verb in verbs().items() if name not in LOOKS}
    assert {verb for verb, _ in used} == named


@pytest.mark.unaudited("rows that no runner made")
async def test_each_command_leaves_its_row_too(jobs: AsyncJobs, connection: Connection, dsn: str) -> None:
    ids = [await insert_job(connection, status="scheduled", run_at=datetime.now(UTC) + timedelta(hours=1)) for _ in range(6)]
    dead = await insert_job(connection, status="dead", completed_at=datetime.now(UTC), type="email", serialization_key="k")
    letters = [await letter(connection, dead) for _ in range(2)]
    await insert(connection, "serialized_jobs", id=dead, serialization_key="k", dispatched_at=datetime.now(UTC),
                 halted_at=datetime.now(UTC), halt_reason="it died")  # fmt: skip
    await insert_job(connection, status="completed", completed_at=datetime.now(UTC) - timedelta(days=99))
    async with jobs.workflow("import") as flow:
        flow.add(named("email", {}, {}, jobs.handlers, jobs.settings))
    await insert(connection, "limits", kind="limit", name="api", declared='{"each": 2}')
    await insert(connection, "limit_keys", key="api:a")
    words = {
        "jobs cancel": [str(ids[0])], "jobs kill": [str(ids[1])], "jobs retry": [str(ids[2])], "jobs delete": [str(ids[0])],
        "jobs fail": [str(ids[3])], "jobs change": [str(ids[3]), "--to-priority", "3"], "jobs enqueue": ["email"],
        "dead ack": [str(letters[0])], "dead requeue": [str(letters[1])], "keys purge": ["k"], "keys release": ["k"],
        "keys pause": ["k"], "keys resume": ["k"], "pause": ["--queue", "mail"], "resume": ["--queue", "mail"],
        "drain": ["--type", "email", "--timeout", "0"], "schedules run": ["nightly"], "schedules disable": ["nightly"],
        "schedules enable": ["nightly"], "breakers open": ["mail"], "breakers reset": ["mail"], "prune": [],
        "limits set": ["api", "--total", "3"], "limits reset": ["api"], "limits open": ["api:a"],
        "workflows retry": [str(flow.id)], "workflows cancel": [str(flow.id)],
    }  # fmt: skip
    assert set(words) == {name for name, _ in commands(program)} - CLI_LOOKS
    verb_of = {"dead ack": "dead.acknowledge", "keys pause": "pause", "keys resume": "resume"}
    for command, more in words.items():
        if command == "jobs enqueue":
            continue  # below: it needs an app that declares the type
        sure = ["--yes"] if any(one.name == "yes" for one in dict(commands(program))[command].params) else []
        await cli(*command.split(), *more, *sure, "--by", "bob", "--reason", "it is late", dsn=dsn)
        entry = await last(jobs)
        expected = verb_of.get(command, command.replace(" ", "."))
        assert (entry.verb, entry.by, entry.via, entry.why) == (expected, "bob", "cli", "it is late"), command
        assert entry.outcome, command
    said = await cli("audit", "--by", "bob", "--verb", "jobs", "--since", "1h", dsn=dsn)
    assert said.code == 0
    assert f"job {ids[1]}" in said.out
    assert "keys.purge" not in said.out
    nobody = await cli("audit", "--by", "nobody", dsn=dsn)
    assert nobody.code == 3


async def test_an_enqueue_of_the_command_line_is_recorded(jobs: AsyncJobs) -> None:
    async with jobs.admin.acting("bob", via="cli").noting("jobs.enqueue", "type email") as came:
        came.append("job 5")
    entry = await last(jobs)
    assert (entry.verb, entry.target, entry.by, entry.outcome) == ("jobs.enqueue", "type email", "bob", "job 5")


async def test_what_fails_is_recorded_with_its_error_and_what_is_only_tried_is_not(jobs: AsyncJobs) -> None:
    with pytest.raises(JobNotFound):
        await jobs.admin.cancel(5)
    entry = await last(jobs)
    assert (entry.verb, entry.by, entry.outcome) == ("jobs.cancel", "operator", "JobNotFound")
    await jobs.admin.delete_all(type="x", dry_run=True)
    await jobs.admin.requeue_all(dry_run=True)
    assert (await last(jobs)).id == entry.id


async def test_verb_that_never_came_back_has_a_row_without_an_outcome(
    jobs: AsyncJobs, monkeypatch: pytest.MonkeyPatch, connection: Connection
) -> None:
    seen: list[Any] = []

    async def looks(*_: object) -> Any:
        seen.extend(await connection.fetch("SELECT verb, outcome FROM asyncjobs.audit"))
        raise JobNotFound("it is gone", job_id=1)

    monkeypatch.setattr(Admin, "_end", looks)
    with pytest.raises(JobNotFound):
        await jobs.admin.kill(1)
    assert [tuple(one) for one in seen] == [("jobs.kill", None)]


async def test_verb_in_a_callers_transaction_is_recorded_with_its_commit(dsn: str, jobs: AsyncJobs) -> None:
    ids = [(await jobs.enqueue("email", {}, delay=3600)).id for _ in range(2)]
    theirs = await asyncpg.connect(dsn)
    undone = theirs.transaction()
    await undone.start()
    await jobs.admin.cancel(ids[0], "no", by="ada", connection=theirs)
    await undone.rollback()
    assert (await jobs.admin.audit()).entries == []
    async with theirs.transaction():
        await jobs.admin.cancel(ids[1], "yes", by="ada", connection=theirs)
        assert (await jobs.admin.audit()).entries == []
    await theirs.close()
    entry = await last(jobs)
    assert (entry.verb, entry.target, entry.by, entry.why, entry.outcome) == (
        "jobs.cancel", f"job {ids[1]}", "ada", "yes", "cancelled")  # fmt: skip


async def test_nothing_of_ours_is_taken_for_hand_made_by_sessions_with_another_path(dsn: str) -> None:
    app = AsyncJobs(dsn, connect_kwargs={"statement_cache_size": 0, "server_settings": {}})  # as behind a pooler
    app.circuit_breaker("mail")

    @app.job("email")
    async def email() -> None: ...

    app.schedule("nightly", email.new(), cron="0 3 * * *")
    async with app, app.runner():
        await app.admin.disable_schedule("nightly")
        await app.admin.enable_schedule("nightly")
        await app.admin.open_breaker("mail")
        await app.admin.reset_breaker("mail")
        await app.admin.pause(type="email")
        await app.admin.resume(type="email")
        assert (await app.admin.audit(via="sql")).entries == []
        assert len((await app.admin.audit(via="python")).entries) == 6


async def test_hand_made_sql_is_recorded_and_our_own_is_not(jobs: AsyncJobs, connection: Connection) -> None:
    await connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('queue', 'mail')")
    await connection.execute("UPDATE asyncjobs.schedules SET enabled = false, disabled_because = 'operator'")
    await connection.execute("UPDATE asyncjobs.circuit_breakers SET state = 'open'")
    await connection.execute("DELETE FROM asyncjobs.dead_letter_jobs")
    await connection.execute("DELETE FROM asyncjobs.audit WHERE verb = 'INSERT'")
    found = (await jobs.admin.audit(via="sql")).entries
    assert [(one.verb, one.target) for one in found] == [
        ("DELETE", "audit"), ("DELETE", "dead_letter_jobs"), ("UPDATE", "circuit_breakers"), ("UPDATE", "schedules"),
    ]  # fmt: skip
    assert found[3].why == "UPDATE asyncjobs.schedules SET enabled = false, disabled_because = 'operator'"
    assert await connection.fetchval("SELECT session_user") in found[0].by
    await jobs.admin.pause(type="email")
    await jobs.admin.resume(type="email")
    assert len((await jobs.admin.audit(via="sql")).entries) == len(found)


async def test_no_trigger_of_the_trail_stands_on_what_jobs_go_through(connection: Connection) -> None:
    """The plain job pays nothing."""
    tables = await connection.fetch(
        "SELECT DISTINCT tgrelid::regclass::text AS name FROM pg_trigger WHERE tgname LIKE '%_by_hand'"
    )
    assert {row["name"].removeprefix("asyncjobs.") for row in tables} == {
        "audit", "pauses", "schedules", "circuit_breakers", "dead_letter_jobs"}  # fmt: skip


async def test_the_trail_is_pruned_after_its_time(dsn: str, connection: Connection) -> None:
    async with AsyncJobs(dsn, keep_audit=3600) as jobs:
        for age in ("2 hours", "1 minute"):
            await connection.execute(
                "INSERT INTO asyncjobs.audit (at, via, by, verb, target) "
                "VALUES (now() - $1::text::interval, 'cli', 'a', 'prune', $1)",
                age,
            )
        done = await jobs.admin.prune()
        assert (done.audit, done.rows) == (1, 1)
        assert [one.target for one in (await jobs.admin.audit()).entries] == ["what is old", "1 minute"]


async def test_pages_of_the_trail_go_on_where_they_ended_and_filters_fit(jobs: AsyncJobs) -> None:
    for queue in ("a", "b", "c"):
        await jobs.admin.acting("ada").pause(queue=queue)
    first = await jobs.admin.audit(limit=2)
    assert [one.target for one in first.entries] == ["queue c", "queue b"]
    assert first.next is not None
    second = await jobs.admin.audit(limit=2, before=first.next)
    assert ([one.target for one in second.entries], second.next) == (["queue a"], None)
    assert [one.target for one in (await jobs.admin.audit(target="queue b", by="ada")).entries] == ["queue b"]
    assert (await jobs.admin.audit(until=datetime.now(UTC) - timedelta(hours=1))).entries == []
    with pytest.raises(UsageError, match="has no time zone"):
        await jobs.admin.audit(since=datetime(2026, 1, 1))  # noqa: DTZ001 - the point


async def test_texts_that_no_table_holds_do_not_keep_a_verb_from_being_done(jobs: AsyncJobs) -> None:
    await jobs.admin.acting("a\x00da").retry_all(type="email")
    assert (await last(jobs)).outcome == "nothing"


async def test_what_was_changed_is_told_and_what_a_payload_was_searched_for_is_not(jobs: AsyncJobs) -> None:
    await jobs.enqueue("email", {"to": "ada"}, delay=3600)
    await jobs.admin.change_all({"priority": 7}, payload={"to": "ada"})
    entry = await last(jobs)
    assert (entry.target, entry.outcome) == ("all jobs with payload=…", "1 changed: priority=7")
