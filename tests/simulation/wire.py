"""The way to the real server: asyncpg over blocking sockets, on a loop that waits for one answer at a time.

One statement is under way at a time, so nothing has to be selected from: who waits for an answer reads the socket it comes from.
With every statement travel settings: the instant that `asyncjobs.clock()` is to say in it, and where it is to wait. They are
messages of their own in front of the statement's, in the same packet, so that a moved clock costs no round trip.
"""

import asyncio
import socket
import struct
import time
from typing import Any, Final, cast

from tests.simulation.loop import SimLoop

#: An unnamed statement is bound and executed, without a Sync.
_BIND_AND_EXECUTE: Final = b"B\x00\x00\x00\x0c" + bytes(8) + b"E\x00\x00\x00\x09" + bytes(5)
_BIND: Final = ord("B")
_COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
_MOST: Final = 1 << 18


class Wire:
    """asyncio's transport, as far as asyncpg uses it."""

    def __init__(self, sock: socket.socket, protocol: Any) -> None:
        self._sock = sock
        self._protocol = protocol
        self._closed = False
        self.settings: tuple[tuple[str, str], ...] = ()  # that the next statement is to find

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sock if name == "socket" else default

    def write(self, data: Any) -> None:
        if self.settings and (data[0] == _BIND or bytes(data) == _COMMIT):
            sets = [f"SET {name} = '{value}'" for name, value in self.settings]
            data = b"".join(map(_executed, sets)) + bytes(data) if data[0] == _BIND else _query("; ".join([*sets, "COMMIT"]))
            self.settings = ()
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
        """Run it on what comes from there (None: the session that it opens). Whether it ended before nothing came in time."""
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


def _executed(sql: str) -> bytes:
    text = sql.encode()
    return b"P" + struct.pack("!i", len(text) + 8) + b"\x00" + text + b"\x00\x00\x00" + _BIND_AND_EXECUTE


def _query(sql: str) -> bytes:
    text = sql.encode()
    return b"Q" + struct.pack("!i", len(text) + 5) + text + b"\x00"
