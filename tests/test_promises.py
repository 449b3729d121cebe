"""The promises and the words of `docs/architecture.md`: docstrings, comments and what the auditor finds go by them."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


class Promise(NamedTuple):
    """A row of the table."""

    number: int
    is_audited: bool
    tests: list[str]


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


PROMISES = [
    Promise(int(number), bool(star), re.findall(r"`([\w/]+\.py::\w+)`", held_by))
    for number, star, held_by in re.findall(r"^\| P(\d+)(\*?) \|[^|]+\|([^|]+)\|$", section("Promises"), re.MULTILINE)
]


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_promises_are_numbered_and_each_is_held_by_tests_that_exist() -> None:
    kept = (16, 17)  # for what is not built yet
    numbers = [number for number in range(1, PROMISES[-1].number + 1) if number not in kept]
    assert [promise.number for promise in PROMISES] == numbers
    assert len(PROMISES) >= 13
    assert [promise.number for promise in PROMISES if not 2 <= len(promise.tests) <= 5] == []
    named = [test.partition("::") for promise in PROMISES for test in promise.tests]
    assert [f"{file}::{name}" for file, _, name in named if not name.startswith("test_") or name not in functions_of(file)] == []


def cited(folder: str) -> dict[int, str]:
    """The numbers of promises that stand in a folder's files, with a file that names each."""
    files = [path for ending in ("py", "sql") for path in sorted((ROOT / folder).rglob(f"*.{ending}"))]
    return {
        int(number): str(file.relative_to(ROOT))
        for file in files
        for number in re.findall(r"\bP(\d+)\b", file.read_text(encoding="utf-8"))
    }


def test_each_promise_that_is_cited_is_in_the_table() -> None:
    for folder in ("asyncjobs", "tests"):
        found = cited(folder)
        assert {number: found[number] for number in sorted(found.keys() - {promise.number for promise in PROMISES})} == {}


def test_what_the_auditor_finds_is_what_the_table_says_it_checks() -> None:
    text = (ROOT / "asyncjobs" / "testing" / "auditor.py").read_text(encoding="utf-8")
    looked_at = set(map(int, re.findall(r"^\| P(\d+) \|", text, re.MULTILINE)))
    assert looked_at == {promise.number for promise in PROMISES if promise.is_audited}


def test_each_word_has_one_meaning() -> None:
    words = Counter(re.findall(r"\*\*([\w ]+)\*\*", section("Words")))
    assert len(words) > 30
    assert [word for word, count in words.items() if count > 1] == []
