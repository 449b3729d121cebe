from datetime import UTC, datetime, timedelta

import pytest

from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import MovableClock


@pytest.mark.matrix("schema")
async def test_clock_moves_forwards_and_back_and_is_real_again_afterwards(database: Database, connection: Connection) -> None:
    async with MovableClock(database) as clock:
        real = await connection.fetchval("SELECT now()")
        await clock.advance(3600)
        assert timedelta(minutes=59) < await clock.now() - real < timedelta(minutes=61)
        await clock.advance(-timedelta(hours=2))
        assert timedelta(minutes=59) < real - await clock.now() < timedelta(minutes=61)
        await clock.set(datetime(2040, 1, 1, tzinfo=UTC))
        assert (await clock.now()).year == 2040
    quoted = database.schema.replace('"', '""')
    assert await connection.fetchval(f'SELECT "{quoted}".clock() = now()')


async def test_a_transaction_keeps_its_instant_when_the_clock_is_moved(database: Database, connection: Connection) -> None:
    async with MovableClock(database) as clock:
        await clock.advance(60)
        async with connection.transaction():
            before = await connection.fetchval("SELECT asyncjobs.clock()")
            for seconds in (3600, -7200):
                await clock.advance(seconds)
                assert await connection.fetchval("SELECT asyncjobs.clock()") == before
        assert await connection.fetchval("SELECT asyncjobs.clock()") < before - timedelta(minutes=59)


async def test_clock_moves_under_plans_that_are_cached(database: Database, connection: Connection) -> None:
    async with MovableClock(database) as clock:
        late = await connection.prepare("SELECT asyncjobs.clock() > now() + interval '1 day'")
        for _ in range(6):
            assert not await late.fetchval()
        await clock.advance(timedelta(days=2))
        assert await late.fetchval()
