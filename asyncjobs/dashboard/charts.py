"""Charts as shapes: what the templates draw as SVG, with nothing that a script or a style has to add.

A chart's drawing is stretched to the width there is, so it has no text in it; scales and legends stand around it as HTML, and the
numbers are there as a table, too.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from asyncjobs.dashboard import shown
from asyncjobs.store.series import Step

WIDTH: Final = 600.0
HEIGHT: Final = 120.0
_GAP: Final = 0.15  # of a bar's place


class Shape(msgspec.Struct, frozen=True):
    """One series: its name, the class that gives it its colour, and the path."""

    name: str
    kind: str
    path: str


class Tip(msgspec.Struct, frozen=True):
    """What is said of the step whose place begins at `x`."""

    x: float
    width: float
    text: str
    begins_at: datetime
    ends_at: datetime


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One drawing and what stands around it."""

    name: str
    about: str  # in a sentence, for those who do not see it
    filled: bool  # shapes are areas, not lines
    shapes: list[Shape]
    tips: list[Tip]
    top: str  # what the upper edge means
    begins_at: datetime
    ends_at: datetime
    columns: list[str]
    rows: list[list[str]]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(shape.path for shape in self.shapes)


_OUTCOMES: Final = (("completed", "good"), ("scheduled", "calm"), ("cancelled", "dim"), ("failed", "warn"), ("dead", "bad"))
_NAMES: Final = {"scheduled": "snoozed"}


def throughput(steps: Sequence[Step]) -> Chart:
    """Attempts by what they made of their jobs, on top of each other."""
    columns = [
        (_NAMES.get(status, status), kind, [step.by_status.get(status, 0) for step in steps]) for status, kind in _OUTCOMES
    ]
    columns = [column for column in columns if any(column[2])]
    most = max(step.attempts for step in steps)
    top = _ceiling(most)
    shapes: list[Shape] = []
    floors = [0.0] * len(steps)
    for name, kind, counts in columns:
        shapes.append(Shape(name, kind, _bars(floors, counts, top)))
        floors = [floor + count for floor, count in zip(floors, counts, strict=True)]
    texts = [[f"{counts[index]:,}" for _, _, counts in columns] for index in range(len(steps))]
    return _chart(
        "Throughput", steps, shapes, texts, [name for name, _, _ in columns], top=shown.number(top), filled=True,
        about=f"{sum(step.attempts for step in steps):,} attempts ended, at most {most:,} in a step.",
    )  # fmt: skip


def latency(steps: Sequence[Step], *, name: str, of: Callable[[Step], "Sequence[float | None]"]) -> Chart:
    """The 50th, 95th and 99th percentiles of a duration."""
    values = [of(step) for step in steps]
    top = _ceiling_seconds(max((value for one in values for value in one if value is not None), default=0.0))
    names = ("p50", "p95", "p99")
    shapes = [
        Shape(label, kind, _line([one[index] for one in values], top))
        for index, (label, kind) in enumerate(zip(names, ("good", "calm", "warn"), strict=True))
    ]
    texts = [[shown.seconds(value) for value in one] for one in values]
    worst = max((one[2] or 0.0 for one in values), default=0.0)
    return _chart(
        name, steps, shapes, texts, list(names), top=shown.seconds(top), filled=False,
        about=f"The slowest 1 % took up to {shown.seconds(worst)}.",
    )  # fmt: skip


def errors(steps: Sequence[Step]) -> Chart:
    """The share of attempts that failed."""
    shares = [step.failed / step.attempts if step.attempts else None for step in steps]
    highest = max((share for share in shares if share is not None), default=0.0)
    top = next(one for one in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if one >= highest)
    bars = _bars([0.0] * len(steps), [share or 0.0 for share in shares], top)
    texts = [[shown.percent(share), f"{step.failed:,}"] for share, step in zip(shares, steps, strict=True)]
    failed = sum(step.failed for step in steps)
    return _chart(
        "Errors", steps, [Shape("failed", "bad", bars)], texts, ["failed", "attempts"], top=shown.percent(top), filled=True,
        about=f"{failed:,} attempts failed, at most {shown.percent(highest)} in a step.",
    )  # fmt: skip


def _chart(
    name: str, steps: Sequence[Step], shapes: list[Shape], texts: list[list[str]], columns: list[str], *, top: str, filled: bool,
    about: str,
) -> Chart:  # fmt: skip
    width = WIDTH / len(steps)
    length = steps[1].at - steps[0].at if len(steps) > 1 else timedelta(minutes=1)
    tips = [
        Tip(index * width, width, f"{step.at:%a %H:%M} · {_said(columns, texts[index])}", step.at, step.at + length)
        for index, step in enumerate(steps)
        if step.attempts
    ]
    rows = [[f"{step.at:%Y-%m-%d %H:%M}", *texts[index]] for index, step in enumerate(steps) if step.attempts]
    return Chart(
        name=name, about=about, filled=filled, shapes=[shape for shape in shapes if shape.path], tips=tips, top=top,
        begins_at=steps[0].at, ends_at=steps[-1].at, columns=["time (UTC)", *columns], rows=rows,
    )  # fmt: skip


def _said(columns: Sequence[str], texts: Sequence[str]) -> str:
    return ", ".join(map(" ".join, zip(columns, texts, strict=True)))


def _bars(floors: Sequence[float], values: Sequence[float], top: float) -> str:
    width = WIDTH / max(len(values), 1)
    parts: list[str] = []
    for index, (floor, value) in enumerate(zip(floors, values, strict=True)):
        if value:
            height = max(value / top * HEIGHT, 1.0)
            left, bottom = index * width + width * _GAP / 2, HEIGHT - floor / top * HEIGHT
            parts.append(f"M{left:.1f} {bottom:.1f}v{-height:.1f}h{width * (1 - _GAP):.1f}v{height:.1f}z")
    return "".join(parts)


def _line(values: Sequence[float | None], top: float) -> str:
    """A line with gaps where nothing was measured; a point between two gaps is a dash of its step's width."""
    width = WIDTH / max(len(values), 1)
    parts: list[str] = []
    for index, value in enumerate(values):
        if value is None:
            continue
        x, y = (index + 0.5) * width, HEIGHT - value / top * HEIGHT
        before = values[index - 1] if index else None
        after = values[index + 1] if index + 1 < len(values) else None
        if before is None and after is None:
            parts.append(f"M{x - width / 2:.1f} {y:.1f}h{width:.1f}")
        else:
            parts.append(f"{'M' if before is None else 'L'}{x:.1f} {y:.1f}")
    return "".join(parts)


def _ceiling(value: float) -> float:
    """The next number that reads well: 1, 2 or 5 times a power of ten."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= value)


def _ceiling_seconds(value: float) -> float:
    """The same for seconds, of which small ones count, too."""
    milliseconds = _ceiling(value * 1000)
    return milliseconds / 1000
