"""Twenty webhook destinations behind one local HTTP server: slow, failing now and then, two of them refusing for good.

What it accepts it writes to a log file of its own, a line per delivery, before it answers. That file is what the demo's report
believes. Which deliveries are slow or fail follows from the seed, the event and how often the event was seen.

Arguments: the log file, the seed, and where a parent hands it down the number of a listening socket.
"""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import TextIO

from aiohttp import web

from examples.webhooks.children import end_with_parent, listening_socket

#: Destinations that never accept anything, and what they say.
REFUSING = {"old-crm": 410, "vault-audit": 503}
#: Shares of the deliveries to the others.
BUSY, HANGS_UP, ACCEPTS_BUT_HANGS_UP = 0.06, 0.02, 0.01
TYPICAL_SECONDS, LONGEST_SECONDS = 0.02, 0.4


class Receiver:
    """Accepts deliveries and logs them to `log`, in the manner that `seed` decides."""

    def __init__(self, log: TextIO, seed: int) -> None:
        self._log = log
        self._seed = seed
        self._seen: Counter[str] = Counter()

    async def deliver(self, request: web.Request) -> web.Response:
        """Take one event for the destination named in the path."""
        event_id = str((await request.json())["id"])
        destination = request.match_info["destination"]
        self._seen[event_id] += 1
        mood = Random(f"{self._seed} {event_id} {self._seen[event_id]}")
        await asyncio.sleep(min(mood.expovariate(1 / TYPICAL_SECONDS), LONGEST_SECONDS))
        if destination in REFUSING:
            return web.Response(status=REFUSING[destination])
        luck = mood.random()
        if luck < BUSY:
            return web.Response(status=503, headers={"Retry-After": "1"})
        if luck < BUSY + HANGS_UP:
            return hang_up(request)
        self._log.write(json.dumps({"event": event_id, "destination": destination, "time": self._seen[event_id]}) + "\n")
        if luck < BUSY + HANGS_UP + ACCEPTS_BUT_HANGS_UP:
            return hang_up(request)
        return web.Response(status=204)


def hang_up(request: web.Request) -> web.Response:
    """Drop the connection: the sender gets no answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def delivered_events(log: Path) -> Counter[str]:
    """How often the log says that each event was accepted. A line cut off by a crash does not count."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    return Counter(str(json.loads(line)["event"]) for line in lines if line.endswith("\n"))


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
