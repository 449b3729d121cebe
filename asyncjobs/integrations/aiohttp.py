"""Jobs in an aiohttp app: opened at its start-up, closed at its clean-up.

The order follows aiohttp's rule for clean-up contexts: the last one registered ends first. So what handlers need (pools, clients)
is registered before `setup`, and is there until the runner has stopped; what was registered after it is gone by then.
"""

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from asyncjobs.app import AsyncJobs
from asyncjobs.errors import UsageError

#: Where `setup` puts the jobs: `request.app[JOBS]`, typed.
JOBS: Final[web.AppKey[AsyncJobs]] = web.AppKey("asyncjobs", AsyncJobs)


def setup(app: web.Application, jobs: AsyncJobs, /, *, run: bool = True) -> None:
    """Open `jobs` whenever `app` starts, and close it when the app is cleaned up. `request.app[JOBS]` answers it from now on.

    With `run=False` the app only enqueues: some other process runs the jobs. An app that cannot open them (no database, no
    schema …) fails at start-up with the error of `AsyncJobs`. The runner stops when the app no longer takes requests; its grace
    time is the one of `AsyncJobs`. Raises UsageError when the app has a `setup` already.
    """
    if JOBS in app:
        raise UsageError("setup() was called for this aiohttp app already: one AsyncJobs per app (add a sub-app for another)")
    app[JOBS] = jobs

    async def opened(app: web.Application) -> AsyncIterator[None]:
        async with jobs.lifespan(app) if run else jobs:
            yield

    app.cleanup_ctx.append(opened)
