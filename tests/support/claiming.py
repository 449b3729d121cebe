"""Claims that go on while something else happens, and how long each takes."""

import statistics
import time
from collections.abc import Callable

from asyncjobs.store.database import Connection
from tests.support.claims import Claims, an_ack


class Claiming:
    """Claims and acks one job after another in a queue of its own, and notes how long each call took."""

    def __init__(self, claims: Claims, connection: Connection) -> None:
        self.seconds: list[float] = []
        self.claims = claims
        self._connection = connection

    async def go_on(self, until: Callable[[], bool]) -> None:
        """Until that is so."""
        while not until():
            began = time.monotonic()
            found = await self.claims.claim(1, queue="probe")
            if not found:
                await fill(self._connection, 2_000, "pending", "probe")
                continue
            self.seconds.append(time.monotonic() - began)
            await self.claims.ack(an_ack(found[0]))

    async def take_all(self) -> int:
        """How many jobs there were. They are claimed in bounded numbers and completed."""
        taken = 0
        while found := await self.claims.claim(50, queue="probe"):
            await self.claims.ack(*map(an_ack, found))
            taken += len(found)
        return taken

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.seconds, n=100)[98]


async def fill(connection: Connection, count: int, status: str, queue: str) -> None:
    """So many jobs that have been due for a second."""
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, type, queue, status, run_at) "
        "SELECT 0, 'email', $3, $2, now() - interval '1 second' FROM generate_series(1, $1)",
        count, status, queue,
    )  # fmt: skip
