"""What handlers need: a session per attempt, a client per runner, and hooks round every enqueue and attempt.

Run it with `python examples/dependencies.py`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncjobs import AsyncJobs, Hook, JobContext, NewJob, Outcome, resource


class Client:
    """Stands for an HTTP client with its pool of connections."""

    async def get(self, url: str) -> str:
        """Fetch a page."""
        await asyncio.sleep(0.01)
        return f"200 {url}"


@resource  # one per runner: opened when the first attempt asks, closed after the last one
@asynccontextmanager
async def http() -> AsyncGenerator[Client]:
    """The client of all attempts."""
    print("client opened")
    yield Client()
    print("client closed")


@asynccontextmanager
async def session(ctx: JobContext) -> AsyncGenerator[list[str]]:
    """Stands for a database session: one per attempt, committed when the handler succeeds, told of its error when it fails."""
    rows: list[str] = []
    try:
        yield rows
    except Exception as error:
        print(f"{ctx.job.type}: rolled back, {error}")
        raise
    print(f"{ctx.job.type}: committed {rows}")


class Audit(Hook):
    """Who asked for a job, and how each attempt ended."""

    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
        """Another job may be answered: this one says who asked."""
        return job.using(created_by="example")

    async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
        """Called when the session is committed or rolled back."""
        print(f"audit: {ctx.job.type} for {ctx.job.created_by}: {outcome.kind}")


jobs = AsyncJobs("embedded://", hooks=[Audit()])


@jobs.job("dependencies.fetch", max_attempts=1)
async def fetch(ctx: JobContext, url: str) -> None:
    """Use both: one client for all attempts, a session for this one."""
    client, rows = await ctx.use(http), await ctx.use(session)
    rows.append(await client.get(url))
    if "bad" in url:
        raise ValueError("a bad page")


async def main() -> None:
    """Fetch a page that is committed, and one that is rolled back."""
    async with jobs.runner():
        await (await fetch.enqueue("/good")).wait(timeout=10)
        await (await fetch.enqueue("/bad")).wait(timeout=10)


if __name__ == "__main__":
    asyncio.run(main())
