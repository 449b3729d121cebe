"""Three processes whose jobs call one service: when it fails they all stop calling it, one asks now and then, and all go on."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from asyncjobs.store.database import Connection
from tests.programs import guarded
from tests.programs.guarded import OPEN_SECONDS
from tests.support.eventually import eventually
from tests.support.program import Program

COUNT = 20


class Post:
    """The service, as the processes see it."""

    def __init__(self, folder: Path) -> None:
        self.service, self.file = folder / "service", folder / "calls"

    @property
    def environment(self) -> dict[str, str]:
        return {"SERVICE": str(self.service), "CALLS": str(self.file)}

    def calls(self, *, good: bool) -> list[float]:
        """When it was called, in order."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        return sorted(float(at) for at, _, is_up in map(str.split, lines) if bool(int(is_up)) is good)


@pytest.fixture
async def jobs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Any]:
    """The processes' app, only to enqueue."""
    monkeypatch.setenv("ASYNCJOBS_DSN", dsn)
    async with guarded.jobs as opened:
        yield opened


async def is_open(connection: Connection) -> float:
    """Since when the breaker is open; 0 if it is not."""
    at: float | None = await connection.fetchval(
        "SELECT extract(epoch FROM opened_at)::float8 FROM asyncjobs.circuit_breakers WHERE state <> 'closed'"
    )
    return at or 0.0


async def test_a_service_that_fails_is_left_alone_by_all_and_asked_by_one(
    jobs: Any, connection: Connection, tmp_path: Path
) -> None:
    post = Post(tmp_path)
    async with AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(Program.python("-m", "tests.programs.guarded", env=post.environment))
            for _ in range(3)
        ]
        for program in programs:
            await program.line("started")
        await jobs.enqueue_many([kind.new(n) for n in range(COUNT) for kind in (guarded.letter, guarded.parcel)])
        opened_at = await eventually(lambda: is_open(connection), description="the breaker is open", timeout=20)
        # Those that were under way when it opened, or had not heard of it yet, are no probes.
        known_at = opened_at + OPEN_SECONDS / 2
        await eventually(
            lambda: len([at for at in post.calls(good=False) if at > known_at]) >= 2, description="two probes", timeout=30
        )
        probes = [at for at in post.calls(good=False) if at > known_at]
        assert all(later - earlier >= OPEN_SECONDS for earlier, later in pairwise(probes)), probes

        waiting = await connection.fetch("SELECT type, status, attempts, snoozes FROM asyncjobs.jobs")
        letters = [row for row in waiting if row["type"] == "letter" and row["attempts"] == 0]
        parcels = [row for row in waiting if row["type"] == "parcel" and row["snoozes"] > 0]
        assert {row["status"] for row in letters} <= {"pending", "scheduled"}  # never claimed, or met another's probe
        assert any(row["snoozes"] == 0 for row in letters)
        assert len(parcels) >= COUNT / 2

        post.service.touch()
        back_at = time.time()
        await eventually(lambda: are_done(connection), description="all are completed", timeout=40)
        failed = post.calls(good=False)
        assert post.calls(good=True)[0] - max(failed[-1], back_at) < OPEN_SECONDS + 10, "one window, and a busy machine"
        assert [at for at in failed if at > back_at] == []
        # No attempt was spent without a call.
        assert await connection.fetchval("SELECT sum(attempts) FROM asyncjobs.jobs") == len(failed) + 2 * COUNT
        assert not await is_open(connection)
        for program in programs:
            program.terminate()
        assert await asyncio.gather(*(program.wait() for program in programs)) == [0, 0, 0]


async def are_done(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT EXISTS (SELECT FROM asyncjobs.jobs WHERE status <> 'completed')")
