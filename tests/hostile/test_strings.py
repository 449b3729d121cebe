"""Every text that a user may hand in is a parameter of a statement, or refused before anything is written."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, AsyncJobsError
from asyncjobs.store.database import Connection, Database

MARK = "h0stile"
TEXTS = {
    "SQL": f"{MARK}'; DROP TABLE asyncjobs.jobs; --\"$1 %s %(x)s {{0}} :x ? $tag$ \\' E'\\\\'",
    "NUL": f"{MARK}\0",
    "a lone surrogate": f"{MARK}\ud800",
    "lines and escapes": f"{MARK}\n2026-01-01 CRITICAL all is lost\r\x1b[31m\u202e\u2028",
    "length": MARK * 200,
    "a reserved name": f"asyncjobs.{MARK}",
    "blanks": f" {MARK} ",
    "emoji": f"{MARK}😀ß\u0301",
}

Call = Callable[[Any, str], Awaitable[Any]]

#: Every public method of an open app that takes a text, once for each of its texts.
CALLS: dict[str, Call] = {
    "enqueue by name": lambda jobs, text: jobs.enqueue(text, {}),
    "field of a payload": lambda jobs, text: jobs.enqueue("email", {text: 1}),
    "payload": lambda jobs, text: jobs.email.enqueue(text),
    "nested payload": lambda jobs, text: jobs.email.enqueue("a", more={text: [text]}),
    "queue": lambda jobs, text: jobs.email.using(queue=text).enqueue("a"),
    "lane": lambda jobs, text: jobs.email.using(lane=text).enqueue("a"),
    "dedup_key": lambda jobs, text: jobs.email.using(dedup_key=text).enqueue("a"),
    "serialization_key": lambda jobs, text: jobs.email.using(serialization_key=text).enqueue("a"),
    "correlation_id": lambda jobs, text: jobs.email.using(correlation_id=text).enqueue("a"),
    "created_by": lambda jobs, text: jobs.email.using(created_by=text).enqueue("a"),
    "on_duplicate": lambda jobs, text: jobs.email.using(on_duplicate=text).enqueue("a"),
    "find type": lambda jobs, text: jobs.admin.find(type=text),
    "find queue": lambda jobs, text: jobs.admin.find(queue=text),
    "find key": lambda jobs, text: jobs.admin.find(key=text),
    "find status": lambda jobs, text: jobs.admin.find(status=text),
    "find correlation_id": lambda jobs, text: jobs.admin.find(correlation_id=text),
    "find error": lambda jobs, text: jobs.admin.find(error=text),
    "find payload": lambda jobs, text: jobs.admin.find(payload={text: text}),
    "rows": lambda jobs, text: jobs.admin.rows(type=text, error=text),
    "tree": lambda jobs, text: jobs.admin.tree(text),
    "trace": lambda jobs, text: jobs.admin.trace(text),
    "cancel": lambda jobs, text: jobs.admin.cancel(jobs.known, text),
    "kill": lambda jobs, text: jobs.admin.kill(jobs.known, text),
    "fail": lambda jobs, text: jobs.admin.fail(jobs.known, text, will_retry=True),
    "retry": lambda jobs, text: jobs.admin.retry(jobs.known, by=text),
    "retry_dead": lambda jobs, text: jobs.admin.retry_dead(key=text),
    "cancel_all": lambda jobs, text: jobs.admin.cancel_all(text, type=text),
    "retry_all": lambda jobs, text: jobs.admin.retry_all(by=text, type=text),
    "key": lambda jobs, text: jobs.admin.key(text),
    "keys": lambda jobs, text: jobs.admin.keys(after=text),
    "line": lambda jobs, text: jobs.admin.line(text),
    "release_key": lambda jobs, text: jobs.admin.release_key(text),
    "pause_key": lambda jobs, text: jobs.admin.pause_key(text, reason=text, by=text),
    "resume_key": lambda jobs, text: jobs.admin.resume_key(text),
    "purge_key": lambda jobs, text: jobs.admin.purge_key(text, text),
    "pause queue": lambda jobs, text: jobs.admin.pause(queue=text, reason=text, by=text),
    "pause type": lambda jobs, text: jobs.admin.pause(type=text),
    "pause reason": lambda jobs, text: jobs.admin.pause(type="email", reason=text, by=text),
    "resume": lambda jobs, text: jobs.admin.resume(type=text),
    "dead_letters": lambda jobs, text: jobs.admin.dead_letters(type=text, queue=text, key=text, correlation_id=text, error=text),
    "acknowledge": lambda jobs, text: jobs.admin.acknowledge(jobs.dead_letter, by=text),
    "requeue": lambda jobs, text: jobs.admin.requeue(jobs.dead_letter, by=text, force=True),
    "acknowledge_all": lambda jobs, text: jobs.admin.acknowledge_all(by=text, type=text),
    "metrics": lambda jobs, text: jobs.admin.metrics(type=text),
    "series": lambda jobs, text: jobs.admin.series(type=text),
    "schedule": lambda jobs, text: jobs.admin.schedule(text),
    "disable_schedule": lambda jobs, text: jobs.admin.disable_schedule(text, reason=text),
    "run_schedule": lambda jobs, text: jobs.admin.run_schedule(text),
    "breaker": lambda jobs, text: jobs.admin.breaker(text),
    "open_breaker": lambda jobs, text: jobs.admin.open_breaker("mail", reason=text),
    "reset_breaker": lambda jobs, text: jobs.admin.reset_breaker(text),
}


NumberCall = Callable[[Any, int], Awaitable[Any]]


def _verb(name: str, *given: Any, named: str | None = None) -> NumberCall:
    """Calls it with the number behind what else is given, or named so."""

    async def call(jobs: Any, number: int) -> Any:
        verb = getattr(jobs.admin, name)
        return await (verb(*given, number) if named is None else verb(*given, **{named: number}))

    return call


#: Every verb that takes a number.
NUMBERS: dict[str, NumberCall] = {
    **{name: _verb(name) for name in ("cancel", "kill", "retry", "get", "explain", "children", "dead_letter")},
    **{name: _verb(name, named="limit") for name in ("find", "rows", "keys", "largest", "dead_letters")},
    **{f"{name} of": _verb(name, "x", named="limit") for name in ("line", "trace", "tree", "trace_rows")},
    "find before": _verb("find", named="before"),
    "rows before": _verb("rows", named="before"),
    "runners": _verb("runners", named="former"),
    "fail": lambda jobs, number: jobs.admin.fail(number, will_retry=True),
    "acknowledge": lambda jobs, number: jobs.admin.acknowledge(number, by="me"),
    "requeue": lambda jobs, number: jobs.admin.requeue(number, by="me"),
    "retry_dead": lambda jobs, number: jobs.admin.retry_dead(type="email", limit=number),
    "jobs.get": lambda jobs, number: jobs.get(number),
}


@pytest.fixture
async def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of every statement that asyncjobs sends."""
    seen: list[str] = []
    real = Database.connect

    async def connect(self: Database, role: str, **options: Any) -> Connection:
        made = await real(self, role, **options)
        made.add_query_logger(lambda record: seen.append(record.query))
        return made

    monkeypatch.setattr(Database, "connect", connect)
    return seen


@pytest.fixture
async def jobs(dsn: str, statements: list[str]) -> AsyncGenerator[Any]:
    app = AsyncJobs(dsn)
    app.circuit_breaker("mail")

    @app.job("email")
    async def email(text: str, more: Any = None) -> None: ...

    made: Any = app
    made.email = email
    async with made:
        made.known = (await email.enqueue("known")).id
        await made.admin.kill((await email.enqueue("dead_letter")).id)
        made.dead_letter = (await made.admin.dead_letters()).dead_letters[0].id
        yield made


ROWS = """SELECT (SELECT count(*) FROM asyncjobs.jobs) + (SELECT count(*) FROM asyncjobs.serialized_jobs)
+ (SELECT count(*) FROM asyncjobs.pauses) + (SELECT count(*) FROM asyncjobs.dedup_keys)"""


@pytest.mark.unaudited("keys are paused and jobs cancelled as chance will have it")
@pytest.mark.parametrize("kind", TEXTS)
async def test_text_never_becomes_part_of_a_statement_and_is_refused_before_anything_is_written(
    kind: str, jobs: Any, statements: list[str], connection: Connection
) -> None:
    wrong: dict[str, str] = {}
    for name, call in CALLS.items():
        before = await connection.fetchval(ROWS)
        try:
            await call(jobs, TEXTS[kind])
        except AsyncJobsError as error:
            refused = str(error)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            refused = f"UNTYPED {type(error).__name__}: {error}"
        else:
            continue
        if not refused.isprintable() or refused.startswith("UNTYPED") or await connection.fetchval(ROWS) != before:
            wrong[name] = refused
    assert [statement for statement in statements if MARK in statement] == []
    assert statements
    assert wrong == {}


@pytest.mark.parametrize("number", [-1, 2**31, 2**63, 10**30])
async def test_number_that_no_column_holds_is_refused_in_words_of_its_own(number: int, jobs: Any) -> None:
    wrong: dict[str, str] = {}
    for name, call in NUMBERS.items():
        try:
            await call(jobs, number)
        except AsyncJobsError:
            continue
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, OverflowError) as error:
            wrong[name] = f"{type(error).__name__}: {error}"
    assert wrong == {}
