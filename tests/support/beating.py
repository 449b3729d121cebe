"""What tests of heartbeats need: one that is watched."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from asyncjobs.runtime.heartbeat import Heartbeat
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import Events
from tests.support.eventually import eventually

BEAT: Final = 0.05
#: For a beat that is to succeed: on a busy machine it takes longer than such an interval to connect.
PATIENT: Final = 60.0


class Watched:
    """A heartbeat, and what it told."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.declared_dead: list[int] = []
        self.unconfirmed: list[tuple[int, float]] = []
        self.threads: set[int] = set()
        defaults: dict[str, Any] = {
            "heartbeat_seconds": BEAT,
            "answer_seconds": PATIENT,
            "runner_timeout_seconds": 3600.0,
            "stall_after_seconds": 60.0,
            "stall_limit_seconds": 120.0,
        }
        self.heartbeat = Heartbeat(
            database,
            events=Events(),
            on_declared_dead=self._on_declared_dead,
            on_unconfirmed=self._on_unconfirmed,
            **(defaults | options),
        )

    def _on_declared_dead(self, runner_id: int) -> None:
        self.threads.add(threading.get_ident())
        self.declared_dead.append(runner_id)

    def _on_unconfirmed(self, runner_id: int) -> None:
        self.threads.add(threading.get_ident())
        self.unconfirmed.append((runner_id, self.heartbeat.clock() - self.heartbeat.confirmed_at))

    @asynccontextmanager
    async def following(self, runner_id: int = 1) -> AsyncGenerator[Heartbeat]:
        """Beat for the runner until the context is left."""
        self.heartbeat.follow(runner_id)
        self.heartbeat.start()
        try:
            await eventually(lambda: self.heartbeat.beats > 0, description="the first beat")
            yield self.heartbeat
        finally:
            await self.heartbeat.stop()
