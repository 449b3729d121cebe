"""What a simulated process finds instead of the machine: the world's clock, its chance, its network, its threads.

Nothing in asyncjobs knows of it: who calls `time.monotonic()`, `secrets.randbits()` or `asyncpg.connect()` finds others there.
"""

import asyncio
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import asyncpg

from asyncjobs.model.chance import CHANCE
from asyncjobs.runtime import registration
from asyncjobs.runtime.heartbeat import BeatThread, Heartbeat
from tests.simulation.loop import SimLoop
from tests.simulation.process import Process
from tests.simulation.world import World


@contextmanager
def simulated(world: World) -> Generator[None]:
    """Everything that runs meanwhile lives in this world."""
    chance = Random(world.random.random())
    CHANCE.seed(world.random.random())

    def process_of(loop: Any) -> Process:
        return next(process for process in world.processes if loop in process.loops)

    async def connect(_dsn: str, *, timeout: float, command_timeout: float, server_settings: Any, **_more: Any) -> Any:
        role = server_settings["application_name"].removeprefix("asyncjobs ")
        async with asyncio.timeout(timeout):
            return await world.connect(process_of(asyncio.get_running_loop()), role, command_timeout)

    class Thread(BeatThread):
        """The heartbeat's thread: another loop of the process."""

        def make_loop(self) -> SimLoop:
            process = process_of(asyncio.get_running_loop())
            process.threads.append(self)
            return process.make_loop()

        def start(self) -> None:
            task = self._loop.create_task(self.run(), name="heartbeat's thread")
            task.add_done_callback(lambda _: self.ended())

    with (
        patch.object(time, "monotonic", world.clock),
        patch.object(time, "clock_gettime", lambda _clock: world.now),
        patch.object(secrets, "randbits", chance.getrandbits),
        patch.object(secrets, "randbelow", chance.randrange),
        patch.object(secrets, "token_hex", lambda length=16: f"{chance.getrandbits(8 * length):x}"),
        patch.object(asyncpg, "connect", connect),
        patch.object(Heartbeat, "thread_class", Thread),
        patch.object(registration, "version", lambda _name: "simulated"),
    ):
        yield
