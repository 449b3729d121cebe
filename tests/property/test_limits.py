"""Random interleavings of what frees, adds and takes permits, with transactions left open: the real SQL against a model.

Every step is a transaction of its own session, which may be left open, and committed or rolled back later. A step that would wait
for another session's lock is given up, as by a lock time-out: the protocol has to stand that, too.
"""

import asyncio
import json
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from asyncjobs.store.database import Connection, Database
from tests.support.factories import insert_runner

T = TypeVar("T")

KEYS: Final = ("api:a", "api:b", "one", "wide:a")
#: each, total: of a limit without `by` the key is the limit's name.
LIMITS: Final = {"api": (2, 3), "one": (1, None), "wide": (None, 2)}
SESSIONS: Final = st.sampled_from([0, 1, 2])
_TABLES: Final = (
    "jobs",
    "limits",
    "limit_keys",
    "limit_turns",
    "limit_requests",
    "runners",
    "former_runners",
    "dead_letter_jobs",
)


class LimitsMachine(RuleBasedStateMachine):
    """Sessions 0 and 1 are runners 1 and 2, session 2 is a client and an operator; `admin` looks at what is committed."""

    def __init__(self, admin: Connection, sessions: list[Connection], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.admin = admin
        self.sessions = sessions
        self.open: list[Any] = [None] * len(sessions)
        self.was_rolled_back = False
        self.tokens = 0
        self.most: dict[str, int] = {}  # of each key and limit: what the highest value was since something may run under it

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    @initialize(rolls_back=st.booleans())
    def start(self, rolls_back: bool) -> None:  # noqa: FBT001
        self.rolls_back = rolls_back  # else nothing may need the sweep
        self.do(self._start())

    async def _start(self) -> None:
        for table in _TABLES:
            await self.admin.execute(f"DELETE FROM asyncjobs.{table}")
        for id in (1, 2):
            await insert_runner(self.admin, id=id)
        declared = [
            {"kind": "limit", "name": name, "values": {"each": each, "total": total}} for name, (each, total) in LIMITS.items()
        ]
        await self.admin.execute("SELECT asyncjobs.declare_limits($1)", json.dumps(declared))
        self.limits = dict(LIMITS)

    async def _step(self, by: int, query: str, *args: Any, stays_open: bool) -> list[Any] | None:
        """One call in a transaction of this session; None when it would have waited."""
        session = self.sessions[by]
        if self.open[by] is not None:
            await self._end(by, commits=True)
        transaction = session.transaction()
        await transaction.start()
        await session.execute("SET LOCAL lock_timeout = '30ms'")
        try:
            rows = await session.fetch(query, *args)
        except asyncpg.LockNotAvailableError:
            await transaction.rollback()
            return None
        self.open[by] = transaction
        if not stays_open:
            await self._end(by, commits=True)
        return rows

    async def _end(self, by: int, *, commits: bool) -> None:
        transaction, self.open[by] = self.open[by], None
        await (transaction.commit() if commits else transaction.rollback())

    # What adds.

    @rule(by=SESSIONS, key=st.sampled_from(KEYS), count=st.integers(1, 3), own=st.booleans(), stays_open=st.booleans())
    def enqueue(self, by: int, key: str, count: int, own: bool, stays_open: bool) -> None:  # noqa: FBT001
        rows = [
            {"type": "email", "queue": "default", "payload": "{}", "limit_key": key, "enqueue_token": 1} for _ in range(count)
        ]
        query = "SELECT e.ids FROM asyncjobs.enqueue_in_transaction($1, NULL) AS e"
        if own:
            query = (
                "SELECT e.ids FROM asyncjobs.enqueue_rows(NULL, array_fill(1::bigint, ARRAY[$2::int]),"
                " asyncjobs.read_rows(ARRAY[$1]), true, false, 0) AS e"
            )
        self.do(self._step(by, query, json.dumps(rows), *([count] if own else []), stays_open=stays_open))

    # What takes, and frees.

    @rule(
        by=st.sampled_from([0, 1]),
        limit=st.sampled_from([1, 4]),
        ends=st.integers(0, 3),
        data=st.data(),
        stays_open=st.booleans(),
    )
    def call(self, by: int, limit: int, ends: int, data: st.DataObject, stays_open: bool) -> None:  # noqa: FBT001
        """A runner's call: outcomes, and a scan."""
        self.do(self._call(by, limit, ends, data, stays_open=stays_open))

    async def _call(self, by: int, limit: int, ends: int, data: st.DataObject, *, stays_open: bool) -> int:
        if self.open[by] is not None:
            await self._end(by, commits=True)
        mine = await self.sessions[by].fetch(
            "SELECT id, claim_token FROM asyncjobs.jobs WHERE runner_id = $1 AND status = 'processing' ORDER BY id", by + 1
        )
        done = mine[:ends]
        statuses = ["completed", "failed", "scheduled", "cancelled", "pending"]
        outcomes = [json.dumps({"status": data.draw(st.sampled_from(statuses)), "refund": True}) for _ in done]
        self.tokens += 100
        rows = await self._step(
            by,
            "SELECT kind, id FROM asyncjobs.finish($1, $2, $3, $4, NULL, 10, ARRAY['default'], ARRAY[NULL::text], ARRAY[$5::int],"
            " ARRAY[$5::int], ARRAY[-1], ARRAY[-1::bigint], ARRAY['email'], ARRAY[true], $1, $6, NULL)",
            by + 1, [row["id"] for row in done], [row["claim_token"] for row in done], outcomes, limit, self.tokens,
            stays_open=stays_open,
        )  # fmt: skip
        return sum(row["kind"] == "job" for row in rows or ())

    @rule(by=st.sampled_from([0, 1]))
    def is_killed(self, by: int) -> None:
        """The runner dies, whatever it was doing, is rescued, and comes back."""
        if self.open[by] is not None:
            self.was_rolled_back |= self.rolls_back
            self.do(self._end(by, commits=not self.rolls_back))
        self.do(self.admin.execute("DELETE FROM asyncjobs.runners WHERE id = $1", by + 1))
        self.do(self.admin.fetch("SELECT rescued FROM asyncjobs.rescue(100, 10)"))
        self.do(insert_runner(self.admin, id=by + 1))

    @rule()
    def promote(self) -> None:
        self.do(self.admin.execute("UPDATE asyncjobs.jobs SET run_at = now() WHERE status IN ('scheduled', 'failed')"))
        self.do(self._step(2, "SELECT promoted FROM asyncjobs.promote(100, NULL, NULL)", stays_open=False))

    @rule(name=st.sampled_from(sorted(LIMITS)), each=st.integers(1, 3), total=st.integers(1, 4))
    def is_set(self, name: str, each: int, total: int) -> None:
        for by, transaction in enumerate(self.open):  # a claim that began before may still take what was allowed then
            if transaction is not None:
                self.do(self._end(by, commits=True))
        self.nothing_is_over_its_limit()
        values = {"each": each, "total": total}
        rows = self.do(
            self._step(2, "SELECT asyncjobs.set_limit('limit', $1, $2, 'ann')", name, json.dumps(values), stays_open=False)
        )
        if rows is not None:
            self.limits[name] = (each, total)

    # Transactions.

    @precondition(lambda self: any(self.open))
    @rule(by=SESSIONS, commits=st.booleans())
    def end(self, by: int, commits: bool) -> None:  # noqa: FBT001
        if self.open[by] is not None:
            self.was_rolled_back |= self.rolls_back and not commits
            self.do(self._end(by, commits=commits or not self.rolls_back))

    # What holds.

    @invariant()
    def nothing_is_over_its_limit(self) -> None:
        """A value that was lowered is over for as long as what ran before runs on: never more than was allowed at its claim."""
        found = self.do(
            self.admin.fetch("SELECT limit_key, count(*) AS n FROM asyncjobs.jobs WHERE runner_id IS NOT NULL GROUP BY 1")
        )
        running = {row["limit_key"]: row["n"] for row in found}
        now: dict[str, int] = dict(running)
        for key, count in running.items():
            name = key.partition(":")[0]
            now[f"{name}*"] = now.get(f"{name}*", 0) + count
        for what, count in now.items():
            each, total = self.limits[what.partition(":")[0].rstrip("*")]
            allowed = total if what.endswith("*") else each
            before = self.most.get(what, 0)
            assert allowed is None or count <= max(allowed, before), (what, count, allowed, before)
        self.most = now

    def drain(self) -> None:
        """Everything runs in the end, without the sweep if nobody was rolled back."""
        self.do(self._drain())

    async def _drain(self) -> None:
        for by, transaction in enumerate(self.open):
            if transaction is not None:
                await self._end(by, commits=True)
        nothing: Any = _Completed()
        left = 0
        for _ in range(200):
            await self.admin.execute("UPDATE asyncjobs.jobs SET run_at = now() WHERE status IN ('scheduled', 'failed')")
            await self.admin.fetch("SELECT promoted FROM asyncjobs.promote(100, NULL, NULL)")
            if self.was_rolled_back:
                await self.admin.fetch("SELECT requested FROM asyncjobs.sweep_limits(NULL, 100)")
            left = await self.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE completed_at IS NULL")
            if not left:
                return
            for by in (0, 1):
                await self._call(by, 4, 10, nothing, stays_open=False)
        turns = [dict(row) for row in await self.admin.fetch("SELECT * FROM asyncjobs.limit_turns")]
        raise AssertionError(f"{left} jobs are stuck: {turns}")

    def teardown(self) -> None:
        self.drain()


class _Completed:
    """Draws that everything completes."""

    def draw(self, _: object) -> str:
        return "completed"


def _run(dsn: str, examples: int, steps: int) -> None:
    loop = asyncio.new_event_loop()
    connections = [loop.run_until_complete(asyncpg.connect(dsn)) for _ in range(4)]
    machine: Any = partial(LimitsMachine, connections[0], connections[1:], loop)
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
            ),
        )
        loop.run_until_complete(connections[0].execute("DELETE FROM asyncjobs.jobs; DELETE FROM asyncjobs.runners"))
    finally:
        for connection in connections:
            loop.run_until_complete(connection.close())
        loop.close()


async def test_no_limit_is_exceeded_and_nothing_is_stuck(database: Database) -> None:
    await asyncio.to_thread(_run, database.dsn, 150, 14)
