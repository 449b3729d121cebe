"""Hooks round an enqueue_sync on a synchronous connection: passed without a loop, and refused when they have to wait."""

import asyncio
from typing import Any

import psycopg
import pytest

from asyncjobs import AsyncJobs, Hook, HookFailed, JobHandle, JobType, NewJob
from asyncjobs.telemetry.events import HookRaised
from asyncjobs.testing import Recorder
from tests.support.doors import jobs_in, sync_psycopg


class Stamp(Hook):
    """Stamps, and sees; it may wait in between."""

    def __init__(self, *, waits: str = "") -> None:
        self.waits = waits
        self.seen: list[str] = []

    async def _maybe(self, what: str) -> None:
        self.seen.append(what)
        await asyncio.sleep(0)
        if what == self.waits:
            await asyncio.sleep(0.01)

    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
        await self._maybe("before")
        return job.using(created_by="hook")

    async def after_enqueue(self, job: NewJob[Any], /, handle: JobHandle[Any] | None, error: BaseException | None) -> None:
        await self._maybe("after" if handle else "after nothing")


def hooked(dsn: str, schema: str, hook: Hook) -> tuple[AsyncJobs, JobType[..., Any]]:
    jobs = AsyncJobs(dsn, schema=schema, hooks=[hook])
    return jobs, jobs.job("sms")(_sms)


async def _sms(to: str) -> None: ...


def test_hooks_are_passed_without_a_loop(dsn: str, schema: str) -> None:
    hook = Stamp()
    jobs, sms = hooked(dsn, schema, hook)
    with sync_psycopg(dsn) as caller:
        jobs.enqueue_many_sync([sms.new("a"), sms.new("b")], connection=caller.connection)
        caller.commit()
    assert hook.seen == ["before", "before", "after", "after"]
    with psycopg.connect(dsn) as looking:
        assert looking.execute("SELECT DISTINCT created_by FROM asyncjobs.jobs").fetchall() == [("hook",)]


def test_a_hook_that_has_to_wait_refuses_the_job(dsn: str, schema: str, recorder: Recorder) -> None:
    _, sms = hooked(dsn, schema, hook := Stamp(waits="before"))
    with sync_psycopg(dsn) as caller:
        with pytest.raises(HookFailed, match=r'^job "sms" was not enqueued: hook Stamp.before_enqueue raised'):
            sms.using(connection=caller.connection).enqueue_sync("a")
        caller.commit()
    assert (jobs_in(dsn), hook.seen) == (0, ["before"])
    _, sms = hooked(dsn, schema, Stamp(waits="after"))
    with sync_psycopg(dsn) as caller:
        assert sms.using(connection=caller.connection).enqueue_sync("a").created
        caller.commit()
    assert jobs_in(dsn) == 1
    assert [event.method for event in recorder.of(HookRaised)] == ["after_enqueue"]
