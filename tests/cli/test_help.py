"""What is printed, dead letter by dead letter: the help of every command, and tables."""

from datetime import UTC, datetime
from pathlib import Path

from asyncjobs.cli import screen
from asyncjobs.cli.program import program
from asyncjobs.store.database import Connection
from tests.support.cli import call, cli
from tests.support.factories import insert_job
from tests.support.help_texts import helps


def test_help_is_as_it_was_reviewed() -> None:
    golden = (Path(__file__).parent / "help.txt").read_text(encoding="utf-8")
    assert helps() == golden, "if the change is meant: python -m tests.support.help_texts > tests/cli/help.txt"


def test_every_command_is_under_a_heading() -> None:
    shown = call("--help").out
    assert [name for name in program.commands if f"\n  {name} " not in shown] == []


async def test_a_list_of_jobs_is_a_table(dsn: str, connection: Connection) -> None:
    due = datetime(2027, 1, 31, 12, tzinfo=UTC)
    await insert_job(connection, id=41, run_at=due, status="scheduled")
    await insert_job(connection, id=42, type="report", run_at=due, status="dead", attempts=3, error_message="a\nb\x1b[31m")
    await connection.execute("SELECT asyncjobs.bury(ARRAY[42::bigint])")
    assert (await cli("jobs", "list", dsn=dsn)).out == (
        "id   type     status      queue     attempts   due                    key   error\n"
        "────────────────────────────────────────────────────────────────────────────────────────\n"
        "42   report   dead        default   3/3        2027-01-31 12:00:00Z   -     a\\nb\\x1b[31m\n"
        "41   email    scheduled   default   0/3        2027-01-31 12:00:00Z   -     -\n"
    )


def test_control_characters_are_shown_and_not_sent() -> None:
    assert screen.text("\x1b]0;owned\x07\u202e") == "\\x1b]0;owned\\x07\\u202e"
    assert screen.text("one\ntwo", whole=True) == "one\ntwo"
    assert screen.text("one\ntwo") == "one\\ntwo"


def test_values_read_well() -> None:
    assert [screen.text(value) for value in (None, True, False, 7, 0.123456, ["a", "b"], {"a": 1})] == [
        "-", "yes", "no", "7", "0.123", "a, b", '{"a":1}',
    ]  # fmt: skip
