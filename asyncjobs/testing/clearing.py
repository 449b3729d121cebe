"""An app's jobs, emptied between tests that share a database, or a memory."""

from asyncjobs.app import AsyncJobs
from asyncjobs.store import inspection
from asyncjobs.testing.in_memory import memory_of, run_in_loop_of


async def clear(jobs: AsyncJobs, /) -> None:
    """Forget all jobs of the app's schema, whoever enqueued them, their keys, dead letters, pauses and metrics; close breakers.

    What is declared stays: types, schedules and their ticks, runners. Handles and ids from before lead to no job. What runs
    meanwhile goes on, and its outcome is dropped. Never call it on a database that is not a test's.
    """
    memory = memory_of(jobs)
    if memory is not None:
        memory.clear()
        return
    async with jobs:
        link = jobs.lifecycle.database().link("test")
        try:
            await inspection.clear(link)
        finally:
            await link.close()
        opened = jobs.lifecycle.opened
        if opened is not None and opened.breakers.services:
            opened.breakers.look_now()


def clear_sync(jobs: AsyncJobs, /) -> None:
    """`clear` in a plain `def` test."""
    run_in_loop_of(jobs, lambda: clear(jobs))
