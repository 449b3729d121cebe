"""Limits are watched while jobs run: how many permits are free that waiting jobs may have, and which key is passed over."""

import asyncio
import time
from typing import Final

import msgspec

from asyncjobs.store.database import Connection

#: Of each key with something waiting: how many permits it has left, how many of its jobs wait, and how often it was given one.
_LOOK: Final = """
WITH waiting AS (
    SELECT limit_key AS key, count(*) AS waiting FROM asyncjobs.jobs
    WHERE status = 'pending' AND limit_key IS NOT NULL GROUP BY 1
), running AS (
    SELECT limit_key AS key, count(*) AS running FROM asyncjobs.jobs
    WHERE runner_id IS NOT NULL AND limit_key IS NOT NULL GROUP BY 1)
SELECT w.key, least(w.waiting, l.each - coalesce(r.running, 0)) AS could,
    (SELECT coalesce(sum(running), 0)::integer FROM running) AS running,
    (SELECT sum(t.served) FROM asyncjobs.limit_turns AS t WHERE t.key = w.key) AS served
FROM waiting AS w LEFT JOIN running AS r ON r.key = w.key
JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = split_part(w.key, ':', 1)
"""


class Idle(msgspec.Struct):
    """What was seen."""

    seconds: float = 0.0  # in which somebody waited who could have had a permit, or all were taken
    idle: float = 0.0  # permits times seconds that were free then
    taken: float = 0.0  # and that were not
    most_running: int = 0
    passed_over: float = 0.0  # seconds that a key with a free permit and a job was not served, at most
    looks: int = 0

    @property
    def share(self) -> float:
        """Of permits that idled while somebody waited."""
        return self.idle / (self.idle + self.taken)


async def watch(connection: Connection, total: int, seen: Idle, interval: float = 0.02) -> None:
    """Look until cancelled. `total`: over all keys."""
    before = time.monotonic()
    since: dict[str, tuple[float, float]] = {}  # key -> how far it was served, and since when it could have been
    while True:
        rows = await connection.fetch(_LOOK)
        now = time.monotonic()
        could = sum(max(row["could"], 0) for row in rows)
        if rows and could:
            running = rows[0]["running"]
            free = min(max(total - running, 0), could)
            seen.seconds += now - before
            seen.idle += free * (now - before)
            seen.taken += running * (now - before)
            seen.most_running = max(seen.most_running, running)
        waits = {row["key"]: row["served"] for row in rows if row["could"] > 0}
        since = {key: since[key] if key in since and since[key][0] == served else (served, now) for key, served in waits.items()}
        seen.passed_over = max([seen.passed_over, *(now - at for _, at in since.values())])
        seen.looks += 1
        before = now
        await asyncio.sleep(interval)
