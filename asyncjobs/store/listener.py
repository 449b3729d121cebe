"""The connection that LISTENs: asyncpg's side of it.

asyncpg tells us of a closed connection within a tenth of a second, of a peer that fell silent never: only a statement that is
not answered in time shows it, so the owner of a listener calls `ping` now and then. A connection that failed is aborted, not
closed: closing waits for the very peer that is dead.
"""

from collections.abc import Callable
from typing import Any

import asyncpg

from asyncjobs.store import closing
from asyncjobs.store.database import Connection, Database


class Listener:
    """One LISTENing connection at a time. The callbacks are plain functions and are called in the loop of `listen`."""

    def __init__(
        self,
        database: Database,
        *,
        on_notification: Callable[[str, int], None],
        on_lost: Callable[[], None],
        timeout_seconds: float = 2.0,
    ) -> None:
        self._database = database
        self._on_notification = on_notification  # (payload, pid of the backend that sent it)
        self._on_lost = on_lost  # the connection ended, and not by `abort` or `close`
        self._timeout_seconds = timeout_seconds
        self._connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether notifications may be coming in, as far as is known."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def backend_pid(self) -> int | None:
        """The server's process at the other end. From any thread."""
        connection = self._connection
        return None if connection is None or connection.is_closed() else connection.get_server_pid()

    async def listen(self) -> None:
        """Connect and LISTEN. When this returns, every notification of a later commit will arrive."""
        self.abort()
        connection = await self._database.connect("listener", command_timeout=self._timeout_seconds)
        try:
            await connection.add_listener(self._database.channel, self._heard)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        connection.add_termination_listener(self._ended)

    async def ping(self) -> None:
        """Ask the server for a sign of life. Without one in time the connection is aborted and the error raised."""
        connection = self._connection
        if connection is None:
            raise asyncpg.InterfaceError("the listener is not connected")
        try:
            await connection.fetchval(self._database.sql("keepalive"), timeout=self._timeout_seconds)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Drop the connection at once. No callback is called any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.remove_termination_listener(self._ended)
            connection.terminate()

    async def close(self, *, timeout_seconds: float = 1.0) -> None:
        """Take the LISTEN back and close. Behind a pooler the server's connection lives on, and would go on listening."""
        connection, self._connection = self._connection, None
        if connection is None or connection.is_closed():
            return
        connection.remove_termination_listener(self._ended)
        await closing.close(
            connection,
            seconds=timeout_seconds,
            before=lambda: connection.remove_listener(self._database.channel, self._heard),
        )

    def _heard(self, connection: Any, pid: int, channel: str, payload: object) -> None:  # noqa: ARG002 - asyncpg's signature
        # A notification that was on its way when the connection was dropped has no reader any more.
        if connection is self._connection:
            self._on_notification(str(payload), pid)

    def _ended(self, connection: Any) -> None:
        if connection is self._connection:
            self._connection = None
            self._on_lost()
