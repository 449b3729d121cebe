"""What was measured: medians and spread, as JSON lines and as tables."""

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

#: What ratios are taken to.
BASE = "floor"


def percentile(seconds: list[float], percent: int) -> float:
    """In milliseconds."""
    if len(seconds) == 1:
        return seconds[0] * 1000
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


class Results:
    """The samples of a run, by workload, figure and contender."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        #: Of each contender, with what runs it.
        self.versions: dict[str, str] = {}
        self._samples: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._missing: dict[tuple[str, str], str] = {}

    def measured(self, workload: str, case: str, contender: str, figures: Mapping[str, float]) -> None:
        for figure, value in figures.items():
            self._samples[workload, case, figure][contender].append(value)

    def missing(self, workload: str, case: str, contender: str, why: str) -> None:
        self._missing[contender, why] = f"{workload} {case}"

    def lines(self) -> list[dict[str, Any]]:
        """One for each workload, case, figure and contender."""
        lines: list[dict[str, Any]] = []
        for (workload, case, figure), of_all in self._samples.items():
            base = statistics.median(of_all[BASE]) if BASE in of_all else None
            for contender, samples in of_all.items():
                median = statistics.median(samples)
                row = {"workload": workload, "case": case, "figure": figure, "contender": contender, "median": median}
                row |= {"least": min(samples), "most": max(samples), "samples": samples}
                lines.append(row | ({"of_floor": median / base} if base else {}))
        return sorted(lines, key=lambda line: int(line["workload"][1:]))

    def write(self, path: Path) -> None:
        """As JSON lines; the first says what it was measured on, the last ones who is missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines: list[dict[str, Any]] = [{"settings": self.settings, "versions": self.versions}, *self.lines()]
        lines += [{"missing": contender, "why": why, "at": at} for (contender, why), at in self._missing.items()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def show(self, workloads: str, question: str) -> None:
        """Print what is known of these workloads."""
        table = Table(title=f"{workloads}: {question}", title_justify="left")
        for column in ("", "", "median", "least – most", f"of {BASE}"):
            table.add_column(column, justify="right" if column else "left")
        section = ""
        for row in self.lines():
            if row["workload"] in workloads.split(", "):
                heading = f"{row['workload']} {row['case']}: {row['figure']}"
                if heading != section:
                    table.add_section()
                spread = f"{number(row['least'])} – {number(row['most'])}"
                ratio = f"{row['of_floor']:.2f}" if "of_floor" in row else ""
                table.add_row(heading if heading != section else "", row["contender"], number(row["median"]), spread, ratio)
                section = heading
        Console(width=110).print(table)

    def show_missing(self) -> None:
        for (contender, why), at in self._missing.items():
            print(f"without {contender} (from {at} on): {why}")


def number(value: float) -> str:
    """With as many digits as mean something."""
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return f"{value:,.{digits}f}"
