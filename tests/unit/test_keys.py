"""The actors of keys, with a call line in the test's hands: what they decide, what they hold, and what outlives them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncjobs.model.claim import Ack, Scan
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime.keys import KeyActors
from asyncjobs.runtime.orders import NoAnswer
from asyncjobs.runtime.queues import Queues
from asyncjobs.settings import Queue
from asyncjobs.telemetry.events import Events
from tests.support.claims import a_claimed
from tests.support.coordinating import Harness, working


class Acting:
    """Actors beside a coordinator."""

    def __init__(self, harness: Harness, partitions: int) -> None:
        self.harness = harness
        self.verified: list[int] = []
        queues = Queues()
        queues.add(harness.coordinator)
        verifier: Any = SimpleNamespace(verify=lambda _, ack: self.verified.append(ack.id))
        nobody: Any = None
        self.keys = KeyActors(cast("Any", harness.line), queues, verifier, nobody, nobody, events=Events(), partitions=partitions)
        self.tasks = [asyncio.create_task(actor.run()) for actor in self.keys.actors]
        self.number = 1000

    def end(self, *keys: str, kind: Any = "completed", completed_in_transaction: bool = False) -> list[int]:
        """Heads of these keys have ended, and their slots are free."""
        ids = []
        for key in keys:
            self.number += 1
            ids.append(self.number)
            attempt: Any = SimpleNamespace(
                claimed=a_claimed(id=self.number, serialization_key=key), completed_in_transaction=completed_in_transaction
            )
            self.keys.put(attempt, Ack(self.number, self.number, Outcome(kind=kind), "default"))
        return ids

    async def rest(self) -> None:
        await self.harness.turn()

    async def again(self) -> None:
        """Their tasks are ended, and new ones begin."""
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        self.tasks = [asyncio.create_task(actor.run()) for actor in self.keys.actors]
        await self.rest()

    @property
    def put(self) -> list[int]:
        """Outcomes that the line has."""
        return [ack.id for ack in self.harness.line.put_]

    def asked(self) -> list[tuple[Scan, Ack | None]]:
        """Scans that wait for an answer, with whose next head they are for."""
        return [
            (scan, head)
            for (scans, answer), head in zip(self.harness.line.asked, self.harness.line.heads, strict=True) if not answer.done()
            for scan in scans
        ]  # fmt: skip


@asynccontextmanager
async def acting(concurrency: int = 3, *, partitions: int = 1) -> AsyncGenerator[Acting]:
    """The queue is quiet, and all its slots are free."""
    async with working(Queue(concurrency=concurrency)) as harness:
        await harness.answer(0)
        made = Acting(harness, partitions)
        await made.rest()
        assert harness.coordinator.is_quiet
        yield made
        for task in made.tasks:
            task.cancel()
        await asyncio.wait(made.tasks)
        for _, answer in harness.line.asked:
            if not answer.done():
                answer.set_exception(NoAnswer())
        await made.rest()


async def test_head_that_ended_hands_its_slot_to_the_next_one_of_its_key_alone() -> None:
    async with acting() as actors:
        [job_id] = actors.end("k")
        await actors.rest()
        [(scan, head)] = actors.asked()
        assert (scan.lane, scan.limit, head.id if head else None, actors.put) == (None, 1, job_id, [job_id])
        assert actors.harness.free == {None: 2}
        await actors.harness.answer(1)
        assert (actors.harness.running, actors.harness.free) == ([(1, None)], {None: 2})


async def test_heads_that_end_together_are_handed_in_together() -> None:
    async with acting() as actors:
        ids = actors.end("a", "b")
        await actors.rest()
        [(scan, head)] = actors.asked()
        assert (scan.limit, head, actors.put) == (2, None, ids)
        await actors.harness.answer(1)
        assert (len(actors.harness.running), actors.harness.free) == (1, {None: 2})


@pytest.mark.parametrize("partitions", [1, 2])
async def test_one_free_slot_is_handed_over_once(partitions: int) -> None:
    async with acting(1, partitions=partitions) as actors:
        actors.end("a", "b", "c", "d")
        await actors.rest()
        assert [scan.limit for scan, _ in actors.asked()] == [1]
        assert (sorted(actors.put), actors.harness.free) == ([1001, 1002, 1003, 1004], {None: 0})
        await actors.harness.answer(0)
        await actors.harness.answer(0)  # the coordinator was woken for the others
        assert actors.harness.free == {None: 1}


@pytest.mark.parametrize("kind", ["retry", "snooze", "interrupted"])
async def test_outcome_that_is_not_final_holds_its_key_and_wakes_nobody(kind: str) -> None:
    async with acting() as actors:
        ids = actors.end("k", kind=kind)
        await actors.rest()
        assert (actors.put, actors.asked(), actors.harness.coordinator.is_quiet) == (ids, [], True)


async def test_head_stands_behind_what_has_woken_the_coordinator() -> None:
    async with acting() as actors:
        actors.end("k")
        actors.harness.coordinator.wake()
        await actors.rest()
        assert [(scan.limit, head) for scan, head in actors.asked()] == [(3, None)], "the coordinator's"
        assert actors.put == [1001]


async def test_coordinator_that_is_woken_for_an_outcome_asks_in_the_same_turn() -> None:
    async with acting() as actors:
        actors.harness.now += 1.0  # not quiet any more
        seen: list[int] = []
        actors.harness.line.on_ask = lambda: seen.append(len(actors.put))
        actors.end("k")
        await actors.rest()
        assert (actors.put, seen, len(actors.asked())) == ([1001], [1], 1)


async def test_completion_in_a_transaction_is_passed_on_to_the_settler() -> None:
    async with acting() as actors:
        ids = actors.end("k", completed_in_transaction=True)
        await actors.rest()
        assert (actors.verified, actors.put, actors.asked(), actors.keys.unwritten) == (ids, [], [], 0)


async def test_call_that_failed_gives_the_slots_back_and_the_coordinator_looks_at_the_front() -> None:
    async with acting() as actors:
        actors.end("k")
        await actors.rest()
        actors.harness.line.asked[-1][1].set_exception(NoAnswer())
        await actors.rest()
        assert [scan.limit for scan, _ in actors.asked()] == [3]
        await actors.harness.answer(0)
        assert actors.harness.free == {None: 3}


async def test_outcomes_outlive_the_task() -> None:
    async with acting() as actors:
        for task in actors.tasks:
            task.cancel()
        await actors.rest()
        ids = actors.end("k")
        assert actors.keys.unwritten == 1
        await actors.again()
        assert (actors.put, actors.keys.unwritten) == (ids, 0)


async def test_what_was_taken_and_not_decided_is_the_next_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    async with acting() as actors:
        actor = actors.keys.actors[0]

        def fail(*_: Any) -> None:
            raise ValueError("a defect")

        with monkeypatch.context() as patched:
            patched.setattr(actor, "_hand_over", fail)
            ids = actors.end("k")
            await actors.rest()
        assert ([ack.id for ack in actor.taken], actors.put, actors.keys.unwritten) == (ids, [], 1)
        await actors.again()
        assert (actors.put, actors.keys.unwritten) == (ids, 0)


async def test_hand_over_outlives_the_task_of_its_actor() -> None:
    async with acting() as actors:
        ids = actors.end("k")
        await actors.rest()
        assert actors.harness.free == {None: 2}
        await actors.again()
        assert (actors.harness.free, actors.put) == ({None: 2}, ids)
        await actors.harness.answer(1)
        assert (actors.harness.running, actors.harness.free) == ([(1, None)], {None: 2})


async def test_outcomes_are_handed_in_while_an_answer_is_waited_for() -> None:
    async with acting() as actors:
        ids = actors.end("k")
        await actors.rest()
        ids += actors.end("k 2")
        await actors.rest()
        assert actors.put == ids
        assert [(scan.limit, head.id if head else None) for scan, head in actors.asked()] == [(1, one) for one in ids]


async def test_head_that_was_claimed_after_the_stop_is_given_back() -> None:
    async with acting() as actors:
        actors.end("k")
        await actors.rest()
        actors.harness.coordinator.stop()
        await actors.harness.answer(1)
        assert (actors.harness.running, actors.harness.line.given_back, actors.harness.free) == ([], [1], {None: 3})


async def test_no_head_is_started_after_a_stop() -> None:
    async with acting() as actors:
        actors.harness.coordinator.stop()
        ids = actors.end("k")
        await actors.keys.wait_passed_on()
        await actors.rest()
        assert (actors.put, actors.asked()) == (ids, [])


async def test_actor_whose_advancer_alone_is_cancelled_says_so() -> None:
    """Such an end of a task group is silent: its part would be taken for done."""
    async with acting() as actors:
        advancer = next(task for task in asyncio.all_tasks() if task.get_name() == "asyncjobs advance keys")
        advancer.cancel()
        await asyncio.wait(actors.tasks)
        assert isinstance(actors.tasks[0].exception(), RuntimeError)
