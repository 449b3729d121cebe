"""When schedules tick: by cron where the clock changes, by intervals, and what is owed after a time without anybody."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from asyncjobs.model.schedule import MOST_MISSED, Due, Misfire, Timing, check_timing, due_ticks


def at(text: str) -> datetime:
    """An instant in UTC: `2025-03-09 07:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ticks(cron: str, timezone: str, after: str, until: str) -> list[str]:
    """The ticks after one instant and up to another, in UTC; each is asked for from the one before."""
    timing, found, end = Timing(cron=cron, timezone=timezone), [at(after)], at(until)
    while (tick := timing.following(found[-1])) is not None and tick <= end:
        found.append(tick)
    assert timing.newest(found[0], end, 10_000) == found[1:]
    return [f"{tick:%d %H:%M}" for tick in found[1:]]


#: Expression, zone, from, until (UTC), the ticks (day and time, UTC).
DAYS = [
    # New York: 02:00 EST is 03:00 EDT at 07:00 UTC.
    ("30 2 * * *", "America/New_York", "2025-03-08 12:00", "2025-03-10 12:00", ["09 07:00", "10 06:30"]),
    ("10,30 2 * * *", "America/New_York", "2025-03-09 00:00", "2025-03-09 12:00", ["09 07:00"]),
    ("0 3 * * *", "America/New_York", "2025-03-08 12:00", "2025-03-10 12:00", ["09 07:00", "10 07:00"]),
    ("30 * * * *", "America/New_York", "2025-03-09 05:45", "2025-03-09 08:45", ["09 06:30", "09 07:30", "09 08:30"]),
    # … and 02:00 EDT is 01:00 EST at 06:00 UTC.
    ("30 1 * * *", "America/New_York", "2025-11-01 12:00", "2025-11-03 12:00", ["02 05:30", "03 06:30"]),
    ("30 1 * * *", "America/New_York", "2025-11-02 06:15", "2025-11-03 12:00", ["03 06:30"]),
    ("30 * * * *", "America/New_York", "2025-11-02 04:45", "2025-11-02 07:45", ["02 05:30", "02 06:30", "02 07:30"]),
    # London: 01:00 GMT is 02:00 BST at 01:00 UTC.
    ("30 1 * * *", "Europe/London", "2025-03-29 12:00", "2025-03-31 12:00", ["30 01:00", "31 00:30"]),
    ("*/30 * * * *", "Europe/London", "2025-03-30 00:15", "2025-03-30 01:45", ["30 00:30", "30 01:00", "30 01:30"]),
    ("0 0 * * *", "Europe/London", "2025-03-29 12:00", "2025-03-31 12:00", ["30 00:00", "30 23:00"]),
    # … and 02:00 BST is 01:00 GMT at 01:00 UTC.
    ("15,45 1 * * *", "Europe/London", "2025-10-25 12:00", "2025-10-27 12:00", ["26 00:15", "26 00:45", "27 01:15", "27 01:45"]),
    ("* 1 * * *", "Europe/London", "2025-10-26 00:57", "2025-10-26 01:01", ["26 00:58", "26 00:59", "26 01:00", "26 01:01"]),
    # Lord Howe moves by half an hour: 02:00+10:30 is 02:30+11 at 15:30 UTC.
    ("15 2 * * *", "Australia/Lord_Howe", "2025-10-04 12:00", "2025-10-06 12:00", ["04 15:30", "05 15:15"]),
    ("30 * * * *", "Australia/Lord_Howe", "2025-10-04 14:15", "2025-10-04 17:00", ["04 15:00", "04 15:30", "04 16:30"]),
    # … and 02:00+11 is 01:30+10:30 at 15:00 UTC.
    ("45 1 * * *", "Australia/Lord_Howe", "2025-04-05 12:00", "2025-04-07 12:00", ["05 14:45", "06 15:15"]),
    ("*/20 2 * * *", "Australia/Lord_Howe", "2025-04-05 12:00", "2025-04-06 09:00", ["05 15:30", "05 15:50", "05 16:10"]),
    ("0 */2 * * *", "Australia/Lord_Howe", "2025-04-05 12:30", "2025-04-05 18:00", ["05 13:00", "05 15:30", "05 17:30"]),
    # Cairo's day begins at 01:00 when summer comes.
    ("0 0 * * *", "Africa/Cairo", "2025-04-24 12:00", "2025-04-26 12:00", ["24 22:00", "25 21:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("cron", "timezone", "after", "until", "expected"), DAYS, ids=lambda value: str(value)[:24])
def test_ticks_on_days_when_the_clock_changes(cron: str, timezone: str, after: str, until: str, expected: list[str]) -> None:
    assert ticks(cron, timezone, after, until) == expected


LEAPS = [
    ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),  # 2100 is no leap year
    ("0 0 29 2 *", "2024-02-29 00:00", "2028-02-29 00:00"),
    ("0 0 29 2 *", "2024-02-28 23:59", "2024-02-29 00:00"),
    ("0 12 L 2 *", "2024-02-01 00:00", "2024-02-29 12:00"),
    ("0 12 L 2 *", "2025-02-01 00:00", "2025-02-28 12:00"),
    ("0 0 * 2 MON#5", "2025-01-01 00:00", "2044-02-29 00:00"),
    ("@yearly", "2025-01-01 00:00", "2026-01-01 00:00"),
]


@pytest.mark.parametrize(("cron", "after", "expected"), LEAPS)
def test_rare_days_are_found(cron: str, after: str, expected: str) -> None:
    assert Timing(cron=cron).following(at(after)) == at(expected)


NEVER = [
    ("0 0 31 2 *", '"0 0 31 2 *": it never comes: none of its months has a day 31.'),
    ("0 0 30 2 *", '"0 0 30 2 *": it never comes: none of its months has a day 30.'),
    ("0 0 31 4,6,9 *", '"0 0 31 4,6,9 *": it never comes: none of its months has a day 31.'),
    ("0 0 */31 2 SUN#5", '"0 0 */31 2 SUN#5" never comes.'),
    ("61 3 * * *", '"61 3 * * *": minute 61 cannot be: give 0-59.'),
    ("0 24 * * *", '"0 24 * * *": hour 24 cannot be: give 0-23.'),
    ("0 0 32 * *", '"0 0 32 * *": day of month 32 cannot be: give 1-31, L or LW.'),
    ("0 0 * 13 *", '"0 0 * 13 *": month 13 cannot be: give 1-12 or JAN-DEC.'),
    ("0 0 * * 8", '"0 0 * * 8": day of week 8 cannot be: give 0-7 or SUN-SAT, with #n or L.'),
    ("*/0 * * * *", '"*/0 * * * *": minute */0 cannot be: give 0-59.'),
    ("0 3 * *", '"0 3 * *": 4 fields, not 5 (minute, hour, day of the month, month, day of the week).'),
    ("", '"": 0 fields, not 5 (minute, hour, day of the month, month, day of the week).'),
    ("@reboot", '"@reboot" is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually.'),
]


@pytest.mark.parametrize(("cron", "problem"), NEVER)
def test_an_expression_that_never_comes_or_means_nothing_is_refused(cron: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        check_timing(cron=cron, every=None, timezone="UTC")


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", "", "America", None, "UTC\0"])
def test_an_unknown_time_zone_is_refused(zone: object) -> None:
    with pytest.raises(ValueError, match=r'timezone=.*give a name such as "Europe/Helsinki"'):
        check_timing(cron="0 3 * * *", every=None, timezone=zone)


@pytest.mark.parametrize("every", [0, -1, 0.01, float("nan"), float("inf"), 10**12, "5m", True])
def test_an_interval_that_cannot_be_meant_is_refused(every: float) -> None:
    with pytest.raises(ValueError, match=r"^every="):
        check_timing(cron=None, every=every, timezone="UTC")


def test_an_interval_counts_from_the_last_tick_and_does_not_drift() -> None:
    timing = check_timing(cron=None, every=timedelta(seconds=0.1), timezone="UTC")
    start = at("2025-01-01 00:00")
    tick: datetime | None = start
    for _ in range(1000):
        assert tick is not None
        tick = timing.following(tick)
    assert tick == start + timedelta(seconds=100)
    assert timing.newest(start, start + timedelta(seconds=100), 3) == [start + timedelta(seconds=s) for s in (99.8, 99.9, 100)]


HOURLY = Timing(cron="0 * * * *")
NOON = at("2025-01-01 12:00")

#: Policy, how long after noon's tick it is now; then the hours whose ticks make jobs, how far the schedule got, and whether some
#: make none.
OWED: list[tuple[Misfire, timedelta, tuple[list[int], int, bool] | None]] = [
    ("one", timedelta(minutes=59), None),
    ("one", timedelta(hours=1), ([13], 13, False)),
    ("one", timedelta(hours=1, minutes=50), ([13], 13, False)),
    ("one", timedelta(hours=5, minutes=1), ([17], 17, True)),
    ("skip", timedelta(hours=1, seconds=30), ([13], 13, False)),
    ("skip", timedelta(hours=1, seconds=31), ([], 13, True)),
    ("skip", timedelta(hours=5, seconds=5), ([17], 17, True)),
    ("skip", timedelta(hours=5, minutes=1), ([], 17, True)),
    ("all", timedelta(hours=5, minutes=1), ([13, 14, 15, 16, 17], 17, False)),
    ("all", timedelta(hours=-1), None),  # the clock was put back
    ("one", timedelta(days=-4000), None),
]


@pytest.mark.parametrize(("misfire", "later", "expected"), OWED)
def test_what_is_owed_goes_by_the_misfire_policy(
    misfire: Misfire, later: timedelta, expected: tuple[list[int], int, bool] | None
) -> None:
    due = due_ticks(HOURLY, misfire, NOON, NOON + later)
    if expected is None:
        assert due is None
        return
    hours, reached, is_skipping = expected
    made = [NOON.replace(hour=hour) for hour in hours]
    assert due == Due(made, NOON.replace(hour=reached), is_skipping)


@pytest.mark.parametrize("timing", [Timing(cron="* * * * *", timezone="Europe/Berlin"), Timing(every=60.0)])
def test_a_long_absence_is_made_up_for_by_the_last_thousand_only(timing: Timing) -> None:
    due = due_ticks(timing, "all", NOON, NOON + timedelta(days=30))
    assert due is not None
    assert (len(due.ticks), due.is_skipping) == (MOST_MISSED, True)
    assert due.ticks[-1] == due.reached == NOON + timedelta(days=30)
    assert due.ticks[0] == due.reached - timedelta(minutes=MOST_MISSED - 1)
