"""Safeguards of gates that no seed of the simulation misses within reason: each scenario holds, and is missed without its own.

All others are in `tests/simulation/mutants.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from asyncjobs.store import workflows
from asyncjobs.store.database import Database
from tests.support import flows
from tests.support.mutants import Change, Mutant, mutate
from tests.support.peers import Peers, peers

Scenario: TypeAlias = Callable[[Peers], Awaitable[None]]


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


async def two_gates_of_one_dependent_that_open_at_once_release_it(pair: Peers) -> None:
    """Each transaction sees that the other's gate has not opened. The second finds the dependent's row locked, and passes it
    over; its gate goes on later.
    """
    flow = await flows.write(pair, 3, [([0], [2]), ([1], [2])])
    first, second = await pair.a.claim(2)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET runner_id = 2 WHERE id = $1", second.id)
    await pair.a.begin()
    await pair.a.ack(first)
    await workflows.fold(pair.b.link)
    await pair.b.ack(second)
    await pair.a.commit()
    await flows.settle(pair)
    assert await flow.statuses() == ["completed", "completed", "pending"]


async def arrivals_that_are_left_are_told_of_with_their_commit(pair: Peers) -> None:
    """Another has the gate: who leaves an arrival there tells the folders, or it lies there until a sweep. What is sent after
    that commit is heard after it.
    """
    await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    heard: asyncio.Queue[str] = asyncio.Queue()
    channel = pair.database.channel
    await pair.admin.add_listener(channel, lambda *said: heard.put_nowait(str(said[3])))
    await pair.b.begin()
    await pair.b.link.connection()
    gates = await pair.admin.fetchval("SELECT array_agg(id) FROM asyncjobs.gates")
    await (await pair.b.link.connection()).fetch("SELECT asyncjobs.try_lock_gates($1)", gates)
    await pair.a.ack(job)
    await pair.b.commit()
    await pair.admin.execute("SELECT pg_notify($1, 'afterwards')", channel)
    said: list[str] = []
    while "afterwards" not in said:
        said.append(await asyncio.wait_for(heard.get(), 30))
    assert "k" in said


SCENARIOS: Final[tuple[Scenario, ...]] = (
    two_gates_of_one_dependent_that_open_at_once_release_it,
    arrivals_that_are_left_are_told_of_with_their_commit,
)
MUTANTS: Final[tuple[tuple[Mutant, Scenario], ...]] = (
    (
        Mutant(
            "other gates are looked at before the dependent is locked",
            (Change("tell_dependents", " FOR UPDATE SKIP LOCKED", ""),),
        ),
        two_gates_of_one_dependent_that_open_at_once_release_it,
    ),
    (
        Mutant("arrivals that are left are not told of", (Change("leave_arrivals", "PERFORM asyncjobs.tell('k');", ""),)),
        arrivals_that_are_left_are_told_of_with_their_commit,
    ),
)


@pytest.mark.unaudited("some are left in their middle")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
async def test_rules_of_gates_hold(scenario: Scenario, pair: Peers) -> None:
    await scenario(pair)


@pytest.mark.unaudited("its protocol is broken")
@pytest.mark.parametrize(("mutant", "scenario"), MUTANTS, ids=[mutant.name for mutant, _ in MUTANTS])
async def test_a_safeguard_of_gates_that_is_taken_out_is_missed(
    mutant: Mutant, scenario: Scenario, pair: Peers, database: Database
) -> None:
    await mutate(pair.admin, database, mutant)
    with pytest.raises(AssertionError):
        await scenario(pair)
