"""A TCP proxy in front of PostgreSQL that breaks connections in the ways that networks do.

    async with Proxy(dsn) as proxy:
        database = Database(proxy.dsn)
        …
        proxy.black_hole("listener")        # silence on the listener's connection, and on those it opens later
        proxy.drop_next_response("finish")  # the statement takes effect, its answer is lost
        proxy.heal()

Connections are told apart by their role: the application name in their startup packet, without "asyncjobs ". asyncjobs opens
"listener", "notifier", "heartbeat", "finish" (claims and acks), "pool" and "enqueue plain", "keyed" and "dedup"; yours are called
what you call them. Role None: all. `connections` has them in the order in which they were opened. Encrypted ones pass, but tell
no role.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from asyncjobs.testing.wire import Frames, application_name

_CHUNK = 65536


class Proxy:
    """Listens on a port of its own and forwards to the server of the DSN."""

    def __init__(self, dsn: str) -> None:
        self._dsn = urlsplit(dsn)
        self.connections: list[ProxiedConnection] = []
        self.accepted = 0
        self._refused: set[str | None] = set()
        self._silent: set[str | None] = set()
        self._delays: dict[str | None, float] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def dsn(self) -> str:
        """The DSN that leads through the proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        credentials = self._dsn.netloc.rpartition("@")[0]
        return urlunsplit(self._dsn._replace(netloc=f"{credentials}@127.0.0.1:{port}"))

    def having(self, role: str | None) -> "list[ProxiedConnection]":
        """The open connections of a role."""
        return [connection for connection in self.connections if role in (None, connection.role)]

    def reset(self, role: str | None = None) -> None:
        """Break the open connections of the role with a RST."""
        for connection in self.having(role):
            connection.reset()

    def close(self, role: str | None = None) -> None:
        """End the open connections of the role as a server does that goes away."""
        for connection in self.having(role):
            connection.close()

    def drop_next_response(self, role: str | None = None) -> None:
        """Let the next statement of each open connection of the role take effect, lose its answer, and break the connection."""
        for connection in self.having(role):
            connection.is_dropping = True

    def silence(self, role: str | None = None) -> None:
        """Nothing gets through any more on the open connections of the role; new ones work."""
        for connection in self.having(role):
            connection.open_gate.clear()

    def black_hole(self, role: str | None = None) -> None:
        """From now on nothing gets through on connections of the role, old and new; none is closed."""
        self._silent.add(role)
        self._apply()

    def delay(self, seconds: float, role: str | None = None) -> None:
        """From now on whatever the server says to the role takes this much longer."""
        self._delays[role] = seconds
        self._apply()

    def refuse(self, role: str | None = None) -> None:
        """From now on new connections of the role are broken as soon as their role is known."""
        self._refused.add(role)

    def heal(self) -> None:
        """Behave from now on. What a black hole held back gets through."""
        self._refused.clear()
        self._silent.clear()
        self._delays.clear()
        self._apply()

    def _apply(self) -> None:
        for connection in self.connections:
            self._treat(connection)

    def _treat(self, connection: "ProxiedConnection") -> None:
        roles = {None, connection.role}
        if roles & self._silent:
            connection.open_gate.clear()
        else:
            connection.open_gate.set()
        connection.delay_seconds = max((self._delays.get(role, 0.0) for role in roles), default=0.0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            # The proxy is closing. asyncio's streams would report a cancelled callback as an error.
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if None in self._refused:
            _reset(writer)
            return
        up_reader, up_writer = await asyncio.open_connection(self._dsn.hostname, self._dsn.port)
        connection = ProxiedConnection(reader, writer, up_reader, up_writer)
        self.accepted += 1
        self.connections.append(connection)
        self._treat(connection)
        try:
            await connection.run(self._named)
        finally:
            self.connections.remove(connection)
            up_writer.transport.abort()

    def _named(self, connection: "ProxiedConnection") -> None:
        if connection.role in self._refused:
            connection.reset()
        self._treat(connection)


class ProxiedConnection:
    """One connection through the proxy."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        self.role: str | None = None
        self.open_gate = asyncio.Event()  # nothing passes while it is clear
        self.open_gate.set()
        self.delay_seconds = 0.0
        self.is_dropping = False
        self.round_trips = 0  # requests that the server answered to the end
        self._executed = False
        self._client, self._client_writer = reader, writer
        self._server, self._server_writer = up_reader, up_writer

    def reset(self) -> None:
        """Break both sides, the client's with a RST."""
        _reset(self._client_writer)
        self._server_writer.transport.abort()

    def close(self) -> None:
        """End both sides without a word."""
        self._client_writer.close()
        self._server_writer.transport.abort()

    async def run(self, named: "Callable[[ProxiedConnection], None]") -> None:
        """Forward both ways until one side ends."""
        await self._start(named)
        pumps = {asyncio.create_task(self._forward_requests()), asyncio.create_task(self._forward_responses())}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*pumps, return_exceptions=True)

    async def _start(self, named: "Callable[[ProxiedConnection], None]") -> None:
        while True:
            (length,) = struct.unpack("!i", await self._client.readexactly(4))
            body = await self._client.readexactly(length - 4)
            name = application_name(body)
            await self.open_gate.wait()
            if name is not None:
                self.role = name.removeprefix("asyncjobs ")
                named(self)
                await self.open_gate.wait()
            self._server_writer.write(struct.pack("!i", length) + body)
            if name is not None:
                return
            # The client asks for encryption and waits for one byte: yes or no.
            self._client_writer.write(await self._server.readexactly(1))

    async def _forward_requests(self) -> None:
        frames = Frames()
        while chunk := await self._client.read(_CHUNK):
            await self.open_gate.wait()
            if self.is_dropping and frames.kinds(chunk) & {b"Q", b"E"}:
                self._executed = True
            elif not self.is_dropping:
                frames.kinds(chunk)
            self._server_writer.write(chunk)
            await self._server_writer.drain()

    async def _forward_responses(self) -> None:
        frames = Frames()
        while chunk := await self._server.read(_CHUNK):
            kinds = frames.kinds(chunk)
            self.round_trips += b"Z" in kinds
            await self.open_gate.wait()
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            if self._executed:
                if b"Z" in kinds:
                    self.reset()
                    return
                continue
            self._client_writer.write(chunk)
            await self._client_writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
