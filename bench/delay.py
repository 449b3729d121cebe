"""A TCP proxy that is far away: what the server says arrives so much later, and nothing waits for what was said before it.

It runs in a process of its own. Its loop waits by select(), whose time-outs are exact to a microsecond; epoll's, and uvloop's
timers, are rounded to milliseconds.
"""

import asyncio
import selectors
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


@asynccontextmanager
async def delayed(dsn: str, seconds: float) -> AsyncGenerator[str]:
    """The DSN that leads through it."""
    server = urlsplit(dsn)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, server.hostname or "", str(server.port), str(seconds)), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield urlunsplit(server._replace(netloc=f"{server.netloc.rpartition('@')[0]}@127.0.0.1:{port}"))
    finally:
        process.kill()
        await process.wait()


class _End(asyncio.Protocol):
    """One end of a connection; what it receives is said at the other one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[bytes] = deque()
        self.other: asyncio.WriteTransport | None = None

    def data_received(self, data: bytes) -> None:
        self._waiting.append(data)
        if self.other is None:
            return  # it is still connecting
        if self._seconds:
            asyncio.get_running_loop().call_later(self._seconds, self.pass_on)
        else:
            self.pass_on()

    def pass_on(self) -> None:
        """Say the oldest that waits: timers may fire in any order, bytes may not."""
        if self.other is not None and self._waiting:
            self.other.write(self._waiting.popleft())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None:
            self.other.close()


class _Client(_End):
    """The end at the client; at its start it connects to the server."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        super().__init__(0)
        self._server = (host, port, seconds)
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._connecting = asyncio.create_task(self._connect(transport))

    async def _connect(self, transport: asyncio.WriteTransport) -> None:
        host, port, seconds = self._server
        self.other, end = await asyncio.get_running_loop().create_connection(lambda: _End(seconds), host, port)
        end.other = transport
        while self._waiting:
            self.pass_on()


async def _serve(host: str, port: int, seconds: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Client(host, port, seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
