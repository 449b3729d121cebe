"""Gives back what was claimed ahead when it is paused before it has started. Only runners with `prefetch` have this service.

1. A pause is committed before anybody is told. No claim that is sent after that takes anything of a queue or type; of a key,
   none that is sent after the verb has held its head back, which it tells of again.
2. So a runner that is told first lets the call end that is under way, if there is one: it may have been sent before. Then it
   reads what is paused, and gives back what waits for a slot and is of a paused queue, type or key. What has started goes on.
3. It looks with every poll interval, too, when something waits: a notification that was lost costs that. While nothing waits it
   does not look, and costs nothing.
4. What is given back is written by the next call, with its attempt. `drain` waits for that, as it waits for what runs.
"""

from collections.abc import Awaitable, Callable, Container
from typing import ClassVar, final

from asyncjobs.model.claim import Claimed
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.service import Service
from asyncjobs.store import pauses
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events


@final
class GivingBack(Service):
    """Looks whether anything that waits for a slot is paused."""

    name: ClassVar[str] = "giving back"

    def __init__(
        self,
        pool: Pool,
        queues: Queues,
        *,
        events: Events,
        wait_call: Callable[[], Awaitable[None]],
        poll_seconds: Callable[[], float],
    ) -> None:
        super().__init__(events=events, interval_seconds=poll_seconds())
        self._pool = pool
        self._queues = queues
        self._wait_call = wait_call
        self._poll_seconds = poll_seconds

    async def pass_(self) -> float | None:
        """Look once, if anything waits."""
        await self._wait_call()
        if self._queues.waiting:
            async with self._pool.take() as link:
                paused = {(pause.kind, pause.name) for pause in await pauses.pauses(link)}
            if paused:
                self._queues.give_back_waiting(lambda job: _is_paused(job, paused))
        return self._poll_seconds()


def _is_paused(job: Claimed, paused: Container[tuple[pauses.Kind, str]]) -> bool:
    key = job.serialization_key
    if ("all", pauses.ALL) in paused:
        return True
    return ("queue", job.queue) in paused or ("type", job.type) in paused or (key is not None and ("key", key) in paused)
