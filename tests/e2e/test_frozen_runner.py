"""Nothing starts in a runner that others may have declared dead: processes that are stopped (SIGSTOP) and go on."""

import random
import time
from functools import partial
from typing import Any

import pytest

from tests.programs import worker
from tests.support.eventually import eventually
from tests.support.program import Program


def a_worker(dsn: str, **env: str) -> Program:
    return Program.python("-m", "tests.programs.worker", env={"ASYNCJOBS_DSN": dsn, "POLL_INTERVAL": "0.5", **env})


def is_back(program: Program) -> bool:
    """Whether it has registered anew."""
    return sum(line.startswith("registered") for line in program.output) > 1


async def what_began_after_a_freeze(frozen: Program, handles: list[Any], worker_app: Any, dsn: str) -> list[str]:
    """Stop it until another has done its jobs, let it go on, wait until it knows: what its handlers say that began then."""
    frozen.pause()
    async with a_worker(dsn) as other:
        for handle in handles:
            assert (await worker_app.handle(handle.id).wait(timeout=20)).status == "completed"
        thawed_at = time.monotonic()
        frozen.unpause()
        await eventually(partial(is_back, frozen), description="it registers anew", timeout=10)
        for program in (frozen, other):
            program.terminate()
            await program.wait()
    said = [line.split() for line in frozen.output if line.startswith("began job")]
    return [number for _, _, number, _, at in said if float(at) > thawed_at]


@pytest.mark.parametrize("type", [worker.block_step, worker.plain_step])
async def test_what_was_claimed_ahead_does_not_start_after_a_freeze(worker_app: Any, dsn: str, type: Any) -> None:
    async with a_worker(dsn, CONCURRENCY="1", PREFETCH="10") as frozen:
        await frozen.line("registered")
        handles = [await type.enqueue(seconds=0.2) for _ in range(6)]
        await frozen.line(f"began job {handles[1].id} ")
        assert await what_began_after_a_freeze(frozen, handles, worker_app, dsn) == []


async def test_handler_is_not_called_when_the_freeze_was_while_a_hook_waited(worker_app: Any, dsn: str) -> None:
    async with a_worker(dsn, CONCURRENCY="1", HOOK_SECONDS="1") as frozen:
        await frozen.line("registered")
        handle = await worker.step.enqueue(seconds=0.1)
        await frozen.line(f"started job {handle.id}")
        assert await what_began_after_a_freeze(frozen, [handle], worker_app, dsn) == []


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(20))
async def test_nothing_starts_after_a_freeze_whenever_it_was(worker_app: Any, dsn: str, seed: int) -> None:
    chance = random.Random(seed)
    type: Any = chance.choice([worker.step, worker.plain_step])
    env = {"CONCURRENCY": str(chance.choice([1, 2, 8])), "PREFETCH": str(chance.choice([0, 10, 200]))}
    if seed % 4 == 0:
        env["HOOK_SECONDS"] = "0.002"
    async with a_worker(dsn, **env) as frozen:
        await frozen.line("registered")
        handles = await worker_app.enqueue_many([type.new(seconds=chance.choice([0.0, 0.001, 0.01])) for _ in range(1500)])
        await frozen.line(f"began job {handles[chance.randrange(5, 300)].id} ")
        assert await what_began_after_a_freeze(frozen, handles, worker_app, dsn) == []
