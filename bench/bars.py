"""What is asked of the figures: each as a ratio to what was measured beside it, or as it is; met, missed, or not measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.programs import FLOOR, LIBRARIES, OURS, PREFETCHING
from bench.results import number

#: The figures of which more is better.
RATES = frozenset({"jobs/s", "last of first", "jobs a round trip", "of plain"})
PYTHON = frozenset(library.name for library in LIBRARIES if library.command[0] != "node")
ANY = frozenset(library.name for library in LIBRARIES)
_GRAPHILE = frozenset(name for name in ANY if name.startswith("graphile-worker"))
_FLOOR = frozenset({FLOOR.name})


class Cell(NamedTuple):
    """A figure of the results: of the best of these contenders."""

    workload: str
    case: str
    figure: str
    among: frozenset[str] = frozenset({OURS.name})

    def read(self, medians: "Medians") -> float | None:
        """Its value; None where none of them was measured."""
        present = [value for name, value in medians.get(self[:3], {}).items() if name in self.among]
        return (max if self.figure in RATES else min)(present, default=None)


class Bar(NamedTuple):
    """`ours`, as a multiple of `against` where that is given, is to be at least (rates) or at most (all else) `bar`."""

    ours: Cell
    bar: float
    against: Cell | None = None
    beside: str = ""  # who or what that is


class Reading(NamedTuple):
    """A bar and what was measured of it."""

    bar: Bar
    ours: float | None
    against: float | None

    @property
    def reached(self) -> float | None:
        """What is compared with the bar."""
        if self.bar.against is None or self.ours is None:
            return self.ours
        return self.ours / self.against if self.against else None

    @property
    def verdict(self) -> str:
        """In a word or two."""
        reached = self.reached
        if reached is None:
            return "not measured"
        is_met = reached >= self.bar.bar if self.bar.ours.figure in RATES else reached <= self.bar.bar
        return "met" if is_met else "MISSED"

    def columns(self) -> tuple[str, ...]:
        """As they are printed."""
        cell, is_rate = self.bar.ours, self.bar.ours.figure in RATES
        prefetching = " with prefetch" if PREFETCHING.name in cell.among else ""
        ours, against, reached = ("–" if one is None else number(one) for one in (self.ours, self.against, self.reached))
        times = " ×" if self.bar.against else ""
        name = f"{cell.workload} {cell.case}: {cell.figure}{prefetching}"
        beside = f"{self.bar.beside} {against}" if self.bar.against else ""
        return name, ours, beside, f"{reached}{times}", f"{'≥' if is_rate else '≤'} {self.bar.bar:g}{times}", self.verdict


#: By workload, case and figure, of each contender.
Medians = Mapping[tuple[str, str, str], Mapping[str, float]]
_HEAD = ("", "asyncjobs", "beside", "reached", "bar", "")


def _peers(workload: str, case: str, figure: str, bars: Mapping[str, float], *, prefetch: bool = False) -> Iterator[Bar]:
    """Bars against others in the same case."""
    others = {
        "best library": ANY, "best Python library": PYTHON, "graphile-worker": _GRAPHILE, "best other library": ANY - _GRAPHILE,
        "floor": _FLOOR,
    }  # fmt: skip
    ours = Cell(workload, case, figure, frozenset({PREFETCHING.name if prefetch else OURS.name}))
    for beside, bar in bars.items():
        yield Bar(ours, bar, Cell(workload, case, figure, others[beside]), beside)


def _own(ours: Cell, bar: float, workload: str, case: str) -> Bar:
    """A bar against another case of our own."""
    return Bar(ours, bar, Cell(workload, case, ours.figure), f"{workload} {case}")


BARS: tuple[Bar, ...] = (
    *_peers("W1", "one by one", "jobs/s", {"best library": 1.95, "floor": 0.8}),
    *_peers("W2", "in flight", "jobs/s", {"best library": 10}),
    *_peers("W3", "lists", "jobs/s", {"best library": 1.6}),
    *_peers("W4", "concurrency 50", "jobs/s", {"best Python library": 2.6}),
    *_peers("W4", "concurrency 50", "jobs/s", {"graphile-worker": 1.25}, prefetch=True),
    *_peers("W4", "concurrency 10", "jobs/s", {"floor": 1.1, "best Python library": 3.5}),
    *_peers("W4", "concurrency 10", "jobs/s", {"graphile-worker": 1.25}, prefetch=True),
    *_peers("W5", "concurrency 50", "jobs/s", {"best Python library": 3}),
    *_peers("W5", "concurrency 50", "jobs/s", {"graphile-worker": 1.1}, prefetch=True),
    *_peers("W6", "idle", "p50 ms", {"best library": 0.8}),
    *_peers("W6", "idle", "p99 ms", {"best library": 0.75}),
    *_peers("W7", "500 enqueues/s", "p50 ms", {"best library": 0.8}),
    *_peers("W7", "500 enqueues/s", "p99 ms", {"best library": 0.75}),
    Bar(Cell("W8", "10 ms each", "of ideal"), 1.5),
    _own(Cell("W9", "beside 1,000,000", "jobs/s"), 0.9, "W9", "alone"),
    *_peers("W10", "100 keys", "jobs/s", {"graphile-worker": 1.1, "best other library": 2}, prefetch=True),
    _own(Cell("W10", "100 keys", "jobs/s"), 0.5, "W4", "concurrency 50"),
    *_peers("W10", "one key", "jobs/s", {"best library": 140}, prefetch=True),
    Bar(Cell("W11", "idle", "statements/s"), 1.5),
    Bar(Cell("W12", "idle", "MB"), 50),
    Bar(Cell("W13", "free", "last of first"), 0.9),
    Bar(Cell("W13", "pinned", "last of first"), 0.9),
    _own(Cell("W13", "pinned", "jobs/s"), 0.9, "W13", "free"),
    _own(Cell("W14", "1 ms", "jobs/s"), 0.6, "W14", "0 ms"),
    Bar(Cell("W14", "one key, 1 ms", "jobs a round trip"), 0.8),
    Bar(Cell("W14", "one key, 5 ms", "jobs a round trip"), 0.8),
    Bar(Cell("W15", "run, concurrency 50", "transactions"), 0.05),
    Bar(Cell("W15", "run, concurrency 50", "statements"), 0.1),
    *_peers("W15", "run, concurrency 50", "WAL bytes", {"graphile-worker": 1.3, "best Python library": 1}),
    *_peers("W15", "run, concurrency 50", "dead rows", {"best library": 1}),
    _own(Cell("W16", "8 processes", "jobs/s"), 0.85, "W16", "2 processes"),
    _own(Cell("W16", "100 queues", "jobs/s"), 0.8, "W16", "1 queues"),
    _own(Cell("W16", "100 types", "jobs/s"), 0.8, "W16", "1 types"),
    Bar(Cell("W20", "never reached", "of plain"), 0.85),
    Bar(Cell("W20", "total = slots", "of plain"), 0.9),
    Bar(Cell("W20", "10,000 tenants", "of plain"), 0.7),
    _own(Cell("W17", "1,000,000 pending", "jobs/s"), 0.9, "W17", "10,000 pending"),
    _own(Cell("W21", "pruned", "jobs/s"), 0.9, "W21", "kept"),
)


def readings(lines: Sequence[Mapping[str, Any]]) -> list[Reading]:
    """Of `Results.lines`: the bars whose workload was asked about."""
    medians: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in lines:
        medians.setdefault((line["workload"], line["case"], line["figure"]), {})[line["contender"]] = line["median"]
    asked = {line["workload"] for line in lines}
    return [
        Reading(bar, bar.ours.read(medians), None if bar.against is None else bar.against.read(medians))
        for bar in BARS
        if bar.ours.workload in asked
    ]


def check(lines: Sequence[Mapping[str, Any]]) -> None:
    """LookupError when a bar names a figure that its workload does not have."""
    figures = {(line["workload"], line["figure"]) for line in lines}
    asked = {workload for workload, _ in figures}
    for cell in (bar.ours for bar in BARS):
        if cell.workload in asked and (cell.workload, cell.figure) not in figures:
            raise LookupError(f'{cell.workload} has no figure "{cell.figure}"')


def show(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print them."""
    table = Table(title="Bars", title_justify="left")
    for column in _HEAD:
        table.add_column(column, justify="right" if column else "left")
    for reading in readings(lines):
        table.add_row(*reading.columns())
    Console(width=140).print(table)


def markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """The same for `summary.md`."""
    rows = [_HEAD, ("---",) * len(_HEAD), *(reading.columns() for reading in readings(lines))]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
