"""Tables, records and progress for people: the only file that knows rich.

What comes from jobs (payloads, errors, keys) is hostile: control characters, which move a terminal's cursor or rename its window,
are shown as text. To a terminal things are coloured and cut to its width; to anything else they are plain and whole.
"""

import io
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_WIDE: Final = 10_000  # characters: a pipe has no width

_COLOURS: Final[Mapping[str, str]] = {
    "pending": "cyan", "processing": "blue", "completed": "green", "to be retried": "yellow", "dead": "red", "cancelled": "dim",
    "paused": "magenta", "open": "red", "half-open": "yellow", "closed": "green", "critical": "bold red", "warning": "yellow",
}  # fmt: skip


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The rows under the columns' names."""
    made = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    made.columns[0].no_wrap = True  # what a row is about is cut last
    for row in rows:
        made.add_row(*map(_cell, row))
    return _drawn(made)


def record(fields: Mapping[str, object]) -> str:
    """One thing: its fields below each other. Those that say nothing (None) are left out."""
    made = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        if value is not None:
            made.add_row(Text(name, style="bold" if is_terminal() else ""), _cell(value, whole=True))
    return _drawn(made)


def _cell(value: object, *, whole: bool = False) -> Text:
    shown = text(value, whole=whole)
    return Text(shown, style=_COLOURS.get(shown, ""), overflow="fold" if whole else "ellipsis", no_wrap=not whole)


def text(value: object, *, whole: bool = False) -> str:
    """The value as people read it: on one line unless it is to be whole."""
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, timedelta):
        return str(timedelta(seconds=round(value.total_seconds())))
    if isinstance(value, int | float):
        return f"{value:.3g}" if isinstance(value, float) else str(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return _inert(", ".join(value), whole=whole)
    return _inert(value if isinstance(value, str) else msgspec.json.encode(value).decode(), whole=whole)


def _inert(value: str, *, whole: bool) -> str:
    kept = "\n" if whole else ""
    return "".join(one if one.isprintable() or one in kept else repr(one)[1:-1] for one in value)


def _drawn(what: RenderableType) -> str:
    width = shutil.get_terminal_size().columns if is_terminal() else _WIDE
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=is_terminal(),
        no_color=None if is_terminal() else True,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(what)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


@contextmanager
def progress(what: str) -> Generator[Callable[[int], None]]:
    """Count long work on a terminal's standard error; the block calls back with how much is done. Silent anywhere else."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done: shown.update(task, completed=done)
