"""Twenty webhook destinations behind one local HTTP server: slow, failing now and then, two of them refusing for good.

Each delivery that arrives is a line in a log file of its own, written before the answer: accepted or not, and whether another
one for the same destination was still being taken. That file is what the demo's report believes. Which deliveries are slow or
fail follows from the seed, the event and how often the event was seen.

Arguments: the log file, the seed, and where a parent hands it down the number of a listening socket.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import TextIO

import msgspec
from aiohttp import web

from examples.webhooks.children import end_with_parent, listening_socket

#: Destinations that never accept anything, and what they say.
REFUSING = {"old-crm": 410, "vault-audit": 503}
#: Shares of the deliveries to the others.
BUSY, HANGS_UP, ACCEPTS_BUT_HANGS_UP = 0.06, 0.02, 0.01
TYPICAL_SECONDS, LONGEST_SECONDS = 0.02, 0.4


class Arrival(msgspec.Struct, frozen=True):
    """One delivery, as the receiver saw it."""

    event: str
    destination: str
    job: int
    accepted: bool
    overlapped: bool  # it came while another one for this destination was being taken


class Receiver:
    """Takes deliveries and logs them to `log`, in the manner that `seed` decides."""

    def __init__(self, log: TextIO, seed: int) -> None:
        self._log = log
        self._seed = seed
        self._seen: Counter[str] = Counter()
        self._taking: Counter[str] = Counter()

    async def deliver(self, request: web.Request) -> web.Response:
        """Take one event for the destination named in the path."""
        event_id = str((await request.json())["id"])
        destination = request.match_info["destination"]
        overlapped = self._taking[destination] > 0
        self._taking[destination] += 1
        try:
            luck = await self._take(event_id)
            accepted = destination not in REFUSING and luck >= BUSY + HANGS_UP
            arrival = Arrival(event_id, destination, int(request.headers["X-Job"]), accepted, overlapped)
            self._log.write(msgspec.json.encode(arrival).decode() + "\n")
        finally:
            self._taking[destination] -= 1
        if destination in REFUSING:
            return web.Response(status=REFUSING[destination])
        if luck < BUSY:
            return web.Response(status=503, headers={"Retry-After": "1"})
        if luck < BUSY + HANGS_UP + ACCEPTS_BUT_HANGS_UP:
            return hang_up(request)
        return web.Response(status=204)

    async def _take(self, event_id: str) -> float:
        """Take as long as this delivery takes; what decides how it ends, from 0 to 1."""
        self._seen[event_id] += 1
        mood = Random(f"{self._seed} {event_id} {self._seen[event_id]}")
        await asyncio.sleep(min(mood.expovariate(1 / TYPICAL_SECONDS), LONGEST_SECONDS))
        return mood.random()


def hang_up(request: web.Request) -> web.Response:
    """Drop the connection: the sender gets no answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def arrivals(log: Path) -> list[Arrival]:
    """Every delivery that arrived, in order. A line cut off by a crash does not count."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    return [msgspec.json.decode(line, type=Arrival) for line in lines if line.endswith("\n")]


def main() -> None:
    """Serve until SIGTERM, or until the process that started this one is gone."""
    log_file, seed, *fd = sys.argv[1:]
    end_with_parent()
    with Path(log_file).open("a", encoding="utf-8", buffering=1) as log:  # each line reaches the file before it is answered
        app = web.Application()
        app.router.add_post("/{destination}", Receiver(log, int(seed)).deliver)
        web.run_app(app, sock=listening_socket(*map(int, fd)), print=None, access_log=None, shutdown_timeout=1)


if __name__ == "__main__":
    main()
