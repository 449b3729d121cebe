"""Rates, as the database's clock counts them: never more in any span than is allowed, and nearly all of it is used."""

import random
from datetime import datetime, timedelta
from typing import Final

import pytest

from asyncjobs.store import limits
from asyncjobs.store.database import Database
from asyncjobs.testing import MovableClock
from tests.support.claims import Claims, an_ack
from tests.support.limiting import declare, enqueue, promote

_EVERY: Final = 0.5
#: Of a start that a look of the test itself takes while the clock goes on.
_SLACK: Final = 1e-6


class Starts:
    """Claims of a rate's one key by two runners, at instants of a clock that the test moves."""

    def __init__(self, claims: Claims, other: Claims, clock: MovableClock, burst: int) -> None:
        self.runners = (claims, other)
        self.clock = clock
        self.burst = burst
        self.at: list[tuple[datetime, datetime]] = []  # between which each of them was

    async def look(self, of: Claims, most: int) -> int:
        """What a runner does: the promoters open what is due, and it claims; what it has claimed ends at once."""
        await promote(of)
        before = await self.clock.now()
        jobs = await of.claim(most)
        if jobs:
            await of.ack(*map(an_ack, jobs))
        self.at += [(before, await self.clock.now())] * len(jobs)
        return len(jobs)

    def over(self, since: int = 0) -> list[tuple[datetime, int, float]]:
        """Spans, from one start to another, with more than burst + W / every of them."""
        at = self.at[since:]
        found: list[tuple[datetime, int, float]] = []
        for first in range(len(at)):
            for last in range(first, len(at)):
                seconds = (at[last][1] - at[first][0]).total_seconds()
                if last - first + 1 > self.burst + seconds / _EVERY + _SLACK:
                    found.append((at[first][0], last - first + 1, seconds))
        return found


async def _rate(claims: Claims, burst: int, jobs: int) -> Claims:
    await declare(claims.connection, every=_EVERY, burst=burst)
    for _ in range(0, jobs, 500):
        await enqueue(claims, *["api"] * min(jobs, 500))
    return await Claims(claims.link, claims.connection, runner_id=2, token_base=6).register()


@pytest.mark.parametrize(("burst", "least"), [(1, 0.5), (2, 0.8), (20, 0.98), (60, 0.98)])
async def test_never_more_than_burst_and_rate_in_any_span_and_nearly_all_of_it_is_used(
    burst: int, least: float, claims: Claims, database: Database
) -> None:
    """Two runners, groups of 1 to 10, at instants of chance that are less than a burst apart."""
    chance = random.Random(burst)
    other = await _rate(claims, burst, 500)
    async with MovableClock(database) as clock:
        starts = Starts(claims, other, clock, burst)
        began = await clock.now()
        while True:
            while await starts.look(chance.choice(starts.runners), chance.randint(1, 10)):
                pass
            if (seconds := (await clock.now() - began).total_seconds()) > 90:
                break
            await clock.advance(timedelta(seconds=_EVERY * min(chance.random() * 2 * max(burst - 1, 1), 8)))
    assert starts.over() == []
    allowed = burst + seconds / _EVERY
    assert least <= len(starts.at) / allowed <= 1.0 + burst / allowed
    await claims.connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'cancelled', completed_at = now() WHERE status = 'pending'"
    )


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_database_whose_clock_jumps_by_an_hour_gives_one_burst_more_and_is_silent_for_no_longer_than_one(
    hours: int, claims: Claims, database: Database
) -> None:
    """Ahead, and back: by the clock as it is then, each part of the time keeps the rate, and nothing waits for an hour."""
    burst = 5
    other = await _rate(claims, burst, 100)
    async with MovableClock(database) as clock:
        starts = Starts(claims, other, clock, burst)
        for _ in range(10):
            await starts.look(claims, 9)
            await clock.advance(_EVERY)
        before = len(starts.at)
        assert before == burst + 9
        await clock.advance(timedelta(hours=hours))
        assert await _opened(claims, starts, clock), "it is silent"
        for _ in range(10):
            await starts.look(other, 9)
            await clock.advance(_EVERY)
    assert starts.over(before) == []
    assert before + burst + 9 <= len(starts.at) <= before + 2 * burst + 10


async def _opened(claims: Claims, starts: Starts, clock: MovableClock) -> bool:
    """Whether something starts within the time of a burst, with a sweep, as runners do each `sweep_interval`."""
    for _ in range(starts.burst + 1):
        await limits.sweep(claims.link, None, 100)
        if await starts.look(claims, 9):
            return True
        await clock.advance(_EVERY)
    return False


async def test_a_key_that_a_service_closed_is_open_again_when_the_clock_was_put_back(claims: Claims, database: Database) -> None:
    """It was to be closed for ten seconds: it is not for an hour and ten seconds."""
    await _rate(claims, 5, 100)
    async with MovableClock(database) as clock:
        starts = Starts(claims, claims, clock, 5)
        [job, *_] = await claims.claim(3)
        await claims.connection.execute("SELECT asyncjobs.throttle_key($1, $2, 10)", job.id, job.token)
        await claims.ack(an_ack(job, "interrupted"))
        assert await starts.look(claims, 9) == 0
        await clock.advance(timedelta(hours=-1))
        assert await _opened(claims, starts, clock)
