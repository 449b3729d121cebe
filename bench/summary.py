"""A table for readers: for each figure what ours reach, and the floor and the best libraries as multiples of that."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bench.bars import ANY, PYTHON, RATES
from bench.programs import BATCHING, FLOOR, OURS, PREFETCHING
from bench.results import number

_HEAD = """| workload | asyncjobs | with prefetch | floor | floor in batches | best Python library | best library |
|---|---|---|---|---|---|---|
"""


def summary(lines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, from `Results.lines`."""
    of: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        of[f"{line['workload']} {line['case']}: {line['figure']}"][line["contender"]] = line["median"]
    return _HEAD + "".join(_row(name, medians) for name, medians in of.items() if OURS.name in medians)


def _row(name: str, medians: Mapping[str, float]) -> str:
    ours = medians[OURS.name]
    cells = [name, number(ours), *(_against(ours, medians, {other.name}) for other in (PREFETCHING, FLOOR, BATCHING))]
    more_is_better = name.rpartition(": ")[2] in RATES
    cells += [_against(ours, medians, among, named=True, more=more_is_better) for among in (PYTHON, ANY)]
    return f"| {' | '.join(cells)} |\n"


def _against(
    ours: float, medians: Mapping[str, float], among: set[str] | frozenset[str], *, named: bool = False, more: bool = True
) -> str:
    """The best of these."""
    present = {name: median for name, median in medians.items() if name in among}
    if not present:
        return "–"
    best = (max if more else min)(present, key=lambda name: present[name])
    ratio = f" (×{present[best] / ours:.2f})" if ours else ""
    return f"{best + ' ' if named else ''}{number(present[best])}{ratio}"
