"""Every option reaches the verb of `jobs.admin` that it is for; what is dry is dry, and what destroys asks first."""

import math
import shlex
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Rate
from asyncjobs.cli import failures
from asyncjobs.model.audit import Actor
from asyncjobs.model.dead_letter import DeadLettersDone, FoundDeadLetters
from asyncjobs.model.finding import Found, JobsDone
from asyncjobs.store.migrate import Status
from asyncjobs.store.overview import LaneUse, Stats
from asyncjobs.store.serialized import KeyState, Verb
from tests.support.cli import Keyboard, cli
from tests.support.verb_calls import SOMETHING, noted

FILTER = (
    "--type t --status dead --status failed --queue q --key k --correlation-id c --parent 4 --workflow 8 "
    "--payload '{\"a\": 1}' --error x"
)
JOBS: dict[str, Any] = {
    "type": "t", "status": ["dead", "failed"], "queue": "q", "key": "k", "correlation_id": "c", "parent_job_id": 4,
    "workflow": 8, "payload": {"a": 1}, "error": "x",
}  # fmt: skip
DEAD_LETTERS = "--type t --queue q --key k --correlation-id c --error x --died-after 2027-01-31T12:00:00 --died-before 2027-02-01"
WHICH: dict[str, Any] = {
    "type": "t", "queue": "q", "key": "k", "correlation_id": "c", "error": "x",
    "died_after": datetime(2027, 1, 31, 12, tzinfo=UTC), "died_before": datetime(2027, 2, 1, tzinfo=UTC),
}  # fmt: skip
DRY: dict[str, Any] = {"dry_run": True, "progress": SOMETHING}

CASES: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    (f"jobs list {FILTER} --before 7 --limit 3", "find", (), {**JOBS, "before": 7, "limit": 3}),
    ("jobs explain 5", "explain", (5,), {}),
    ("jobs largest --limit 4", "largest", (), {"limit": 4}),
    ("jobs trace c-1", "tree", ("c-1",), {}),
    ("jobs retry 5 --by ada", "retry", (5,), {}),
    (f"jobs retry {FILTER} --by ada --dry-run", "retry_all", (), {**JOBS, **DRY}),
    (
        "jobs change 5 --to-priority 3 --delay 15m --timeout 90 --by ada", "change", (5,),
        {"priority": 3, "delay": 900.0, "timeout": 90.0},
    ),
    ("jobs delete 5 --by ada", "delete", (5,), {}),
    ("jobs cancel 5 --message why", "cancel", (5,), {}),
    (f"jobs cancel {FILTER} --message why --dry-run", "cancel_all", (), {**JOBS, **DRY}),
    ("jobs kill 5 --message why", "kill", (5,), {}),
    (f"jobs kill {FILTER} --message why --dry-run", "kill_all", (), {**JOBS, **DRY}),
    ("jobs fail 5 --message why", "fail", (5,), {"will_retry": True}),
    (f"jobs fail {FILTER} --message why --dry-run", "fail_all", (), {**JOBS, **DRY, "will_retry": True}),
    (
        "jobs enqueue t '{\"a\": 1}' --delay 2.5 --queue q --priority 3 --correlation-id c --dedup-key d --tag a --tag b",
        "enqueue",
        ("t", {"a": 1}),
        {"delay": 2.5, "queue": "q", "priority": 3, "correlation_id": "c", "dedup_key": "d", "tags": ("a", "b"),
         "created_by": SOMETHING},
    ),
    (f"dead list {DEAD_LETTERS} --before 7 --limit 3 --unacknowledged", "dead_letters", (),
     {**WHICH, "before": 7, "limit": 3, "acknowledged": False}),
    ("dead list --acknowledged", "dead_letters", (), {"limit": 100, "acknowledged": True}),
    ("dead show 5", "dead_letter", (5,), {}),
    ("dead ack 5 --by ada", "acknowledge", (5,), {}),
    (f"dead ack {DEAD_LETTERS} --by ada --dry-run", "acknowledge_all", (), {**WHICH, **DRY, "acknowledged": False}),
    ("dead requeue 5 --by ada --force", "requeue", (5,), {"force": True}),
    ("dead requeue 5 --by ada", "requeue", (5,), {"force": False}),
    (f"dead requeue {DEAD_LETTERS} --by ada --force --dry-run", "requeue_all", (), {**WHICH, **DRY, "force": True}),
    ("keys list --after k --limit 3", "keys", (), {"after": "k", "limit": 3}),
    ("keys show k", "key", ("k",), {}),
    ("keys pause k --reason why --by ada", "pause_key", ("k",), {}),
    ("keys resume k", "resume_key", ("k",), {}),
    ("runners --former 3", "runners", (), {"former": 3}),
    ("pause --queue q --reason why --by ada", "pause", (), {"queue": "q"}),
    ("pause --type t --by ada", "pause", (), {"type": "t"}),
    ("resume --key k", "resume", (), {"key": "k"}),
    ("drain --queue q --timeout 3 --reason why --by ada", "drain", (),
     {"queue": "q", "timeout": 3.0}),
    ("drain --type t --by ada", "drain", (), {"type": "t"}),
    ("breakers open s --for 60 --reason why", "open_breaker", ("s",), {"for_": 60.0}),
    ("breakers reset s", "reset_breaker", ("s",), {}),
    ("limits set l --total 5 --each none --weight 2", "set_limit", ("l",),
     {"total": 5, "each": math.inf, "weight": 2.0, "kind": "limit"}),
    ("limits set q --queue --total none", "set_limit", ("q",),
     {"total": math.inf, "kind": "queue"}),
    ("limits set l --rate 600/60 --burst 5", "set_limit", ("l",),
     {"rate": Rate(600, per=60, burst=5), "kind": "limit"}),
    ("limits reset l", "reset_limit", ("l",), {"kind": "limit"}),
    ("limits open l:a", "open_limit_key", ("l:a",), {}),
    ("schedules disable s --reason why", "disable_schedule", ("s",), {}),
    ("schedules enable s", "enable_schedule", ("s",), {}),
    ("schedules run s", "run_schedule", ("s",), {}),
    ("prune --dry-run", "prune", (), {"dry_run": True}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "verb", "args", "kwargs"), CASES, ids=[case[0][:40] for case in CASES])
async def test_options_reach_the_verb(
    monkeypatch: pytest.MonkeyPatch, words: str, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    notes = noted(monkeypatch, {})
    said = await cli(*shlex.split(words), dsn="postgresql://nowhere/x")
    assert (said.code, said.err) == (failures.NOT_DONE, f"asyncjobs: {verb} was asked for.\n")
    assert notes.only() == (verb, args, kwargs)
    if "ada" in words:
        assert notes.actors == [Actor("ada", "cli", "why" if "why" in words else None)]


BULK: list[tuple[str, str, Any, Any]] = [
    ("jobs retry", "retry_all", JobsDone({"retried": 2, "final": 1}, dry_run=True), JobsDone({"final": 3}, dry_run=True)),
    ("jobs cancel", "cancel_all", JobsDone({"cancelled": 2}, dry_run=True), JobsDone({"final": 3}, dry_run=True)),
    ("jobs kill", "kill_all", JobsDone({"dead": 2}, dry_run=True), JobsDone({"final": 3}, dry_run=True)),
    ("jobs fail", "fail_all", JobsDone({"requested": 2}, dry_run=True), JobsDone({"pending": 3}, dry_run=True)),
    (
        "dead ack",
        "acknowledge_all",
        DeadLettersDone({"acknowledged": 2}, dry_run=True),
        DeadLettersDone({"busy": 3}, dry_run=True),
    ),
    ("dead requeue", "requeue_all", DeadLettersDone({"requeued": 2}, dry_run=True), DeadLettersDone({"busy": 3}, dry_run=True)),
]


@pytest.mark.parametrize(("words", "verb", "some", "none"), BULK, ids=[case[0] for case in BULK])
async def test_bulk_verbs_look_ask_and_do(monkeypatch: pytest.MonkeyPatch, words: str, verb: str, some: Any, none: Any) -> None:
    async def runs(*options: str, answer: Any = some, keys: str | None = None) -> tuple[int, list[bool]]:
        notes = noted(monkeypatch, {verb: answer})
        stdin = None if keys is None else Keyboard(keys)
        said = await cli(*words.split(), "--type", "t", *options, dsn="postgresql://nowhere/x", stdin=stdin)
        return said.code, [kwargs["dry_run"] for _, _, kwargs in notes.calls]

    assert await runs("--dry-run") == (0, [True])
    assert await runs("--dry-run", "--yes") == (0, [True])
    assert await runs() == (failures.BAD_INPUT, [True])
    assert await runs(keys="n\n") == (failures.INTERRUPTED, [True])
    assert await runs(keys="y\n") == (0, [True, False])
    assert await runs("--yes") == (0, [True, False])
    assert await runs("--yes", answer=none) == (failures.NOT_DONE, [True, False])
    assert await runs("--yes", answer=type(some)({}, dry_run=True)) == (failures.NOT_FOUND, [True])


@pytest.mark.parametrize(
    "words", ["jobs cancel 1 --type t", "dead ack 1 --all", "dead ack 1 --type t", "dead requeue --all --dry-run 1"]
)
async def test_ids_and_filters_exclude_each_other(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    notes = noted(monkeypatch, {})
    assert ((await cli(*words.split(), dsn="postgresql://nowhere/x")).code, notes.calls) == (failures.BAD_INPUT, [])


async def test_pages_that_are_full_name_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    key = KeyState("k", 1, 1, "t", "pending", now, now, None, None, None, None, None)
    noted(monkeypatch, {"find": Found([], 41, 10_000), "keys": [key]})
    assert "there may be more: --before 41" in (await cli("jobs", "list", dsn="postgresql://nowhere/x")).err
    filtered = await cli("jobs", "list", "--type", "t", dsn="postgresql://nowhere/x")
    assert (filtered.code, "--before 41" in filtered.err) == (0, True)
    assert "there may be more: --after k" in (await cli("keys", "list", "--limit", "1", dsn="postgresql://nowhere/x")).err
    assert "more" not in (await cli("keys", "list", "--limit", "2", dsn="postgresql://nowhere/x")).err
    noted(monkeypatch, {"dead_letters": FoundDeadLetters([], 5, 10_000)})
    filtered = await cli("dead", "list", "--type", "t", dsn="postgresql://nowhere/x")
    assert (filtered.code, "there may be more: --before 5" in filtered.err) == (0, True)
    noted(monkeypatch, {"dead_letters": FoundDeadLetters([], None, 7)})
    assert (await cli("dead", "list", "--type", "t", dsn="postgresql://nowhere/x")).code == failures.NOT_FOUND


async def test_instants_are_utc_wherever_they_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        notes = noted(monkeypatch, {})
        await cli("dead", "list", "--died-after", "2027-01-31T12:00:00", dsn="postgresql://nowhere/x")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert notes.only()[2]["died_after"] == datetime(2027, 1, 31, 12, tzinfo=UTC)


async def test_a_key_is_purged_only_after_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    key = KeyState("k", 12, 1, "t", "pending", now, now, None, None, None, None, None)
    notes = noted(monkeypatch, {"key": key, "purge_key": [1, 2]})
    no = await cli("keys", "purge", "k", dsn="postgresql://nowhere/x")
    assert (no.code, "this would cancel 12 jobs of key k" in no.err) == (failures.BAD_INPUT, True)
    assert [name for name, _, _ in notes.calls] == ["key"]
    assert (await cli("keys", "purge", "k", "--yes", dsn="postgresql://nowhere/x")).out == "2 jobs cancelled\n"


async def test_breaking_migrations_are_asked_about_unless_the_schema_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[str] = []
    state = Status(schema_exists=True, applied=["0001_x.sql"], pending=["0002_y.sql"], unknown=[], unknown_breaking=[])

    async def migrations(self: AsyncJobs) -> Status:
        return state

    async def migrate(self: AsyncJobs) -> list[str]:
        applied.append("0002_y.sql")
        return applied

    monkeypatch.setattr(AsyncJobs, "migrations", migrations)
    monkeypatch.setattr(AsyncJobs, "migrate", migrate)
    monkeypatch.setattr(Status, "breaking", property(lambda self: self.pending))
    said = await cli("migrate", dsn="postgresql://nowhere/x")
    assert (said.code, applied) == (failures.BAD_INPUT, [])
    assert "0002_y.sql will stop programs with an older asyncjobs" in said.err
    assert (await cli("migrate", "--yes", dsn="postgresql://nowhere/x")).out == "applied 0002_y.sql\n"
    state = Status(schema_exists=False, applied=[], pending=["0002_y.sql"], unknown=[], unknown_breaking=[])
    assert (await cli("migrate", dsn="postgresql://nowhere/x")).code == 0


def stats_of(lanes: list[LaneUse]) -> Stats:
    numbers = ("pending", "scheduled", "waiting", "paused", "processing", "failed", "blocked", "dead_letters", "halted_keys")
    nothing: dict[str, Any] = dict.fromkeys(numbers, 0)
    return Stats(**nothing, oldest_pending_age=None, lanes=lanes, counts=[])


async def test_queues_add_up_the_slots_of_all_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = [LaneUse("mail", None, 1, 5, 2), LaneUse("mail", "fast", 1, 3, 1), LaneUse("mail", None, 2, 5, 0)]
    noted(monkeypatch, {"pauses": [], "stats": stats_of(lanes)})
    (mail,) = (await cli("queues", "--json", dsn="postgresql://nowhere/x")).data
    assert (mail["queue"], mail["slots"], mail["in_use"]) == ("mail", 13, 3)


async def test_stats_counts_attempts_within_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = noted(monkeypatch, {"stats": stats_of([]), "metrics": []})
    await cli("stats", "--window", "60", dsn="postgresql://nowhere/x")
    assert notes.calls[-1] == ("metrics", (), {"window": 60.0})


async def test_a_retry_that_a_dedup_key_forbids_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    noted(monkeypatch, {"retry": Verb("duplicate", "dead", [], other_id=9)})
    said = await cli("jobs", "retry", "5", dsn="postgresql://nowhere/x")
    assert (said.code, said.out) == (failures.NOT_DONE, "job 5 was not retried: job 9 lives and has its dedup key\n")
