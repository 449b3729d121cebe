"""The auditor: do the promises hold for what just ran?

| promise | from | what is looked for |
|---|---|---|
| P1 | tables | limbo: rows that no claim, promote, dispatch, rescue or operator's verb would find; a death without dead letter |
| P2 | tables, events | a claim token twice; two valid attempts of one job at the same time; a start in a runner that is dead |
| P3 | events, notes | two attempts of one key at the same time; a start out of the line's order |
| P7 | tables, events | attempts that were not counted, or more than allowed |
| P14 | tables | a gate whose count is not that of its members; who waits at one that is open, or runs although one is not |
| P15 | notes, tables | a start that was more than its limit allowed; a permit that is free and found by no claim |
| P18 | tables | a start of a job that had expired; an end as expired before its time |
| dedup | notes, tables | two jobs of one dedup key that lived at once (or waited, where a start frees it); a key not freed |
| P13 | process, server | tasks, threads, connections, transactions and attempts left behind |
| locks | server | deadlocks: no two calls wait for each other |

Order, lives and limits need notes that are kept while jobs join their lines, live and start: `install_line` once per schema,
before the jobs. The checks take a few queries; all of them are reads.
"""

import asyncio
import threading
import time
from collections.abc import Collection

from asyncjobs.app import AsyncJobs
from asyncjobs.store.database import Database, Link, Record
from asyncjobs.testing.attempts import Attempt, LinePlace, Violation, late, out_of_order, overlapping, uncounted
from asyncjobs.testing.lives import Noted, lives, together
from asyncjobs.testing.recorder import Recorder
from asyncjobs.testing.target import database_of

_PATIENCE_SECONDS = 2.0
_NOTES = (
    "audit_line_table", "audit_line_function", "audit_line_trigger",
    "audit_lives_table", "audit_lives_function", "audit_lives_trigger",
    "audit_limits_table", "audit_limits_function", "audit_limits_trigger",
)  # fmt: skip


class PromiseBroken(AssertionError):
    """At least one promise does not hold. `.violations` has all that were found."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("\n".join(map(str, violations)))


async def install_line(of: AsyncJobs | Database) -> None:
    """Have it noted in which order jobs join the lines of their keys, and when those with a dedup key live. Idempotent; the role
    needs to own the schema.

    In databases of `Databases` it is.
    """
    link = database_of(of).link("auditor")
    try:
        for statement in _NOTES:
            await link.fetch(statement)
    finally:
        await link.close()


class Auditor:
    """Audits one schema, an app's or a database's, and what a recorder saw.

    Make it before the jobs run: it minds no task or thread that exists then. `deadlocks`: so many the server had found in the
    database before (`pg_stat_database`); more are a violation, whoever's calls they were. PostgreSQL 14 writes the number every
    half a second: an audit there waits for it.
    """

    def __init__(self, of: AsyncJobs | Database, recorder: Recorder, *, deadlocks: int = 0) -> None:
        self.database = database_of(of)
        self.deadlocks = deadlocks
        self.recorder = recorder
        self._tasks = _tasks()
        self._threads = _threads()

    async def check(self, *, except_for: Collection[str] = ()) -> None:
        """Return when every promise holds, but for those named (`{"P13"}`); raises PromiseBroken."""
        violations = [found for found in await self.violations() if found.promise not in except_for]
        if violations:
            raise PromiseBroken(violations)

    async def violations(self) -> list[Violation]:
        """What is wrong now. Runners should have stopped; what is just ending gets two seconds."""
        link = self.database.link("auditor", command_timeout=30)
        try:
            of_process, of_server = await self._of_process(), await self._of_server(link)
            facts = await _facts(link)
            return [
                *of_process,
                *of_server,
                *self._of_locks(facts),
                *await self._of_tables(link, facts),
                *await self._of_events(link, facts),
            ]
        finally:
            await link.close()

    async def _of_tables(self, link: Link, facts: Record) -> list[Violation]:
        rows = [row for name in await _looks(link, facts) for row in await link.fetch(name)]
        notes = await link.fetch("audit_lives") if facts["noted_lives"] else []
        return [*map(_broken, rows), *together(lives(Noted(*row) for row in notes))]

    async def _of_events(self, link: Link, facts: Record) -> list[Violation]:
        attempts = self.recorder.attempts()
        if not attempts:
            return []
        rows = await link.fetch("audit_attempts", sorted({attempt.job_id for attempt in attempts}))
        counted = {row["id"]: row["attempts"] for row in rows}
        places = await link.fetch("audit_line") if facts["noted_places"] else []
        line = [LinePlace(row["serialization_key"], row["job_id"], row["place"], row["times"]) for row in places]
        return [
            *overlapping(attempts),
            *late(attempts),
            *out_of_order(attempts, line),
            *uncounted(attempts, counted, {row["id"] for row in rows if row["is_started_over"]}),
        ]

    async def _of_process(self) -> list[Violation]:
        ends = time.monotonic() + _PATIENCE_SECONDS
        while (_tasks() - self._tasks or _threads() - self._threads) and time.monotonic() < ends:
            await asyncio.sleep(0.01)
        tasks = [Violation("P13", None, f"task left behind: {task!r}") for task in _tasks() - self._tasks]
        threads = [Violation("P13", None, f"thread left behind: {thread.name}") for thread in _threads() - self._threads]
        return [*tasks, *threads, *unended(self.recorder.attempts())]

    async def _of_server(self, link: Link) -> list[Violation]:
        ends = time.monotonic() + _PATIENCE_SECONDS
        while True:
            late = time.monotonic() >= ends  # the last look is one after that: this process may have stood still
            rows = await link.fetch("audit_connections")
            if late or not rows:
                break
            await asyncio.sleep(0.02)
        return [Violation("P13", None, f"connection left behind: {row['application_name']}, {row['state']}") for row in rows]

    def _of_locks(self, facts: Record) -> list[Violation]:
        """Sessions that have ended have told of theirs."""
        more = facts["deadlocks"] - self.deadlocks
        return [Violation("locks", None, f"{more} deadlocks were found by the server")] if more > 0 else []


async def _facts(link: Link) -> Record:
    """`audit_facts`. Before PostgreSQL 15 an answer can be older than the question."""
    ends = time.monotonic() + _PATIENCE_SECONDS
    (facts,) = await link.fetch("audit_facts")
    asked_at = facts["asked_at"]
    while facts["written_at"] is not None and facts["written_at"] < asked_at and time.monotonic() < ends:
        await asyncio.sleep(0.02)
        (facts,) = await link.fetch("audit_facts")
    return facts


async def _looks(link: Link, facts: Record) -> list[str]:
    """The statements that may find something: each is planned anew in a session of the auditor's, which looks but once."""
    (kinds,) = (
        await link.fetch("audit_kinds")
        if facts["jobs"]
        else [{"keyed": False, "deduplicated": False, "blocked": False, "limited": False}]
    )
    looks = {
        "audit_jobs": facts["jobs"],
        "audit_keys": facts["places"] or kinds["keyed"],
        "audit_dedup": facts["dedup_keys"] or kinds["deduplicated"],
        "audit_gates": facts["gates"] or kinds["blocked"],
        "audit_limit_keys": facts["limits"] or kinds["limited"],
        "audit_limits": facts["noted_limits"],
    }
    return [name for name, is_due in looks.items() if is_due]


def _broken(row: Record) -> Violation:
    return Violation(row["promise"], row["job_id"], row["problem"])


def unended(attempts: Collection[Attempt]) -> list[Violation]:
    """Attempts that have neither ended nor lost their claim."""
    return [
        Violation("P13", attempt.job_id, f"is still running attempt {attempt.number}")
        for attempt in attempts
        if attempt.ended_at is None and not attempt.claim_lost
    ]


def _tasks() -> set[asyncio.Task[object]]:
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("asyncjobs")}
