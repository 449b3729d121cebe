"""The environment of `make demo` and `make test` holds versions that were tested together, whatever was released since."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).parents[1]
PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)(?: ; ([^\\]+))? \\$")
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked(group: str) -> dict[str, tuple[str, int]]:
    """The version of each library in the lock, and how many hashes it has there."""
    found: dict[str, tuple[str, int]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements" / f"{group}.txt").read_text(encoding="utf-8").strip()):
        first = PINNED.match(entry.partition("\n")[0])
        assert first, entry
        found[canonicalize_name(first[1])] = first[2], entry.count("--hash=sha256:")
    return found


def wanted(group: str) -> list[Requirement]:
    """What a group asks for, with the groups that it includes and the extras of the project itself."""
    asked: list[Requirement] = []
    for entry in PROJECT["dependency-groups"][group]:
        asked += wanted(entry["include-group"]) if isinstance(entry, dict) else expanded(Requirement(entry))
    return asked


def expanded(requirement: Requirement) -> list[Requirement]:
    if requirement.name != "asyncjobs":
        return [requirement]
    texts = [one for extra in requirement.extras for one in PROJECT["project"]["optional-dependencies"][extra]]
    found = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    return found + [one for text in texts for one in expanded(Requirement(text))]


@pytest.mark.parametrize("group", ["demo", "dev"])
def test_lock_holds_a_version_of_all_that_is_asked_for(group: str) -> None:
    lock = locked(group)
    for requirement in wanted(group):
        version, _ = lock[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(Version(version)), f"{requirement}: the lock has {version} (make lock)"


@pytest.mark.parametrize("group", ["demo", "dev"])
def test_every_version_in_the_lock_has_its_hashes(group: str) -> None:
    assert [name for name, (_, hashes) in locked(group).items() if not hashes] == []


def test_lock_names_nothing_of_this_name_from_elsewhere() -> None:
    assert "asyncjobs" not in locked("dev")


def test_demo_runs_with_the_versions_that_the_tests_run_with() -> None:
    dev = locked("dev")
    assert {name: version for name, (version, _) in locked("demo").items() if dev[name][0] != version} == {}


def test_core_dependencies_say_where_they_end() -> None:
    for text in PROJECT["project"]["dependencies"]:
        operators = {one.operator for one in Requirement(text).specifier}
        assert operators == {">=", "<"}, text


def test_environments_take_nothing_but_what_the_lock_has_hashes_of() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for group in ("demo", "dev"):
        [line] = [
            one for one in makefile.splitlines() if f"--requirement requirements/{group}.txt" in one and "$(INSTALL)" in one
        ]
        assert "--require-hashes" in line


def test_newest_versions_are_tried_each_week() -> None:
    workflow = (ROOT / ".github" / "workflows" / "latest.yml").read_text(encoding="utf-8")
    assert re.search(r'cron: "\d+ \d+ \* \* [0-6]"', workflow)
    assert re.search(r"run: make test-latest$", workflow, re.MULTILINE)
