"""A program that ends while its jobs run, in the ways there are. The database is $ASYNCJOBS_DSN.

`python -m tests.programs.ending task|group|script|run|lives`, or `uvicorn --factory tests.programs.ending:web`.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

from asyncjobs import AsyncJobs, Queue

jobs = AsyncJobs(
    schema=os.environ.get("TEST_SCHEMA", "asyncjobs"),
    queues=[Queue(concurrency=5)],
    grace=float(os.environ.get("TEST_GRACE", "60")),
    cleanup=float(os.environ.get("TEST_CLEANUP", "0.1")),
    heartbeat=0.2,
    runner_timeout=2.4,
)
_went_on = threading.Event()
_works = asyncio.Event()


def say(words: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


@jobs.job("ending.neighbour", max_attempts=1)
async def neighbour() -> None:
    """Nothing is wrong with it."""
    say("neighbour works")
    _works.set()
    await asyncio.Event().wait()


@jobs.job("ending.plain", max_attempts=1)
def plain(seconds: float) -> str:
    """Cannot be interrupted."""
    say("plain works")
    time.sleep(seconds)
    say("plain returns")
    _went_on.set()
    return "done"


@jobs.job("ending.tidy", max_attempts=1)
async def tidy(seconds: float) -> None:
    """Cleans up for so long when it is told to end."""
    say("tidy works")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(seconds)
        say("tidied")
        _went_on.set()


@jobs.job("ending.stubborn", max_attempts=1)
async def stubborn() -> None:
    """Ignores every wish that it ends."""
    say("stubborn works")
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:  # noqa: BLE001 - that is the point
            continue


@jobs.job("ending.group", max_attempts=1)
async def group() -> None:
    """A task of its own ends the program."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_exit())
        await asyncio.Event().wait()


def _sleep() -> None:
    time.sleep(60)


@jobs.job("ending.forking", max_attempts=1)
async def forking() -> int | None:
    """Terminates a child that it forked; what that ended with."""
    child: BaseProcess = get_context("fork").Process(target=_sleep)
    child.start()
    await asyncio.sleep(0.1)
    child.terminate()
    async with asyncio.timeout(10):
        while child.exitcode is None:
            await asyncio.sleep(0.01)
    say(f"child ended with {child.exitcode}")
    return child.exitcode


async def _exit() -> None:
    await _works.wait()
    sys.exit(3)


async def program(*, exits: bool) -> None:
    """Runs jobs beside what it does."""
    async with jobs.runner():
        say("entered")
        exiting = asyncio.create_task(_exit()) if exits else None
        try:
            await asyncio.Event().wait()
        finally:
            del exiting


async def lives() -> None:
    """As an application does whose server was told to end: it leaves the lifespan, and lives on until the handler has ended."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with jobs.lifespan(None):
        say("entered")
        await told.wait()
    say("left")
    while not _went_on.is_set():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


def web() -> Any:
    """The app for uvicorn."""
    from starlette.applications import Starlette

    return Starlette(lifespan=jobs.lifespan)


if __name__ == "__main__":
    match sys.argv[1]:
        case "run":
            asyncio.run(jobs.run())
        case "lives":
            asyncio.run(lives())
        case how:
            asyncio.run(program(exits=how == "task"))
