"""The simulated world: a virtual clock, processes, a network that fails, and one real PostgreSQL database.

One thing at a time: the world draws one of what can happen now (a turn of a process's loop, the arrival of a call at the
server, of an answer at its process), does it, and draws again. Time passes only when nothing can happen now, so a simulated
minute of idling costs nothing. All draws come from one seed, so a seed replays exactly.

A statement that waits for a lock is parked with its session, and looked at again after each other one. Some wait where the world
wants them to, between two statements of a function (`schema.py`); others wait for them, as long as their lock time-outs say, of
virtual time, and then go on with what they saw before. Deadlocks are found at once: nobody else moves while a statement is
carried out.
"""

import asyncio
import heapq
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple

import asyncpg

from asyncjobs import Job
from tests.simulation.connection import Call, Connection, Work
from tests.simulation.course import draw
from tests.simulation.process import Process
from tests.simulation.schema import ASLEEP
from tests.simulation.server import Server
from tests.simulation.strikes import Strikes

#: How long a transaction may idle before the server ends its session, as asyncjobs asks for it.
_IDLE_SECONDS: Final = 4.0
_START: Final = 1000.0
#: How long a call may wait between two of its statements.
_GATED_SECONDS: Final = (0.0005, 0.005, 0.05, 0.3)
#: Where nothing fails, some wait there until one of these calls has ended in their middle, or waits for their locks; at most so
#: long. (Some of these locks are given up after 0.05 s.)
FINISHES: Final = frozenset({"finish", "finish_one", "finish_completed"})
#: What a runner's call line says, one at a time: while one of these is under way, no other is.
LINE: Final = FINISHES | {"skipped", "give_back", "still_processing"}
_ENQUEUES: Final = frozenset({"enqueue", "enqueue_alike", "enqueue_usual", "commit"})
_MET: Final = (frozenset({"hold_back_key", "wait_for_claims"}), _ENQUEUES, FINISHES)
#: Those have some twenty gates, in front of and behind the locks of keys; others have fewer.
_LONG: Final = FINISHES | _ENQUEUES
_GATES_OF_ONE: Final = 1  # of a function that is named: its first
_MET_SECONDS: Final = 0.6
_SOON_SECONDS: Final = 0.002
#: As long as a call may sleep until others have ended, and how long at a time.
_SLEEP_SECONDS: Final = 2.0
_TURN_SECONDS: Final = 0.01
#: An enqueue that is made again meets its own rows; a call that comes after that, and that nobody waits for, those of a workflow.
_MET_AGAIN: Final = "jobs_pkey"
_MET_BEHIND: Final = "members_pkey"
#: Of each call of a role that breaks even where nothing else does.
_FRAGILE_ODDS: Final = 0.3


class Held(NamedTuple):
    """A call that the world had wait at a gate, and its process."""

    process: Process
    call: str
    since: float
    until: float


class World:
    """Everything there is. `server` is real."""

    def __init__(self, seed: int, server: Server) -> None:
        self.random = Random(seed)
        self.course = draw(seed)
        self.strikes: Strikes | None = None
        self.server = server
        self.now = _START
        self.clock_step = 0.0  # of the server's clock
        self.processes: list[Process] = []
        self._living: list[Process] = []
        self.violations: list[str] = []
        self.lines: list[str] = []  # the trace
        self.faulty = False
        self.has_gates = False
        self.is_down = False  # the server
        self.slow: set[str] = set()  # roles of connections that are
        self.calls = 0
        self._numbers = count(1)
        self._digest = sha256()
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._parked: list[Call] = []
        self._stragglers: set[Call] = set()
        self._opened: set[str] = set()  # gates
        self._at_gate: dict[str, tuple[Process, str, float]] = {}  # by gate: whose call waits there, and since when
        self.held: list[Held] = []
        self._meetings: list[tuple[str, frozenset[str]]] = []  # gates that open when one of these calls has ended

    def clock(self) -> float:
        return self.now

    def see_start(self, job: Job) -> None:
        """A handler is called, where nobody sets the server's clock: has its job not expired?"""
        if job.start_before is not None and self.server.instant(self.now + self.clock_step) > job.start_before:
            self.violations.append(f"P18: job {job.id} began although it had expired at {job.start_before}")

    def number(self) -> int:
        return next(self._numbers)

    def trace(self, *what: object) -> None:
        """Note what happened."""
        line = f"{self.now - _START:9.4f} " + " ".join(map(str, what))
        self.lines.append(line)
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        """Of all that happened so far."""
        return self._digest.hexdigest()

    def plan(self, seconds: float, what: Callable[[], None]) -> None:
        """Let it happen in so many seconds."""
        heapq.heappush(self._plans, (self.now + seconds, next(self._numbers), what))

    def start(self, name: str, *, is_supervised: bool = False) -> Process:
        """A new process, which does nothing yet; supervised: it may be struck, and is started again when it dies."""
        process = Process(self, name, is_supervised=is_supervised)
        self.processes.append(process)
        self._living = [one for one in self._living if one.is_alive] + [process]
        return process

    # Time.

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let so much time pass; ends early, and says so, when `until` is true."""
        ends_at = self.now + seconds
        while not until():
            choices = self._choices()
            if choices:
                self.random.choice(choices)()
                continue
            following = self._next_at()
            if following > ends_at:
                self.now = ends_at
                return until()
            self.now = max(self.now, following)
        return True

    def _choices(self) -> list[Callable[[], None]]:
        now = self.now
        choices: list[Callable[[], None]] = []
        for process in self._living:
            if process.is_alive and process.frozen_until <= now:
                for loop in process.loops:
                    if loop.is_ready and (loop is not process.main or process.stalled_until <= now):
                        choices.append(loop.step)  # noqa: PERF401 - two loops
        if self._plans and self._plans[0][0] <= self.now:
            choices.append(self._happen)
        return choices

    def _happen(self) -> None:
        heapq.heappop(self._plans)[2]()

    def _next_at(self) -> float:
        following = self._plans[0][0] if self._plans else float("inf")
        for process in self._living:
            if process.is_alive:
                for loop in process.loops:
                    ready_at = self.now if loop.is_ready else loop.next_at
                    following = min(following, max(ready_at, process.resumes_at(loop)))
        return following

    # The network.

    def _latency(self) -> float:
        quick = self.random.expovariate(1000)
        return quick + (
            self.random.choice([0.05, 0.5, 3.0]) if self.faulty and self.random.random() < self.course.slow_odds else 0.0
        )

    async def connect(self, process: Process, role: str, command_timeout: float | None) -> Connection:
        """What `asyncpg.connect` does, within a process."""
        if not process.is_alive:
            raise ConnectionRefusedError("the process has ended")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.plan(self._latency(), lambda: _resolve(answer, None))
        await answer
        if process.parted_until > self.now:
            await asyncio.sleep(process.parted_until - self.now)
            raise ConnectionResetError("the network was parted")
        if self.is_down:
            raise ConnectionRefusedError("the server is down")
        connection = Connection(self, process, role, command_timeout)
        process.connections.append(connection)
        return connection

    def send(self, connection: Connection, name: str, work: Work, answer: "asyncio.Future[Any]") -> Call:
        """A statement leaves its process. What is on its way in the same session comes before it, or was cancelled there."""
        before = connection.outstanding
        if before is not None and before.task is None:
            before.is_dropped = True
        call = connection.outstanding = Call(self.number(), connection, name, work, answer)
        if self.faulty and self.random.random() < self.course.break_odds:
            self._plan_break(connection)
        elif self.has_gates and connection.role in self.course.fragile and self.random.random() < _FRAGILE_ODDS:
            self.plan(self._latency(), lambda: self.break_connection(connection))
        slow = self.random.uniform(0.05, 0.3) if connection.role in self.slow else 0.0
        if self.faulty and self.strikes is not None:
            slow += self.strikes.strike(call)
        self.plan(self._latency() + slow, lambda: self._arrive(call))
        return call

    def _plan_break(self, connection: Connection) -> None:
        if self.random.random() < 0.3:
            self.trace("silent", connection.process.name, connection.role)
            connection.is_silent = True
        else:
            self.plan(self._latency(), lambda: self.break_connection(connection))

    def part(self, process: Process, seconds: float) -> None:
        """Nothing gets through for so long, on connections that are there and on new ones."""
        process.parted_until = self.now + seconds
        for connection in process.connections:
            connection.is_silent = True

    def break_connection(self, connection: Connection) -> None:
        """The connection is reset: the process sees it, and the server."""
        if connection.is_broken:
            return
        self.trace("broken", connection.process.name, connection.role)
        call = connection.outstanding or connection.call
        self.end_connection(connection)
        connection.process.main.call_soon(connection.broke)
        if call is not None and not call.answer.done():
            error = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            call.loop.call_soon(_fail, call.answer, error)

    def end_connection(self, connection: Connection) -> None:
        """The process lets go of it, or is gone. What is under way at the server may go on."""
        connection.is_broken = True
        if connection in connection.process.connections:
            connection.process.connections.remove(connection)
        call = connection.outstanding
        if call is not None:
            self.abandon(call)
            if connection.in_transaction and call.task is None:
                call.is_dropped, connection.outstanding = True, None
        self.plan(0.0, lambda: self._let_go(connection))

    def abandon(self, call: Call) -> None:
        """Nobody waits for the answer. Whether the call still arrives, and when, is open."""
        if call.is_abandoned or (call.answer.done() and not call.answer.cancelled()):
            return
        call.is_abandoned = True
        if call.connection.outstanding is call:
            self._stragglers.add(call)
        if call.task is None:
            call.is_dropped = self.random.random() < 0.5
        elif call in self._parked and self.random.random() < 0.5:
            self.plan(0.0, lambda: self._cancel(call))

    def _cancel(self, call: Call) -> None:
        if call in self._parked and call.task is not None:
            if self.server.interrupt(call.connection.session, call.task):
                self._parked.remove(call)
                self._end(call)
            else:
                self._wait(call)

    def _wait(self, call: Call) -> None:
        """It waits for a lock: its time-out is planned, once."""
        wait = self.server.wait_of(call.connection.session)
        if wait != call.wait:
            call.wait = wait
            if wait.patience is not None:
                self.plan(wait.patience, lambda: self._give_up(call, wait))

    def _give_up(self, call: Call, wait: object) -> None:
        """The lock time-out strikes, if it waits still."""
        if call in self._parked and call.wait == wait:
            self.trace("gave up", call.connection.process.name, call.name)
            call.gave_up = True
            self._cancel(call)
            self._look_at_parked()

    def has_no_stragglers(self) -> bool:
        """Whether no call is on its way that nobody waits for: such a claim takes jobs that only a later look gives back."""
        return not self._stragglers

    def _let_go(self, connection: Connection) -> None:
        """The server has seen the end of the session, and is done with its last statement."""
        if connection.is_broken and connection.session is not None and connection.outstanding is None:
            session, connection.session = connection.session, None
            self.server.give_back(session, connection.role, in_transaction=connection.in_transaction)
            connection.in_transaction = False
            self._look_at_parked()

    # The server.

    def _arrive(self, call: Call) -> None:
        if call.is_dropped or (call.connection.is_silent and self.random.random() < 0.5):
            self._settle(call)
        elif call.is_abandoned and self.random.random() < 0.5:  # the server was slow
            self.plan(self.random.choice([0.1, 2.0, 15.0]), lambda: self._carry_out(call))
        else:
            self._carry_out(call)

    def _settle(self, call: Call) -> None:
        self._stragglers.discard(call)
        if call.connection.outstanding is call:
            call.connection.outstanding = None
        self._let_go(call.connection)

    def _carry_out(self, call: Call) -> None:
        connection = call.connection
        if call.is_dropped:
            return self._settle(call)
        if connection.session is None:
            connection.session = self.server.take(connection.role)
        self.calls += 1
        self.server.set_clock(self.now + self.clock_step)
        gate = self._close_gate(call)
        call.task = self.server.begin(connection.session, call.work, gate=gate, claims=call.claims)
        if self.server.drive(connection.session, call.task):
            self._open_gate(gate)
            self._end(call)
            return self._look_at_parked()
        self._parked.append(call)
        is_gate = self.server.wait_of(connection.session).is_gate
        self.trace("parked", connection.process.name, connection.role, call.name, f"gate {gate}" if is_gate else "lock")
        self._wait(call)
        if is_gate:
            self._at_gate[gate] = (connection.process, call.name, self.now)
        elif self.course.scene == "met":
            self.violations.append(f"locks: {call.name} of {connection.process.name} waits for a lock, where folds alone meet")
        if gate:
            self.plan(self._gated_seconds(gate), lambda: self._open_gate(gate))
        else:
            self._meet(call)
        return None

    def _meet(self, call: Call) -> None:
        """It has ended, or waits for a lock: who waited at a gate for that goes on soon."""
        for gate, names in tuple(self._meetings):
            if call.name in names:
                self._meetings.remove((gate, names))
                self.plan(_SOON_SECONDS, partial(self._open_gate, gate))

    def _gated_seconds(self, gate: str) -> float:
        if (self.course.quarrels or self.course.is_calm) and self.random.random() < 0.5:
            self._meetings.append((gate, self.random.choice(_MET)))
            return _MET_SECONDS
        return self.random.choice(_GATED_SECONDS)

    def _close_gate(self, call: Call) -> str:
        """Perhaps the call is to wait at a gate: after how many, and at which."""
        if not self.has_gates or self.random.random() >= self.course.gate_odds * (1.0 if call.connection.carries else 0.1):
            return ""
        number = self.number()
        self.server.close_gate(number)
        if self.course.gates_in:
            return f"{self.random.randrange(_GATES_OF_ONE)} {number} {self.random.choice(self.course.gates_in)}"
        return f"{self.random.randrange(20 if call.name in _LONG else 8)} {number}"

    def _open_gate(self, gate: str) -> None:
        if gate and gate not in self._opened:
            self._opened.add(gate)
            if (at_gate := self._at_gate.pop(gate, None)) is not None:
                self.held.append(Held(*at_gate, self.now))
            self.server.open_gate(int(gate.split()[1]))
            self._look_at_parked()

    def _look_at_parked(self) -> None:
        """Let those go on that wait no longer. The end of one ends sessions, which looks at the others, and ends some of them."""
        again = True
        while again:
            again = False
            for call in tuple(self._parked):
                if call not in self._parked or call.task is None:
                    continue
                if self.server.drive(call.connection.session, call.task, was_parked=True):
                    self._parked.remove(call)
                    self._end(call)
                    again = True
                else:
                    self._wait(call)

    def _end(self, call: Call) -> None:
        """The server has done it; the answer leaves."""
        connection, task = call.connection, call.task
        assert task is not None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, asyncpg.LockNotAvailableError) and error.args[0] == ASLEEP and self._sleep(call, error):
            return
        if isinstance(error, asyncpg.QueryCanceledError) and call.gave_up:
            error = asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
        result = None if error is not None or task.cancelled() else task.result()
        summary = type(error).__name__ if error is not None else _size(result)
        self.trace(connection.process.name, connection.role, call.name, summary, "abandoned" if call.is_abandoned else "")
        if isinstance(error, asyncpg.DeadlockDetectedError):
            self.violations.append(f"locks: {call.name} of {connection.process.name} met a deadlock")
        met = {_MET_AGAIN, _MET_BEHIND} if call.is_abandoned else {_MET_AGAIN}
        if isinstance(error, asyncpg.IntegrityConstraintViolationError) and error.constraint_name not in met:
            self.violations.append(f"locks: {call.name} of {connection.process.name} broke a constraint: {error}")
        self._note_transaction(call, error)
        if call.name in {"hold_back_key", "wait_for_claims"}:
            rows = self.server.fetch("SELECT token FROM asyncjobs.simulated_moves WHERE is_now = 'processing'")
            connection.process.claimed = {row[0] for row in rows}
        self._tell(call)
        self._meet(call)
        self._settle(call)
        if call.at_answer is not None:
            call.at_answer()
        if call.is_abandoned or connection.is_silent:
            return
        deliver = (lambda: _fail(call.answer, error)) if error is not None else (lambda: _resolve(call.answer, result))
        slow = self.random.uniform(0.02, 0.2) if self.has_gates and connection.role in self.course.late_answers else 0.0
        self.plan(self._latency() + slow, lambda: self._answer(call, deliver))

    def _sleep(self, call: Call, error: Any) -> bool:
        """It is made again in a moment, if its time is not over: as long as those are under way who were when it began."""
        if call.sleeps_until is None:
            call.sleeps_until = self.now + _SLEEP_SECONDS
        if call.is_abandoned or self.now >= call.sleeps_until:
            return False
        call.claims, call.task = error.detail, None
        self.plan(_TURN_SECONDS, lambda: self._carry_out(call))
        return True

    def _answer(self, call: Call, deliver: Callable[[], None]) -> None:
        if not (call.connection.is_broken or call.connection.is_silent or call.is_abandoned):
            call.loop.call_soon(deliver)

    def _note_transaction(self, call: Call, error: BaseException | None) -> None:
        connection = call.connection
        connection.last = call
        if call.name.startswith(("begin", "commit", "rollback")) and error is None:
            connection.in_transaction = call.name.startswith("begin")
        if connection.in_transaction:
            self.plan(_IDLE_SECONDS, lambda: self._end_idle(connection, call))

    def _end_idle(self, connection: Connection, last: Call) -> None:
        if connection.in_transaction and not connection.is_broken and connection.last is last:
            self.trace("idle in transaction", connection.process.name, connection.role)
            self.break_connection(connection)

    def release_all(self) -> None:
        """End what still holds locks."""
        while self._parked:  # one may catch its cancellation, and wait for another's lock
            self._cancel(self._parked[0])
            self._parked = self._parked[1:] + self._parked[:1]

    # Notifications.

    def _tell(self, call: Call) -> None:
        told = self.server.heard(call.connection.session, call.name, in_transaction=call.connection.in_transaction)
        for session, payload, channel in told:
            sender = next((one.pid for one in self._connections() if one.session is session), 0)
            for connection in self._connections():
                if connection.listener is not None and connection.channel == channel:
                    self._deliver(connection, sender, payload)

    def _deliver(self, connection: Connection, sender: int, payload: str) -> None:
        self.trace("notified", connection.process.name, payload)
        late = self.faulty and self.random.random() < 0.05
        at = max(connection.heard_at, self.now + self._latency() + (self.random.choice([0.5, 4.0]) if late else 0.0))
        connection.heard_at = at
        self.plan(at - self.now, lambda: self._hear(connection, sender, payload))

    def _hear(self, connection: Connection, sender: int, payload: str) -> None:
        listener = connection.listener
        if listener is not None and not (connection.is_broken or connection.is_silent):
            connection.process.main.call_soon(listener, connection, sender, connection.channel, payload)

    def _connections(self) -> list[Connection]:
        return [connection for process in self.processes for connection in process.connections]


def _resolve(answer: "asyncio.Future[Any]", result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[Any]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def _size(result: Any) -> str:
    return str(len(result)) if isinstance(result, list) else type(result).__name__
