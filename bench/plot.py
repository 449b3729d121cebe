"""Draws what was measured: each contender's rate as a multiple of the floor's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pygal  # type: ignore[import-untyped]
from pygal.style import CleanStyle  # type: ignore[import-untyped]

_RATE = "jobs/s"


def plot(lines: Sequence[Mapping[str, Any]], picture: Path) -> None:
    """From `Results.lines` to an SVG; none is drawn when there are no rates beside the floor's."""
    rates = [line for line in lines if line.get("of_floor") and line["figure"] == _RATE]
    if not rates:
        return
    cases = list(dict.fromkeys(_case(line) for line in reversed(rates)))  # it draws from the bottom up
    multiples = [line["of_floor"] for line in rates]
    chart: Any = pygal.HorizontalBar(
        title="rates, as multiples of the floor's", logarithmic=True, style=CleanStyle, width=1000, height=120 + 90 * len(cases)
    )
    # Without room below it the least would be a bar of no length.
    chart.zero = min(multiples) / 2
    chart.range = (chart.zero, max(multiples))
    chart.x_labels = cases
    for contender in dict.fromkeys(line["contender"] for line in rates):
        of = {_case(line): line["of_floor"] for line in rates if line["contender"] == contender}
        chart.add(contender, [of.get(case) for case in cases])
    chart.render_to_file(str(picture))


def _case(line: Mapping[str, Any]) -> str:
    return f"{line['workload']} {line['case']}"
