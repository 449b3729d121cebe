"""A runner embedded in the ways there are, for tests to start, signal and kill. The database is $ASYNCJOBS_DSN.

`python -m tests.programs.embedding script|run|aiohttp`, or `uvicorn --factory tests.programs.embedding:web`. It says when things
happen, by CLOCK_MONOTONIC, which the test's process shares: `left 12.3 of 4711`.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncjobs import AsyncJobs, Queue

jobs = AsyncJobs(
    schema=os.environ.get("TEST_SCHEMA", "asyncjobs"),
    queues=[Queue(concurrency=5)],
    grace=float(os.environ.get("TEST_GRACE", "2")),
    connect_timeout=float(os.environ.get("TEST_CONNECT_TIMEOUT", "10")),
)


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{word} {time.monotonic():.3f} of {os.getpid()}\n")
    sys.stdout.flush()


@jobs.job("embedding.work")
async def work(seconds: float) -> int:
    """Take some time; which process ran it is the result."""
    say("working")
    await asyncio.sleep(seconds)
    return os.getpid()


@jobs.job("embedding.stubborn")
async def stubborn() -> None:
    """Ignore every wish that it ends."""
    say("working")
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:  # noqa: BLE001 - that is the point
            continue


@jobs.job("embedding.stuck")
def stuck() -> None:
    """Cannot be interrupted."""
    say("working")
    time.sleep(3600)


@asynccontextmanager
async def told(app: object) -> AsyncGenerator[None]:
    """The app's own part of its life: before the runner starts, and after it has stopped."""
    say("entered")
    try:
        async with jobs.lifespan(app):
            yield
            say("leaving")
    finally:
        say("left")


def web() -> Any:
    """The app for uvicorn."""
    from starlette.applications import Starlette

    return Starlette(lifespan=told)


async def script() -> None:
    """A program that has jobs run beside what it does."""
    async with told(None):
        await asyncio.Event().wait()


async def run() -> None:
    """A program that only runs jobs."""
    say("entered")
    try:
        await jobs.run()
    finally:
        say("left")


def serve() -> None:
    """An aiohttp app."""
    from aiohttp import web

    from asyncjobs.integrations.aiohttp import setup

    say("entered")
    app = web.Application()
    setup(app, jobs)
    try:
        web.run_app(app, host="127.0.0.1", port=0, print=None)
    finally:
        say("left")


if __name__ == "__main__":
    match sys.argv[1]:
        case "script":
            asyncio.run(script())
        case "run":
            asyncio.run(run())
        case _:
            serve()
