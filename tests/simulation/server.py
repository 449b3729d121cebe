"""The real PostgreSQL behind a simulated world: sessions, one statement at a time, its clock, and what it notifies.

Everything happens in a real event loop that runs only while a statement is carried out.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, Final

import asyncpg

from asyncjobs.store.database import Database

#: What the server would do by itself after a real time, it does at once; what depends on statistics does not change on the way.
_SETTINGS: Final = {
    "deadlock_timeout": "1ms",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_isolation": "read committed",
}
_LOCK_TIMEOUT: Final = re.compile(r"(lock_timeout'?(?:,| TO| =) ')[0-9]+m?s(')")
_FUNCTIONS: Final = """
SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'asyncjobs'
WHERE p.prokind = 'f'
"""
_CLOCK: Final = """
CREATE TABLE asyncjobs.simulated_clock (at timestamptz NOT NULL);
INSERT INTO asyncjobs.simulated_clock VALUES ('2026-01-01 00:00:00+00');
CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT c.at FROM asyncjobs.simulated_clock AS c)
"""
#: Beginnings of the names of statements that may notify.
_NOTIFYING: Final = ("send_", "commit", "finish", "enqueue", "advance", "promote_", "end_", "re", "settle")
_SET_CLOCK: Final = "UPDATE asyncjobs.simulated_clock SET at = timestamptz '2026-01-01 00:00Z' + $1 * interval '1 microsecond'"
_TABLES: Final = """
SELECT string_agg(format('%I.%I', t.schemaname, t.tablename), ', ' ORDER BY t.tablename) FROM pg_tables AS t
WHERE t.schemaname = 'asyncjobs' AND t.tablename NOT IN ('simulated_clock', 'migrations')
"""
_SEQUENCES: Final = """
SELECT format('ALTER SEQUENCE %I.%I RESTART', s.schemaname, s.sequencename) FROM pg_sequences s WHERE s.schemaname = 'asyncjobs'
"""


class _RealLoop(asyncio.SelectorEventLoop):
    """Goes by the real clock, whatever `time.monotonic` is made to say."""

    def time(self) -> float:
        return time.perf_counter()


class Server:
    """One database on the server, with a clock that only the world moves."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.loop = _RealLoop()
        self.connect: Callable[..., Any] = asyncpg.connect
        self._free: list[Any] = []
        self._clock = -1.0
        self._heard: list[tuple[int, str, str]] = []
        self._session_of: dict[int, Any] = {}
        self._monitor: Any = self.do(self._open())
        self.do(self._prepare())

    def do(self, coroutine: Any) -> Any:
        """The coroutine's result."""
        return self.loop.run_until_complete(coroutine)

    async def _open(self) -> Any:
        settings = {**_SETTINGS, "application_name": "simulation"}
        session = await self.connect(self.dsn, server_settings=settings, command_timeout=60)
        self._session_of[session.get_server_pid()] = session
        return session

    async def _prepare(self) -> None:
        monitor = self._monitor
        await monitor.execute(_CLOCK)
        for (definition,) in await monitor.fetch(_FUNCTIONS):
            changed = _LOCK_TIMEOUT.sub(r"\g<1>1ms\2", definition).replace("clock_timestamp()", "asyncjobs.clock()")
            if changed != definition:
                await monitor.execute(changed)
        tables = await monitor.fetchval(_TABLES)
        restarts = [row[0] for row in await monitor.fetch(_SEQUENCES)]
        self._empty = ";".join([f"TRUNCATE {tables}", *restarts])
        await monitor.add_listener(Database(self.dsn).channel, self._hear)

    def _hear(self, _connection: Any, pid: int, channel: str, payload: object) -> None:
        self._heard.append((pid, str(payload), channel))

    def empty(self) -> None:
        """A world begins: nothing is in there."""
        self.do(self._monitor.execute(self._empty))
        self._heard.clear()

    def take(self) -> Any:
        """A session for a new connection."""
        return self._free.pop() if self._free else self.do(self._open())

    def give_back(self, session: Any, *, in_transaction: bool) -> None:
        """Its connection has ended."""
        if in_transaction:
            self.do(session.execute("ROLLBACK"))
        self._free.append(session)

    def set_clock(self, seconds: float) -> None:
        """What `asyncjobs.clock()` says from now on."""
        if seconds != self._clock:
            self._clock = seconds
            self.do(self._monitor.execute(_SET_CLOCK, round(seconds * 1_000_000)))

    def begin(self, session: Any, work: Any) -> "asyncio.Task[Any]":
        """Let the session carry it out."""
        return self.loop.create_task(work(session))

    def drive(self, session: Any, task: "asyncio.Task[Any]") -> bool:
        """Wait until it is done, or waits for a lock: then False."""
        return bool(self.do(self._drive(session, task)))

    async def _drive(self, session: Any, task: "asyncio.Task[Any]") -> bool:
        while True:
            done, _ = await asyncio.wait([task], timeout=0.03)
            if done:
                return True
            pid = session.get_server_pid()
            if await self._monitor.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
                # Once more: a lock time-out, or the end of a deadlock, may be just under way.
                done, _ = await asyncio.wait([task], timeout=0.03)
                if not done and await self._monitor.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
                    return False

    def cancel(self, session: Any, task: "asyncio.Task[Any]") -> None:
        """Cancel the session's statement."""
        self.do(self._cancel(session, task))

    async def _cancel(self, session: Any, task: "asyncio.Task[Any]") -> None:
        await self._monitor.fetchval("SELECT pg_cancel_backend($1)", session.get_server_pid())
        await asyncio.wait([task])

    def heard(self, name: str) -> list[tuple[Any, str, str]]:
        """What was notified since, if the statement of this name may have done so: session, payload, channel."""
        if not name.startswith(_NOTIFYING):
            return []
        self.do(self._monitor.execute("SELECT 1"))  # with its answer come the notifications of what committed before it
        heard, self._heard = self._heard, []
        return [(self._session_of.get(pid), payload, channel) for pid, payload, channel in heard]

    def fetch(self, sql: str, *args: Any) -> list[Any]:
        """For the checks."""
        return list(self.do(self._monitor.fetch(sql, *args)))

    def change(self, function: str, old: str, new: str) -> str:
        """Change a function of the schema; returns what undoes it."""
        [[definition]] = self.fetch(_FUNCTIONS + " AND p.proname = $1", function)
        if old not in definition:
            raise LookupError(f"{function} has changed: say again what is to be taken out for {new!r}")
        self.run(definition.replace(old, new))
        return str(definition)

    def run(self, sql: str) -> None:
        """Execute it."""
        self.do(self._monitor.execute(sql))

    def close(self) -> None:
        """End all sessions."""
        for session in self._session_of.values():
            session.terminate()
        self.loop.close()
