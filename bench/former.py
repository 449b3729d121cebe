"""The project as it was at another commit, as a contender: what a change costs is measured beside what was there before it."""

import subprocess
import tarfile
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.bars import RATES
from bench.programs import OURS, PREFETCHING, ROOT, Contender
from bench.results import number


@contextmanager
def former(revision: str) -> Generator[tuple[Contender, ...]]:
    """Ours at that revision, without and with prefetch. CalledProcessError when there is no such revision."""
    command = ("git", "archive", revision)
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="asyncjobs-former-") as folder, tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
        yield tuple(one._replace(name=_name(one, revision), root=Path(folder)) for one in (OURS, PREFETCHING))


def _name(contender: Contender, revision: str) -> str:
    return f"{contender.name} at {revision}"


def show(lines: Sequence[Mapping[str, Any]], revision: str) -> None:
    """Print what is measured now as a share of what it was: of medians, and of the best and worst rounds."""
    table = Table(title=f"as it is, beside {revision}", title_justify="left")
    for column in ("", "", revision, "now", "now / then", "least – most"):
        table.add_column(column, justify="right" if column else "left")
    measured = {(line["workload"], line["case"], line["figure"], line["contender"]): line for line in lines}
    for (workload, case, figure, name), now in measured.items():
        then = measured.get((workload, case, figure, f"{name} at {revision}"))
        if then is not None and then["median"]:
            ratios = sorted(after / before for after, before in zip(now["samples"], then["samples"], strict=True) if before)
            better = "more is better" if figure in RATES else "less is better"
            spread = f"{ratios[0]:.2f} – {ratios[-1]:.2f}"
            row = f"{workload} {case}: {figure} ({better})", name, number(then["median"]), number(now["median"])
            table.add_row(*row, f"{now['median'] / then['median']:.3f}", spread)
    Console(width=130).print(table)
