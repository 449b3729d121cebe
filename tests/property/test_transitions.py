"""Random lives of jobs through the real SQL, beside a small model: the same statuses and counts, and allowed moves only."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from asyncjobs.model.claim import Claimed
from asyncjobs.model.probation import Lost, blamed, judge
from asyncjobs.model.request import Wanted
from asyncjobs.model.status import FINAL, TRANSITIONS, Status
from asyncjobs.store import due, jobs, runners, serialized
from asyncjobs.store.database import Database
from asyncjobs.testing import MovableClock
from tests.support.claims import Claims, an_ack
from tests.support.factories import a_row, insert_runner

T = TypeVar("T")

#: Seconds against which those do not count that a test takes on a busy machine.
LONG = 1000.0
#: Jobs that live at a time: with more, steps go into jobs instead of into what becomes of them.
MOST = 4
WANTED: tuple[Wanted, ...] = ("cancel", "dead", "fail")

MOVES = """
CREATE TABLE public.moves (was text, now text);
CREATE FUNCTION public.note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.moves VALUES (OLD.status, NEW.status); RETURN NULL; END $$;
CREATE TRIGGER note_move AFTER UPDATE ON asyncjobs.jobs FOR EACH ROW
WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION public.note_move();
"""
EMPTY = """
TRUNCATE asyncjobs.schedule_declarations,
    asyncjobs.jobs, asyncjobs.serialized_jobs, asyncjobs.dedup_keys, asyncjobs.dead_letter_jobs, asyncjobs.runners,
    asyncjobs.former_runners, public.moves
"""
STATE = """
SELECT 'job', id, status, attempts, snoozes, rescues FROM asyncjobs.jobs
UNION ALL
SELECT 'dead_letter', job_id, NULL, 0, 0, 0 FROM asyncjobs.dead_letter_jobs
UNION ALL
SELECT 'dedup', job_id, NULL, 0, 0, 0 FROM asyncjobs.dedup_keys
UNION ALL
SELECT DISTINCT 'move', 0, was || ' ' || now, 0, 0, 0 FROM public.moves
"""


@dataclass
class Modelled:
    id: int
    status: Status
    key: str | None
    max_attempts: int
    due_at: float = 0.0
    attempts: int = 0
    snoozes: int = 0
    rescues: int = 0
    losses: int = 0
    suspicion: int = 0
    claim: Claimed | None = None
    wanted: Wanted | None = None

    @property
    def state(self) -> tuple[str, int, int, int]:
        return self.status, self.attempts, self.snoozes, self.rescues

    @property
    def lost(self) -> Lost:
        return Lost(
            id=self.id, attempts=self.attempts, max_attempts=self.max_attempts, losses=self.losses, suspicion=self.suspicion
        )


@dataclass
class Storage:
    """A database, and what talks to it, for all examples."""

    runner: asyncio.Runner
    claims: Claims
    clock: MovableClock
    connection: Any

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)


class Lives(RuleBasedStateMachine):
    storage: Storage

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.jobs: dict[int, Modelled] = {}
        self.lines: dict[str, list[int]] = {}
        self.lost: list[Claimed] = []
        self.numbers = 0
        self.storage.run(self.storage.connection.execute(EMPTY))
        self.storage.claims.runner_id = 1
        self.storage.run(insert_runner(self.storage.connection, id=1))

    def of(self, *statuses: Status) -> list[Modelled]:
        return [job for job in self.jobs.values() if job.status in statuses]

    @rule(choice=st.integers(0, 2**32 - 1))
    def live(self, choice: int) -> None:
        """One of what may happen now, each as likely as the others: hypothesis alone would mostly enqueue."""
        chance = Random(choice)
        may: list[Callable[[Random], None]] = (
            [self.enqueue] if sum(job.status not in FINAL for job in self.jobs.values()) < MOST else []
        )
        if self.of("scheduled", "failed"):
            may += [self.wait, self.promote]
        if self.of("pending"):
            may += [self.claim, self.claim]
        if self.of("processing"):
            may += [self.ack, self.ack, self.ack, self.give_back, self.rescue, self.operator_takes_back]
        if self.lost:
            may.append(self.ack_late)
        if self.jobs:
            may.append(self.operator_ends)
        chance.choice(may)(chance)

    def enqueue(self, chance: Random) -> None:
        key, delay, most = chance.choice([None, None, "a", "b"]), chance.choice([0, 0, 5 * LONG]), chance.randint(1, 3)
        self.numbers += 1
        link = self.storage.claims.link
        row = a_row(serialization_key=key, delay_seconds=delay or None, max_attempts=most, dedup_key=f"d{self.numbers}")
        ids = self.storage.run(jobs.reserve_ids(link, 1))
        self.storage.run(jobs.enqueue(link, [row], ids, ids))
        job = Modelled(ids[0], "scheduled" if delay else "pending", key, most, due_at=self.now + delay)
        self.jobs[job.id] = job
        if not delay:
            self.join(job)

    def join(self, job: Modelled) -> None:
        """Go to the end of the key's line."""
        if job.key is not None:
            line = self.lines.setdefault(job.key, [])
            line.append(job.id)
            job.status = "pending" if line[0] == job.id else "waiting"

    def end(self, job: Modelled, status: Status) -> None:
        if job.key is not None:
            assert self.lines[job.key][0] == job.id, "only the head of a line runs"
        self.leave(job, status)

    def leave(self, job: Modelled, status: Status) -> None:
        job.status = status
        line = [] if job.key is None else self.lines.setdefault(job.key, [])
        if job.id in line:
            was_head = line[0] == job.id
            line.remove(job.id)
            if was_head and line:
                self.jobs[line[0]].status = "pending"

    def wait(self, chance: Random) -> None:
        seconds = chance.choice([1, 4, 10]) * LONG
        self.now += seconds
        self.storage.run(self.storage.clock.advance(seconds))

    def promote(self, _chance: Random) -> None:
        link = self.storage.claims.link
        promoted, _reached = self.storage.run(due.promote(link, 100))
        if promoted.keys:
            assert self.storage.run(due.promote_keyed(link, promoted.keys, 100)) is not None
        ready = sorted(
            (job for job in self.of("scheduled", "failed") if job.due_at <= self.now), key=lambda job: (job.due_at, job.id)
        )
        for job in ready:
            if job.key is not None and job.id not in self.lines.get(job.key, []):
                self.join(job)
            else:
                job.status = "pending"

    def claim(self, chance: Random) -> None:
        limit = chance.randint(1, 3)
        claimed = self.storage.run(self.storage.claims.claim(limit))
        pending = self.of("pending")
        suspects = [job for job in claimed if job.suspicion]
        harmless = [job for job in pending if not job.suspicion]
        assert len(suspects) == min(1, len(pending) - len(harmless))
        assert len(claimed) == min(limit, len(suspects) + len(harmless))
        for claim in claimed:
            job = self.jobs[claim.id]
            assert job.status == "pending"
            job.status, job.attempts, job.claim = "processing", job.attempts + 1, claim
            assert claim.attempt == job.attempts

    def ack(self, chance: Random) -> None:
        job = chance.choice(self.of("processing"))
        kind = chance.choice(["completed", "retry", "snooze", "cancel", "dead", "interrupted"])
        assert job.claim is not None
        if kind == "retry" and job.attempts >= job.max_attempts:
            kind = "dead"
        finished = self.storage.run(
            self.storage.claims.ack(an_ack(job.claim, kind, delay_seconds=5 * LONG if kind in {"retry", "snooze"} else 0))
        )
        assert finished.lost == []
        job.claim = None
        if kind != "interrupted":
            job.losses = job.suspicion = 0
        if kind in {"snooze", "interrupted"}:
            job.attempts -= 1
            job.snoozes += kind == "snooze"
        if kind in {"retry", "snooze"}:
            job.status, job.due_at = "failed" if kind == "retry" else "scheduled", self.now + 5 * LONG
        elif kind == "interrupted":
            job.status = "pending"
        else:
            self.end(job, {"completed": "completed", "cancel": "cancelled", "dead": "dead"}[kind])  # type: ignore[arg-type]
            return
        if job.wanted is not None:
            self.obey(job, charged=kind != "retry")

    def obey(self, job: Modelled, *, charged: bool) -> None:
        """What was asked for while the attempt ran that has just ended, and did not end the job: then it counts, since it ran."""
        wanted, job.wanted = job.wanted, None
        job.attempts += charged
        if wanted != "fail":
            self.end(job, "cancelled" if wanted == "cancel" else "dead")
        elif charged:
            job.status, job.due_at = "failed", self.now
            if job.attempts >= job.max_attempts:
                self.end(job, "dead")

    def operator_ends(self, chance: Random) -> None:
        job, wanted = chance.choice(list(self.jobs.values())), chance.choice(WANTED)
        verb = self.storage.run(serialized.end(self.storage.claims.link, job.id, wanted, "by me"))
        assert verb.was == job.status
        if job.status in FINAL:
            assert verb.outcome == "final"
        elif job.status == "processing":
            assert verb.outcome == "requested"
            job.wanted = wanted
        elif wanted == "fail":
            assert verb.outcome == job.status
        else:
            self.leave(job, "cancelled" if wanted == "cancel" else "dead")
            assert verb.outcome == job.status

    def lose(self, change: Callable[[Modelled], None]) -> None:
        for job in self.of("processing"):
            assert job.claim is not None
            self.lost.append(job.claim)
            job.claim = None
            change(job)

    def give_back(self, _chance: Random) -> None:
        self.storage.run(self.storage.claims.give_back([]))

        def change(job: Modelled) -> None:
            job.status, job.attempts = "pending", job.attempts - 1

        self.lose(change)

    def rescue(self, _chance: Random) -> None:
        storage = self.storage
        storage.run(storage.connection.execute("DELETE FROM asyncjobs.runners"))
        storage.run(runners.rescue(storage.claims.link, 100, max_errors=10))
        storage.claims.runner_id += 1
        storage.run(insert_runner(storage.connection, id=storage.claims.runner_id))

        killer = blamed([job.lost for job in self.of("processing")])

        def change(job: Modelled) -> None:
            verdict = judge(job.lost, killer)
            job.rescues, job.losses, job.suspicion = job.rescues + 1, verdict.losses, verdict.suspicion
            wanted, job.wanted = job.wanted, None
            if wanted == "cancel":
                self.end(job, "cancelled")
            elif wanted == "dead" or verdict.is_dead:
                self.end(job, "dead")
            else:
                job.status = "pending"
            job.attempts = verdict.attempts if job.status == "pending" else max(job.attempts, verdict.attempts)

        self.lose(change)

    def operator_takes_back(self, _chance: Random) -> None:
        sql = "UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL WHERE status = 'processing'"
        self.storage.run(self.storage.connection.execute(sql))

        def change(job: Modelled) -> None:
            job.status = "pending"

        self.lose(change)

    def ack_late(self, chance: Random) -> None:
        claim, kind = chance.choice(self.lost), chance.choice(["completed", "retry", "dead", "interrupted"])
        assert self.storage.run(self.storage.claims.ack(an_ack(claim, kind))).lost == [claim.token]

    @invariant()
    def is_what_the_model_says(self) -> None:
        rows = self.storage.run(self.storage.connection.fetch(STATE))
        found: dict[str, list[tuple[Any, ...]]] = {"job": [], "move": [], "dead_letter": [], "dedup": []}
        for kind, *values in rows:
            found[kind].append(tuple(values))
        assert {job[0]: job[1:] for job in found["job"]} == {job.id: job.state for job in self.jobs.values()}
        assert {dead_letter[0] for dead_letter in found["dead_letter"]} == {job.id for job in self.of("dead")}
        assert {dedup[0] for dedup in found["dedup"]} == {job.id for job in self.jobs.values() if job.status not in FINAL}
        for _, move, *_ in found["move"]:
            was, now = move.split(" ")
            assert now in TRANSITIONS[was], f"{was} became {now}"

    def teardown(self) -> None:
        audits = [self.storage.run(self.storage.claims.link.fetch(name)) for name in ("audit_jobs", "audit_keys", "audit_dedup")]
        # An operator's SQL may take a job back in its last attempt, and leaves the runner's name on the row.
        known = ("with no attempt left", "and owned by runner", "attempts of")
        found = [row["problem"] for rows in audits for row in rows if not any(part in row["problem"] for part in known)]
        assert found == []


def test_jobs_live_as_the_model_says(database: Database) -> None:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database.dsn))
        link = database.link("finish")
        clock = runner.run(MovableClock(database).__aenter__())
        runner.run(connection.execute(MOVES))

        class Machine(Lives):
            storage = Storage(runner, Claims(link, connection), clock, connection)

        try:
            run_state_machine_as_test(
                Machine,
                settings=settings(
                    max_examples=25,
                    stateful_step_count=25,
                    deadline=None,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
                    database=None,
                ),
            )
        finally:
            runner.run(connection.execute(EMPTY + "; DROP TRIGGER note_move ON asyncjobs.jobs"))
            runner.run(clock.__aexit__())
            runner.run(link.close())
            runner.run(connection.close())


@pytest.mark.parametrize("status", TRANSITIONS)
def test_every_status_has_its_moves(status: Status) -> None:
    assert TRANSITIONS[status] <= set(TRANSITIONS)
    assert (not TRANSITIONS[status]) == (status == "completed")
