"""Which of several servers to connect to: the primary, however the others fail.

A DSN may name several hosts, of which one is the primary at a time. asyncpg asks them one after the other within one time-out; a
host that does not answer, because its machine is gone, would use up all of it, at every connect. And a DSN that does not ask for
`read-write` would lead to a standby. So here:

1. Hosts are asked in the order of the DSN, but first of all the one that accepted last.
2. A host that has not answered within `HEAD_START_SECONDS` goes on being waited for, while the next one is asked, too. One that
   refuses is followed by the next at once.
3. The first that accepts is it; what the others still say is dropped.
4. When all were asked, those that refused are asked again each `HEAD_START_SECONDS` for as long as another is silent: a standby
   is promoted because the primary is silent.
5. When another host than before accepted, the connections to that one are dropped, also those on which an answer is awaited: a
   machine that is gone would be waited for until each statement's time-out, and one that was demoted and went on would take
   NOTIFYs that no runner hears.
6. When all have refused, so does the connect. An error that does not pass by itself (a wrong password) is raised as it is.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from weakref import ref

import asyncpg

from asyncjobs.store.failures import is_passing

HEAD_START_SECONDS: Final = 1.0
_ATTRIBUTES: Final = "target_session_attrs"


class Closable(Protocol):
    """A connection."""

    def terminate(self) -> None:
        """Drop it at once."""
        ...


T = TypeVar("T", bound=Closable)


def hosts_of(dsn: str) -> dict[str, str]:
    """The DSN as one for each of its hosts, by host (and port). Each asks for the primary, unless the DSN says what it wants."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    credentials, at, hosts = parts.netloc.rpartition("@")
    named = hosts.split(",") if hosts else _in_query(query)
    if len(named) < 2:  # noqa: PLR2004 - one needs no choice
        return {hosts: dsn}
    wanted = urlencode({_ATTRIBUTES: "read-write", **query})
    return {host: urlunsplit(parts._replace(netloc=f"{credentials}{at}{host}", query=wanted)) for host in named}


def _in_query(query: dict[str, str]) -> list[str]:
    """The hosts of `?host=a,b&port=1,2`, taken out of the query. Folders of sockets stay: a netloc has no place for them."""
    hosts, ports = query.get("host", "").split(","), query.get("port", "").split(",")
    if len(hosts) < 2 or any(host.startswith("/") for host in hosts) or len(ports) not in {1, len(hosts)}:  # noqa: PLR2004
        return []
    del query["host"]
    query.pop("port", None)
    ports = ports * len(hosts) if len(ports) == 1 else ports
    return [f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=True)]


class Hosts(Generic[T]):
    """The servers of one DSN, and the connections to them. Used from any thread."""

    def __init__(self, dsn: str, *, head_start_seconds: float = HEAD_START_SECONDS) -> None:
        self._dsns = hosts_of(dsn)
        self._names = list(self._dsns)
        self._head_start_seconds = head_start_seconds
        self._lock = Lock()
        self._open: dict[ref[T], tuple[str, asyncio.AbstractEventLoop]] = {}

    async def connect(self, attempt: Callable[[str], Awaitable[T]]) -> T:
        """What `attempt` returned for the DSN of the host that accepted first."""
        names = self._names
        if len(names) == 1:
            return await attempt(self._dsns[names[0]])
        host, connection = await self._race(names, attempt)
        self._accepted(host, connection)
        return connection

    def _accepted(self, host: str, connection: T) -> None:
        with self._lock:
            self._names = [host, *(name for name in self._dsns if name != host)]
            self._open = {one: where for one, where in self._open.items() if one() is not None}
            left = [(one(), loop) for one, (name, loop) in self._open.items() if name != host]
            self._open[ref(connection)] = host, asyncio.get_running_loop()
        for other, loop in left:
            if other is not None:
                with suppress(RuntimeError):  # its loop is closed
                    loop.call_soon_threadsafe(other.terminate)

    async def _race(self, names: Sequence[str], attempt: Callable[[str], Awaitable[T]]) -> tuple[str, T]:
        waiting, errors = deque(names), dict[str, Exception]()
        asked: dict[asyncio.Task[T], str] = {}

        async def ask(name: str) -> T:
            return await attempt(self._dsns[name])

        try:
            while True:
                if waiting:
                    name = waiting.popleft()
                    asked[asyncio.create_task(ask(name))] = name
                done, _ = await asyncio.wait(asked, timeout=self._head_start_seconds, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        connection = task.result()
                    except Exception as error:  # noqa: BLE001 - the next one may do
                        errors[asked.pop(task)] = error
                    else:
                        return asked.pop(task), connection
                if not asked and not waiting:
                    raise _refusal(errors)
                if not done and not waiting:
                    waiting.extend(errors)
        finally:
            await _drop(asked)


async def _drop(asked: Iterable["asyncio.Task[T]"]) -> None:
    """End what is under way, and close what was opened in the same moment."""
    tasks = list(asked)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(Exception, asyncio.CancelledError):
            (await task).terminate()


def _refusal(errors: Mapping[str, Exception]) -> Exception:
    for error in errors.values():
        if not is_passing(error):
            return error
    return ConnectionError(f"no host accepts ({'; '.join(f'{host}: {_in_words(error)}' for host, error in errors.items())})")


def _in_words(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it is a standby, or read-only"
    return str(error) or type(error).__name__
