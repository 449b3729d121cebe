"""What must be so when a simulated world has come to its end."""

from collections.abc import Mapping

from asyncjobs.model.status import FINAL
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import OutcomeWritten
from asyncjobs.testing import Recorder
from asyncjobs.testing.attempts import Attempt, Place, out_of_order, overlapping, uncounted
from asyncjobs.testing.history import History
from tests.simulation.app import Pass
from tests.simulation.client import Client
from tests.simulation.server import Server
from tests.simulation.world import Process


def violations(server: Server, recorder: Recorder, client: Client, passes: list[Pass], home: Mapping[int, Process]) -> list[str]:
    """Everything that is wrong, in words."""
    return [
        *_tables(server), *_events(server, recorder), *_lost(server, client), *_twice(server), *_passes(passes),
        *_beside(recorder, home), *_fenced(recorder),
    ]  # fmt: skip


def _tables(server: Server) -> list[str]:
    sql = Database(server.dsn).sql
    rows = [row for name in ("audit_jobs", "audit_keys", "audit_dedup") for row in server.fetch(sql(name))]
    return [f"{row['promise']}: job {row['job_id']} {row['problem']}" for row in rows]


def _events(server: Server, recorder: Recorder) -> list[str]:
    attempts = recorder.attempts()
    sql = Database(server.dsn).sql
    counted: dict[int, int] = {
        row["id"]: row["attempts"] for row in server.fetch(sql("audit_attempts"), sorted({one.job_id for one in attempts}))
    }
    line = [Place(row["serialization_key"], row["job_id"], row["place"], row["times"]) for row in server.fetch(sql("audit_line"))]
    found = [*overlapping(attempts), *out_of_order(attempts, line), *uncounted(attempts, counted)]
    return list(dict.fromkeys(map(str, [*found, *History(attempts=attempts).violations()])))


def _beside(recorder: Recorder, home: Mapping[int, Process]) -> list[str]:
    """Attempts that went on when the job's next had started, in a process that could have known."""
    found: list[str] = []
    by_job: dict[int, Attempt] = {}
    for attempt in recorder.attempts():
        before = by_job.get(attempt.job_id)
        if before is not None and before.ended_at is not None and before.ended_at > attempt.started_at:
            both = home[before.token], home[attempt.token]
            if not any(_is_unseen(process, before.started_at, before.ended_at) for process in both):
                found.append(f"P2: job {attempt.job_id} ran on beside its attempt {attempt.number}")
        by_job[attempt.job_id] = attempt
    return found


def _fenced(recorder: Recorder) -> list[str]:
    """Ends of jobs that were accepted from an attempt that was not the last: its claim had been taken away."""
    number = {attempt.token: attempt.number for attempt in recorder.attempts()}
    last: dict[int, int] = {}
    for attempt in recorder.attempts():
        last[attempt.job_id] = max(attempt.number, last.get(attempt.job_id, 0))
    return [
        f"P2: job {event.job_id} ended as {event.status} by attempt {number[event.token]} of {last[event.job_id]}"
        for event in recorder.of(OutcomeWritten)
        if event.status in FINAL and event.token in number and number[event.token] < last[event.job_id]
    ]


def _is_unseen(process: Process, since: float, until: float) -> bool:
    return any(begins <= until and ends >= since for begins, ends in process.unseen)


def _lost(server: Server, client: Client) -> list[str]:
    there = {row[0] for row in server.fetch("SELECT id FROM asyncjobs.jobs UNION ALL SELECT id FROM asyncjobs.serialized_jobs")}
    return [f"P1: job {id} was accepted and is gone" for ids in client.accepted.values() for id in ids if id not in there]


def _twice(server: Server) -> list[str]:
    numbers = server.fetch(
        "SELECT payload->>'number' AS number, count(*) FROM asyncjobs.jobs WHERE type = 'act' AND (payload->>'number')::int > 0"
        " GROUP BY 1 HAVING count(*) > 1"
    )
    ticks = server.fetch(
        "SELECT scheduled_at, count(*) FROM asyncjobs.jobs WHERE type = 'tick' GROUP BY 1 HAVING count(*) > 1 ORDER BY 1"
    )
    return [f"P1: number {row[0]} was enqueued {row[1]} times" for row in numbers] + [
        f"P9: the tick of {row[0]} made {row[1]} jobs" for row in ticks
    ]


def _passes(passes: list[Pass]) -> list[str]:
    """The duty was done by two at a time, and neither was frozen meanwhile."""
    found: list[str] = []
    for at, first in enumerate(passes):
        for second in passes[at + 1 :]:
            if first.ended_at is None or second.began_at >= first.ended_at:
                break
            if first.process is not second.process and not _was_unseen(first, second):
                found.append(f"P9: passes of one duty in two processes at {second.began_at:.3f}")
    return found


def _was_unseen(*both: Pass) -> bool:
    return any(_is_unseen(one.process, one.began_at - 1.0, one.ended_at or one.began_at) for one in both)
