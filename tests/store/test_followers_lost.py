"""Runs of runners that died (`store/routines/rescue`): what becomes of followers, and of a job that kills in their middle."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store import runners
from asyncjobs.store.database import Database
from tests.store.test_followers import back, claim_run, rows, states, write
from tests.support.factories import insert_runner
from tests.support.peers import Peer, Peers, peers
from tests.support.rows import each


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.clear()


async def die(pair: Peers, peer: Peer) -> None:
    """Its runner is declared dead, and its jobs are taken back."""
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = $1", peer.runner_id)
    await pair.admin.execute(
        "INSERT INTO asyncjobs.former_runners (id, host, pid, version, started_at, queues, types)"
        " VALUES ($1, 'h', 1, '1', now(), '{}', '{}')",
        peer.runner_id,
    )
    while (await runners.rescue(pair.b.link, 2, max_errors=9)).more:
        pass
    await pair.admin.execute("DELETE FROM asyncjobs.former_runners")


async def test_followers_of_a_runner_that_died_wait_again_and_its_head_is_judged(pair: Peers) -> None:
    await pair.a.enqueue(times=4)
    await claim_run(pair.a, ahead=2)
    await die(pair, pair.a)
    assert await rows(pair, "j.status", "j.attempts", "j.losses", "j.rescues", "j.suspicion") == [
        ("pending", 1, 1, 1, 0), ("waiting", 0, 1, 0, 0), ("waiting", 0, 1, 0, 0), ("waiting", 0, 0, 0, 0),
    ]  # fmt: skip
    assert await states(pair) == ["pending*", "waiting", "waiting", "waiting"]


async def test_what_was_lost_runs_again_one_by_one_until_an_attempt_has_ended(pair: Peers) -> None:
    last = await pair.a.enqueue(times=5)
    await claim_run(pair.a, ahead=2)
    await die(pair, pair.a)
    lengths, order = [], list[int]()
    while run := await claim_run(pair.b):
        lengths.append(len(run))
        order += [job.id for job in run]
        await pair.b.complete_all(run)
    assert (lengths, order) == ([1, 1, 1, 2], [*range(last - 4, last + 1)])


async def test_end_that_was_asked_of_a_lost_follower_is_carried_out(pair: Peers) -> None:
    await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=2)
    await pair.admin.execute("SELECT asyncjobs.end_job($1, 'cancel', 'no', 9)", run[1].id)
    await die(pair, pair.a)
    assert (await pair.status(run[1].id), await states(pair)) == ("cancelled", ["pending*", "waiting", "waiting"])


async def test_followers_beside_a_job_that_is_to_blame_are_not_suspected(pair: Peers) -> None:
    await pair.a.enqueue(None)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET suspicion = 1, losses = 2, attempts = 1")
    await pair.a.claim_one()
    await pair.a.enqueue(times=3)
    await claim_run(pair.a, ahead=1)
    await die(pair, pair.a)
    assert [losses for (losses,) in await rows(pair, "j.losses")] == [1, 0, 0]


async def test_runner_that_stopped_leaves_its_followers_waiting_and_unsuspected(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    await claim_run(pair.a, ahead=2)
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await pair.admin.execute(
        "INSERT INTO asyncjobs.former_runners (id, host, pid, version, started_at, queues, types, stopped_at)"
        " VALUES (1, 'h', 1, '1', now(), '{}', '{}', now())"
    )
    await runners.rescue(pair.b.link, 10, max_errors=9)
    assert await states(pair) == ["pending*", "waiting", "waiting"]
    assert await rows(pair, "j.attempts", "j.losses") == [(0, 0)] * 3
    await pair.admin.execute("DELETE FROM asyncjobs.former_runners")


@each("length", [2, 8])
async def test_job_that_kills_its_runner_in_the_middle_of_a_run_ends_dead_and_no_other_does(pair: Peers, length: int) -> None:
    """However long the run was: one kill more than if it had run alone."""
    last = await pair.a.enqueue(times=length + 1)
    poison, kills = last - length // 2, 0
    await pair.a.enqueue("x", times=30)  # the runner has others, too
    while True:
        claimed = await claim_run(pair.a, limit=100, ahead=100, call="finish")
        before = [job for job in claimed if job.serialization_key == "k" and job.id < poison]
        if poison in {job.id for job in claimed}:
            kills += 1
            assert kills < 8
            await die(pair, pair.a)
            await insert_runner(pair.admin, id=1, types=["email", "report"])
        elif claimed:
            await pair.a.complete_all(before or claimed)
            others = [job for job in claimed if job not in before] if before else []
            await write(pair.a, [back(job) for job in others])
        else:
            break
    dead = await pair.admin.fetch("SELECT id FROM asyncjobs.jobs WHERE status = 'dead'")
    assert ([row["id"] for row in dead], kills) == ([poison], 4)
    assert await pair.admin.fetchval("SELECT max(attempts) FROM asyncjobs.jobs WHERE id <> $1", poison) <= 2
