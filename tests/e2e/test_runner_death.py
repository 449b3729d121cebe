"""Runners that die, freeze and block, as processes: what they ran is run elsewhere, once, and what lives is left alone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.model.job import Job
from asyncjobs.store.database import Connection
from asyncjobs.testing import Proxy
from tests.programs import worker
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

#: runner_timeout, two looks of a rescuer that are up to 10 % late, and time for a slow machine.
RESCUED_SECONDS = 1.2 + 2 * 0.22 + 1.5


def a_worker(dsn: str, **env: str) -> Program:
    return Program.python("-m", "tests.programs.worker", env={"ASYNCJOBS_DSN": dsn, **env})


async def ended(worker_app: Any, job_id: int) -> Job:
    job: Job = await worker_app.handle(job_id).wait(timeout=10)
    return job


async def runner_ids(connection: Connection) -> list[int]:
    return [row["id"] for row in await connection.fetch("SELECT id FROM asyncjobs.runners ORDER BY started_at")]


async def test_jobs_of_a_killed_runner_run_elsewhere(worker_app: Any, dsn: str, connection: Connection) -> None:
    async with a_worker(dsn) as first:
        handles = [await worker.sleep.enqueue(seconds=60.0) for _ in range(3)]
        for handle in handles:
            await first.line(f"started job {handle.id} attempt 1")
        async with a_worker(dsn) as second:
            await second.line("registered")
            first.kill()
            watch = Stopwatch()
            for handle in handles:
                await second.line(f"started job {handle.id} attempt 2")
            assert watch.stop() < RESCUED_SECONDS + 1.0
            jobs = [await ended(worker_app, handle.id) for handle in handles]
            second.terminate()
            await second.wait()
    assert [(job.status, job.attempts, job.rescues, job.result) for job in jobs] == [("completed", 2, 1, second.pid)] * 3
    assert all("was lost during attempt 1 of 3" in (job.last_error or "") for job in jobs)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.former_runners WHERE died_at IS NOT NULL") == 1


async def test_job_that_kills_its_process_is_dead_after_its_attempts_and_neighbours_are_spared(
    worker_app: Any, dsn: str, connection: Connection
) -> None:
    async with a_worker(dsn) as first:
        await first.line("registered")
        neighbours = [await worker.sleep.enqueue(seconds=60.0) for _ in range(3)]
        for neighbour in neighbours:
            await first.line(f"started job {neighbour.id}")
        poison = await worker.die.enqueue()
        assert await first.wait() == 1
    for _ in range(2):
        async with a_worker(dsn) as following:
            await following.line(f"started job {poison.id}", timeout=30)
            assert await following.wait() == 1
    async with a_worker(dsn) as last:
        job = await ended(worker_app, poison.id)
        assert (job.status, job.attempts, job.rescues) == ("dead", 3, 3)
        dead_letters = await connection.fetch("SELECT job_id FROM asyncjobs.dead_letter_jobs")
        assert [dead_letter["job_id"] for dead_letter in dead_letters] == [poison.id]
        spared = [await ended(worker_app, neighbour.id) for neighbour in neighbours]
        assert [(job.status, job.attempts) for job in spared] == [("completed", 2)] * 3
        last.terminate()
        await last.wait()


async def test_frozen_runner_finds_itself_gone_and_comes_back_under_another_id(
    worker_app: Any, dsn: str, connection: Connection
) -> None:
    async with a_worker(dsn) as frozen:
        handle = await worker.sleep.enqueue(seconds=60.0)
        await frozen.line(f"started job {handle.id} attempt 1")
        (former,) = await runner_ids(connection)
        async with a_worker(dsn) as other:
            await other.line("registered")
            frozen.pause()
            await other.line(f"started job {handle.id} attempt 2", timeout=RESCUED_SECONDS)
            frozen.unpause()
            await frozen.line("lost itself")
            await eventually(lambda: two_others(connection, former), description="it registers anew")
            job = await ended(worker_app, handle.id)
            assert (job.status, job.attempts, job.result) == ("completed", 2, other.pid)
            for program in (other, frozen):
                program.terminate()
                await program.wait()
    assert f"ended job {handle.id} completed" not in frozen.output


async def two_others(connection: Connection, former: int) -> bool:
    found = await runner_ids(connection)
    return len(found) == 2 and former not in found


async def test_handler_that_blocks_the_loop_is_not_run_a_second_time(worker_app: Any, dsn: str, connection: Connection) -> None:
    async with a_worker(dsn) as blocked, a_worker(dsn) as other:
        for program in (blocked, other):
            await program.line("registered")
        handle = await worker.block.enqueue(seconds=3.0)  # two and a half times runner_timeout
        job = await ended(worker_app, handle.id)
        said = blocked.output + other.output
        for program in (blocked, other):
            program.terminate()
            await program.wait()
    assert (job.status, job.attempts, job.rescues) == ("completed", 1, 0)
    assert any(line.startswith("stalled in") and str(handle.id) in line for line in said), said


async def test_loop_that_is_blocked_when_a_signal_asks_for_the_stop_is_told_of_at_once(
    worker_app: Any, dsn: str, tmp_path: Path
) -> None:
    """By the heartbeat's thread: the loop hears of the signal when it turns again."""
    del worker_app
    async with a_worker(dsn) as blocked:
        await blocked.line("registered")
        handle = await worker.block_until.enqueue(there=str(tmp_path / "enough"))
        await blocked.line("stalled in")
        blocked.terminate()
        assert f"job {handle.id}" in await blocked.line("although a stop was asked for")
        (tmp_path / "enough").touch()
        await blocked.wait()


async def test_loop_that_is_blocked_beyond_the_limit_loses_its_jobs_to_others(worker_app: Any, dsn: str, tmp_path: Path) -> None:
    async with a_worker(dsn, STALL_LIMIT="1") as blocked:
        await blocked.line("registered")
        handle = await worker.block_until.enqueue(there=str(tmp_path / "enough"))
        await blocked.line(f"started job {handle.id} attempt 1")
        async with a_worker(dsn) as other:
            await other.line(f"started job {handle.id} attempt 2")
            (tmp_path / "enough").touch()
            await blocked.line("lost itself: the event loop has not turned")
            job = await ended(worker_app, handle.id)
            assert (job.status, job.attempts, job.result) == ("completed", 2, other.pid)
            for program in (other, blocked):
                program.terminate()
                await program.wait()


async def test_idle_runner_of_which_the_server_is_stopped_and_started_keeps_its_name(
    worker_app: Any, dsn: str, connection: Connection
) -> None:
    """A short outage declares nobody dead."""
    async with a_worker(dsn) as runner:
        await runner.line("registered")
        before = await runner_ids(connection)
        for _ in range(3):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'asyncjobs %' AND datname = current_database() AND pid <> pg_backend_pid()"
            )
            await asyncio.sleep(0.3)
        handle = await worker.quick.enqueue()
        assert (await ended(worker_app, handle.id)).status == "completed"
        assert await runner_ids(connection) == before
        runner.terminate()
        assert await runner.wait() == 0


async def test_runner_that_was_cut_off_stops_its_attempts_and_gives_back_what_is_still_its_own(
    worker_app: Any, dsn: str, connection: Connection
) -> None:
    async with Proxy(dsn) as proxy, a_worker(proxy.dsn) as runner:
        handle = await worker.sleep.enqueue(seconds=60.0)
        await runner.line(f"started job {handle.id} attempt 1")
        before = await runner_ids(connection)
        proxy.black_hole()
        await runner.line("lost itself: no beat was confirmed", timeout=3.0)
        await runner.line(f"ended job {handle.id} interrupted", timeout=1.0)
        proxy.heal()
        await eventually(lambda: runner.output.count(f"started job {handle.id} attempt 1") == 2, description="it starts again")
        assert await runner_ids(connection) == before  # nobody was there to declare it dead
        runner.terminate()
        assert await runner.wait() == 0
    job = await worker_app.get(handle.id)
    assert (job.status, job.attempts, job.rescues) == ("pending", 0, 0)


PATIENT = """
import asyncio, os
from asyncjobs import AsyncJobs
jobs = AsyncJobs(runner_timeout=30, rescue_interval=0.5)
@jobs.job("nap")
async def nap() -> None:
    print("napping", flush=True)
    await asyncio.sleep(float(os.environ["NAP"]))
asyncio.run(jobs.run())
"""


@pytest.mark.direct("a pooler's session is nobody's in particular, and its end proves nothing")
async def test_killed_process_is_noticed_in_seconds_by_one_on_its_machine_whatever_the_timeout(dsn: str) -> None:
    """With the default timeout of 30 s."""
    jobs = AsyncJobs(dsn)
    jobs.job("nap")(_nap)
    async with Program.python("-c", PATIENT, env={"ASYNCJOBS_DSN": dsn, "NAP": "60"}) as first, jobs:
        handle = await jobs.enqueue("nap", {})
        await first.line("napping", timeout=20)
        async with Program.python("-c", PATIENT, env={"ASYNCJOBS_DSN": dsn, "NAP": "0"}) as second:
            await eventually(lambda: _two(jobs), description="both are registered")
            first.kill()
            await first.wait()  # or it is a zombie, which has its number
            watch = Stopwatch()
            await second.line("napping", timeout=20)
            assert watch.stop() < 8.0
            assert (await handle.wait(timeout=10)).status == "completed"
            second.terminate()
            await second.wait()


async def _nap() -> None: ...


async def _two(jobs: AsyncJobs) -> bool:
    return len(await jobs.admin.runners(former=0)) == 2
