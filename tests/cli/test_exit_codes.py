"""How it ends when something is wrong: one line, one exit code, no traceback unless it is asked for."""

import logging
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import asyncjobs.cli
from asyncjobs import AsyncJobs, errors
from asyncjobs.admin import Admin
from asyncjobs.cli import failures, main
from asyncjobs.cli.failures import BadInput, NothingFound, one_line
from asyncjobs.cli.logs import log
from asyncjobs.cli.target import target
from asyncjobs.model.job import Job
from asyncjobs.model.tree import Node
from tests.support.cli import cli
from tests.support.verb_calls import noted

NOWHERE = "postgresql://nowhere/x"

ENDS: list[tuple[BaseException, int]] = [
    (BadInput("x"), failures.BAD_INPUT),
    (errors.InvalidDSN("x"), failures.BAD_INPUT),
    (errors.NotOpen("x"), failures.BAD_INPUT),
    (errors.InvalidOption("x"), failures.BAD_INPUT),
    (NothingFound("x"), failures.NOT_FOUND),
    (errors.JobNotFound("x", job_id=1), failures.NOT_FOUND),
    (errors.KeyNotFound("k"), failures.NOT_FOUND),
    (errors.ScheduleNotFound("s", []), failures.NOT_FOUND),
    (errors.BreakerNotFound("s", []), failures.NOT_FOUND),
    (errors.DeadLetterNotFound(1), failures.NOT_FOUND),
    (errors.SchemaTooNew("x"), failures.NO_DATABASE),
    (errors.SchemaOutdated("x: run `asyncjobs migrate pkg:jobs`."), failures.NO_DATABASE),
    (errors.DatabaseUnavailable("x"), failures.NO_DATABASE),
    (asyncpg.InsufficientPrivilegeError("permission denied for schema asyncjobs"), failures.NO_DATABASE),
    (ConnectionResetError("gone"), failures.NO_DATABASE),
    (errors.StateError("x"), failures.NOT_DONE),
    (errors.WaitTimeout("x", job_id=1), failures.NOT_DONE),
    (KeyError("x"), failures.BUG),
]


@pytest.mark.parametrize(("error", "code"), ENDS, ids=[type(error).__name__ for error, _ in ENDS])
def test_each_kind_of_error_has_its_code(error: BaseException, code: int) -> None:
    message, found = one_line(error)
    assert (found, bool(message), "\n" in message) == (code, True, False)


def test_a_message_of_many_lines_becomes_one() -> None:
    error = asyncpg.PostgresError("first\n  second\n\nthird")
    assert one_line(error)[0] == "the database refused: first second third"
    assert one_line(ValueError("first\nsecond"))[0] == "ValueError: first second (--debug shows where)"
    assert "\n" not in one_line(errors.StateError("first\nsecond"))[0]


@pytest.mark.parametrize(("debug", "expected"), [((), False), (("--debug",), True)])
async def test_a_traceback_is_shown_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    debug: tuple[str, ...],
    expected: bool,  # noqa: FBT001
) -> None:
    noted(monkeypatch, {"leases": [None]})  # what no verb expects
    said = await cli("leases", *debug, dsn=NOWHERE)
    assert said.code == failures.BUG
    assert said.err.splitlines()[-1].startswith("asyncjobs: AttributeError: 'NoneType' object has no attribute")
    assert said.err.endswith("(--debug shows where)\n")
    assert ("Traceback (most recent call last)" in said.err) == expected


async def test_a_job_that_cannot_be_enqueued_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*args: object) -> None: ...

    monkeypatch.setattr(AsyncJobs, "__aenter__", nothing)
    monkeypatch.setattr(AsyncJobs, "__aexit__", nothing)
    monkeypatch.setattr(Admin, "noting", lambda *_: nullcontext([]))
    said = await cli("jobs", "enqueue", "nope", dsn=NOWHERE)
    assert (said.code, 'no job "nope" in this app' in said.err) == (failures.BAD_INPUT, True)
    said = await cli("jobs", "enqueue", "nope", "{", dsn=NOWHERE)
    assert (said.code, "the payload is no JSON object" in said.err) == (failures.BAD_INPUT, True)


async def test_a_dsn_that_cannot_be_read_is_bad_input() -> None:
    said = await cli("stats", "--dsn", "mysql://user:secret@db/x")
    assert (said.code, "secret" in said.err, len(said.err.splitlines())) == (failures.BAD_INPUT, False, 1)


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with an app that goes around a pooler, and one whose own declarations are wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"endapp_{tmp_path.name}"
    options = 'listen_dsn="postgresql://direct/x", connect_kwargs={"ssl": "require"}'
    (tmp_path / f"{name}.py").write_text(
        f'from asyncjobs import AsyncJobs\njobs = AsyncJobs("postgresql://pooler/x", {options})\n', encoding="utf-8"
    )
    (tmp_path / f"{name}_wrong.py").write_text(
        'from asyncjobs import AsyncJobs\njobs = AsyncJobs("mysql://x")\n', encoding="utf-8"
    )
    return name


def test_another_dsn_leaves_behind_what_belongs_to_the_apps_own_server(apps: str) -> None:
    own = target(f"{apps}:jobs", None, None)
    assert (own.settings.listen_dsn, own.settings.connect_kwargs) == ("postgresql://direct/x", {"ssl": "require"})
    other = target(f"{apps}:jobs", "postgresql://elsewhere/x", None)
    assert (other.dsn, other.settings.listen_dsn, other.settings.connect_kwargs) == ("postgresql://elsewhere/x", None, {})


async def test_an_app_that_is_declared_wrong_says_what_is_wrong(apps: str) -> None:
    said = await cli("stats", "--app", f"{apps}_wrong:jobs")
    assert said.code == failures.BAD_INPUT
    assert "cannot be imported" not in said.err


class Absent:
    """Finds nothing of one library, as if it were not installed."""

    def __init__(self, library: str) -> None:
        self.library = library

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self.library:
            raise ModuleNotFoundError(f"no {name}", name=name)


@pytest.mark.parametrize("library", ["click", "rich"])
def test_without_its_libraries_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    for name in [name for name in sys.modules if name.startswith("asyncjobs.cli.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(asyncjobs.cli, name.rpartition(".")[2], raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(library), *sys.meta_path])
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value) == (
        f'asyncjobs: the command line needs {library}, which is not installed: pip install "asyncjobs[cli]"'
    )


def test_the_level_of_the_log_is_the_one_that_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("asyncjobs")
    before = logger.level
    try:
        log("error", None)
        assert logger.level == logging.ERROR
        log("debug", None)
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


def a_job(**fields: Any) -> Job:
    everything: dict[str, Any] = dict.fromkeys(Job.__struct_fields__)
    everything.update(id=1, type="t", status="dead", **fields)
    return Job(**everything)


async def test_a_tree_says_how_many_children_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    noted(monkeypatch, {"tree": [Node(a_job(error_message="no"), [Node(a_job(), [], hidden=3)])]})
    said = await cli("jobs", "trace", "c", dsn=NOWHERE)
    assert said.out.splitlines() == ["1 t dead: no", "  1 t dead", "    … and 3 more"]
