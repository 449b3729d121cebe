"""`asyncjobs top` on a terminal: the keys that hold queues back and let them go."""

import asyncio
import signal

import pytest

from asyncjobs.cli.keyboard import named
from asyncjobs.store.database import Connection
from tests.support.factories import insert, insert_job
from tests.support.terminal import on_terminal

TOP = ("-m", "asyncjobs", "top", "--every", "3600")


async def held(connection: Connection) -> list[tuple[str, str]]:
    return [
        (row["name"], row["reason"]) for row in await connection.fetch("SELECT name, reason FROM asyncjobs.pauses ORDER BY 1")
    ]


async def test_keys_choose_pause_resume_and_end(dsn: str, connection: Connection) -> None:
    for queue in ("default", "mail"):
        await insert_job(connection, queue=queue, status="scheduled")
    await insert(connection, "background_job_leases", job_name="rescue", held_by_worker_id="none")
    async with on_terminal(*TOP, env={"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": ""}) as terminal:
        before = terminal.settings
        await terminal.shows("> default")
        await terminal.shows("rescue")
        await terminal.shows("p pause   r resume")
        terminal.press("\x1b[B")
        await terminal.shows("> mail")
        terminal.press("p")
        await terminal.shows("mail is paused")
        assert await held(connection) == [("mail", "paused in top")]
        terminal.press("kp")
        await terminal.shows("default is paused")
        terminal.press("jr")
        await terminal.shows("mail goes on")
        assert await held(connection) == [("default", "paused in top")]
        terminal.press("r")
        await terminal.shows("mail was not paused")
        terminal.press("xjj ")
        await terminal.shows("> mail")
        terminal.press("q")
        assert await asyncio.wait_for(terminal.process.wait(), 60) == 0
        assert terminal.settings == before


async def test_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(dsn: str) -> None:
    async with on_terminal(*TOP, env={"ASYNCJOBS_DSN": dsn, "ASYNCJOBS_APP": ""}) as terminal:
        before = terminal.settings
        await terminal.shows("p pause   r resume")
        terminal.press("p")
        await terminal.shows("there is no queue")
        assert terminal.settings != before
        terminal.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(terminal.process.wait(), 60) == 130
        assert terminal.settings == before
        await terminal.shows("asyncjobs: stopped; what was done stays done.")


@pytest.mark.parametrize(
    ("sent", "keys"), [("pq", ["p", "q"]), ("\x1b[A\x1bOBr", ["up", "down", "r"]), ("\x1b", ["\x1b"]), ("", [])]
)
def test_keys_have_names(sent: str, keys: list[str]) -> None:
    assert named(sent) == keys
