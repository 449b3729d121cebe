"""What must be so when a simulated world has come to its end."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from asyncjobs.model.status import FINAL
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import AttemptStarted, ClaimWasLost, OutcomeWritten, RunnerRegistered
from asyncjobs.testing import Joined, Ready, Recorder, Serving
from asyncjobs.testing.attempts import Attempt, LinePlace, out_of_order, overlapping, uncounted
from asyncjobs.testing.history import History
from asyncjobs.testing.lives import Noted, lives, together
from tests.simulation.app import Pass
from tests.simulation.client import Told
from tests.simulation.process import Process
from tests.simulation.server import Server
from tests.simulation.world import LINE, Held, World

#: Within which time a job starts that can.
_PROMPT_SECONDS: Final = 1.5
#: What an upstream has to have ended in, by the rule by which it is waited for.
_ENDS_BY: Final = {"completed": frozenset({"completed"}), "ended": FINAL}
#: The server's clock counts microseconds.
_SAME_SECONDS: Final = 1e-5
_STALLED: Final = """
SELECT DISTINCT s.serialization_key FROM asyncjobs.serialized_jobs AS s
WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS h
                  WHERE h.serialization_key = s.serialization_key AND h.dispatched_at IS NOT NULL)
  AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = 'key' AND p.name = s.serialization_key)
"""


def violations(server: Server, recorder: Recorder, told: Told, passes: list[Pass], home: Mapping[int, Process]) -> list[str]:
    """Everything that is wrong, in words."""
    return [
        *moves(server, told), *_tables(server), *_events(server, recorder, told), *_lost(server, told), *_twice(server),
        *_passes(passes), *_beside(recorder, home), *_fenced(recorder, told),
        *_gates(server, told), *_halted(server, told), *_whole(server), *_pauses(recorder, told), *_places(server, told),
    ]  # fmt: skip


def _tables(server: Server) -> list[str]:
    sql = Database(server.dsn).sql
    names = ("audit_jobs", "audit_keys", "audit_dedup", "audit_gates", "audit_limit_keys", "audit_limits")
    rows = [row for name in names for row in server.fetch(sql(name))]
    notes = (Noted(*row) for row in server.fetch(sql("audit_lives")))
    return [*(f"{row['promise']}: job {row['job_id']} {row['problem']}" for row in rows), *map(str, together(lives(notes)))]


def _events(server: Server, recorder: Recorder, told: Told) -> list[str]:
    attempts = recorder.attempts()
    sql = Database(server.dsn).sql
    rows = server.fetch(sql("audit_attempts"), sorted({one.job_id for one in attempts}))
    counted: dict[int, int] = {row["id"]: row["attempts"] for row in rows}
    line = [
        LinePlace(row["serialization_key"], row["job_id"], row["place"], row["times"]) for row in server.fetch(sql("audit_line"))
    ]
    found = [*overlapping(attempts), *out_of_order(attempts, line), *uncounted(attempts, counted, told.retried)]
    # (What an operator started over counts anew: its first attempt then is no late one of before.)
    judged = [
        one for one in History(attempts=attempts).violations()
        if "had been taken away" not in one.problem or one.job_id not in told.retried
    ]  # fmt: skip
    return list(dict.fromkeys(map(str, [*found, *judged])))


def _places(server: Server, told: Told) -> list[str]:
    """Jobs that left their key's line without having ended. (One that is replaced may leave it until it is due.)"""
    again = {row["job_id"] for row in server.fetch(Database(server.dsn).sql("audit_line")) if row["times"] > 1}
    kept = {row["id"] for row in server.fetch("SELECT id FROM asyncjobs.jobs WHERE dedup_key IS NULL")}
    return [f"P3: job {job_id} lost its place in its key's line" for job_id in sorted((again & kept) - told.retried)]


def _beside(recorder: Recorder, home: Mapping[int, Process]) -> list[str]:
    """Attempts that went on when the job's next had started, in a process that could have known."""
    found: list[str] = []
    by_job: dict[int, Attempt] = {}
    for attempt in recorder.attempts():
        before = by_job.get(attempt.job_id)
        if before is not None and before.ended_at is not None and before.ended_at > attempt.started_at:
            both = {home[before.token], home[attempt.token]}
            if len(both) == 1 or not any(_is_unseen(process, before.started_at, before.ended_at) for process in both):
                found.append(f"P2: job {attempt.job_id} ran on beside its attempt {attempt.number}")
        by_job[attempt.job_id] = attempt
    return found


def _fenced(recorder: Recorder, told: Told) -> list[str]:
    """Ends of jobs that were accepted although the job had been started again before: the claim had been taken away.

    What an operator may have started over says nothing: its end may be carried out, its answer late, and it has run again before.
    """
    found: list[str] = []
    latest: dict[int, AttemptStarted] = {}
    for _, event in recorder.recorded:
        if isinstance(event, AttemptStarted):
            latest[event.job_id] = event
        elif isinstance(event, OutcomeWritten) and event.status in FINAL:
            is_last = event.job_id not in latest or event.token == latest[event.job_id].token
            if not is_last and event.job_id not in told.retried:
                found.append(f"P2: job {event.job_id} ended as {event.status} by an attempt that was not its last")
    return found


def unended(server: Server, recorder: Recorder) -> list[str]:
    """Jobs that were completed under a token whose attempt had not ended: by another's outcome. The clock must not be set.

    (Of one that is frozen or cut off nobody hears whether its outcome was accepted.)
    """
    ended = {attempt.token: attempt.ended_at for attempt in recorder.attempts()}
    rows = server.fetch(
        "SELECT m.job_id, m.token, extract(epoch FROM m.at - $1)::float8 AS at FROM asyncjobs.simulated_moves AS m"
        " JOIN asyncjobs.jobs AS j ON j.id = m.job_id WHERE m.was = 'processing' AND m.is_now = 'completed'"
        " AND (j.payload->'plan')::text NOT LIKE '%complete%'",
        server.instant(0.0),
    )
    return [
        f"P2: job {row['job_id']} was completed while its attempt under token {row['token']} had not ended"
        for row in rows
        if (ended_at := ended.get(row["token"])) is None or ended_at > row["at"] + _SAME_SECONDS
    ]


def taken(recorder: Recorder) -> list[str]:
    """Claims that were lost where there is no reason."""
    return [
        f"P2: job {event.job_id} was taken from a runner that was neither dead nor silent"
        for _, event in recorder.recorded
        if isinstance(event, ClaimWasLost) and event.during == "ack"
    ]


def _whole(server: Server) -> list[str]:
    """What handlers write in the transactions in which they complete their jobs, and the jobs."""
    rows = server.fetch(
        "SELECT j.id, j.status, (SELECT count(*) FROM asyncjobs.simulated_effects AS e WHERE e.job_id = j.id) AS times"
        " FROM asyncjobs.jobs AS j WHERE (j.payload->'plan')::text IN ('[\"complete\"]', '[\"forget\", \"complete\"]')"
    )
    completed = [row["id"] for row in rows if row["status"] == "completed"]
    return list(
        map(str, History(attempts=(), effects={row["id"]: row["times"] for row in rows}, completed=completed).violations())
    )


def _pauses(recorder: Recorder, told: Told) -> list[str]:
    found = History(attempts=recorder.attempts(), pauses=told.held).violations()
    return [str(one) for one in found if "after the pause" in one.problem]


def doubles(server: Server) -> list[str]:
    """Two jobs of one dedup key that are both to run yet, now."""
    rows = server.fetch(
        "SELECT dedup_key, array_agg(id ORDER BY id) AS ids FROM asyncjobs.jobs"
        " WHERE status NOT IN ('completed', 'dead', 'cancelled') AND dedup_key IS NOT NULL AND dedup_until IS NULL"
        " GROUP BY type, dedup_key HAVING count(*) > 1"
    )
    return [f"P1: jobs {row['ids']} of dedup key {row['dedup_key']} live at once" for row in rows]


def stalled(server: Server) -> list[str]:
    """Keys that have jobs, are not paused and have no head; keys of limits with jobs and a permit that no claim finds: now."""
    lost = server.fetch(Database(server.dsn).sql("audit_limit_keys"))
    return [*(row[0] for row in server.fetch(_STALLED)), *(f"job {row['job_id']} {row['problem']}" for row in lost)]


def _is_unseen(process: Process, since: float, until: float) -> bool:
    return any(begins <= until and ends > since for begins, ends in process.unseen)


def _lost(server: Server, told: Told) -> list[str]:
    there = {row[0] for row in server.fetch("SELECT id FROM asyncjobs.jobs")} | told.deleted
    return [f"P1: job {id} was accepted and is gone" for ids in told.accepted.values() for id in ids if id not in there]


def _twice(server: Server) -> list[str]:
    # (What replaced a job that has started since is sent again, as 2 of `runtime/sender.py` says, when its answer was lost.)
    numbers = server.fetch(
        "SELECT payload->>'number' AS number, count(*) FROM asyncjobs.jobs WHERE type <> 'tick' AND (payload->>'number')::int > 0"
        " AND requeued_from IS NULL AND dedup_until IS NULL GROUP BY 1 HAVING count(*) > 1"
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
    return any(_is_unseen(one.process, one.began_at, one.ended_at or one.began_at) for one in both)


def moves(server: Server, told: Told) -> list[str]:
    """Changes of a job's status that no rule allows, by what the server noted of each."""
    # (A retry of a workflow starts over what its members have spawned, too.)
    spawned = server.fetch("SELECT job_id FROM asyncjobs.members WHERE workflow_id = ANY ($1::bigint[])", list(told.steered))
    told.retried.update(row["job_id"] for row in spawned)
    found: list[str] = []
    for row in server.fetch("SELECT * FROM asyncjobs.simulated_moves ORDER BY number"):
        what, counted = f"job {row['job_id']} went from {row['was']} to {row['is_now']}", row["attempts"] - row["attempts_were"]
        if row["is_now"] == "processing":
            found += _claim(what, row)
        elif row["was"] == "processing":
            if row["is_rescue"] and row["token"] == row["token_was"]:
                found.append(f"P2: {what} by a rescue that left its token")
            is_refund = row["is_now"] == "scheduled" or (row["is_now"] in {"pending", "paused"} and counted)
            if counted != (-1 if is_refund else 0) and not (row["is_rescue"] and counted > 0):  # it pays for the kills before
                found.append(f"P7: {what} with {row['attempts']} attempts after {row['attempts_were']}")
        elif row["was"] in FINAL and row["job_id"] not in told.retried:
            found.append(f"P2: {what}, and nobody started it over")
        elif row["is_now"] == "completed":
            found.append(f"P2: {what}, which no attempt of it can have done")
    return found


class _Wait(NamedTuple):
    """For which members a job waits, and by which rule."""

    members: tuple[int, ...]
    rule: str


def _waits(server: Server, steered: Collection[int]) -> dict[int, list[_Wait]]:
    """By job; without those of workflows that an operator has steered: what was released once stays so."""
    found: dict[int, list[_Wait]] = {}
    for row in server.fetch(
        "SELECT d.job_id, d.rule, array_agg(m.job_id ORDER BY m.number) AS members FROM asyncjobs.dependents AS d"
        " JOIN asyncjobs.gates AS g ON g.id = d.gate_id JOIN asyncjobs.members AS m"
        " ON m.workflow_id = g.workflow_id AND d.gate_id = ANY (m.gates)"
        " WHERE g.workflow_id <> ALL ($1::bigint[]) GROUP BY d.gate_id, d.job_id, d.rule ORDER BY d.job_id, d.gate_id",
        list(steered),
    ):
        found.setdefault(row["job_id"], []).append(_Wait(tuple(row["members"]), row["rule"]))
    return found


def _gates(server: Server, told: Told) -> list[str]:
    """Jobs that were let go before what they wait for had ended, or although their workflow is cancelled, and what is left."""
    waits, found, status = _waits(server, told.steered), list[str](), dict[int, str]()
    for row in server.fetch(
        "SELECT m.job_id, m.was, m.is_now, m.is_cancelled AND j.workflow_id <> ALL ($1::bigint[]) AS is_cancelled"
        " FROM asyncjobs.simulated_moves AS m JOIN asyncjobs.jobs AS j ON j.id = m.job_id ORDER BY m.number",
        list(told.steered),
    ):
        job_id = row["job_id"]
        if row["was"] == "blocked" and row["is_now"] not in FINAL:
            for wait in waits.get(job_id, ()):
                early = [one for one in wait.members if status.get(one) not in _ENDS_BY[wait.rule]]
                found += [f"P14: job {job_id} did not wait for job {one}, which was {status.get(one)}" for one in early]
            if row["is_cancelled"]:
                found.append(f"P14: job {job_id} was released although its workflow was cancelled")
        status[job_id] = row["is_now"]
    left = server.fetch(
        "SELECT gate_id FROM asyncjobs.arrivals UNION SELECT id FROM asyncjobs.gates WHERE releasing"
        " UNION SELECT id FROM asyncjobs.workflows WHERE ended_at IS NULL ORDER BY 1"
    )
    return found + [f"P14: gate {row[0]} is not done with in peace" for row in left]


class _Release(NamedTuple):
    """When a dependent was released, and when it could have been: what it waits for had ended. By the world's clock."""

    could_at: float
    at: float


def _released(server: Server) -> dict[int, _Release]:
    """By job."""
    moved: dict[tuple[int, bool], float] = {
        (row["job_id"], row["is_end"]): row["at"]
        for row in server.fetch(
            "SELECT job_id, is_now = ANY ($2) AS is_end, max(extract(epoch FROM at - $1)::float8) AS at"
            " FROM asyncjobs.simulated_moves WHERE is_now = ANY ($2) OR was = 'blocked' GROUP BY 1, 2",
            server.instant(0.0),
            sorted(FINAL),
        )
    }
    return {
        job_id: _Release(max(moved[one, True] for wait in waits for one in wait.members), moved[job_id, False])
        for job_id, waits in _waits(server, ()).items()
        if (job_id, False) in moved
    }


def _claim(what: str, row: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    if row["was"] not in {"pending", "waiting", "blocked"} or row["token"] in {None, row["token_was"]}:
        found.append(f"P2: {what} with token {row['token']} after {row['token_was']}")
    if row["attempts"] - row["attempts_were"] != 1:
        found.append(f"P7: {what} with {row['attempts']} attempts after {row['attempts_were']}")
    if not row["has_runner"]:
        found.append(f"P2: {what} for runner {row['runner_id']}, which is gone")
    if row["is_paused"]:
        found.append(f"pause: {what} while it was paused")
    return found


def _halted(server: Server, told: Told) -> list[str]:
    """Jobs that died without halting their key, although they had to: nobody had to let it go."""
    dead = server.fetch(
        "SELECT id FROM asyncjobs.jobs AS j WHERE type = 'halting' AND status = 'dead' AND serialization_key IS NOT NULL "
        "AND NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = j.id AND s.halted_at IS NOT NULL)"
    )
    return [f"P3: the key of job {row[0]} went on after its death" for row in dead if row[0] not in told.released | told.retried]


def untimely(server: Server, recorder: Recorder, told: Told, world: World, home: Mapping[int, Process]) -> list[str]:
    """Attempts that began, or dependents that were released, later than they could, in a world where nothing fails.

    A runner cannot claim while the world has its call wait at a gate; and what the world has wait there, folds and the ends of
    members, makes dependents late. A wait for a lock excuses nothing. (`home`: the process of each runner.)
    """
    held: dict[Process, list[Held]] = {}
    for one in world.held:
        if one.call in LINE:
            held.setdefault(one.process, []).append(one)
    joins = [
        Joined(row["serialization_key"], row["job_id"], row["place"])
        for row in server.fetch(Database(server.dsn).sql("audit_line"))
    ]
    queues = {row["id"]: row["queue"] for row in server.fetch("SELECT id, queue FROM asyncjobs.jobs")}
    serving = [
        Serving(event.runner_id, queue, of_queue, since, until)
        for at, event in recorder.recorded if isinstance(event, RunnerRegistered)
        for since, until in _gaps(at, held.get(home[event.runner_id], ()))
        for queue, of_queue in (("default", world.course.concurrency), ("side", 2))
    ]  # fmt: skip
    released = _released(server)
    due = told.due | {job_id: one.at for job_id, one in released.items()}
    ready = [Ready(job_id, at, queues[job_id]) for job_id, at in due.items() if job_id in queues]  # else it still waits
    history = History(attempts=recorder.attempts(), joins=joins, ready=ready, serving=serving, prompt_seconds=_PROMPT_SECONDS)
    late = [
        f"P14: job {job_id} was released {one.at - one.could_at:.1f} s after what it waited for had ended"
        for job_id, one in released.items()
        if sum(until - since for since, until in _gaps(one.could_at, world.held, one.at)) > _PROMPT_SECONDS
    ]
    return [*late, *(str(one) for one in history.violations() if one.promise == "P4")]


def _gaps(since: float, held: Iterable[Held], until: float = float("inf")) -> Iterator[tuple[float, float]]:
    """The stretches in between in which none of these was held."""
    for one in sorted(held, key=lambda one: one.since):
        if since < one.since < until:
            yield since, one.since
        since = max(since, one.until)
    if since < until:
        yield since, until
