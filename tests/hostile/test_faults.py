"""The table of faults tells the truth: every test that it names exists, and docs/faults.md shows it as it is."""

import ast
from collections import Counter
from functools import cache

from tests.hostile.faults import PAGE, ROOT, kinds, with_table

FAULTS = [fault for kind in kinds() for fault in kind.faults]


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def test_every_fault_names_tests_that_exist() -> None:
    assert [fault.fault for fault in FAULTS if not fault.tests] == []
    split = [test.partition("::") for fault in FAULTS for test in fault.tests]
    assert [f"{file}::{name}" for file, _, name in split if not name.startswith("test_") or name not in functions(file)] == []


def test_fault_is_told_once() -> None:
    assert [fault for fault, count in Counter(fault.fault for fault in FAULTS).items() if count > 1] == []


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "run python -m tests.hostile.faults"
    assert FAULTS[0].fault in page
