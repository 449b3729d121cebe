"""docs/reference.md says what the code says: its made tables are as new, and those that are written by hand name all there is."""

import inspect
import re
import subprocess
from typing import get_args

import pytest

from asyncjobs import AsyncJobs, JobRouter, Settings, Status
from asyncjobs.declare.options import KNOWN
from tests.support import reference
from tests.support.pages import PAGES, ROOT, chapter, text_of

PAGE = "docs/reference.md"


def named(title: str) -> list[str]:
    """What the first column of the chapter's first table names."""
    rows = re.findall(r"^\| (`[^|]+`) \|", chapter(PAGE, title), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_made_tables_are_as_the_code_makes_them() -> None:
    page = text_of(PAGE)
    assert reference.with_tables(page) == page, "run python -m tests.support.reference"


@pytest.mark.parametrize("part", reference.MADE)
def test_each_made_table_stands_in_the_page_and_has_rows(part: str) -> None:
    assert text_of(PAGE).count(f"<!-- made: {part} -->") == 1
    rows = reference.MADE[part]().splitlines()[2:]
    assert rows
    first = [row.split(" | ")[0] for row in rows]
    assert len(set(first)) == len(first)


def test_every_status_is_explained() -> None:
    assert sorted(named("Statuses")) == sorted(get_args(Status))


def test_every_option_of_an_enqueue_is_explained() -> None:
    assert sorted(named("Options of an enqueue")) == sorted(KNOWN)


def test_every_option_of_a_job_type_is_explained() -> None:
    taken = {name for name, one in inspect.signature(JobRouter.job).parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert sorted(named("Options of a job type")) == sorted(taken)


def test_every_setting_is_explained() -> None:
    ours = {name for name in inspect.signature(AsyncJobs.__init__).parameters if name not in {"self", "more"}}
    every = ours | set(Settings.__struct_fields__)
    assert sorted(named("Settings")) == sorted(every)


def test_every_environment_variable_is_explained() -> None:
    read = set()
    for file in (ROOT / "asyncjobs").rglob("*.py"):
        read |= set(re.findall(r"\bASYNCJOBS_[A-Z_]+[A-Z]\b", file.read_text(encoding="utf-8")))
    assert sorted(named("Environment variables")) == sorted(read)


def test_every_member_of_the_app_is_for_users_or_between_parts() -> None:
    assert {name for name in reference.BETWEEN_PARTS if not hasattr(AsyncJobs, name)} == set()


def test_sql_of_the_pages_uses_stable_columns() -> None:
    """An `asyncjobs.TABLE` in a statement of a page is one that the reference calls stable."""
    functions = set(re.findall(r"^CREATE FUNCTION asyncjobs\.(\w+)\(", text_of("tests/store/schema.sql"), re.MULTILINE))
    used = {
        name
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for sql in re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"\basyncjobs\.(\w+)", sql)
    }
    assert used - functions - set(reference.STABLE) == {"job_queue_health"}


def test_versions_are_those_of_the_package() -> None:
    said = chapter(PAGE, "Supported versions")
    project = text_of("pyproject.toml")
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert re.findall(r"3\.\d+", said.partition("| Python |")[2].partition("|")[0]) == pythons
    assert f'requires-python = ">={pythons[0]}"' in project
    (tested,) = re.findall(r"^ +python: \[(.*)\]$", text_of(".github/workflows/ci.yml"), re.MULTILINE)
    assert re.findall(r"3\.\d+", tested) == pythons
    matrix = re.findall(r"^POSTGRES \?= (.*)$", text_of("Makefile"), re.MULTILINE)[0].split()
    assert f"PostgreSQL | {matrix[0]} to {matrix[-1]} |" in said
    assert f"PostgreSQL {matrix[0]} or newer" in text_of("README.md")
    targets = re.findall(r"`make ([\w-]+)`", said)
    for target in targets:
        subprocess.run(["make", target, "-n"], cwd=ROOT, check=True, capture_output=True)
    assert targets
