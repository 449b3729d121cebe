"""The bars of the benchmarks: they name what is measured, and say rightly whether it is enough."""

import importlib
import pkgutil
from typing import Any, cast

import pytest

from bench import bars, questions
from bench.bars import ANY, BARS, Bar, Cell, Reading
from bench.lab import Lab
from bench.programs import LIBRARIES, OWN, PREFETCHING


class Asked:
    """A lab that measures nothing, and notes what it is asked."""

    smoke = False
    contenders = (*OWN, *LIBRARIES)

    def __init__(self) -> None:
        self.cases = {("W12", "idle")}  # measured along with W11

    def size(self, full: int, smoke: int) -> int:
        del smoke
        return full

    async def compare(self, workload: str, case: str, *_: Any) -> None:
        self.cases.add((workload, case))

    async def forget(self) -> None:
        pass


async def test_every_bar_names_cases_that_are_measured() -> None:
    lab = Asked()
    for module in pkgutil.iter_modules(questions.__path__):
        await importlib.import_module(f"bench.questions.{module.name}").ask(cast("Lab", lab))
    cells = [cell for bar in BARS for cell in (bar.ours, bar.against) if cell is not None]
    assert [cell for cell in cells if (cell.workload, cell.case) not in lab.cases] == []
    assert {bar.ours.workload for bar in BARS} == {f"W{number}" for number in (*range(1, 18), 20, 21)}


def line(contender: str, median: float, figure: str = "jobs/s") -> dict[str, Any]:
    return {"workload": "W4", "case": "concurrency 50", "figure": figure, "contender": contender, "median": median}


def test_the_best_of_the_others_counts_and_more_of_a_rate_is_better() -> None:
    lines = [line("asyncjobs", 350.0), line("oban", 90.0), line("pgqueuer", 100.0), line("graphile-worker", 400.0)]
    of = {reading.bar.beside: reading for reading in bars.readings(lines) if reading.bar.ours.case == "concurrency 50"}
    assert of["best Python library"].columns()[1:] == ("350", "best Python library 100", "3.50 ×", "≥ 2.6 ×", "met")
    ours = Cell("W4", "concurrency 50", "jobs/s")
    graphile = Reading(Bar(ours, 0.95, ours, "graphile-worker"), 350.0, 400.0)
    assert graphile.columns()[3:] == ("0.88 ×", "≥ 0.95 ×", "MISSED")


@pytest.mark.parametrize(("median", "verdict"), [(1.5, "met"), (1.51, "MISSED")])
def test_less_of_anything_else_is_better(median: float, verdict: str) -> None:
    cell = Cell("W11", "idle", "statements/s")
    assert Reading(Bar(cell, 1.5), median, None).verdict == verdict
    assert cell._replace(among=ANY).read({cell[:3]: {"oban": 3.0, "saq": 2.0}}) == 2.0


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    found = bars.readings([line("asyncjobs", 350.0)])
    assert {reading.verdict for reading in found} == {"not measured"}
    assert {reading.bar.ours.workload for reading in found} == {"W4"}
    assert any(PREFETCHING.name in reading.bar.ours.among and reading.ours is None for reading in found)
    assert "| not measured |" in bars.markdown([line("asyncjobs", 350.0)])


def test_bar_of_a_figure_that_its_workload_does_not_have_is_an_error() -> None:
    bars.check([line("asyncjobs", 1.0)])
    with pytest.raises(LookupError, match='W4 has no figure "jobs/s"'):
        bars.check([line("asyncjobs", 1.0, figure="jobs/min")])
