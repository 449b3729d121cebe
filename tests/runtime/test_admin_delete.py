"""Deleting jobs that have ended, and how long others are kept: not at all, and for ever."""

import math
from typing import Any

import pytest

from asyncjobs import AsyncJobs, ConfigurationError, Dead, JobNotFound
from asyncjobs.store.database import Connection
from asyncjobs.testing import run_until_idle


def make(dsn: str, **more: Any) -> tuple[AsyncJobs, Any]:
    jobs = AsyncJobs(dsn, **more)

    @jobs.job("note", on_dead="halt")
    async def note(name: str) -> Dead | None:
        return Dead("no") if name == "dies" else None

    return jobs, note


async def test_ended_jobs_go_with_their_dead_letters_and_others_stay(dsn: str, connection: Connection) -> None:
    jobs, note = make(dsn)
    async with jobs:
        done, dead, waits = await note.enqueue("a"), await note.enqueue("dies"), await note.using(delay=60).enqueue("later")
        await run_until_idle(jobs)
        assert [(await jobs.admin.delete(one.id)).outcome for one in (done, dead, waits)] == ["deleted", "deleted", "scheduled"]
        assert [await jobs.get(one.id) is None for one in (done, dead, waits)] == [True, True, False]
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dead_letter_jobs") == 0
        with pytest.raises(JobNotFound):
            await jobs.admin.delete(done.id)
        await jobs.admin.cancel(waits.id)
        assert (await jobs.admin.delete_all(type="note", dry_run=True)).outcomes == {"deleted": 1}
        assert (await jobs.admin.delete_all(type="note", by="ada")).outcomes == {"deleted": 1}


async def test_the_head_of_a_halted_key_is_released_first(dsn: str) -> None:
    jobs, note = make(dsn)
    keyed = note.using(serialization_key="k")
    async with jobs:
        head, behind = await keyed.enqueue("dies"), await keyed.enqueue("behind")
        await run_until_idle(jobs)
        assert [(await jobs.admin.delete(one.id)).outcome for one in (head, behind)] == ["busy", "waiting"]
        await jobs.admin.release_key("k")
        assert (await jobs.admin.delete(head.id)).outcome == "deleted"
        await run_until_idle(jobs)
        assert (await behind.wait()).status == "completed"


async def test_what_is_kept_for_no_time_goes_at_the_next_prune_and_for_ever_never(dsn: str, connection: Connection) -> None:
    jobs, note = make(dsn, keep_completed=0, keep_cancelled=math.inf)
    async with jobs:
        done, cancelled = await note.enqueue("a"), await note.using(delay=60).enqueue("b")
        await jobs.admin.cancel(cancelled.id)
        await run_until_idle(jobs)
        await connection.execute(
            "UPDATE asyncjobs.jobs SET completed_at = now() - interval '50 years' WHERE status = 'cancelled'"
        )
        assert (await jobs.admin.prune()).jobs <= 1  # or the runner's own pass, while it waited until nothing was due
        assert (await jobs.get(done.id), (await cancelled.wait()).status) == (None, "cancelled")
    with pytest.raises(ConfigurationError, match="keep_completed=-1 must be at least 0"):
        make(dsn, keep_completed=-1)
    make(dsn, keep_types={"note": math.inf, "other": 0})
