"""Cron where clocks change, in all zones: the next tick is later, soon found, and the same wherever the search began."""

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncjobs.model.schedule import MOST_MISSED, Misfire, Timing, due_ticks

ZONES = sorted(available_timezones())
EXPRESSIONS = [
    "0 0 * * *",
    "30 2 29 2 *",
    "59 23 31 12 *",
    "30 2 * * *",
    "15,45 1,2 * * *",
    "*/20 * * * *",
    "30 * * * *",
    "* 2 * * *",
]
FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
#: Of this thread: others share the processors.
MOST_SECONDS = 0.05


def offset(zone: ZoneInfo, instant: datetime) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()


@cache
def changes(name: str) -> list[datetime]:
    """The days, 2020 to 2040, on which the zone's clock changes."""
    zone, day = ZoneInfo(name), timedelta(days=1)
    weeks = [FIRST + 7 * day * number for number in range((LAST - FIRST).days // 7)]
    near = [week for week in weeks if offset(zone, week) != offset(zone, week + 7 * day)]
    days = [week + day * number for week in near for number in range(7)]
    return [one for one in days if offset(zone, one) != offset(zone, one + day)]


zones = st.sampled_from(ZONES)
expressions = st.sampled_from(EXPRESSIONS)


@st.composite
def moments(draw: st.DrawFn) -> tuple[Timing, datetime]:
    """A timing, and an instant: near a change of its zone's clock if there is one."""
    name = draw(zones)
    timing = Timing(cron=draw(expressions), timezone=name)
    base = draw(st.sampled_from(changes(name) or [FIRST]))
    return timing, base + draw(st.timedeltas(min_value=timedelta(hours=-30), max_value=timedelta(hours=54)))


def following(timing: Timing, after: datetime) -> datetime:
    tick = timing.following(after)
    assert tick is not None
    return tick


@given(moment=moments())
@settings(max_examples=150)
def test_the_next_tick_is_later_and_soon_found(moment: tuple[Timing, datetime]) -> None:
    timing, after = moment
    began = time.thread_time()
    tick = following(timing, after)
    assert time.thread_time() - began < MOST_SECONDS
    assert tick > after


@given(moment=moments(), earlier=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=2)))
@settings(max_examples=150)
def test_whoever_started_when_finds_the_same_ticks(moment: tuple[Timing, datetime], earlier: timedelta) -> None:
    """Asked from any instant in between, the next tick is the same: a process that just started sees what an old one sees."""
    timing, after = moment
    tick = following(timing, after - earlier)
    while tick <= after:
        tick = following(timing, tick)
    assert tick == following(timing, after)


@given(moment=moments())
@settings(max_examples=150)
def test_backwards_are_the_same_ticks_as_forwards(moment: tuple[Timing, datetime]) -> None:
    timing, after = moment
    until = after + timedelta(hours=8)
    forwards: list[datetime] = []
    tick = following(timing, after)
    while tick <= until:
        forwards.append(tick)
        tick = following(timing, tick)
    assert timing.newest(after, until, 1000) == forwards


@given(
    moment=moments(),
    absence=st.timedeltas(min_value=timedelta(days=-400), max_value=timedelta(days=4000)),
    misfire=st.sampled_from(["skip", "one", "all"]),
)
@settings(max_examples=100)
def test_what_is_owed_is_in_order_bounded_and_never_to_come(
    moment: tuple[Timing, datetime], absence: timedelta, misfire: Misfire
) -> None:
    timing, last_tick = moment
    now = last_tick + absence
    due = due_ticks(timing, misfire, last_tick, now)
    if due is None:
        assert following(timing, last_tick) > now
        return
    assert last_tick < due.reached <= now < following(timing, due.reached)
    assert len(due.ticks) <= (MOST_MISSED if misfire == "all" else 1)
    assert due.ticks == sorted(set(due.ticks))
    assert all(last_tick < tick <= due.reached for tick in due.ticks)
    assert due_ticks(timing, misfire, due.reached, now) is None


@pytest.mark.proof
def test_the_search_ends_at_every_change_of_every_zone() -> None:
    slowest = 0.0
    for name in ZONES:
        for day in changes(name):
            for cron in ("0 0 * * *", "30 2 29 2 *", "59 23 31 12 *"):
                began = time.thread_time()
                assert following(Timing(cron=cron, timezone=name), day) > day
                slowest = max(slowest, time.thread_time() - began)
    assert slowest < MOST_SECONDS
