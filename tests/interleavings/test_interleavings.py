"""Any two calls that write, one of them waiting for the other: the end is one that some serial order gives, and nobody deadlocks.

In `make test`: what pauses, what replaces and what ends many, beside the calls of runners, on the worlds in which they have met;
what brings a job with a dedup key to life; changes and deletes by hand; and what is one row: a lease, a breaker, a schedule.
All pairs on all worlds, and triples, are played by `make proof`.
"""

import random
from collections.abc import AsyncGenerator, Generator

import asyncpg
import pytest

from asyncjobs.testing import databases, server
from tests.interleavings.__main__ import SETTINGS
from tests.interleavings.explorer import Explorer
from tests.interleavings.lab import Lab
from tests.interleavings.worlds import World, worlds
from tests.simulation.mutants import MUTANTS
from tests.simulation.schema import as_written
from tests.support.mutants import Change

WORLDS = {world.name: world for world in worlds()}
TRIPLES = 300

#: world -> calls that are played in it, and those of which one is in each pair
QUICK = {
    "head processing, 1 behind": (r"^(pause_key|finish_one h|ack pending h|give_back|end_jobs|claim)$", r"pause_key|end_jobs"),
    "head processing, 1 follows, 1 behind": (
        r"^(run .*|finish_one h|quiet h|ack failed h|give_back|pause_key|purge_key|end_jobs|cancel [wv]|claim)$",
        "run|give_back",
    ),
    "head pending, delayed due": (r"^(tx )?(replace|delay) s|^(retry s|promote_keyed|end_jobs|pause_key)$", r"s$|end_jobs"),
    "plain dead, dedup_for": (r"^(tx )?again p|^(retry p|requeue)$", r"retry|requeue"),
    "plain dead, dedup_for over": (r"^(tx )?(again|replace) p|^(retry p|requeue|prune)$", r"retry|requeue"),
    "plain retried, dedup_for over": (r"^tx again p|^(again p|retry p|requeue|cancel p)$", "again"),
    "head pending, 1 behind": (r"^change( later| now)? [hw]$|^(cancel [hw]|claim|pause_key|end_jobs)$", "change"),
    "plain delayed due": (r"^change( later| now)? p$|^(retry p|promote|cancel p|tx replace p)$", "change"),
    "plain dead": (r"^delete p$|^(tx )?again p$|^(retry p|requeue|acknowledge|prune)$", "delete"),
    "plain deleted": (r"^(tx )?(again|replace) p$", "again"),
    "a lease of 1": (r"^(take [23]|renew 1|release 1|pass 1)$", ""),
    "a breaker that is closed, a failure": (r"^breaker (failed|succeeded|reset)", "failed"),
    "a breaker that is half-open": (r"^breaker (failed 7|succeeded|asked|given back|reset)", "7"),
    "a schedule, overlap skip": (r"^(tick|run$|disable|declare)", ""),
    "plain pending": (r"^(tx )?replace p|^(cancel p|dead p|end_jobs|claim|pause type)$", r"replace|pause"),
}


@pytest.fixture(scope="module")
def laboratory() -> Generator[str]:
    """A database on a server that finds deadlocks soon, and keeps the times of commits."""
    with server(SETTINGS) as dsn, databases(dsn) as made, made.fresh() as fresh:
        yield fresh


@pytest.fixture
async def lab(laboratory: str) -> AsyncGenerator[Lab]:
    async with Lab(laboratory) as made:
        yield made


@pytest.mark.parametrize("name", QUICK)
async def test_two_calls_of_which_one_waits_end_as_some_serial_order_does(lab: Lab, name: str) -> None:
    calls, having = QUICK[name]
    explorer = Explorer(lab, WORLDS[name], calls=calls, having=having)
    await explorer.pairs()
    assert [str(finding) for finding in explorer.found] == []
    assert explorer.waiting  # else it has played nothing that could go wrong


@pytest.mark.proof
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
async def test_all_calls_that_wait_for_one_or_two_others_end_as_some_serial_order_does(lab: Lab, world: World) -> None:
    explorer = Explorer(lab, world, patient=True)
    await explorer.pairs()
    await explorer.triples(TRIPLES, random.Random(world.name))
    assert [str(finding) for finding in explorer.found] == []


async def test_locks_that_are_kept_of_what_has_moved_on_are_noticed(laboratory: str, lab: Lab) -> None:
    """Three calls: the second keeps a lock that it got too late, and waits for the third, which wants it."""
    connection = await asyncpg.connect(laboratory)
    [change] = next(mutant for mutant in MUTANTS if mutant.name == "locks of what has moved on are kept").changes
    kept = await connection.fetchval("SELECT pg_get_functiondef($1::regproc)", f"asyncjobs.{change.function}")
    try:
        await connection.execute(change.of(as_written(kept)))
        explorer = Explorer(
            lab, WORLDS["head processing, delayed due"], calls="^(tx replace s|retry s|finish_one h)$", patient=True
        )
        await explorer.pairs()
        await explorer.triples(TRIPLES, random.Random(0))
        assert any(str(finding).startswith("DEADLOCK") for finding in explorer.found)
    finally:
        await connection.execute(kept)
        await connection.close()


async def test_failures_that_are_counted_by_what_was_read_before_the_lock_are_noticed(laboratory: str, lab: Lab) -> None:
    connection = await asyncpg.connect(laboratory)
    kept = await connection.fetchval("SELECT pg_get_functiondef('asyncjobs.happen_to_breaker'::regproc)")
    try:
        broken = Change("happen_to_breaker", " FOR NO KEY UPDATE", "").of(as_written(kept))
        again = "VALUES (_service) ON CONFLICT (service_name) DO NOTHING"  # it waits for who writes the row, too
        await connection.execute(Change("happen_to_breaker", again, "SELECT _service WHERE false").of(broken))
        explorer = Explorer(lab, WORLDS["a breaker that is closed, a failure"], calls="^breaker (failed|succeeded)")
        await explorer.pairs()
        assert explorer.found, explorer.waiting
    finally:
        await connection.execute(kept)
        await connection.close()
