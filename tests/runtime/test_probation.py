"""Jobs that were lost before, while they run: what is written of them, and when the next suspect may start."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from asyncjobs.model import probation
from asyncjobs.runtime.probation import Probation
from asyncjobs.store import jobs
from asyncjobs.telemetry.events import Events
from tests.support.claims import SUSPECT, a_claimed
from tests.support.eventually import eventually
from tests.support.services import running


class Rows:
    """What was written, and whether the database is away."""

    def __init__(self) -> None:
        self.away = False
        self.tries = 0
        self.written: list[tuple[int, int, bool]] = []

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[None]:
        yield

    async def outlive(self, _link: object, outlived: Sequence[tuple[int, int, int, bool]]) -> None:
        self.tries += 1
        if self.away:
            raise OSError("away")
        self.written += [(id, marks, cleared) for id, _, marks, cleared in outlived]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    made = Rows()
    monkeypatch.setattr(jobs, "outlive", made.outlive)
    monkeypatch.setattr(probation, "OUTLIVED_SECONDS", 0.02)
    monkeypatch.setattr(probation, "PROBATION_SECONDS", 0.03)
    return made


@asynccontextmanager
async def a_probation(rows: Rows) -> AsyncGenerator[tuple[Probation, list[str]]]:
    released: list[str] = []
    made = Probation(cast("Any", rows), events=Events(), released=lambda: released.append("look"))
    async with running(made):
        yield made, released


async def test_next_suspect_may_start_when_the_row_of_the_last_one_says_that_it_is_cleared(rows: Rows) -> None:
    rows.away = True
    suspect = a_claimed(**SUSPECT)
    async with a_probation(rows) as (held, released):
        held.claimed(suspect)
        held.began(suspect)
        await eventually(lambda: rows.tries >= 2, description="it was tried again")
        assert (held.is_free, released) == (False, [])
        rows.away = False
        await eventually(lambda: held.is_free, description="it is cleared")
    assert (rows.written[-1][2], released) == (True, ["look"])


async def test_suspect_that_ends_lets_the_next_one_start_and_nothing_is_written(rows: Rows) -> None:
    suspect = a_claimed(**SUSPECT)
    async with a_probation(rows) as (held, released):
        held.claimed(suspect)
        held.began(suspect)
        held.ended(suspect)
        assert (held.is_free, released) == (True, ["look"])
        other = a_claimed(id=2, token=2, losses=1, rescues=1)
        held.claimed(other)
        held.began(other)
        assert held.is_free
        await eventually(lambda: len(rows.written) >= 2, description="it has outlived two marks")
    assert rows.written == [(2, 1, True), (2, 2, True)]


async def test_job_that_waits_for_a_slot_outlives_nothing(rows: Rows) -> None:
    async with a_probation(rows) as (held, _):
        held.claimed(a_claimed(**SUSPECT))
        other = a_claimed(id=2, token=2, losses=1, rescues=1)
        held.claimed(other)
        held.began(other)
        await eventually(lambda: len(rows.written) >= 2, description="the other one has outlived two marks")
        assert not held.is_free
    assert {id for id, *_ in rows.written} == {2}
