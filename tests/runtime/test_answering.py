"""A runner answers for what is enqueued in its process, or does not (`runtime/herd.py`, 8)."""

from types import SimpleNamespace
from typing import Any, cast

from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.settings import Lane, Queue
from asyncjobs.store.database import Connection, Database
from tests.support.at_work import AtWork, at_work
from tests.support.eventually import eventually


def coordinator_of(rig: AtWork) -> Coordinator:
    """Its only one, which has a handler for "email"."""
    coordinator = rig.coordinators[0]
    handlers = cast("dict[str, Any]", coordinator._shared.handlers)
    handlers["email"] = handlers["held"] = SimpleNamespace(version=2)
    return coordinator


async def test_for_as_many_as_it_has_free_slots(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        coordinator = coordinator_of(rig)
        assert [coordinator.answers_for("email", 1) for _ in range(3)] == [True, True, False]
        coordinator.wake()
        await eventually(lambda: rig.is_satisfied, description="it has looked")
        assert coordinator.answers_for("email", 1)


async def test_for_none_while_all_slots_are_taken_or_asked_for(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        coordinator = coordinator_of(rig)
        await rig.enqueue(type="email")
        coordinator.wake()
        (running,) = await rig.wait_running(1)
        assert not coordinator.answers_for("email", 1)
        rig.put(running)
        await rig.wait_idle()
        await eventually(lambda: rig.is_satisfied, description="it has looked for more")
        assert coordinator.general.slots.take(1)
        assert not coordinator.answers_for("email", 1)
        coordinator.general.slots.give_back()
        assert coordinator.answers_for("email", 1)


async def test_for_none_that_it_could_not_run(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        coordinator = coordinator_of(rig)
        assert not coordinator.answers_for("other", 1), "it has no handler"
        assert not coordinator.answers_for("held", 1), "a breaker is open"
        assert not coordinator.answers_for("email", 3), "a newer program's"
        assert coordinator.answers_for("email", 2)


async def test_for_none_in_a_slot_that_is_kept_for_others(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2, lanes={"fast": Lane(slots=1)})) as rig:
        coordinator = coordinator_of(rig)
        assert [coordinator.answers_for("email", 1) for _ in range(2)] == [True, False]


async def test_for_none_when_it_is_stopped_or_the_line_is_closed(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        coordinator = coordinator_of(rig)
        rig.line._open.clear()
        assert not coordinator.answers_for("email", 1)
        rig.line._open.set()
        coordinator.stop()
        assert not coordinator.answers_for("email", 1)


async def test_what_it_answers_for_and_does_not_claim_others_are_told_of(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        coordinator, told = coordinator_of(rig), list[tuple[int | None, int]]()
        coordinator._herd._tell = lambda jobs, passes: told.append((jobs, passes))
        coordinator._herd._others = lambda: 1
        assert coordinator.answers_for("email", 1)
        rig.line._open.clear()
        rig.host.is_confirmed = False  # it may be declared dead at any moment, and claims nothing
        coordinator.wake()
        coordinator._claim([coordinator.general])
        assert told == [(1, 1)]
        rig.host.is_confirmed = True
