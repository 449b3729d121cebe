"""The lean call of a busy runner: completions, and one scan, as `finish` does it."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome
from asyncjobs.store import jobs
from asyncjobs.store.database import Database
from tests.support.factories import insert
from tests.support.peers import TYPES, Peers, peers


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.admin.execute("DELETE FROM asyncjobs.pauses")
        await made.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE status = 'paused'")
        await made.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE status = 'processing'")
        await made.drain()


async def test_attempts_are_completed_and_as_many_jobs_claimed_as_there_are_slots(pair: Peers) -> None:
    last = await pair.a.enqueue(None, times=5)
    done = await pair.a.claim(2)
    answer = await pair.a.complete_all(done, limit=2)
    assert [job.id for job in answer.claimed] == [last - 2, last - 1]
    assert (answer.lost, answer.heads, answer.gone) == ([], [], False)
    assert {await pair.status(job.id) for job in done} == {"completed"}
    [token] = {job.token - number for number, job in enumerate(answer.claimed)}
    row = await pair.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", last - 2)
    assert row is not None
    assert (row["status"], row["runner_id"], row["claim_token"], row["attempts"]) == ("processing", 1, token, 1)


async def test_every_row_is_as_finish_leaves_it(pair: Peers) -> None:
    await pair.a.enqueue(None, times=4)
    by_finish = await pair.a.claim(1)
    await pair.a.finish([*map(pair.a.completion, by_finish)], limit=1)
    by_lean = await pair.a.claim(1)
    await pair.a.complete_all(by_lean, limit=1)
    rows = await pair.admin.fetch("SELECT * FROM asyncjobs.jobs ORDER BY id")
    own = {"id", "place", "claim_token", "enqueue_token"}
    first, second, third, fourth = (
        {name: value for name, value in row.items() if name not in own and not name.endswith("_at")} for row in rows
    )
    assert (first, second) == (third, fourth)
    assert all((row["completed_at"] is None) == (row["status"] == "processing") for row in rows)


async def test_scan_starts_where_it_is_told_to(pair: Peers) -> None:
    await pair.a.enqueue(None, times=4)
    [first] = await pair.a.claim(1)
    second = await pair.admin.fetchval("SELECT place FROM asyncjobs.jobs WHERE id = $1", first.id + 1)
    answer = await pair.a.complete_all([], limit=1, start=(first.priority, second))
    assert [job.id for job in answer.claimed] == [first.id + 2]


async def test_types_of_others_lanes_aside_and_suspects_are_left(pair: Peers) -> None:
    await pair.a.enqueue(None, "strange")
    suspect = await pair.a.enqueue(None)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET rescues = 2, suspicion = 1 WHERE id = $1", suspect)
    assert (await pair.a.complete_all([], limit=5)).claimed == []
    await pair.admin.execute("UPDATE asyncjobs.jobs SET type = 'email' WHERE type = 'strange'")


async def test_of_suspects_one_comes_with_others_when_it_is_asked_for(pair: Peers) -> None:
    last = await pair.a.enqueue(None, times=4)
    for number in (1, 2):
        await pair.admin.execute("UPDATE asyncjobs.jobs SET rescues = 1, suspicion = $2 WHERE id = $1", last - 2 + number, number)
    answer = await pair.a.complete_all([], limit=4, suspects=True)
    assert [(job.id, job.suspicion) for job in answer.claimed] == [(last - 1, 1), (last - 3, 0), (last - 2, 0)]
    assert (await pair.a.complete_all(answer.claimed, limit=4)).claimed == []
    [job] = (await pair.a.complete_all([], limit=4, suspects=True)).claimed
    assert (job.id, job.suspicion) == (last, 2)


async def test_lost_claim_is_named_and_others_are_written(pair: Peers) -> None:
    await pair.a.enqueue(None, times=2)
    lost, kept = await pair.a.claim()
    await pair.admin.execute("UPDATE asyncjobs.jobs SET claim_token = 1 WHERE id = $1", lost.id)
    answer = await pair.a.complete_all([lost, kept])
    assert (answer.lost, answer.claimed) == ([lost.token], [])
    assert (await pair.status(lost.id), await pair.status(kept.id)) == ("processing", "completed")


async def test_results_go_to_the_attempts_they_are_of(pair: Peers) -> None:
    await pair.a.enqueue(None, times=3)
    lost, *others = await pair.a.claim(3)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE id = $1", lost.id)
    [again] = await pair.a.claim(1)
    acks = [
        Ack(job.id, job.token, Outcome(kind="completed", result=result))
        for job, result in ((others[1], '"third"'), (lost, '"lost"'), (again, '"again"'), (others[0], None))
    ]
    answer = await jobs.finish_completed(
        pair.a.link, pair.a.runner_id, acks, None, TYPES, suspects=False, token_base=1, token_seq=10
    )  # fmt: skip
    assert answer.lost == [lost.token]
    rows = await pair.admin.fetch("SELECT result FROM asyncjobs.jobs ORDER BY id")
    assert [row["result"] for row in rows] == ['"again"', None, '"third"']


async def test_next_heads_of_keys_are_claimed_by_the_same_call(pair: Peers) -> None:
    second = await pair.a.enqueue(times=3)
    done = [await pair.a.claim_one()]
    answer = await pair.a.complete_all(done, limit=2)
    assert ([job.id for job in answer.claimed], answer.heads) == ([second - 1], [])
    answer = await pair.a.complete_all(answer.claimed)
    assert (answer.claimed, answer.heads, await pair.line()) == ([], ["default"], [(second, "pending")])


async def test_runner_that_is_gone_claims_nothing(pair: Peers) -> None:
    await pair.a.enqueue(None, times=2)
    done = await pair.a.claim(1)
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    answer = await pair.a.complete_all(done, limit=1)
    assert (answer.gone, answer.claimed, answer.lost) == (True, [], [])
    assert await pair.status(done[0].id) == "completed"


@pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("type", "email")])
async def test_pauses_are_obeyed(pair: Peers, kind: str, name: str) -> None:
    await pair.a.enqueue(None, times=2)
    done = await pair.a.claim(1)
    await insert(pair.admin, "pauses", kind=kind, name=name)
    answer = await pair.a.complete_all(done, limit=5)
    assert (answer.claimed, answer.gone) == ([], False)
    await pair.admin.execute("DELETE FROM asyncjobs.pauses")
    await insert(pair.admin, "pauses", kind="type", name="other")
    assert len((await pair.a.complete_all([], limit=5)).claimed) == 1
