"""Verbs on serialization keys."""

from typing import Literal

from asyncjobs.admin.audit import recorded
from asyncjobs.admin.desk import BATCH
from asyncjobs.admin.jobs import Jobs
from asyncjobs.errors import KeyNotFound, StateError
from asyncjobs.store import serialized
from asyncjobs.store.serialized import KeyState, Place


class Keys(Jobs):
    """Verbs on keys, and on their heads, which are jobs."""

    async def keys(self, *, after: str = "", limit: int = 100) -> list[KeyState]:
        """A page of the keys that have jobs, by name; the next page is `after` the last one's name."""
        return await self._do("keys", lambda link: serialized.keys(link, after, limit))

    async def stuck_keys(self, *, order: Literal["age", "depth"] = "age", limit: int = 100) -> list[KeyState]:
        """The keys of which nothing moves by itself, whatever they are called: those that have been so for longest first, or with
        `order="depth"` those of which most waits (more than 10,000 count as that many). `blocked` says why.
        """
        deepest = order == "depth"
        return await self._do("stuck_keys", lambda link: serialized.stuck(link, limit, deepest=deepest))

    async def key(self, key: str, /) -> KeyState:
        """One key: depth, head, state, and why it does not move. KeyNotFound when it is idle."""
        found = await self._do("key", lambda link: serialized.keys(link, "", 1, key))
        if not found:
            raise KeyNotFound(key)
        return found[0]

    async def line(self, key: str, /, *, limit: int = 100) -> list[Place]:
        """The first jobs of the key's line, the head first."""
        return await self._do("line", lambda link: serialized.line(link, key, limit))

    @recorded("keys.release", "key {key}")
    async def release_key(self, key: str, /, *, by: str | None = None, reason: str | None = None) -> int:
        """Let a halted key go on without its head, which stays dead; returns that job's id.

        KeyNotFound when the key is idle. StateError says in which state it is when it is not halted.
        """
        del by, reason  # for the record
        halted_id, queues = await self._do("release_key", lambda link: serialized.release_key(link, key))
        if halted_id is None:
            raise await self._not_halted(key)
        self._announce(queues)
        return halted_id

    async def _not_halted(self, key: str) -> Exception:
        state = await self.key(key)
        return StateError(f'key "{key}" is not halted: its head is job {state.head_id}, {state.head_status}.')

    @recorded("keys.purge", "key {key}")
    async def purge_key(self, key: str, /, message: str | None = None, *, by: str | None = None) -> list[int]:
        """Cancel every job of the key, those that wait and then the head; returns their ids. KeyNotFound when it is idle.

        A head that runs is asked to end. A halted key stays halted: release it.
        """
        await self.key(key)
        said = self._why(message, "purged", by)
        cancelled: list[int] = []
        while True:
            ids, head_id = await self._do("purge_key", lambda link: serialized.purge_key(link, key, said, BATCH))
            cancelled += ids
            if len(ids) < BATCH:
                break
        if head_id is not None and (await self._end("cancel", head_id, "cancel", said)).outcome in {"cancelled", "requested"}:
            cancelled.append(head_id)
        return cancelled
