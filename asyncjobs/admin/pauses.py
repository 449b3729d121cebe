"""Holding back: pause, resume and drain a queue, a type or a key."""

import asyncio
import time
from typing import Final

from asyncjobs.admin.audit import held, recorded
from asyncjobs.admin.desk import Desk
from asyncjobs.declare.options import check_key
from asyncjobs.errors import UsageError
from asyncjobs.model.audit import UNNAMED
from asyncjobs.model.names import check_name
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.pauser import BATCH, GRACE_SECONDS, WINDOW
from asyncjobs.settings import config_seconds
from asyncjobs.store import pauses, runners, serialized
from asyncjobs.store.pauses import ALL, Kind, Pause, Paused

#: Between looks at what still runs: it may run in any process, and nobody tells when it ends.
_LOOK_SECONDS: Final = 0.25


class Pauses(Desk):
    """Each verb takes exactly one of `queue=`, `type=` and `key=`; those whose names end in `_all` take all queues."""

    async def pauses(self) -> list[Pause]:
        """What is paused, since when, by whom and why; the oldest first."""
        return await self._do("pauses", pauses.pauses)

    @recorded("pause", held)
    async def pause(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> Paused:
        """Claim no more of it, in any process, also after restarts, until it is resumed. What runs goes on; what was claimed
        ahead (`Queue(prefetch=)`) and has not started is given back. It waits for the claims that are under way: none takes
        anything of it after the answer. StateError when that takes longer than some seconds; the pause stands all the same.

        What was claimed before the answer counts as running: its handler may be called a moment after it, when the answer to
        the claim has reached its runner (on a busy line of very short jobs, in another process, 6 of 100 pauses saw one such
        start, some milliseconds later; in a process that stands still it may be later, but never after `runner_timeout`).
        After the answer of `drain` none is called.

        Pending jobs of a type or key become `paused`; those of a queue stay as they are. Jobs of a key that wait behind one whose
        type is paused wait with it. What does not exist yet can be paused, too: `served` False may mean a slip of the pen.
        """
        return await self._pause(*_one("pause", queue, type, key), reason, by)

    @recorded("pause", "everything")
    async def pause_all(self, *, reason: str | None = None, by: str | None = None) -> Paused:
        """`pause` of every queue there is or will be, until `resume_all`. What is paused by itself stays so after that."""
        return await self._pause("all", ALL, reason, by)

    async def _pause(self, kind: Kind, name: str, reason: str | None, by: str | None) -> Paused:
        reason = reason or self.actor.why
        if by is None and self.actor.by != UNNAMED:
            by = self.actor.by
        paused = await self._do("pause", lambda link: pauses.pause(link, kind, name, reason, by))
        if kind == "key":
            await self._do("pause", lambda link: serialized.hold_back(link, name))
            self._opened("admin.pause was called").wakes.pauses()
            return Paused(paused.is_new, served=True)
        await self._do("pause", pauses.wait_for_claims)
        await self._converge()
        return paused

    @recorded("resume", held)
    async def resume(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> bool:
        """Let it go on. False: it was not paused. What is still held back by another pause stays so."""
        del reason, by  # for the record
        return await self._resume(*_one("resume", queue, type, key))

    @recorded("resume", "everything")
    async def resume_all(self, *, reason: str | None = None, by: str | None = None) -> bool:
        """Undo `pause_all`. False: there was none. What is paused by itself stays so."""
        del reason, by  # for the record
        return await self._resume("all", ALL)

    async def _resume(self, kind: Kind, name: str) -> bool:
        if kind == "key":
            resumed, queues = await self._do("resume", lambda link: serialized.resume_key(link, name))
            self._announce(queues)
            return resumed
        resumed = await self._do("resume", lambda link: pauses.resume(link, kind, name))
        await self._converge()
        for queue in [name] if kind == "queue" else await self._queues() if kind == "all" else []:
            self._opened("admin.resume was called").wakes.pending(queue, front=True)
        return resumed

    @recorded("pause", "key {key}")
    async def pause_key(self, key: str, /, *, reason: str | None = None, by: str | None = None) -> bool:
        """Run nothing more of this key until it is resumed, also after restarts; what runs goes on. False: it was paused.

        A key without jobs can be paused, too. It waits for an ack that is under way: nothing of the key is claimed after the
        answer. StateError when that takes longer than some seconds; the key is paused all the same.
        """
        return (await self.pause(key=key, reason=reason, by=by)).is_new

    @recorded("resume", "key {key}")
    async def resume_key(self, key: str, /, *, by: str | None = None) -> bool:
        """Let a paused key go on. False: it was not paused."""
        return await self.resume(key=key, by=by)

    @recorded("drain", held)
    async def drain(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        key: str | None = None,
        timeout: Duration | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> int:
        """Pause it, and wait until nothing of it runs any more, anywhere; at most `timeout`. Returns how many jobs still run.

        It stays paused: `resume` undoes that. Jobs of a runner that died run until they are rescued.
        """
        return await self._drain(*_one("drain", queue, type, key), timeout, reason, by)

    @recorded("drain", "everything")
    async def drain_all(self, *, timeout: Duration | None = None, reason: str | None = None, by: str | None = None) -> int:
        """`pause_all`, and wait until nothing runs any more, anywhere; at most `timeout`. Returns how many jobs still run."""
        return await self._drain("all", ALL, timeout, reason, by)

    async def _drain(self, kind: Kind, name: str, timeout: Duration | None, reason: str | None, by: str | None) -> int:
        ends_at = None if timeout is None else time.monotonic() + config_seconds(timeout, name="timeout")
        await self._pause(kind, name, reason or self.actor.why or "drained", by)
        while True:
            running = await self._do("drain", lambda link: pauses.processing(link, kind, name))
            if not running or (ends_at is not None and time.monotonic() >= ends_at):
                return running
            await asyncio.sleep(_LOOK_SECONDS)

    async def _queues(self) -> set[str]:
        """The queues that somebody serves."""
        return {queue for runner in await self._do("resume", lambda link: runners.everybody(link, 0)) for queue in runner.queues}

    async def _converge(self) -> None:
        """The first batch at once, and not when the duty comes to it; the rest is the duty's."""
        converged = await self._do("pause", lambda link: pauses.converge(link, BATCH, window=WINDOW, grace_seconds=GRACE_SECONDS))
        wakes = self._opened("admin was called").wakes
        for queue in converged.queues:
            wakes.pending(queue, front=True)
        wakes.pauses()


def _one(verb: str, queue: str | None, type: str | None, key: str | None) -> tuple[Kind, str]:
    given: list[tuple[Kind, str]] = []
    if queue is not None:
        given.append(("queue", check_name("queue", queue)))
    if type is not None:
        given.append(("type", check_name("job", type)))
    if key is not None:
        given.append(("key", check_key("key", key)))
    if len(given) != 1:
        raise UsageError(f"admin.{verb} takes one of queue=, type= and key=, and got {len(given)} of them.")
    return given[0]
