"""A connection of a simulated process: asyncpg's interface, a real session behind it, and a network in between that fails.

Of a call, three moments are drawn: when it is sent, when the server carries it out, when the answer arrives. In between the
process may be frozen or killed, the connection may break (the call is then carried out, or not, or *later*), or fall silent.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from asyncjobs.store.database import Database

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

_ROUTINE: Final = ("beat_with_leases", "promote", "look_at_", "keepalive", "listen", "sweep_keys", "send_notifications", "list_")

Work = Callable[[Any], Awaitable[Any]]


class Call:
    """One statement on its way to the server and back."""

    def __init__(self, number: int, connection: "Connection", name: str, work: Work, answer: "asyncio.Future[Any]") -> None:
        self.number = number
        self.connection = connection
        self.name = name
        self.work = work
        self.answer = answer
        self.loop = answer.get_loop()
        self.task: asyncio.Task[Any] | None = None  # in the real loop, once it is carried out
        self.is_abandoned = False  # nobody waits for the answer
        self.is_dropped = False  # it never arrives at the server
        self.wait: object = None  # for a lock, of which its time-out has been planned
        self.gave_up = False  # its time-out has struck
        self.claims = ""  # for whose end it sleeps
        self.sleeps_until: float | None = None
        self.at_answer: Callable[[], object] | None = None  # what happens when the server has done it


class Prepared:
    """What a simulated process has in place of `asyncpg.PreparedStatement`: preparing it is nothing that could fail."""

    def __init__(self, connection: "Connection", sql: str) -> None:
        self._connection = connection
        self._sql = sql

    async def fetch(self, *args: Any, timeout: float | None = None) -> Any:
        return await self._connection.fetch(self._sql, *args, timeout=timeout)


class Connection:
    """What a simulated process has in place of `asyncpg.Connection`."""

    def __init__(self, world: "World", process: "Process", role: str, command_timeout: float | None) -> None:
        self.world = world
        self.process = process
        self.role = role
        self.pid = world.number()
        self.session: Any = None  # the real one
        self.call: Call | None = None  # whose answer is awaited
        self.carries = True  # whether that call is about jobs, and not what is made all the time by who has nothing to do
        self.outstanding: Call | None = None  # that the server is not done with
        self.last: Call | None = None
        self.heard_at = 0.0
        self.is_broken = False
        self.is_silent = False  # neither requests nor answers get through
        self.in_transaction = False
        self.listener: Callable[..., None] | None = None
        self.channel = ""
        self._ended: list[Callable[[Any], None]] = []
        self._command_timeout = command_timeout

    # asyncpg's interface, as far as it is used.

    def is_closed(self) -> bool:
        return self.is_broken

    def is_in_transaction(self) -> bool:
        return self.in_transaction

    def get_server_pid(self) -> int:
        return self.pid

    async def fetch(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        name = _name_of(sql)
        self.carries = not name.startswith(_ROUTINE) and (name != "finish" or bool(args[1]))
        return await self._send(name, lambda session: session.fetch(sql, *args), timeout)

    async def prepare(self, sql: str, *, timeout: float | None = None) -> "Prepared":
        del timeout
        return Prepared(self, sql)

    async def fetchrow(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        return await self._send(_name_of(sql), lambda session: session.fetchrow(sql, *args), timeout)

    async def fetchval(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        return await self._send(_name_of(sql), lambda session: session.fetchval(sql, *args), timeout)

    async def execute(self, sql: str, timeout: float | None = None) -> Any:
        return await self._send(sql.lower(), lambda session: session.execute(sql), timeout)

    @asynccontextmanager
    async def transaction(self, *, isolation: str | None = None) -> AsyncGenerator[None]:
        await self.execute("BEGIN" if isolation is None else f"BEGIN ISOLATION LEVEL {isolation.replace('_', ' ')}")
        try:
            yield
        except BaseException:
            if not self.is_broken and self.call is None:
                await self.execute("ROLLBACK")
            raise
        await self.execute("COMMIT")

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None:
        async def listen(_session: Any) -> None:
            self.channel, self.listener = channel, callback

        await self._send("listen", listen, None)

    async def remove_listener(self, _channel: str, _callback: Callable[..., None]) -> None:
        async def unlisten(_session: Any) -> None:
            self.listener = None

        await self._send("unlisten", unlisten, None)

    def add_termination_listener(self, callback: Callable[[Any], None]) -> None:
        self._ended.append(callback)

    def remove_termination_listener(self, callback: Callable[[Any], None]) -> None:
        if callback in self._ended:
            self._ended.remove(callback)

    def terminate(self) -> None:
        if not self.is_broken:
            self.world.end_connection(self)

    async def close(self, *, timeout: float | None = None) -> None:
        del timeout
        self.terminate()

    # The way to the server.

    async def _send(self, name: str, work: Work, timeout: float | None) -> Any:
        if self.is_broken:
            raise asyncpg.InterfaceError("connection is closed")
        if self.call is not None:
            raise asyncpg.InterfaceError("cannot perform operation: another operation is in progress")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call = self.call = self.world.send(self, name, work, answer)
        try:
            async with asyncio.timeout(timeout or self._command_timeout):
                return await answer
        except BaseException:
            self.world.abandon(call)
            raise
        finally:
            if self.call is call:
                self.call = None

    def broke(self) -> None:
        """Its end is seen by the process."""
        for callback in tuple(self._ended):
            callback(self)


Connection.__module__ = "asyncpg.simulated"  # an enqueue can join its transaction


@cache
def _names() -> dict[str, str]:
    found = Database("postgresql://nowhere")
    files = resources.files("asyncjobs.store").joinpath("sql").iterdir()
    return {found.sql(stem): stem for file in files if (stem := file.name.removesuffix(".sql"))}


def _name_of(sql: str) -> str:
    return _names().get(sql, sql[:40])
