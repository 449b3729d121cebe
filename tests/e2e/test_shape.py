"""The shape of a runner, seen from outside: which tasks there are, what they take, through which queues keys go, a poll."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, Queue, Retry, Snooze
from asyncjobs.settings import Lane
from asyncjobs.store import jobs as statements
from asyncjobs.telemetry.events import AttemptEnded, OutcomeWritten, PartRestarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually

QUEUES = [
    Queue("alpha", concurrency=3, lanes={"fast": Lane(slots=1)}), *(Queue(name, concurrency=2) for name in ("beta", "gamma"))
]  # fmt: skip


class Office:
    """An app of three queues, whose handlers wait until they are let go."""

    def __init__(self, dsn: str) -> None:
        self.jobs = AsyncJobs(dsn, queues=QUEUES, poll_interval=0.25)
        self.go = asyncio.Event()
        self.ran: list[int] = []

        @self.jobs.job("wait", queue="alpha")
        async def wait() -> None:
            await self.go.wait()

        @self.jobs.job("keyed", queue="beta", serialize_by="key {key}", max_attempts=5)
        async def keyed(ctx: JobContext, key: int, number: int) -> None:
            if number == 3 and ctx.attempt == 1:
                raise Retry(delay=0.01)
            if number == 4 and not ctx.job.snoozes:
                raise Snooze(0.01)
            self.ran.append(number)

        self.wait, self.keyed = wait, keyed


@pytest.fixture
async def office(dsn: str) -> AsyncGenerator[Office]:
    made = Office(dsn)
    async with made.jobs:
        yield made


def tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks()]


async def test_there_is_a_task_per_queue_a_semaphore_per_kind_of_slots_and_a_task_per_job(office: Office) -> None:
    async with office.jobs.runner() as runner:
        assert {"asyncjobs queue alpha", "asyncjobs queue beta", "asyncjobs queue gamma", "asyncjobs call line"} <= {*tasks()}
        assert sum(name.startswith("asyncjobs keys") for name in tasks()) == 4
        slots = {(one.queue, lane.name): lane.slots for one in runner.parts.queues for lane in one.lanes.values()}
        assert {kind: one.size for kind, one in slots.items()} == {
            ("alpha", "fast"): 1, ("alpha", None): 2, ("beta", None): 2, ("gamma", None): 2,
        }  # fmt: skip
        assert all(isinstance(one, asyncio.Semaphore) for one in slots.values())
        handles = [await office.wait.using(queue=queue).enqueue() for queue in ("alpha", "alpha", "alpha", "beta", "gamma")]
        await eventually(lambda: len(runner.parts.attempts) == 4, description="four run, and one waits")
        await eventually(lambda: sum(one.taken for one in slots.values()) == 4, description="no other slot is taken for long")
        running = {name for name in tasks() if name.startswith("job ")}
        assert len(running) == 4 < len(handles)
        assert running <= {f"job {handle.id}" for handle in handles}
        office.go.set()
        for handle in handles:
            await handle.wait(timeout=10)
        await eventually(lambda: not any(one.taken for one in slots.values()), description="all slots are back")
        await eventually(lambda: not runner.running_ids(), description="the ledger is empty")


async def test_every_outcome_of_a_keyed_job_goes_through_the_queue_of_its_partition(
    office: Office, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: Counter[tuple[int, int]] = Counter()
    async with office.jobs.runner() as runner:
        line = runner.parts.line
        at_line: set[int] = set()
        for number, actor in enumerate(runner.parts.keys.actors):
            assert isinstance(actor.items, asyncio.Queue)
            put = actor.items.put_nowait

            def count(item: Any, number: int = number, put: Any = put) -> None:
                if isinstance(item, tuple):
                    assert item[1].token not in at_line, "the line had it before"
                    passed[number, item[1].token] += 1
                put(item)

            monkeypatch.setattr(actor.items, "put_nowait", count)
        take = line.put

        def note(ack: Any) -> None:
            at_line.add(ack.token)
            take(ack)

        monkeypatch.setattr(line, "put", note)
        handles = [await office.keyed.enqueue(key, number) for number in range(6) for key in range(8)]
        for handle in handles:
            await handle.wait(timeout=20)
        await eventually(lambda: not runner.running_ids(), description="all is written")
    ended = recorder.of(AttemptEnded)
    assert len(ended) == 48 + 16  # each third was retried, each fourth was snoozed
    assert Counter({token: 1 for _, token in passed}) == Counter(event.token for event in ended)
    assert len({number for number, _ in passed}) > 1, "several partitions"
    assert len(recorder.of(OutcomeWritten)) == len(ended)


async def test_poll_of_all_idle_queues_is_one_statement_also_when_a_coordinator_was_started_again(
    office: Office, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[list[str]] = []
    finish, completed, skipped = statements.finish, statements.finish_completed, statements.skipped
    looks: list[int] = []

    async def count(link: Any, runner_id: int, acks: Any, scans: Any, *args: Any, **options: Any) -> Any:
        polls.append(sorted({scan.queue for scan in scans}))
        return await finish(link, runner_id, acks, scans, *args, **options)

    async def count_one(link: Any, runner_id: int, acks: Any, scan: Any, *args: Any, **options: Any) -> Any:
        polls.append([] if scan is None else [scan.queue])
        return await completed(link, runner_id, acks, scan, *args, **options)

    async def count_look(link: Any, runner_id: int, lanes: Any, *args: Any, **options: Any) -> Any:
        looks.append(len(lanes))
        return await skipped(link, runner_id, lanes, *args, **options)

    everything = ["alpha", "beta", "gamma"]

    async def are_together() -> None:
        """Three polls on end ask for all queues and all their lanes, in one statement, and no oftener than the interval says."""
        await eventually(lambda: polls and polls[-1] == everything, description="a poll of all")
        polls.clear()
        looks.clear()
        began = time.monotonic()
        await eventually(lambda: len(polls) >= 3, description="three more")
        assert polls == [everything] * len(polls)
        assert looks == [], "what a poll may have skipped is left to the next"
        assert len(polls) <= (time.monotonic() - began) / 0.25 + 1

    async with office.jobs.runner() as runner:
        await runner.parts.listening.wait_decided()
        monkeypatch.setattr(statements, "finish", count)
        monkeypatch.setattr(statements, "finish_completed", count_one)
        monkeypatch.setattr(statements, "skipped", count_look)
        await are_together()
        part = next(part for part in office.jobs.lifecycle.opened.parts.all if part.name == "queue beta")  # type: ignore[union-attr]
        part.task.cancel()
        await recorder.wait_for(PartRestarted)
        polls.clear()
        looks.clear()
        await are_together()
