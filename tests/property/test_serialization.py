"""Random interleavings of all that can happen to keys, by two processes and two callers: the real SQL against the model."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.outcome import Outcome
from asyncjobs.store import runners, serialized
from asyncjobs.store.database import Database
from tests.support.factories import insert_runner
from tests.support.holding import pause_key
from tests.support.key_model import KeyModel, ModelJob
from tests.support.peers import Isolation, Peer, Peers, peers

T = TypeVar("T")

KEYS = st.sampled_from(["x", "y", "z"])
PROCESSES = st.sampled_from([0, 1])
ISOLATIONS: st.SearchStrategy[Isolation] = st.sampled_from(["read_committed", "repeatable_read", "serializable"])
MAX_ATTEMPTS = 3
_TABLES = (
    "jobs",
    "serialized_jobs",
    "dead_letter_jobs",
    "dispatch_requests",
    "pauses",
    "runners",
    "former_runners",
    "audit_line",
)


class KeysMachine(RuleBasedStateMachine):
    """The rules. What a rule does to the database, it does to the model; after each the two are compared."""

    def __init__(self, pair: Peers, callers: Sequence[Peer], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.pair = pair
        self.callers = callers
        self.processes = [pair.a, pair.b]
        self.model = KeyModel()
        self.open: list[tuple[Isolation, list[ModelJob]] | None] = [None, None]
        self.running: dict[int, tuple[int, Claimed]] = {}
        self.stale: list[Claimed] = []

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    @initialize()
    def start(self) -> None:
        self.do(self._start())

    async def _start(self) -> None:
        for table in _TABLES:
            await self.pair.admin.execute(f"DELETE FROM asyncjobs.{table}")
        await self.pair.admin.execute("SELECT setval('asyncjobs.jobs_id_seq', 1, false)")  # what is drawn depends on the ids
        for process in self.processes:
            await insert_runner(self.pair.admin, id=process.runner_id, types=["email", "report"])

    # Enqueues.

    @rule(key=KEYS, by=PROCESSES, type=st.sampled_from(["email", "report"]), halts=st.booleans())
    def enqueue(self, key: str, by: int, type: str, halts: bool) -> None:  # noqa: FBT001
        on_dead = "halt" if halts else "advance"
        job_id = self.do(self.processes[by].enqueue(key, type, on_dead=on_dead, max_attempts=MAX_ATTEMPTS))
        self.model.join(ModelJob(job_id, key, halts))
        self.model.settle([key])

    @rule(key=KEYS, by=PROCESSES)
    def enqueue_delayed(self, key: str, by: int) -> None:
        job_id = self.do(self.processes[by].enqueue(key, delay_seconds=3600.0, max_attempts=MAX_ATTEMPTS))
        self.model.jobs[job_id] = ModelJob(job_id, key, halts=False, status="scheduled")
        self.model.settle([key])  # it does not join, but its enqueue looks after the key

    @rule(key=KEYS, by=PROCESSES, isolation=ISOLATIONS)
    def enqueue_in_a_callers_transaction(self, key: str, by: int, isolation: Isolation) -> None:
        caller = self.callers[by]
        if self.open[by] is None:
            self.do(caller.begin(isolation))
            self.open[by] = (isolation, [])
        job_id = self.do(caller.enqueue_in_transaction(key, max_attempts=MAX_ATTEMPTS))
        self._of(by)[1].append(ModelJob(job_id, key, halts=False))

    def _of(self, by: int) -> tuple[Isolation, list[ModelJob]]:
        transaction = self.open[by]
        assert transaction is not None
        return transaction

    @precondition(lambda self: any(self.open))
    @rule(by=PROCESSES, commits=st.booleans())
    def end_transaction(self, by: int, commits: bool) -> None:  # noqa: FBT001
        if self.open[by] is None:
            by = 1 - by
        isolation, made = self._of(by)
        self.open[by] = None
        if not commits:
            self.do(self.callers[by].rollback())
            return
        self.do(self.callers[by].commit())
        for job in made:
            self.model.join(job)
        if isolation == "read_committed":
            self.model.settle({job.key for job in made})

    # What runners do.

    @rule(by=PROCESSES, limit=st.integers(1, 3))
    def claim(self, by: int, limit: int) -> None:
        claimed = self.do(self.processes[by].claim(limit))
        pending = self.model.ids(lambda job: job.status == "pending")
        assert len(claimed) <= limit
        assert {job.id for job in claimed} <= set(pending)
        assert claimed or not pending
        for job in claimed:
            self.model.jobs[job.id].status = "processing"
            self.model.jobs[job.id].attempts += 1
            self.running[job.id] = (by, job)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), kind=st.sampled_from(["completed", "retry", "snooze", "cancel", "dead", "interrupted"]))
    def ack(self, data: st.DataObject, kind: Any) -> None:
        by, claimed = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        job = self.model.jobs[claimed.id]
        if kind == "retry" and job.attempts >= MAX_ATTEMPTS:
            kind = "dead"
        delay = 3600.0 if kind in {"retry", "snooze"} else 0.0
        outcome = Outcome(kind=kind, delay_seconds=delay, message="said so")
        assert self.do(self.processes[by].finish([Ack(claimed.id, claimed.token, outcome)])).lost == []
        self.stale.append(claimed)
        if kind != "interrupted":
            job.losses = job.suspicion = 0
        if kind in {"snooze", "interrupted"}:
            job.attempts -= 1
        if kind in {"completed", "dead", "cancel"}:
            self.model.end(job, {"cancel": "cancelled"}.get(kind, kind))
        else:
            self.model.again(job, {"retry": "failed", "snooze": "scheduled", "interrupted": "pending"}[kind])

    @precondition(lambda self: self.running)
    @rule(data=st.data(), queue=st.sampled_from(["default", "default", "another", None]))
    def complete(self, data: st.DataObject, queue: str | None) -> None:
        by, claimed = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        finished = self.do(self.processes[by].complete(claimed, queue=queue))
        assert finished.lost == []
        self.stale.append(claimed)
        self.model.end(self.model.jobs[claimed.id], "completed")
        assert not finished.claimed or queue == "default"
        for head in finished.claimed:
            job = self.model.jobs[head.id]
            assert (job.key, job.status, job.attempts) == (claimed.serialization_key, "pending", 0)
            job.status, job.attempts = "processing", 1
            self.running[head.id] = (by, head)

    @precondition(lambda self: self.stale)
    @rule(data=st.data(), by=PROCESSES)
    def ack_late(self, data: st.DataObject, by: int) -> None:
        claimed = data.draw(st.sampled_from(self.stale))
        assert self.do(self.processes[by].ack(claimed)).lost == [claimed.token]

    @rule()
    def promote(self) -> None:
        self.do(self.pair.promote())
        for job_id in sorted(self.model.ids(lambda job: job.status in {"failed", "scheduled"})):
            job = self.model.jobs[job_id]
            if job in self.model.lines.get(job.key, []):
                self.model.due(job)
            else:
                self.model.join(job)
                self.model.settle([job.key])

    @rule(by=PROCESSES)
    def lose_a_runner(self, by: int) -> None:
        self.do(self._lose(by))
        lost = [job_id for job_id, (owner, _) in sorted(self.running.items()) if owner == by]
        self.stale += [self.running.pop(job_id)[1] for job_id in lost]
        self.model.lose(self.processes[by].runner_id, [self.model.jobs[job_id] for job_id in lost], MAX_ATTEMPTS)

    async def _lose(self, by: int) -> None:
        runner_id = self.processes[by].runner_id
        await self.pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = $1", runner_id)
        await runners.rescue(self.processes[1 - by].link, 1000, max_errors=10)
        await insert_runner(self.pair.admin, id=runner_id, types=["email", "report"])

    @rule(by=PROCESSES)
    def sweep(self, by: int) -> None:
        self.do(self._sweep(self.processes[by]))
        self.model.settle(list(self.model.lines))

    async def _sweep(self, process: Peer) -> None:
        found = await serialized.sweep(process.link, "", 100)
        assert (found.ended, found.lost) == ([], [])
        requests = [number for ids in found.requests.values() for number in ids]
        await serialized.advance(process.link, [*found.stalled, *found.requests], requests)

    # What operators do.

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), by=PROCESSES)
    def cancel(self, data: st.DataObject, by: int) -> None:
        job = self.model.jobs[data.draw(st.sampled_from(sorted(self.model.jobs)))]
        was, in_line = job.status, self._is_in_line(job)
        verb = self.do(serialized.cancel(self.processes[by].link, job.id, "no"))
        assert (verb.outcome, verb.was) == (self.model.cancel(job), was)
        if was == "waiting" and in_line:  # it was not the head; the verb looks after its key all the same
            self.model.settle([job.key])

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), by=PROCESSES)
    def retry(self, data: st.DataObject, by: int) -> None:
        job = self.model.jobs[data.draw(st.sampled_from(sorted(self.model.jobs)))]
        was = job.status
        verb = self.do(serialized.retry(self.processes[by].link, job.id, "me"))
        assert (verb.outcome, verb.was) == (self.model.retry(job), was)

    def _is_in_line(self, job: ModelJob) -> bool:
        return job in self.model.lines.get(job.key, [])

    @rule(key=KEYS, by=PROCESSES)
    def release(self, key: str, by: int) -> None:
        halted_id, _ = self.do(serialized.release_key(self.processes[by].link, key))
        line = self.model.lines.get(key, [])
        if line and line[0].halted:
            job = line.pop(0)
            job.halted = False
            self.model.settle([key])
            assert halted_id == job.id
        else:
            assert halted_id is None

    @rule(key=KEYS, by=PROCESSES)
    def pause(self, key: str, by: int) -> None:
        assert self.do(pause_key(self.processes[by].link, key, None, None)) == (key not in self.model.paused)
        self.model.paused.add(key)
        for job in self.model.lines.get(key, [])[:1]:
            if job.status == "pending":
                job.status = "paused"

    @rule(key=KEYS, by=PROCESSES)
    def resume(self, key: str, by: int) -> None:
        assert self.do(serialized.resume_key(self.processes[by].link, key))[0] == (key in self.model.paused)
        self.model.paused.discard(key)
        for job in self.model.lines.get(key, [])[:1]:
            if job.status == "paused":
                job.status = "pending"
        self.model.settle([key])

    @rule(key=KEYS, by=PROCESSES)
    def purge(self, key: str, by: int) -> None:
        cancelled, _ = self.do(serialized.purge_key(self.processes[by].link, key, "no", 100))
        waiting = [job for job in self.model.lines.get(key, []) if job.status == "waiting"]
        assert cancelled == [job.id for job in reversed(waiting)]
        for job in waiting:
            self.model.lines[key].remove(job)
            job.status = "cancelled"

    # What must be so after each.

    @invariant()
    def the_database_is_as_the_model(self) -> None:
        statuses, order = self.do(self._look())
        assert statuses == self.model.statuses()
        assert order == self.model.order()

    async def _look(self) -> tuple[dict[int, str], dict[str, list[int]]]:
        rows = await self.pair.admin.fetch(
            "SELECT j.id, CASE WHEN s.id IS NOT NULL AND s.dispatched_at IS NULL THEN 'waiting' ELSE j.status END AS status"
            " FROM asyncjobs.jobs AS j LEFT JOIN asyncjobs.serialized_jobs AS s ON s.id = j.id"
        )
        lines = await self.pair.admin.fetch(
            "SELECT serialization_key AS key, array_agg(id ORDER BY dispatched_at IS NULL, place) AS ids"
            " FROM asyncjobs.serialized_jobs GROUP BY serialization_key"
        )
        return {row["id"]: row["status"] for row in rows}, {row["key"]: row["ids"] for row in lines}

    def teardown(self) -> None:
        """Whatever state this ended in: everything can be run to its end, and nothing is left."""
        for by, transaction in enumerate(self.open):
            if transaction is not None:
                self.do(self.callers[by].rollback())
        self.do(self._run_out())

    async def _run_out(self) -> None:
        for key in ("x", "y", "z"):
            await serialized.resume_key(self.pair.a.link, key)
        for by, claimed in self.running.values():
            await self.processes[by].ack(claimed)
        for _ in range(1000):
            await self.pair.promote()
            await self._sweep(self.pair.a)
            ran = await self.pair.drain()
            released = [(await serialized.release_key(self.pair.a.link, key))[0] for key in ("x", "y", "z")]
            if not ran and not any(released):
                break
        await self.pair.promises_hold()
        assert await self.pair.admin.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0


def _run(database: Database, examples: int, steps: int) -> None:
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        opened = AsyncExitStack()
        stack.callback(lambda: runner.run(opened.aclose()))
        pair = runner.run(opened.enter_async_context(peers(database)))
        callers = [Peer(database.link(f"caller {number}"), 0) for number in (1, 2)]
        for caller in callers:
            opened.push_async_callback(caller.link.close)
        machine: Any = partial(KeysMachine, pair, callers, runner.get_loop())
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
                print_blob=True,
            ),
        )


@pytest.mark.unaudited("audited by the machine itself")
def test_keys_do_what_the_model_says(database: Database) -> None:
    _run(database, examples=40, steps=40)


@pytest.mark.proof
@pytest.mark.unaudited("audited by the machine itself")
def test_keys_do_what_the_model_says_in_thousands_of_interleavings(database: Database) -> None:
    _run(database, examples=2000, steps=80)
