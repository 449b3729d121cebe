"""An app in the ways there are to embed a runner, for tests to start, signal and kill.

`python -m tests.programs.embedding script|run|aiohttp`, or `uvicorn tests.programs.embedding:web`; database: $ASYNCJOBS_DSN.
"""

import asyncio
import os
import sys

from aiohttp import web as aiohttp_web
from fastapi import FastAPI

from asyncjobs import AsyncJobs, Queue
from asyncjobs.integrations.aiohttp import setup

jobs = AsyncJobs(
    schema=os.environ.get("TEST_SCHEMA", "asyncjobs"),
    queues=[Queue(concurrency=5)],
    grace=float(os.environ.get("TEST_GRACE", "2")),
    connect_timeout=float(os.environ.get("TEST_CONNECT_TIMEOUT", "10")),
)
web = FastAPI(lifespan=jobs.lifespan)


@jobs.job("embedding.work")
async def work(seconds: float) -> int:
    """Take some time; which process ran it is the result."""
    say("working")
    await asyncio.sleep(seconds)
    return os.getpid()


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def script() -> None:
    """A program that has jobs run beside what it does."""
    async with jobs.runner():
        await asyncio.Event().wait()


def main() -> None:
    """Embed the runner in the way that is asked for."""
    say("starting")
    match sys.argv[1]:
        case "script":
            asyncio.run(script())
        case "run":
            asyncio.run(jobs.run())
        case _:
            app = aiohttp_web.Application()
            setup(app, jobs)
            aiohttp_web.run_app(app, host="127.0.0.1", port=0, print=None)


if __name__ == "__main__":
    main()
