import asyncio
from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database, Link
from tests.support.eventually import patience
from tests.support.factories import insert_job, insert_runner


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("duties")
    yield made
    await made.close()


async def register(link: Link, runner_id: int) -> None:
    await runners.register(
        link,
        runner_id,
        host="box",
        pid=42,
        version="1.2.3",
        queues=["mail", "default"],
        types=["email"],
        versions={"email": 2},
    )


def test_ids_are_random_and_fit_bigint() -> None:
    ids = {runners.new_runner_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(0 < id < 2**62 for id in ids)


@pytest.mark.matrix("schema")
async def test_registered_runner_says_what_it_serves(link: Link, connection: Connection, database: Database) -> None:
    await register(link, 7)
    schema = database.schema.replace('"', '""')
    row = await connection.fetchrow(f'SELECT * FROM "{schema}".runners')
    assert row is not None
    assert (row["id"], row["host"], row["pid"], row["version"]) == (7, "box", 42, "1.2.3")
    assert (row["queues"], row["types"]) == (["default", "mail"], ["email"])


async def test_registering_again_after_a_lost_answer_is_the_same(link: Link) -> None:
    await register(link, 7)
    await register(link, 7)
    assert list((await runners.look(link)).beats) == [7]


async def test_beat_counts_and_tells_how_many_runners_there_are(link: Link) -> None:
    await register(link, 7)
    assert await runners.beat(link, 7) == runners.BeatAnswer(beat=1, runners=1, newer=None)
    await register(link, 8)
    assert await runners.beat(link, 7) == runners.BeatAnswer(beat=2, runners=2, newer=None)


async def test_beat_of_an_unknown_runner_is_none(link: Link) -> None:
    assert await runners.beat(link, 7) is None


async def test_leaving_moves_the_row_to_the_former_ones_without_a_death(link: Link, connection: Connection) -> None:
    await register(link, 7)
    await runners.leave(link, 7)
    await runners.leave(link, 7)
    assert (await runners.look(link)).beats == {}
    (former,) = await connection.fetch("SELECT * FROM asyncjobs.former_runners")
    assert (former["id"], former["died_at"], former["host"], former["versions"]) == (7, None, "box", '{"email": 2}')


@pytest.mark.parametrize("alive", [[], [5], [1, 5, 9], [2**62, 1]])
@pytest.mark.unaudited("its rows name runners that never were")
async def test_look_finds_orphans_in_every_gap_between_runners(link: Link, connection: Connection, alive: list[int]) -> None:
    for runner_id in alive:
        await insert_runner(connection, id=runner_id)
        await insert_job(connection, status="processing", runner_id=runner_id, claim_token=runner_id)
    look = await runners.look(link)
    assert look.beats == dict.fromkeys(sorted(alive), 0)
    assert not look.orphans
    for gone in (3, 7, 2**62 + 1, 0):
        job_id = await insert_job(connection, status="processing", runner_id=gone, claim_token=100)
        assert (await runners.look(link)).orphans, gone
        await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", job_id)


@pytest.mark.unaudited("its rows name runners that never were")
async def test_look_does_not_read_what_living_runners_have_or_had_in_flight(link: Link, connection: Connection) -> None:
    for runner_id in range(10, 20):
        await insert_runner(connection, id=runner_id)
    await connection.execute(
        """INSERT INTO asyncjobs.jobs (enqueue_token, type, status, runner_id, claim_token, started_at, attempts)
           SELECT 0, 'email', 'processing', 10 + i % 10, i, now(), 1 FROM generate_series(1, 20000) AS i"""
    )
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE id % 2 = 0")
    read = (
        "SELECT pg_stat_get_xact_tuples_returned('asyncjobs.jobs_runner'::regclass)"
        " + pg_stat_get_xact_tuples_returned('asyncjobs.jobs'::regclass)"
    )
    own = await link.connection()
    async with own.transaction():  # which the link is then in
        assert not (await runners.look(link)).orphans
        assert await own.fetchval(read) <= 20


async def test_bury_moves_the_row_to_the_former_ones_with_its_death(link: Link, connection: Connection) -> None:
    await register(link, 7)
    assert await runners.bury(link, {7: 0}) == {7: True}
    (former,) = await connection.fetch("SELECT * FROM asyncjobs.former_runners")
    assert (former["id"], former["versions"]) == (7, '{"email": 2}')
    assert former["died_at"] is not None
    assert await runners.beat(link, 7) is None


async def test_bury_spares_a_runner_that_beat_since(link: Link) -> None:
    await register(link, 7)
    await runners.beat(link, 7)
    assert await runners.bury(link, {7: 0}) == {}
    assert (await runners.look(link)).beats == {7: 1}


async def test_bury_spares_a_runner_whose_beat_commits_meanwhile(link: Link, connection: Connection) -> None:
    await register(link, 7)
    async with connection.transaction():
        await connection.execute("UPDATE asyncjobs.runners SET beat = beat + 1")
        async with patience(2):
            assert await runners.bury(link, {7: 0}) == {}  # and does not wait for it
    assert await runners.bury(link, {7: 0}) == {}


async def test_bury_does_not_wait_for_a_claim_in_flight(link: Link, connection: Connection) -> None:
    await register(link, 7)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.runners WHERE id = 7 FOR KEY SHARE")
        async with patience(2):
            assert await runners.bury(link, {7: 0}) == {}
    assert await runners.bury(link, {7: 0}) == {7: True}


async def test_of_two_that_bury_one_does(database: Database, link: Link) -> None:
    await register(link, 7)
    other = database.link("duties")
    buried = await asyncio.gather(runners.bury(link, {7: 0}), runners.bury(other, {7: 0}))
    assert sorted(buried, key=len) == [{}, {7: True}]
    await other.close()
