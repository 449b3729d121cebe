"""A few links for whatever has no connection of its own: reads, bulk enqueues, duties."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from asyncjobs.errors import NotOpen
from asyncjobs.store.database import Database, Link


class Pool:
    """At most `size` connections, opened when they are first needed. A task that finds none free waits. After its close: none."""

    def __init__(self, database: Database, size: int) -> None:
        self._free = [database.link("pool") for _ in range(size)]
        self._all = tuple(self._free)
        self._turn = asyncio.Semaphore(size)
        self._is_closed = False

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[Link]:
        """A link for the time of the block. It comes back whatever happens in there, also to a cancelled caller. NotOpen."""
        async with self._turn:
            if self._is_closed:  # a handler may outlive its app: what it opened then would stay open
                raise NotOpen("the app was closed, and its connections with it.")
            link = self._free.pop()
            try:
                yield link
            finally:
                self._give_back(link)

    def _give_back(self, link: Link) -> None:
        if self._is_closed:  # a call of several statements, or one that was just connecting, has opened another since
            link.abort()
        self._free.append(link)

    async def close(self, *, timeout: float = 1.0) -> None:
        """Close all connections, also of links that are out, politely for at most `timeout` seconds."""
        self._is_closed = True
        await asyncio.gather(*(link.close(timeout=timeout) for link in self._all))
