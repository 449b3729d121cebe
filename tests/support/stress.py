"""Three runners, callers, and operators at many keys, with one process killed and one frozen; then the history is judged."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from asyncjobs.model.new_row import NewRow
from asyncjobs.store import callers, jobs, serialized
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import OutcomeWritten
from asyncjobs.testing import Applied, History, Joined, Ready, Recorder, Serving, Violation, Written
from tests.support.eventually import eventually
from tests.support.factories import a_row
from tests.support.peers import Isolation
from tests.support.program import Program

#: Of a program of `tests/programs/keyed.py`.
SLOTS = 12
#: Less than a poll, and more than a busy machine stands still.
PROMPT_SECONDS = 4.0
ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "repeatable_read", "serializable")


class Plan(msgspec.Struct, frozen=True):
    """How much of everything."""

    seed: int
    keys: int
    jobs_per_key: int
    failing: float = 0.2
    whole: float = 0.1  # that end in transactions of their own
    runner_timeout: float = 1.5
    work_seconds: float = 0.002  # of a job, or twice as much, or nothing
    prefetch: int = 0
    total: int = 0  # of the queue, over all processes; 0: none


class Result(msgspec.Struct, frozen=True):
    """What came of it."""

    violations: list[Violation]
    enqueued: int
    missing: list[int]  # committed, and not there or not ended
    unexpected: list[int]  # there, and rolled back
    cancelled: int
    late_writes: int  # of the frozen process, refused
    rescued: int
    stuck: list[tuple[Any, ...]]
    seconds: float


class Stress:
    """One run of a plan."""

    def __init__(self, database: Database, plan: Plan, folder: Path) -> None:
        self.database = database
        self.plan = plan
        self.folder = folder
        self.random = random.Random(plan.seed)
        self.committed: set[int] = set()
        self.rolled_back: set[int] = set()
        self.verbs: list[Applied] = []
        self.ready: list[Ready] = []
        self.serving: list[Serving] = []
        self.enqueueing = True
        self.tokens = iter(range(1, 1 << 60))

    async def run(self) -> Result:
        started = time.monotonic()
        await self._make_effects()
        async with AsyncExitStack() as stack:
            programs = [await stack.enter_async_context(self._program(number)) for number in range(3)]
            runner_ids = [int((await program.line("started")).split()[1]) for program in programs]
            steady = Serving(runner_ids[2], "default", SLOTS, time.monotonic())  # nothing befalls it
            async with asyncio.TaskGroup() as group:
                group.create_task(self._break(programs, runner_ids))
                operators = group.create_task(self._operate())
                async with asyncio.TaskGroup() as enqueuers:
                    for part in self._parts(4):
                        enqueuers.create_task(self._enqueue(part))
                self.enqueueing = False
                await operators
            await eventually(self._is_drained, description="all keys are drained", timeout=120.0, interval=0.1)
            self.serving.append(steady._replace(until=time.monotonic()))
            for program in programs[1:]:
                program.terminate()
                assert await program.wait() == 0, program.said
        return await self._judge(time.monotonic() - started)

    def _program(self, number: int) -> Program:
        env = {"ASYNCJOBS_DSN": self.database.dsn, "SPOOL": str(self.folder / f"spool-{number}")}
        env |= {"WORK_SECONDS": str(self.plan.work_seconds), "TOTAL": str(self.plan.total), "PREFETCH": str(self.plan.prefetch)}
        return Program.python("-m", "tests.programs.keyed", env=env)

    def _parts(self, count: int) -> list[list[NewRow]]:
        rows = [self._row(key, number) for key in range(self.plan.keys) for number in range(self.plan.jobs_per_key)]
        self.random.shuffle(rows)
        return [rows[start::count] for start in range(count)]

    def _row(self, key: int, number: int) -> NewRow:
        failing = self.random.random() < self.plan.failing
        type = "break" if failing and self.random.random() < 0.1 else "work"
        payload = {"key": key} if type == "break" else {"key": key, "failures": self.random.randint(1, 2) if failing else 0}
        if not failing and self.random.random() < self.plan.whole:
            type, payload = "whole", {"key": key}
        return a_row(type, payload=json.dumps(payload), serialization_key=f"key {key}", max_attempts=1 if type == "break" else 20)

    async def _enqueue(self, rows: list[NewRow]) -> None:
        """Partly as an app does on its own connections, partly in transactions, some of which are rolled back."""
        link = self.database.link("enqueue")
        caller = await asyncpg.connect(self.database.dsn, command_timeout=60)
        try:
            while rows:
                size = self.random.choice((1, 1, 3, 20, 60))
                batch, rows = rows[:size], rows[size:]
                if self.random.random() < 0.5:
                    ids = await jobs.reserve_ids(link, len(batch))
                    await jobs.enqueue(link, batch, ids, [next(self.tokens) for _ in batch])
                    self._accept(ids)
                else:
                    await self._in_transaction(caller, batch)
                await asyncio.sleep(0.001 * self.random.randint(0, 10))
        finally:
            await link.close()
            await caller.close(timeout=5)

    async def _in_transaction(self, caller: Connection, batch: list[NewRow]) -> None:
        isolation = self.random.choice(ISOLATIONS)
        gives_up = self.random.random() < 0.2
        while True:
            transaction = caller.transaction(isolation=isolation)
            await transaction.start()
            answer = await callers.enqueue(caller, self.database, batch, [next(self.tokens) for _ in batch])
            ids = {enqueued.id for enqueued in answer.enqueued}
            await asyncio.sleep(0.001 * self.random.randint(0, 30))
            if gives_up:
                await transaction.rollback()
                self.rolled_back |= ids
                gives_up = False
                continue
            try:
                await transaction.commit()
            except asyncpg.SerializationError:
                self.rolled_back |= ids
                continue
            self._accept(ids)
            return

    def _accept(self, ids: Collection[int]) -> None:
        self.committed.update(ids)
        self.ready += [Ready(job_id, time.monotonic(), "default") for job_id in ids]

    async def _make_effects(self) -> None:
        """A table of the application's own."""
        connection = await asyncpg.connect(self.database.dsn)
        await connection.execute("CREATE TABLE public.effects (job_id bigint NOT NULL)")
        await connection.close()

    async def _operate(self) -> None:
        """Cancel waiting jobs at random."""
        link = self.database.link("operator")
        try:
            while self.enqueueing:
                await asyncio.sleep(0.001 * self.random.randint(5, 40))
                if not self.committed:
                    continue
                job_id = self.random.choice(sorted(self.committed)[-200:])
                sent_at = time.monotonic()
                verb = await self._again(partial(serialized.cancel, link, job_id, "by an operator"))
                if verb.outcome == "cancelled":
                    self.verbs.append(Applied("cancel", job_id, sent_at, time.monotonic()))
        finally:
            await link.close()

    async def _again(self, verb: Callable[[], Any]) -> Any:
        while True:
            try:
                done = await verb()
            except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.SerializationError):
                continue
            if done.outcome != "again":
                return done

    async def _break(self, programs: Sequence[Program], runner_ids: Sequence[int]) -> None:
        """Kill one, and freeze one for longer than its death takes, each while it runs jobs."""
        link = self.database.link("look")
        try:
            connection = await link.connection()

            async def is_busy(runner_id: int) -> bool:
                return bool(await connection.fetchval("SELECT count(*) > 0 FROM asyncjobs.jobs WHERE runner_id = $1", runner_id))

            await asyncio.sleep(self.random.uniform(0.0, 0.3))
            await eventually(
                partial(self._is_frozen_busy, programs[1], partial(is_busy, runner_ids[1])), description="frozen", timeout=20.0
            )
            await asyncio.sleep(self.random.uniform(0.05, 0.3))
            await eventually(partial(is_busy, runner_ids[0]), description="the victim is busy", interval=0.002, timeout=20.0)
            programs[0].kill()
        finally:
            await link.close()
        await asyncio.sleep(self.plan.runner_timeout * 2)
        programs[1].unpause()

    async def _is_frozen_busy(self, program: Program, is_busy: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """Freeze it. One that holds no jobs then, when what it had sent is done, goes on."""
        program.pause()
        await asyncio.sleep(0.05)
        if await is_busy():
            return True
        program.unpause()
        return False

    async def _is_drained(self) -> bool:
        link = self.database.link("look")
        try:
            connection = await link.connection()
            return bool(
                await connection.fetchval(
                    "SELECT NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs) AND NOT EXISTS (SELECT FROM asyncjobs.jobs"
                    " WHERE status NOT IN ('completed', 'dead', 'cancelled'))"
                )
            )
        finally:
            await link.close()

    async def _judge(self, seconds: float) -> Result:
        recorder = Recorder()
        for spool in sorted(self.folder.glob("spool-*")):
            recorder.read(spool)
        link = self.database.link("judge")
        try:
            connection = await link.connection()
            rows = await connection.fetch("SELECT id, type, status, rescues, errors, completed_at FROM asyncjobs.jobs")
            effects = await connection.fetch("SELECT job_id, count(*) FROM public.effects GROUP BY 1")
            deadlocks = await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            places = await connection.fetch("SELECT serialization_key, job_id, place FROM asyncjobs.audit_line")
            stuck = [tuple(row) for name in ("audit_jobs", "audit_keys", "audit_dedup") for row in await link.fetch(name)]
        finally:
            await link.close()
        to_monotonic = time.monotonic() - time.time()
        ended = {row["id"]: row["completed_at"].timestamp() + to_monotonic for row in rows}
        history = History(
            attempts=recorder.attempts(),
            joins=[Joined(*place) for place in places],
            verbs=self.verbs,
            writes=_writes(recorder, {row["id"]: json.loads(row["errors"]) for row in rows}),
            ended=ended,
            completed=[row["id"] for row in rows if row["status"] == "completed"],
            effects=dict.fromkeys((row["id"] for row in rows if row["type"] == "whole"), 0) | dict(map(tuple, effects)),
            ready=self.ready,
            serving=self.serving,
            prompt_seconds=PROMPT_SECONDS,
            deadlocks=[f"the server found {deadlocks} deadlocks"] if deadlocks else [],
        )
        return Result(
            violations=history.violations(),
            enqueued=len(self.committed),
            missing=sorted(self.committed - ended.keys()),
            unexpected=sorted(ended.keys() - self.committed),
            cancelled=sum(row["status"] == "cancelled" for row in rows),
            late_writes=sum(attempt.claim_lost and attempt.ended_at is not None for attempt in history.attempts),
            rescued=sum(row["rescues"] for row in rows),
            stuck=stuck,
            seconds=seconds,
        )


def _writes(recorder: Recorder, errors: Mapping[int, list[dict[str, Any]]]) -> list[Written]:
    """The outcomes that were accepted. An attempt that the table tells was lost with its runner has none to be accepted."""
    numbers = {attempt.token: attempt.number for attempt in recorder.attempts()}
    lost = {
        (job_id, entry["attempt"]) for job_id, entries in errors.items() for entry in entries if entry["type"] == "RunnerLost"
    }
    return [
        Written(event.job_id, event.token, at, True, 0.0 if (event.job_id, numbers.get(event.token)) in lost else None)
        for at, event in recorder.recorded
        if isinstance(event, OutcomeWritten) and event.status in {"completed", "failed", "dead", "cancelled"}
    ]
