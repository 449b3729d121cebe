"""The public types, held against both checkers: every deliberate mistake is reported, and nothing else is."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = ("right.py", "wrong.py", "holes.py")

#: Users' code under test declares functions that are never called; that is no finding about the types.
PYRIGHT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "include": ["."],
    "reportUnusedFunction": False,
    "reportUnusedVariable": False,
    "reportUnusedExpression": False,
    "reportUnusedCoroutine": False,
    "reportUnknownMemberType": False,
    "reportUnknownVariableType": False,
    "reportUnknownArgumentType": False,
    "reportUnknownLambdaType": False,
    "reportMissingTypeStubs": False,
}
_MYPY = re.compile(r"^(?:.*/)?(?P<file>\w+\.py):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)$")
_REVEALED = re.compile(r'Revealed type is "(?P<mypy>.*)"|Type of ".*" is "(?P<pyright>.*)"')


class Report(msgspec.Struct):
    """What one checker said: (file, line) -> message."""

    errors: dict[tuple[str, int], str]
    revealed: dict[tuple[str, int], str]


def marked(name: str, mark: str) -> dict[int, str]:
    """The lines of a file that have the mark, with what follows it."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    found = ((number, line.partition("  # ")[2]) for number, line in enumerate(lines, 1))
    return {number: comment for number, comment in found if comment.startswith(mark)}


def plain(revealed: str) -> str:
    """A revealed type in the words that both checkers share."""
    revealed = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", revealed)
    return re.sub(r"JobType\[\[(.*)\], ", r"JobType[(\1), ", revealed)


#: What is known of libraries is kept from run to run: finding it out anew takes a quarter of a minute.
CACHE = HERE.parents[1] / ".mypy_cache" / "typing"


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files in a folder of their own, so that the project's configuration does not leave them out."""
    folder = tmp_path_factory.mktemp("typing")
    for name in FILES:
        shutil.copy(HERE / name, folder)
    return folder


@pytest.fixture(scope="module")
def mypy(copies: Path) -> Report:
    options = ["--strict", "--config-file=", "--no-error-summary", "--cache-dir", CACHE]
    command = [sys.executable, "-m", "mypy", *options, *FILES]
    result = subprocess.run(command, cwd=copies, capture_output=True, text=True, check=False, timeout=300)
    report = Report({}, {})
    for line in result.stdout.splitlines():
        match = _MYPY.match(line)
        assert match, f"mypy said {line!r}\n{result.stderr}"
        place = (match["file"], int(match["line"]))
        told = _REVEALED.search(match["text"])
        if told:
            report.revealed[place] = plain(told["mypy"])
        elif match["kind"] == "error":
            report.errors[place] = match["text"]
    return report


@pytest.fixture(scope="module")
def pyright(copies: Path) -> Report:
    (copies / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "-p", copies, "--pythonpath", sys.executable, "--outputjson"]
    result = subprocess.run(command, cwd=copies, capture_output=True, text=True, check=False, timeout=300)
    report = Report({}, {})
    for found in json.loads(result.stdout)["generalDiagnostics"]:
        place = (Path(found["file"]).name, found["range"]["start"]["line"] + 1)
        told = _REVEALED.search(found["message"])
        if told:
            report.revealed[place] = plain(told["pyright"])
        elif found["severity"] == "error":
            report.errors[place] = found["message"]
    return report


@pytest.fixture(params=["mypy", "pyright"])
def checker(request: pytest.FixtureRequest) -> Report:
    report: Report = request.getfixturevalue(request.param)
    return report


def test_right_uses_pass(checker: Report) -> None:
    assert {place: text for place, text in checker.errors.items() if place[0] == "right.py"} == {}


def test_every_deliberate_mistake_is_an_error_and_nothing_else_is(checker: Report) -> None:
    reported = {line for name, line in checker.errors if name == "wrong.py"}
    assert reported == set(marked("wrong.py", "E"))


def test_known_holes_are_as_wide_as_they_were(request: pytest.FixtureRequest) -> None:
    expected = {line: comment.partition(" | ") for line, comment in marked("holes.py", "AsyncJobType").items()}
    for name, index in (("mypy", 0), ("pyright", 2)):
        report: Report = request.getfixturevalue(name)
        assert {place: text for place, text in report.errors.items() if place[0] == "holes.py"} == {}
        assert {line: told for (_, line), told in report.revealed.items()} == {
            line: parts[index] or parts[0] for line, parts in expected.items()
        }


def test_the_files_hold_what_they_promise() -> None:
    assert len(marked("wrong.py", "E")) >= 46
    assert marked("right.py", "E") == {}
