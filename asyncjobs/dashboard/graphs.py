"""A workflow as a picture: boxes from left to right, each behind all that it waits for, and lines between them.

1. A box is a job, or many that look alike: of one type, which wait for the same and are waited for by the same. So a group of
   10,000 is one box.
2. Where more than `MOST_IN_COLUMN` would stand at a level, those of one type are one box there. Where there would still be more
   than `MOST_BOXES` in all, that is so at each level; and where that is not enough, levels that follow each other are one: a
   chain of a thousand is a box that says so. Whatever the workflow, the picture fits.
3. A box stands one level behind the last of those that it waits for. What a job has spawned stands at its level.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from asyncjobs.model.workflow import Bunch

MOST_BOXES: Final = 60
MOST_IN_COLUMN: Final = 12
WIDTH, HEIGHT, _GAP_X, _GAP_Y, _EDGE = 190, 58, 60, 18, 8
#: Statuses as colours of the bar, in their order.
KINDS: Final[Mapping[str, str]] = {
    "completed": "good", "processing": "calm", "pending": "calm", "failed": "warn", "dead": "bad", "cancelled": "bad",
    "gone": "bad",
}  # fmt: skip
_ORDER: Final[tuple[str, ...]] = ("good", "bad", "warn", "calm", "dim")


class Part(msgspec.Struct, frozen=True):
    """A part of a box's bar."""

    kind: str
    x: float
    width: float


class Box(msgspec.Struct, kw_only=True):
    """Some members."""

    type: str  # or several
    level: int
    levels: int = 1  # that it stands for
    count: int = 0
    by_status: dict[str, int] = {}
    job_id: int  # the first of them
    is_spawned: bool = False
    x: int = 0
    y: int = 0

    @property
    def ended(self) -> int:
        """How many have."""
        return sum(self.by_status.get(status, 0) for status in ("completed", "dead", "cancelled", "gone"))

    @property
    def parts(self) -> list[Part]:
        """Its bar, by what its members came to."""
        by_kind: dict[str, int] = {kind: 0 for kind in _ORDER}  # noqa: C420
        for status, count in self.by_status.items():
            by_kind[KINDS.get(status, "dim")] += count
        parts: list[Part] = []
        x = 0.0
        for kind, count in by_kind.items():
            width = (WIDTH - 16) * count / max(self.count, 1)
            if count:
                parts.append(Part(kind, round(x, 1), round(max(width, 1.5), 1)))
            x += width
        return parts


class Line(msgspec.Struct, frozen=True):
    """Who waits for whom."""

    path: str
    is_loose: bool  # for its end, whatever it is


class Picture(msgspec.Struct, frozen=True):
    """What is drawn."""

    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]
    is_merged: bool  # boxes stand for more than what looks alike


def draw(bunches: Sequence[Bunch]) -> Picture:
    """The picture of these; an empty one of none."""
    alike: dict[Hashable, list[Bunch]] = {}
    for one in bunches:
        alike.setdefault((one.type, one.gates, one.waits, one.after, one.is_spawned), []).append(one)
    groups = list(alike.values())
    levels = _levels(groups)
    heights = Counter(levels)
    keys: list[Hashable] = [
        (level, groups[at][0].type) if heights[level] > MOST_IN_COLUMN else at for at, level in enumerate(levels)
    ]
    for coarser in (lambda at: (levels[at], groups[at][0].type), *_ranges(groups, levels)):
        if len(set(keys)) <= MOST_BOXES:
            break
        keys = [coarser(at) for at in range(len(groups))]
    boxes = _boxes(groups, levels, keys)
    _place(boxes.values())
    lines = _lines(groups, keys, boxes)
    width = max((box.x + WIDTH for box in boxes.values()), default=0) + _EDGE
    height = max((box.y + HEIGHT for box in boxes.values()), default=0) + _EDGE
    return Picture(width, height, list(boxes.values()), lines, len(boxes) < len(groups))


def _levels(groups: Sequence[Sequence[Bunch]]) -> list[int]:
    """How far from the beginning each stands."""
    arriving: dict[int, list[int]] = {}  # by gate
    for at, group in enumerate(groups):
        for gate in () if group[0].is_spawned else group[0].gates:
            arriving.setdefault(gate, []).append(at)
    levels = [-1] * len(groups)
    for start in range(len(groups)):
        stack = [start]
        while stack:  # no recursion: a chain may be long; no circles: none was written
            at = stack[-1]
            before = {other for gate in (*groups[at][0].waits, *groups[at][0].after) for other in arriving.get(gate, ())}
            left = [other for other in before if levels[other] < 0 and other != at]
            if levels[at] >= 0 or not left:
                levels[at] = max(levels[at], max((levels[other] + 1 for other in before if other != at), default=0))
                stack.pop()
            elif len(stack) > len(groups):
                levels[at] = 0  # (a row that is broken)
            else:
                stack += left
    by_gates: dict[tuple[int, ...], int] = {}
    for at, group in enumerate(groups):
        if not group[0].is_spawned:
            by_gates[group[0].gates] = max(by_gates.get(group[0].gates, 0), levels[at])
    return [by_gates.get(group[0].gates, 0) if group[0].is_spawned else levels[at] for at, group in enumerate(groups)]


def _ranges(groups: Sequence[Sequence[Bunch]], levels: Sequence[int]) -> list[Callable[[int], Hashable]]:
    """Coarser ways to tell boxes apart: levels with the same types that follow each other; then a tenth of all levels each."""
    types: dict[int, set[str]] = {}
    for at, group in enumerate(groups):
        types.setdefault(levels[at], set()).add(group[0].type)
    run_of: dict[int, int] = {}
    run = 0
    for level in sorted(types):
        run += level - 1 not in types or types[level - 1] != types[level]
        run_of[level] = run
    size = max(max(types, default=0) // 10, 1)
    return [
        lambda at: ("run", run_of[levels[at]], groups[at][0].type),
        lambda at: ("part", levels[at] // size, groups[at][0].type),
        lambda at: ("part", levels[at] // size),
    ]


def _boxes(groups: Sequence[Sequence[Bunch]], levels: Sequence[int], keys: Sequence[Hashable]) -> dict[Hashable, Box]:
    boxes: dict[Hashable, Box] = {}
    spans: dict[Hashable, set[int]] = {}
    for at, group in enumerate(groups):
        first, key = group[0], keys[at]
        box = boxes.get(key)
        if box is None:
            box = boxes[key] = Box(type=first.type, level=levels[at], job_id=first.job_id, is_spawned=first.is_spawned)
        elif box.type != first.type:
            box.type = "several types"
        box.level = min(box.level, levels[at])
        spans.setdefault(key, set()).add(levels[at])
        box.levels = len(spans[key])
        for one in group:
            box.count += one.count
            box.by_status[one.status] = box.by_status.get(one.status, 0) + one.count
    return boxes


def _place(boxes: Iterable[Box]) -> None:
    columns: dict[int, list[Box]] = {}
    for box in boxes:
        columns.setdefault(box.level, []).append(box)
    tallest = max(map(len, columns.values()), default=0)
    for column, level in enumerate(sorted(columns)):
        top = _EDGE + (tallest - len(columns[level])) * (HEIGHT + _GAP_Y) // 2
        for row, box in enumerate(columns[level]):
            box.x = _EDGE + column * (WIDTH + _GAP_X)
            box.y = top + row * (HEIGHT + _GAP_Y)


def _lines(groups: Sequence[Sequence[Bunch]], keys: Sequence[Hashable], boxes: Mapping[Hashable, Box]) -> list[Line]:
    arriving: dict[int, set[Hashable]] = {}
    for at, group in enumerate(groups):
        for gate in group[0].gates:
            arriving.setdefault(gate, set()).add(keys[at])
    found: dict[tuple[Hashable, Hashable], bool] = {}
    for at, group in enumerate(groups):
        for gates, is_loose in ((group[0].waits, False), (group[0].after, True)):
            for gate in gates:
                for one in arriving.get(gate, ()):
                    if one != keys[at]:
                        found[one, keys[at]] = found.get((one, keys[at]), True) and is_loose
    return [_line(boxes[one], boxes[other], is_loose=is_loose) for (one, other), is_loose in found.items()]


def _line(one: Box, other: Box, *, is_loose: bool) -> Line:
    x, y, to_x, to_y = one.x + WIDTH, one.y + HEIGHT // 2, other.x, other.y + HEIGHT // 2
    bend = max((to_x - x) // 2, 20)
    return Line(f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}", is_loose)
