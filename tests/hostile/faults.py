"""The table of faults: read from `faults.toml`, and as docs/faults.md shows it; `python -m tests.hostile.faults` writes it."""

import re
import tomllib
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "faults.md"
BEGIN: Final = "<!-- faults: made of tests/hostile/faults.toml -->\n"
END: Final = "<!-- faults end -->\n"


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong, what asyncjobs does then, and which tests show it."""

    fault: str
    does: str
    tests: list[str]


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of one kind."""

    name: str
    faults: list[Fault]


def kinds() -> list[Kind]:
    """The whole table."""
    text = Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["kind"], list[Kind])


def rendered() -> str:
    """The table for the page: what each kind is folded away under."""
    return "\n".join(_folded(kind) for kind in kinds())


def _folded(kind: Kind) -> str:
    rows = "".join(f"| {fault.fault} | {fault.does} | {_links(fault)} |\n" for fault in kind.faults)
    summary = f"<summary>{kind.name} ({len(kind.faults)})</summary>"
    return f"<details>\n{summary}\n\n| what goes wrong | what asyncjobs does | shown by |\n|---|---|---|\n{rows}\n</details>\n"


def _links(fault: Fault) -> str:
    files = dict.fromkeys(test.split("::", 1)[0] for test in fault.tests)
    return ", ".join(f"[{Path(file).stem.removeprefix('test_').replace('_', ' ')}](../{file})" for file in files)


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + rendered() + END, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
