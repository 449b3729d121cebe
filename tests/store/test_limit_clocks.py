"""Rates and the database's clock: what takes out a safeguard of theirs exceeds a rate, or silences a key."""

import pytest

from asyncjobs.store.database import Connection, Database
from tests.support.claims import Claims
from tests.support.limiting import declare, enqueue
from tests.support.mutants import Change, Mutant, mutate

CAP = Change("rate_permits", "WHEN (_k).tat > _now + pg_catalog.make_interval(secs => _burst * _every) OR", "WHEN")
#: As if it had been read before the key was locked, and another claim had had the key for ten seconds then.
EARLY = Change("take_turns", "_now := asyncjobs.moment();", "_now := asyncjobs.moment() - interval '10 s';")


async def _take_a_burst(claims: Claims) -> None:
    await declare(claims.connection, every=60, burst=2)
    await enqueue(claims, *["api"] * 6)
    assert len(await claims.claim(9)) == 2


async def _starts_now(claims: Claims) -> int:
    await claims.connection.execute("UPDATE asyncjobs.limit_turns SET state = 'open'")
    return len(await claims.claim(9))


async def _starts_when_the_clock_was_put_back(claims: Claims) -> int:
    await declare(claims.connection, every=60, burst=2)
    await enqueue(claims, *["api"] * 6)
    await claims.connection.execute("UPDATE asyncjobs.limit_keys SET tat = now() + interval '1 hour'")
    return len(await claims.claim(9))


async def test_a_burst_is_given_once(claims: Claims) -> None:
    await _take_a_burst(claims)
    assert await _starts_now(claims) == 0


async def test_an_instant_that_cannot_be_is_no_instant(claims: Claims) -> None:
    assert await _starts_when_the_clock_was_put_back(claims) == 2


@pytest.mark.unaudited("its protocol is broken")
async def test_a_clock_that_is_read_before_the_lock_is_noticed(
    claims: Claims, connection: Connection, database: Database
) -> None:
    await _take_a_burst(claims)
    await mutate(connection, database, Mutant("the clock is read before the lock", (EARLY,)))
    assert await _starts_now(claims) > 0


@pytest.mark.unaudited("its protocol is broken")
async def test_a_rate_without_the_cap_on_a_wrong_clock_is_noticed(
    claims: Claims, connection: Connection, database: Database
) -> None:
    await mutate(connection, database, Mutant("a rate believes a wrong clock", (CAP,)))
    assert await _starts_when_the_clock_was_put_back(claims) == 0
