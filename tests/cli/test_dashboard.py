"""`asyncjobs dashboard`: refuses to start without a decision, serves, and ends when it is told."""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import Generator
from http import HTTPStatus

import pytest

from asyncjobs.cli import failures
from asyncjobs.store.database import Connection
from tests.support.cli import Said, cli
from tests.support.factories import insert_job
from tests.support.program import Program

TOKEN = "a-secret-of-operators"


@pytest.fixture
def taken() -> Generator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "who may see the dashboard? Say --token (or $ASYNCJOBS_DASHBOARD_TOKEN), or --allow-anonymous; one of them."),
        (["--token", TOKEN, "--allow-anonymous"], "who may see the dashboard?"),
        (["--allow-anonymous", "--host", "0.0.0.0"], "--allow-anonymous is for this machine alone, and 0.0.0.0 is not"),
        (["--allow-anonymous", "--host", "jobs.example.com"], "--allow-anonymous is for this machine alone"),
        (["--token", "short"], "16 characters"),
        (
            ["--allow-anonymous", "--port", "{taken}"],
            "cannot listen on 127.0.0.1, port {taken}: Address already in use. Say another",
        ),
        (["--token", TOKEN, "--host", "203.0.113.1", "--port", "0"], "cannot listen on 203.0.113.1, port 0: "),
    ],
)
async def test_bad_input_is_one_line(dsn: str, taken: int, words: list[str], expected: str) -> None:
    said = await cli("dashboard", *(word.format(taken=taken) for word in words), dsn=dsn)
    assert (said.code, said.out) == (failures.BAD_INPUT, "")
    assert expected.format(taken=taken) in said.err
    assert len(said.err.splitlines()) == 1


def ask(url: str, token: str | None) -> Said:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Said(answer.status, answer.read().decode(), "")
    except urllib.error.HTTPError as error:
        with error:
            return Said(error.code, error.read().decode(), "")


async def served(program: Program) -> str:
    line = await program.line("the dashboard is at ", timeout=60)
    return line.partition("the dashboard is at ")[2].partition(";")[0]


async def test_with_a_token_it_serves_who_knows_it_and_with_read_only_it_changes_nothing(
    dsn: str, connection: Connection
) -> None:
    job_id = await insert_job(connection, type="of-the-test")
    env = {"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": None, "ASYNCJOBS_DASHBOARD_TOKEN": TOKEN}
    async with Program.python("-m", "asyncjobs", "dashboard", "--port", "0", "--read-only", env=env) as program:
        url = await served(program)
        assert "of-the-test" not in (await asyncio.to_thread(ask, f"{url}jobs", None)).out
        assert (await asyncio.to_thread(ask, f"{url}jobs", TOKEN[::-1])).code == HTTPStatus.UNAUTHORIZED
        page = await asyncio.to_thread(ask, f"{url}jobs", TOKEN)
        assert (page.code, "of-the-test" in page.out) == (HTTPStatus.OK, True)
        one = await asyncio.to_thread(ask, f"{url}jobs/{job_id}", TOKEN)
        assert (one.code, "/do/jobs" in one.out) == (HTTPStatus.OK, False)
        program.terminate()
        await program.succeeds(timeout=60)


async def test_anonymous_viewers_of_this_machine_are_let_in_when_that_is_said(dsn: str) -> None:
    env = {"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": None, "ASYNCJOBS_DASHBOARD_TOKEN": None}
    async with Program.python("-m", "asyncjobs", "dashboard", "--port", "0", "--allow-anonymous", env=env) as program:
        url = await served(program)
        assert (await asyncio.to_thread(ask, url, None)).code == HTTPStatus.OK
        stream = await asyncio.to_thread(urllib.request.urlopen, f"{url}live/overview", timeout=30)
        with stream:
            program.interrupt()
            await program.succeeds(timeout=60)


async def test_who_uses_which_verb_is_in_its_log_and_in_the_audit(dsn: str, connection: Connection) -> None:
    env = {"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": None, "ASYNCJOBS_DASHBOARD_TOKEN": TOKEN}
    words = ("dashboard", "--port", "0", "--log-format", "json", "--log-level", "info")
    async with Program.python("-m", "asyncjobs", *words, env=env) as program:
        url = await served(program)
        request = urllib.request.Request(
            f"{url}do/pause", data=b"queue=mail", headers={"Authorization": f"Bearer {TOKEN}"}, method="POST"
        )
        await asyncio.to_thread(urllib.request.urlopen, request, timeout=30)
        line = await program.line("asyncjobs.verb.used", timeout=30)
        assert '"by": "operator"' in line
        assert '"target": "queue mail"' in line
    row = await connection.fetchrow("SELECT by, via, verb FROM asyncjobs.audit")
    assert row is not None
    assert tuple(row) == ("operator", "dashboard", "pause")
