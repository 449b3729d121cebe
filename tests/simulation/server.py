"""The real PostgreSQL behind a simulated world: sessions, one statement at a time, its clock, and what it notifies.

Waits are real. A statement that waits for a lock is parked, and goes on when the server lets it; what it sees then - its own old
snapshot, the newest version of the row it waited for - is PostgreSQL's own doing, and no model's.

What costs is left out: a world begins with the tables emptied row by row, since a TRUNCATE makes every session plan everything
anew (a seed took 3.1 s of both processes' time so, 1.3 of it the server's); sessions are used again in the same role, with their
plans; the clock is a setting that travels with the statement; whether a statement waits for a lock is told by its process.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg

from asyncjobs.store.database import Database
from tests.simulation.schema import ADDED, FUNCTIONS, as_written, name_of, simulated
from tests.simulation.wire import Wire, make_real_loop
from tests.support.mutants import Change

#: What the server would do by itself after a real time, it does at once; what depends on statistics does not change on the way.
_SETTINGS: Final = {
    "deadlock_timeout": "1ms",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_isolation": "read committed",
    **dict.fromkeys(("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_hashagg"), "off"),
}
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TABLES: Final = """
SELECT format('DELETE FROM %I.%I', t.schemaname, t.tablename) FROM pg_tables AS t
WHERE t.schemaname = 'asyncjobs' AND t.tablename NOT IN ('migrations', 'routines', 'ids_secret') ORDER BY t.tablename
"""
_SEQUENCES: Final = """
SELECT format('SELECT setval(%L, %s, false)', format('%I.%I', s.schemaname, s.sequencename), s.start_value)
FROM pg_sequences s WHERE s.schemaname = 'asyncjobs' ORDER BY s.sequencename
"""
_WAIT: Final = """
SELECT a.application_name AS name, (SELECT min(l.waitstart) FROM pg_locks AS l WHERE l.pid = $1 AND NOT l.granted) AS since
FROM pg_stat_get_activity($1) AS a WHERE a.wait_event_type = 'Lock'
"""
_PATIENCE: Final = re.compile("([0-9]+)(m?s)$")
#: How long a session may sleep in silence before it is asked whether it waits for a lock, and until its time-outs have struck.
_SILENT_SECONDS: Final = 0.002
#: The same where its process cannot be seen.
_UNSEEN_SECONDS: Final = 0.03
#: Worlds between two cleanings of the tables.
_VACUUM_EVERY: Final = 25


class Wait(NamedTuple):
    """A wait for a lock: which, and for how many seconds at most."""

    since: str  # of no other wait
    patience: float | None
    is_gate: bool  # whether the world has it wait there


class Server:
    """One database on the server, with a clock that only the world moves."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.loop = make_real_loop()
        self.connect: Callable[..., Any] = asyncpg.connect
        self._free: defaultdict[str, list[Any]] = defaultdict(list)
        self._at = str(_START)
        self._worlds = 0
        self._definitions: dict[str, str] = {}  # of the schema's functions, as they are
        self._gated: set[Any] = set()  # sessions that were told of a gate
        self._asked: set[Any] = set()  # sessions that were told of claims
        self._asleep: dict[int, str] = {}  # by process: how often it had run when it went to sleep
        self._waits: dict[int, Wait] = {}  # by process: what it waits for now
        self._heard: list[tuple[int, str, str]] = []
        self._notified: set[int] = set()  # sessions whose transactions did
        self._session_of: dict[int, Any] = {}
        self._monitor: Any = self._open()
        self._prepare()

    def do(self, session: Any, coroutine: Any) -> Any:
        """The coroutine's result, which comes from this session (None: from one that it opens)."""
        task = self.loop.create_task(coroutine)
        self.loop.run_on(_wire(session), task)
        return task.result()

    def _open(self) -> Any:
        settings = {
            **_SETTINGS,
            "application_name": "simulation",
            "simulated.at": str(_START),
            "simulated.gate": "",
            "simulated.claims": "",
        }
        session = self.do(None, self.connect(self.dsn, server_settings=settings, ssl=False))
        self._session_of[session.get_server_pid()] = session
        session.add_log_listener(self._note)
        return session

    def _note(self, session: Any, notice: Any) -> None:
        if notice.message == "notified":
            self._notified.add(session.get_server_pid())

    def _prepare(self) -> None:
        self.run(ADDED)
        for (found,) in self.fetch(FUNCTIONS):
            definition = as_written(found)
            self._definitions[name_of(definition)] = definition
            changed = simulated(definition)
            if changed != definition:
                self.run(changed)
        self._tables = ";".join(row[0] for row in self.fetch(_TABLES))
        self._sequences = ";".join(row[0] for row in self.fetch(_SEQUENCES))
        self.do(self._monitor, self._monitor.add_listener(Database(self.dsn).channel, self._hear))

    def _hear(self, _connection: Any, pid: int, channel: str, payload: object) -> None:
        self._heard.append((pid, str(payload), channel))

    def empty(self) -> None:
        """A world begins: nothing is in there."""
        self.run(f"SET session_replication_role = replica; {self._tables}; {self._sequences}; RESET session_replication_role")
        if self._worlds % _VACUUM_EVERY == 0:
            self.run("VACUUM (TRUNCATE false, PROCESS_TOAST false)")
        self._worlds += 1
        self._heard.clear()
        self._notified.clear()

    def take(self, role: str) -> Any:
        """A session for a new connection of this role."""
        free = self._free[role]
        return free.pop() if free else self._open()

    def give_back(self, session: Any, role: str, *, in_transaction: bool) -> None:
        """Its connection has ended."""
        if in_transaction:
            self.do(session, session.execute("ROLLBACK"))
            self._notified.discard(session.get_server_pid())
        self._free[role].append(session)

    def set_clock(self, seconds: float) -> None:
        """What `asyncjobs.clock()` says in the statements that begin from now on."""
        self._at = str(self.instant(seconds))

    def instant(self, seconds: float) -> datetime:
        """What the clock says then."""
        return _START + timedelta(microseconds=round(seconds * 1_000_000))

    def begin(self, session: Any, work: Any, *, gate: str = "", claims: str = "") -> "asyncio.Task[Any]":
        """Let the session carry it out. `gate`: where it is to wait, by the number of gates before it and its own.

        `claims`: those for whose end it slept.
        """
        settings = [("simulated.at", self._at)]
        if claims or session in self._asked:
            settings.append(("simulated.claims", claims))
            (self._asked.add if claims else self._asked.discard)(session)
        if gate or session in self._gated:
            settings.append(("simulated.gate", gate))
            (self._gated.add if gate else self._gated.discard)(session)
        _wire(session).settings = tuple(settings)
        task: asyncio.Task[Any] = self.loop.create_task(work(session))
        return task

    def close_gate(self, number: int) -> None:
        """Whoever is told of this gate waits there."""
        self.run(f"SELECT pg_advisory_lock(7357, {number})")

    def open_gate(self, number: int) -> None:
        """It waits no longer."""
        self.run(f"SELECT pg_advisory_unlock(7357, {number})")

    def drive(self, session: Any, task: "asyncio.Task[Any]", *, was_parked: bool = False) -> bool:
        """Wait until it is done, or waits for a lock: then False.

        A session that waits sleeps. Whoever lets it go on wakes it before it answers itself; so one that sleeps, and has had no
        turn since it was parked, waits still. One that has just gone to sleep has its time-outs before it, all of a millisecond.
        """
        pid = session.get_server_pid()
        if was_parked and not _is_awake(pid) and (turns := _turns(pid)) and turns == self._asleep[pid]:
            return False
        patience = _SILENT_SECONDS if _turns(pid) else _UNSEEN_SECONDS
        while not self.loop.run_on(_wire(session), task, _SILENT_SECONDS):
            if not _is_awake(pid) and self._waits_for_lock(pid):
                if self.loop.run_on(_wire(session), task, patience):
                    return True
                if not _is_awake(pid) and self._waits_for_lock(pid):
                    self._asleep[pid] = _turns(pid)
                    return False
        return True

    def _waits_for_lock(self, pid: int) -> bool:
        found = self.do(self._monitor, self._monitor.fetch(_WAIT, pid))
        if found:
            name = found[0]["name"]
            number, unit = _PATIENCE.findall(name)[0] if name.startswith("patience") else ("0", "s")
            self._waits[pid] = Wait(str(found[0]["since"]), int(number) / (1000 if unit == "ms" else 1) or None, name == "gate")
        return bool(found)

    def wait_of(self, session: Any) -> "Wait":
        """What a session waits for that is parked."""
        return self._waits[session.get_server_pid()]

    def interrupt(self, session: Any, task: "asyncio.Task[Any]") -> bool:
        """Cancel the wait of a session that is parked. Whether its statement has ended: it may catch that, and wait again."""
        pid = session.get_server_pid()
        before = _turns(pid)
        self.do(self._monitor, self._monitor.fetchval("SELECT pg_cancel_backend($1)", pid))
        while (
            not self.loop.run_on(_wire(session), task, _SILENT_SECONDS if before else _UNSEEN_SECONDS)
            and _turns(pid) == before != ""
        ):
            pass
        return self.drive(session, task)

    def heard(self, session: Any, name: str, *, in_transaction: bool) -> list[tuple[Any, str, str]]:
        """What this statement of the session notified with its commit: session, payload, channel."""
        pid = session.get_server_pid()
        if in_transaction or (pid not in self._notified and not name.startswith("send_notifications")):
            return []
        self._notified.discard(pid)
        self.run("SELECT 1")  # with its answer come the notifications of what committed before it
        heard, self._heard = self._heard, []
        return [(self._session_of.get(pid), payload, channel) for pid, payload, channel in heard]

    def fetch(self, sql: str, *args: Any) -> list[Any]:
        """For the checks."""
        return list(self.do(self._monitor, self._monitor.fetch(sql, *args)))

    def change(self, change: Change) -> str:
        """Change a function of the schema; returns what undoes it."""
        definition = self._definitions[change.function]
        self._definitions[change.function] = changed = change.of(definition)
        self.run(simulated(changed))
        return definition

    def change_back(self, definition: str) -> None:
        """Undo a change."""
        self._definitions[name_of(definition)] = definition
        self.run(simulated(definition))

    def run(self, sql: str) -> None:
        """Execute it."""
        self.do(self._monitor, self._monitor.execute(sql))

    def close(self) -> None:
        """End all sessions."""
        for session in self._session_of.values():
            session.terminate()
        self.loop.close()


def _wire(session: Any) -> Any:
    wire: Wire | None = None if session is None else session._transport
    return wire


def _is_awake(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split(None, 1)[0] != "S"
    except OSError:
        return False


def _turns(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/schedstat").read_text().rsplit(None, 1)[1]
    except OSError:
        return ""
