"""When a schedule ticks, and what becomes of ticks that nobody saw. Pure: the instants are arguments.

Cron expressions are cronsim's, which follows Debian's cron where the clock changes:

* A fixed time (neither the minute nor the hour begins with `*`) that the gap of a spring day leaves out comes right after the
  gap: `30 2 * * *` at 03:00. One that an autumn day has twice comes once, the first time. So a daily job runs daily.
* Anything else goes by the clock on the wall as it is: `*/10 * * * *` ticks every ten minutes of real time on both days.

cronsim alone is wrong for the second kind where the clock moves by half an hour (Australia/Lord_Howe: `* 2 * * *` lost 30 of 60
ticks); it is asked in UTC here, one stretch of constant offset after another. And for the first kind it answers with the past
when it is asked during the hour that comes twice: such answers are passed over.

A tick is strictly after the instant that is asked from, whatever that is. The search ends: cronsim gives up after 50 years.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from asyncjobs.model.discreet import discreet
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.names import kind_of
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.outcome import Duration

Misfire = Literal["skip", "one", "all"]
Overlap = Literal["allow", "skip", "queue"]

#: The most ticks that are made up for at once.
MOST_MISSED: Final = 1_000
#: A tick that is this late was not missed yet: a deployment may take so long.
PATIENCE: Final = timedelta(seconds=30)
#: Shorter intervals are no schedule.
SHORTEST_SECONDS: Final = 0.1

_FIELDS: Final = 5
_WORDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SECOND: Final = timedelta(seconds=1)
_INSTANT: Final = timedelta(microseconds=1)
#: Longer than any clock was ever put back in this century (two hours, in Antarctica).
_TWICE: Final = timedelta(hours=3)
#: Where an expression is tried at its declaration: any instant will do.
_TRIED_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)


class Timing(msgspec.Struct, frozen=True):
    """When a schedule ticks: by a cron expression on the clock of a time zone, or `every` so many seconds."""

    cron: str | None = None
    every: float | None = None
    timezone: str = "UTC"

    def following(self, after: datetime) -> datetime | None:
        """The first tick after this instant, in UTC. None: there is none within 50 years. Intervals count from `after`."""
        after = after.astimezone(UTC)
        if self.every is not None:
            return after + timedelta(seconds=self.every)
        return _first(self._forwards(after), lambda tick: tick > after)

    def newest(self, after: datetime, until: datetime, at_most: int) -> list[datetime]:
        """The last ticks, at most so many, of those after `after` and not after `until`; in order."""
        after, until = after.astimezone(UTC), until.astimezone(UTC)
        if self.every is not None:
            step = timedelta(seconds=self.every)
            count = (until - after) // step
            return [after + step * number for number in range(max(count - at_most, 0) + 1, count + 1)]
        ticks: list[datetime] = []
        for found in self._backwards(until):
            tick = found.astimezone(UTC)
            if tick <= after or len(ticks) == at_most:
                break
            if tick <= until and (not ticks or tick < ticks[-1]):
                ticks.append(tick)
        return ticks[::-1]

    @property
    def _expression(self) -> str:
        cron = self.cron or ""
        return _WORDS.get(cron, cron)

    def _forwards(self, after: datetime) -> "CronSim | _Stretches":
        cron = CronSim(self._expression, after.astimezone(ZoneInfo(self.timezone)))
        return _Stretches(self._expression, ZoneInfo(self.timezone), after) if cron.fixup_tz is None else cron

    def _backwards(self, until: datetime) -> "CronSim | _Stretches":
        zone = ZoneInfo(self.timezone)
        cron = CronSim(self._expression, until.astimezone(zone) + _TWICE, reverse=True)
        return _Stretches(self._expression, zone, until, reverse=True) if cron.fixup_tz is None else cron


class _Stretches:
    """The ticks of an expression by the clock on the wall: offset after offset, each as if there were no other."""

    def __init__(self, expression: str, zone: ZoneInfo, start: datetime, *, reverse: bool = False) -> None:
        self._expression = expression
        self._zone = zone
        self._at = start
        self._reverse = reverse

    def __iter__(self) -> "_Stretches":
        return self

    def __next__(self) -> datetime:
        at, stretch = self._at, self._at
        while True:
            offset = self._offset(stretch)
            found = self._within(at, offset)
            change = self._change(stretch, found)
            if change is None:
                self._at = found - _INSTANT if self._reverse else found
                return found
            # On with the other side of the change: a tick may fall on its first instant.
            at, stretch = change - _INSTANT, change - _INSTANT if self._reverse else change

    def _within(self, at: datetime, offset: timedelta) -> datetime:
        wall = (at + offset).replace(microsecond=0)
        return next(CronSim(self._expression, wall + _SECOND if self._reverse else wall, reverse=self._reverse)) - offset

    def _offset(self, at: datetime) -> timedelta:
        return at.astimezone(self._zone).utcoffset() or timedelta()

    def _change(self, start: datetime, end: datetime) -> datetime | None:
        """The change of the clock between two instants that is nearest to `start`: the first instant with the new offset."""
        day = timedelta(days=-1 if self._reverse else 1)
        near = start
        while near != end:
            far = max(near + day, end) if self._reverse else min(near + day, end)
            if self._offset(far) != self._offset(near):
                return self._between(*sorted((near, far)))
            near = far
        return None

    def _between(self, before: datetime, after: datetime) -> datetime:
        old = self._offset(before)
        while after - before > _INSTANT:
            middle = before + (after - before) // 2
            if self._offset(middle) == old:
                before = middle
            else:
                after = middle
        return after


def _first(ticks: "CronSim | _Stretches", fits: Callable[[datetime], bool]) -> datetime | None:
    return next((found for tick in ticks if fits(found := tick.astimezone(UTC))), None)


class Due(msgspec.Struct, frozen=True):
    """What is to be done now: ticks to make jobs of, how far that gets the schedule, and whether ticks are left out."""

    ticks: list[datetime]
    reached: datetime
    is_skipping: bool


def due_ticks(timing: Timing, misfire: Misfire, last_tick: datetime, now: datetime) -> Due | None:
    """What a schedule that got to `last_tick` owes. None: nothing yet, also when the clock was put back to before that tick.

    More ticks than one are due only after nobody saw to them: `one` makes a job of the last of them, however late; `skip` only
    when it is no later than half a minute; `all` makes up for them, at most for the last thousand.
    """
    first = timing.following(last_tick)
    if first is None or first > now:
        return None
    second = timing.following(first)
    is_one = second is None or second > now
    ticks = [first] if is_one else timing.newest(last_tick, now, MOST_MISSED if misfire == "all" else 1)
    reached = ticks[-1]
    if misfire == "skip" and now - reached > PATIENCE:
        return Due([], reached, is_skipping=True)
    return Due(ticks, reached, is_skipping=ticks[0] != first)


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a program declares it: when it ticks, and the job that a tick makes."""

    name: str
    timing: Timing
    misfire: Misfire
    overlap: Overlap
    row: NewRow
    runs_on_start: bool = False  # also when this program's runner starts; no part of the definition

    @property
    def definition(self) -> str:
        """All of it but the name, as JSON. Two programs with the same text mean the same."""
        timing = {"cron": self.timing.cron, "every": self.timing.every, "timezone": self.timing.timezone}
        job: dict[str, Any] = {**msgspec.structs.asdict(self.row), "payload": msgspec.Raw(self.row.payload.encode())}
        job = {name: value for name, value in job.items() if value is not None}
        return msgspec.json.encode({"timing": timing, "misfire": self.misfire, "overlap": self.overlap, "job": job}).decode()

    def __repr__(self) -> str:
        return discreet(self, "payload")


def check_timing(*, cron: object, every: Duration | None, timezone: object) -> Timing:
    """When a schedule ticks; ValueError with words for the user unless exactly one of both is given and means something."""
    if (cron is None) == (every is None):
        raise ValueError("give cron or every, one of both.")
    zone = _check_zone(timezone)
    if every is None:
        return _check_cron(cron, zone)
    seconds = duration_seconds(every, name="every", positive=True)
    if seconds < SHORTEST_SECONDS:
        raise ValueError(f"every={seconds:g} is too often: give at least {SHORTEST_SECONDS:g} seconds.")
    return Timing(every=seconds, timezone=zone)


def _check_zone(timezone: object) -> str:
    if not isinstance(timezone, str) or not timezone:
        raise ValueError(f'timezone={timezone!r}: give a name such as "Europe/Helsinki".')
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f'timezone="{timezone}" is unknown here: give a name such as "Europe/Helsinki" (a system without time zones gets '
            "them by `pip install tzdata`)."
        ) from None
    return timezone


def _check_cron(cron: object, zone: str) -> Timing:
    if not isinstance(cron, str):
        raise ValueError(  # noqa: TRY004 - a value of the user's, as everything here
            f'{cron!r} is {kind_of(cron)}: give an expression such as "0 3 * * *".'
        )
    if cron.startswith("@") and cron not in _WORDS:
        raise ValueError(f'"{cron}" is not one of {", ".join(_WORDS)}.')
    if not cron.startswith("@") and len(cron.split()) != _FIELDS:
        raise ValueError(f'"{cron}": {len(cron.split())} fields, not 5 (minute, hour, day of the month, month, day of the week).')
    timing = Timing(cron=cron, timezone=zone)
    try:
        first = timing.following(_TRIED_FROM)
    except CronSimError as error:
        raise ValueError(f'"{cron}": {_problem(cron, str(error))}') from None
    if first is None:
        raise ValueError(f'"{cron}" never comes.')
    return timing


def _problem(cron: str, error: str) -> str:
    minute, hour, day, month, weekday = cron.split()
    fields = {"minute": (minute, "0-59"), "hour": (hour, "0-23"), "day-of-month": (day, "1-31, L or LW"),
              "month": (month, "1-12 or JAN-DEC"), "day-of-week": (weekday, "0-7 or SUN-SAT, with #n or L")}  # fmt: skip
    name = error.removeprefix("Bad ")
    if name not in fields:
        return f"{error}."
    text, allowed = fields[name]
    if name == "day-of-month" and _is_day(text):
        return f"it never comes: none of its months has a day {text}."
    return f"{name.replace('-', ' ')} {text} cannot be: give {allowed}."


def _is_day(text: str) -> bool:
    return text.isdecimal() and 1 <= int(text) <= 31  # noqa: PLR2004 - days of the longest month
