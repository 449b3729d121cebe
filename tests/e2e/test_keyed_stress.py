"""P2 and P3 with three processes, of which one is killed and one frozen for longer than its death takes."""

import sys
from pathlib import Path

import pytest

from asyncjobs.store.database import Database
from tests.support.stress import Plan, Result, Stress


def check(result: Result) -> None:
    assert result.violations == []
    assert (result.missing, result.unexpected, result.stuck) == ([], [], [])


async def test_keys_keep_their_promises_when_processes_are_killed_and_frozen(database: Database, tmp_path: Path) -> None:
    result = await Stress(database, Plan(seed=0, keys=25, jobs_per_key=12, work_seconds=0.06), tmp_path).run()
    check(result)
    assert result.enqueued == 300
    assert result.rescued > 0


async def test_runs_of_keys_keep_them_when_processes_are_killed_and_frozen(database: Database, tmp_path: Path) -> None:
    plan = Plan(seed=0, keys=25, jobs_per_key=12, failing=0.05, whole=0.03, work_seconds=0.02, prefetch=100)
    result = await Stress(database, plan, tmp_path).run()
    check(result)
    assert result.enqueued == 300
    assert result.rescued > 0


@pytest.mark.proof
@pytest.mark.parametrize("prefetch", [0, 200])
@pytest.mark.parametrize("seed", range(1, 21))
async def test_two_hundred_keys_of_fifty_jobs(seed: int, prefetch: int, database: Database, tmp_path: Path) -> None:
    plan = Plan(seed=seed, keys=200, jobs_per_key=50, prefetch=prefetch)
    result = await Stress(database, plan, tmp_path).run()
    figures = (
        f"{result.cancelled} cancelled, {result.rescued} rescued, {result.late_writes} attempts ended after their claim was lost"
    )
    sys.stdout.write(f"seed {seed}: {result.seconds:.1f} s, {figures}\n")
    check(result)
    assert result.enqueued == 10_000
    assert result.rescued > 0
