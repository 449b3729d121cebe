"""The way to the real server: asyncpg over blocking sockets, on a loop that waits for one answer at a time.

One statement is under way at a time, so nothing has to be selected from: who waits for an answer reads the socket it comes from.
With every statement travels the instant that `asyncjobs.clock()` is to say in it: a message of its own in front of the
statement's, in the same packet, so that a moved clock costs no round trip.
"""

import asyncio
import socket
import struct
import time
from typing import Any, Final, cast

from tests.simulation.loop import SimLoop

#: What is in front of a statement: an unnamed statement that sets the clock, bound and executed, without a Sync.
_SET: Final = "SET {} = '{}'"
_BIND_AND_EXECUTE: Final = b"B\x00\x00\x00\x0c" + bytes(8) + b"E\x00\x00\x00\x09" + bytes(5)
_BIND: Final = ord("B")
_MOST: Final = 1 << 18


class Wire:
    """asyncio's transport, as far as asyncpg uses it."""

    def __init__(self, sock: socket.socket, protocol: Any) -> None:
        self._sock = sock
        self._protocol = protocol
        self._closed = False
        self.prefix = b""  # goes in front of the next statement

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sock if name == "socket" else default

    def write(self, data: Any) -> None:
        if self.prefix and data[0] == _BIND:
            data, self.prefix = self.prefix + bytes(data), b""
        self._sock.sendall(data)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closed

    def abort(self) -> None:
        self._closed = True
        self._sock.close()

    close = abort

    def read(self, seconds: float | None = None) -> bool:
        """Let the protocol have what comes next. Whether anything came within the time."""
        self._sock.settimeout(seconds)
        try:
            data = self._sock.recv(_MOST)
        except (TimeoutError, BlockingIOError):
            return False
        finally:
            self._sock.settimeout(None)
        if not data:
            raise ConnectionResetError("the server has closed a session of the simulation")
        self._protocol.data_received(data)
        return True


class RealLoop(SimLoop):
    """Runs what talks to the server, in real time."""

    def __init__(self) -> None:
        super().__init__(time.perf_counter, print)
        self._opening: Wire | None = None

    async def create_connection(self, make: Any, host: str, port: int, **_more: Any) -> Any:  # type: ignore[override]
        protocol = make()
        wire = self._opening = Wire(socket.create_connection((host, port)), protocol)
        protocol.connection_made(wire)
        return wire, protocol

    def run_on(self, wire: Wire | None, task: "asyncio.Task[Any]", seconds: float | None = None) -> bool:
        """Run it on what comes from there (None: from the session that it opens). Whether it ended before nothing came in time."""
        while True:
            while self.is_ready:
                self.step()
            if task.done():
                return True
            source = wire or self._opening
            assert source is not None, "it waits for something else"
            if not source.read(seconds):
                return False


def make_real_loop() -> RealLoop:
    """A loop for the sessions of one server."""
    loop: RealLoop = cast("Any", RealLoop)()
    return loop


def setting(name: str, value: str) -> bytes:
    """What goes in front of a statement to change a setting of its session."""
    sql = _SET.format(name, value).encode()
    return b"P" + struct.pack("!i", len(sql) + 8) + b"\x00" + sql + b"\x00\x00\x00" + _BIND_AND_EXECUTE
