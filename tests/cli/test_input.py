"""What is typed: bad input gets one line that names the remedy, and an exit code."""

import sys
from pathlib import Path

import pytest

from asyncjobs import Queue
from asyncjobs.cli import failures, kit
from asyncjobs.cli.failures import BadInput, one_line
from asyncjobs.cli.queue_words import queues_of
from asyncjobs.cli.target import load
from asyncjobs.errors import ConfigurationError, DatabaseUnavailable, UnknownQueue
from asyncjobs.store.failures import POOLER_OPTIONS
from tests.support.cli import call, cli

QUEUES = {"default": Queue("default"), "mail": Queue("mail", concurrency=8, lanes={"fast": 3})}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, with an app and something else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"cliapp_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("from asyncjobs import AsyncJobs\njobs = AsyncJobs()\nother = 7\n", encoding="utf-8")
    (tmp_path / f"{name}_broken.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / f"{name}_lacks.py").write_text("import not_installed_at_all\n", encoding="utf-8")
    return name


def test_an_app_is_loaded_from_the_current_folder(module: str) -> None:
    assert load(f"{module}:jobs").dsn is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("{0}", "names no app: write package.module:attribute, as in myapp:jobs."),
        ("{0}:", "names no app"),
        ("{0}:job", 'has no "job". Did you mean "jobs"?'),
        ("{0}:xyz", "It has jobs."),
        ("{0}:other", "is of type int: name an attribute that is an AsyncJobs."),
        ("no_such_module_here:jobs", 'there is no module "no_such_module_here": looked in'),
        ("{0}_broken:jobs", "cannot be imported: ZeroDivisionError: division by zero"),
        ("{0}_lacks:jobs", 'needs "not_installed_at_all", which is not installed.'),
    ],
)
async def test_a_wrong_app_is_one_line_that_names_the_remedy(module: str, path: str, expected: str) -> None:
    said = await cli("run", path.format(module))
    assert said.code == failures.BAD_INPUT
    assert expected in said.err
    assert len(said.err.splitlines()) == 1


async def test_an_app_without_jobs_is_not_run(module: str) -> None:
    said = await cli("run", f"{module}:jobs")
    assert (said.code, said.err.startswith("asyncjobs: there is nothing to run")) == (failures.BAD_INPUT, True)


async def test_no_dsn_names_the_ways_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASYNCJOBS_DSN", raising=False)
    said = await cli("stats")
    assert said.code == failures.BAD_INPUT
    assert all(way in said.err for way in ("--dsn", "$ASYNCJOBS_DSN", "--app"))


async def test_a_database_that_is_away_is_code_4_without_traceback(module: str, tmp_path: Path) -> None:
    impatient = "from asyncjobs import AsyncJobs\njobs = AsyncJobs(connect_timeout=0.1)\n"
    (tmp_path / f"{module}_impatient.py").write_text(impatient, encoding="utf-8")
    dsn = "postgresql://nobody:secret@127.0.0.1:1/x"
    said = await cli("stats", "--app", f"{module}_impatient:jobs", "--dsn", dsn)
    assert said.code == failures.NO_DATABASE
    assert "secret" not in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["jobs", "explian"], "Did you mean 'explain'?"),
        (["jobs", "list", "--status", "pnding"], "'pnding' is not one of 'waiting', 'scheduled', 'pending'"),
        (["jobs", "show", "seven"], "'seven' is not a valid integer"),
        (["jobs", "list", "--nope"], "No such option"),
    ],
)
async def test_words_that_do_not_exist_are_code_2(words: list[str], expected: str) -> None:
    said = await cli(*words)
    assert said.code == failures.BAD_INPUT
    assert expected in said.err
    assert len(said.err.splitlines()) == 1


def test_without_words_the_help_is_shown_as_bad_input() -> None:
    said = call()
    assert said.code == failures.BAD_INPUT
    assert "Usage: asyncjobs" in said.out


def test_unknown_errors_are_code_70_and_say_how_to_see_more() -> None:
    assert one_line(ZeroDivisionError("division by zero")) == (
        "ZeroDivisionError: division by zero (--debug shows where)",
        failures.BUG,
    )


def test_a_pooler_that_refuses_parameters_is_told_with_the_way_through() -> None:
    refused = f"db:6432 cannot be used: a pooler in between refuses it: give {POOLER_OPTIONS}."
    message, code = one_line(DatabaseUnavailable(refused))
    assert message == f"{refused} Name an app that does, or the server's own --dsn."
    assert code == failures.NO_DATABASE


def queues(text: str) -> list[Queue]:
    found = queues_of(text, QUEUES)
    assert found is not None
    return found


def test_queues_are_read_with_slots_and_lanes() -> None:
    default, mail = queues("default=20, mail=6/fast:2/slow:1")
    assert (default.name, default.concurrency) == ("default", 20)
    assert (mail.concurrency, {name: lane.slots for name, lane in mail.lanes.items()}) == (6, {"fast": 2, "slow": 1})


def test_what_is_not_said_of_a_queue_is_as_the_app_has_it() -> None:
    (mail,) = queues("mail")
    assert mail is QUEUES["mail"]
    (smaller,) = queues("mail=5")
    assert smaller.lanes["fast"].slots == 3
    assert queues_of(None, QUEUES) is None
    assert queues_of(" ", QUEUES) is None


@pytest.mark.parametrize("text", ["default=", "default=x", "=3", "mail=8/fast", "mail/fast:3", "mail=8:3"])
def test_queues_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is no queue: write name"):
        queues_of(text, QUEUES)


def test_queues_that_the_app_does_not_have_are_refused() -> None:
    with pytest.raises(UnknownQueue, match='Did you mean "mail"'):
        queues_of("mial=8", QUEUES)


def test_queues_of_no_slots_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="out of range"):
        queues_of("default=0", QUEUES)


@pytest.mark.parametrize("shell", kit.SHELLS)
def test_shells_get_a_script_that_completes(shell: str) -> None:
    said = call("completion", shell)
    assert said.code == 0
    assert "_ASYNCJOBS_COMPLETE" in said.out
