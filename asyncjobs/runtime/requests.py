"""End the attempts whose end an operator asked for, in whatever process.

1. The request is on the job's row before anybody is told. Then the runners of that process are woken in memory, and the others by
   one constant notification, so that any number of requests at once costs each runner one look.
2. A runner looks when it is told, and with every poll interval: a lost notification costs that latency, never the request. While
   it runs nothing it does not look, and costs nothing.
3. A request names job and claim. Its attempt is cancelled once; one that has ended meanwhile, or is another claim's, is left
   alone. A job that waits here for a slot is given back, and the ack applies the request.
4. The handler ends, now or later. What it answers after it was told counts for nothing: the ack writes what was asked for. One
   that swallows its cancellation keeps its slot and its key until it has really ended, and is reported (`HandlerStuck`).
5. A runner that dies before leaves the request to the rescue. A handler that had ended by itself before its runner looked has
   ended so, unless it was to come again: then the ack applies the request.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, final

from asyncjobs.model.claim import Claimed
from asyncjobs.model.request import Request
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.service import Service
from asyncjobs.store import requests


@final
class Requests(Service):
    """Looks for requests on what runs here."""

    name: ClassVar[str] = "requests"

    def __init__(
        self,
        opened: OpenApp,
        attempts: Attempts,
        queues: Queues,
        *,
        runner_id: Callable[[], int],
        poll_seconds: Callable[[], float],
    ) -> None:
        super().__init__(events=opened.events, interval_seconds=poll_seconds())
        self._pool = opened.pool
        self._attempts = attempts
        self._queues = queues
        self._runner_id = runner_id
        self._poll_seconds = poll_seconds

    async def pass_(self) -> float | None:
        """Look once, if anything runs."""
        if len(self._attempts) or self._queues.waiting:
            async with self._pool.take() as link:
                found = await requests.look(link, self._runner_id())
            for request in found:
                if not self._attempts.obey(request):
                    self._queues.give_back_waiting(partial(_is_of, request))
        return self._poll_seconds()


def _is_of(request: Request, job: Claimed) -> bool:
    return job.token == request.token
