"""What pages show of things that move: read once for everybody in this process who looks at the same.

1. A reading is shared: who asks while one is under way, or within `FRESH_SECONDS` after it, gets that one. A verb that was used
   here ends that: who asks after it sees what it did.
2. While somebody follows a topic, one task reads each followed topic every `every` seconds, whatever the number of followers.
   Nobody follows: no task, no statement. The task ends with the last follower.
3. A reading that fails is told to its followers as such; the next turn tries again. Followers never see a stale reading as new.
4. A follower who stops, or is cut off, is forgotten at once. There are at most `MOST_FOLLOWERS`; who comes after them is refused.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, TypeAlias

import msgspec

from asyncjobs.dashboard.problems import Refused

FRESH_SECONDS: Final = 1.0
MOST_FOLLOWERS: Final = 200
_MOST_FRAGMENTS: Final = 100

Read: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


class Reading(msgspec.Struct, frozen=True, eq=False):
    """What a turn found: data, or why there are none."""

    data: dict[str, Any] | None
    trouble: Exception | None = None


class _Followed(msgspec.Struct):
    read: Read
    last: Reading | None = None
    number: int = 0  # counts readings


class _Shared(msgspec.Struct, frozen=True, eq=False):
    task: asyncio.Task[dict[str, Any]]
    began: float
    until: float  # it may be dropped then
    lasts: bool  # verbs do not change what it is about


class News:
    """The readings of one dashboard in one process."""

    def __init__(self, *, every: float = 2.0) -> None:
        self.every = every
        self._readings: dict[Hashable, _Shared] = {}
        self._followed: dict[Hashable, _Followed] = {}
        self._followers: Counter[Hashable] = Counter()
        self._turned = asyncio.Condition()
        self._wanted = asyncio.Event()  # somebody follows what was not read yet
        self._poller: asyncio.Task[None] | None = None

    @property
    def followers(self) -> int:
        """How many follow now."""
        return self._followers.total()

    async def look(
        self, key: Hashable, read: Read, *, fresh_seconds: float = FRESH_SECONDS, lasts: bool = False
    ) -> dict[str, Any]:
        """The reading of this key, at most so old. `lasts`: it is about what no verb changes. Raises what reading it raises."""
        now = time.monotonic()
        shared = self._readings.get(key)
        if shared is None or (shared.task.done() and now - shared.began > fresh_seconds):
            self._drop_old(now)
            task = asyncio.create_task(_read(read), name="asyncjobs dashboard reading", context=Context())
            task.add_done_callback(_noted)
            shared = self._readings[key] = _Shared(task, now, now + fresh_seconds, lasts)
        try:
            return await asyncio.shield(shared.task)
        except Exception:
            if shared.task.done() and self._readings.get(key) is shared:
                del self._readings[key]
            raise

    def forget(self) -> None:
        """Something was changed here: what was read before is old."""
        self._readings = {key: shared for key, shared in self._readings.items() if shared.lasts}

    async def follow(self, key: Hashable, read: Read) -> AsyncGenerator[Reading]:
        """Every reading of this key from now on, the first at once. Refused when too many follow."""
        if self.followers >= MOST_FOLLOWERS:
            raise Refused(503, "Too many follow here. Reload the page to see what is new.")
        self._followers[key] += 1
        followed = self._followed.setdefault(key, _Followed(read))
        self._wanted.set()
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll(), name="asyncjobs dashboard poller", context=Context())
        seen = 0
        try:
            while True:
                async with self._turned:
                    while followed.number == seen:
                        await self._turned.wait()
                seen = followed.number
                if followed.last is not None:
                    yield followed.last
        finally:
            await self._unfollow(key)

    async def _unfollow(self, key: Hashable) -> None:
        self._followers[key] -= 1
        if not self._followers[key]:
            del self._followers[key], self._followed[key]
        if not self._followed and self._poller is not None:
            poller, self._poller = self._poller, None
            poller.cancel()
            with suppress(asyncio.CancelledError):
                await poller

    async def _poll(self) -> None:
        while True:
            self._wanted.clear()
            for key, followed in tuple(self._followed.items()):
                try:
                    followed.last = Reading(await self.look(key, followed.read, fresh_seconds=self.every / 2))
                except Exception as error:  # noqa: BLE001 - told to those who follow, and tried again
                    followed.last = Reading(None, error)
                followed.number += 1
            async with self._turned:
                self._turned.notify_all()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.every):
                    await self._wanted.wait()

    def _drop_old(self, now: float) -> None:
        """Readings may be large: none is kept for longer than somebody might be answered with it."""
        self._readings = {key: one for key, one in self._readings.items() if now <= one.until or not one.task.done()}


def _noted(task: asyncio.Task[dict[str, Any]]) -> None:
    """Those who wait for it are told; when they have gone meanwhile, nobody has to be."""
    if not task.cancelled():
        task.exception()


async def _read(read: Read) -> dict[str, Any]:
    return await read()


class Fragments:
    """The parts of pages that move, rendered once per reading for all who see the same."""

    def __init__(self) -> None:
        self._rendered: dict[Hashable, tuple[Reading, str]] = {}

    def of(self, key: Hashable, reading: Reading, render: Callable[[], str]) -> str:
        """The fragment of this reading for those who see what `key` names."""
        found = self._rendered.get(key)
        if found is None or found[0] is not reading:
            found = reading, render()
            if len(self._rendered) >= _MOST_FRAGMENTS:
                self._rendered.clear()
            self._rendered[key] = found
        return found[1]
