"""Simulated processes for tests of the protocols: each has a connection and a runner's row, and calls what a runner calls.

`begin` and `commit` wrap calls in an open transaction, so that a test can stop a process in the middle: what a function did
is then not yet visible, and its locks are held.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any, Literal, get_args

import asyncpg

from asyncjobs.model.claim import FRONT, Ack, Claimed, Finished, Scan
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.store import callers, due, jobs
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.known_types import Knowing
from tests.support.backends import end_transaction, waits_for_lock
from tests.support.factories import a_row, insert_runner
from tests.support.rows import clear, promises_hold

Isolation = Literal["read_committed", "repeatable_read", "serializable"]
TYPES = ("email", "report")
LOCK_PATIENCE_SECONDS = 5.0

#: The statement that writes completions.
Call = Literal["finish", "finish_one", "finish_completed"]


class Peer:
    """One process: enqueues on its own connection, claims and acks."""

    def __init__(self, link: Link, runner_id: int, *, call: Call = "finish") -> None:
        self.link = link
        self.call = call  # what writes that an attempt completed
        self.runner_id = runner_id
        self._tokens = count(1)
        self._sequence = 0
        self._transaction: Any = None

    async def begin(self, isolation: Isolation = "read_committed") -> None:
        connection = await self.link.connection()
        self._transaction = connection.transaction(isolation=isolation)
        await self._transaction.start()

    async def commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        await transaction.commit()

    async def rollback(self) -> None:
        transaction, self._transaction = self._transaction, None
        await transaction.rollback()

    async def end_transaction(self) -> None:
        if self._transaction is not None:
            await self.rollback()

    async def enqueue(
        self, key: str | None = "k", type: str = "email", /, *, times: int = 1, lock_timeout: str | None = None, **fields: Any
    ) -> int:
        """As the app does on connections of its own. Returns the id of the last job."""
        ids = await jobs.reserve_ids(self.link, times)
        rows = [a_row(type, serialization_key=key, **fields)] * times
        answer = await jobs.enqueue(self.link, rows, ids, [next(self._tokens) for _ in rows], lock_timeout=lock_timeout)
        return answer.enqueued[-1].id

    async def enqueue_in_transaction(self, key: str | None = "k", type: str = "email", /, **fields: Any) -> int:
        """As an app does in its caller's transaction, which is the one that `begin` started."""
        row = a_row(type, serialization_key=key, **fields)
        answer = await callers.enqueue(await self.link.connection(), self.link.database, [row], [next(self._tokens)])
        return answer.enqueued[0].id

    async def finish(
        self, acks: Sequence[Ack] = (), *, limit: int = 0, queue: str = "default", suspects: bool = True, ahead: int = 0
    ) -> Finished:
        scans = [Scan(queue, None, limit, ahead=ahead)] if limit else []
        self._sequence += limit
        return await jobs.finish(
            self.link, self.runner_id, acks, scans, TYPES,
            suspects=[suspects] * len(scans), token_base=self.runner_id, token_seq=self._sequence - limit, max_errors=10,
        )  # fmt: skip

    async def claim(self, limit: int = 100, *, queue: str = "default") -> list[Claimed]:
        return (await self.finish(limit=limit, queue=queue)).claimed

    async def claim_one(self) -> Claimed:
        """The only job that can be claimed."""
        [job] = await self.claim()
        return job

    async def ack(self, job: Claimed, kind: OutcomeKind = "completed", **fields: Any) -> Finished:
        if self.call == "finish_one" and kind == "completed":
            return await self.complete(job, queue="another")
        if self.call == "finish_completed" and kind == "completed":
            return await self.complete_all([job])
        return await self.finish([Ack(job.id, job.token, Outcome(kind=kind, **fields))])

    async def complete(self, job: Claimed, *, queue: str | None = "default") -> Finished:
        """The lean way; the key's next job starts at once if it is of this queue."""
        self._sequence += 1
        token = (self.runner_id << 32) | self._sequence
        ack = Ack(job.id, job.token, Outcome(kind="completed"))
        return await jobs.finish_one(self.link, self.runner_id, ack, queue, TYPES, next_token=token)

    def completion(self, job: Claimed) -> Ack:
        return Ack(job.id, job.token, Outcome(kind="completed"), number=job.number)

    async def complete_all(
        self, done: Sequence[Claimed], *, limit: int = 0, start: tuple[int, int] = FRONT, suspects: bool = False, ahead: int = 0
    ) -> Finished:
        """What a busy runner does: completions, and one scan."""
        self._sequence += limit
        scan = Scan("default", None, limit, start, ahead=ahead) if limit else None
        return await jobs.finish_completed(
            self.link, self.runner_id, [*map(self.completion, done)], scan, TYPES,
            suspects=suspects, token_base=self.runner_id, token_seq=self._sequence - limit,
        )  # fmt: skip


class Peers:
    """Two processes and a look from outside."""

    def __init__(self, a: Peer, b: Peer, admin: Connection, database: Database) -> None:
        self.a = a
        self.b = b
        self.admin = admin
        self.database = database

    async def waits_for_lock(self, peer: Peer) -> None:
        """Return when the peer's statement waits for somebody's lock."""
        await waits_for_lock(peer.link, self.admin, timeout=LOCK_PATIENCE_SECONDS)

    async def lose(self, peer: Peer) -> None:
        """End the backend that the peer has a transaction open in."""
        await end_transaction(peer.link, self.admin)

    async def wait_for_keys(self, interval: str) -> None:
        """How long an end waits for the lock of its key before it leaves the next head to a serializer."""
        await self.admin.execute(f"ALTER FUNCTION asyncjobs.lock_keys_shortly SET lock_timeout = '{interval}'")

    async def wait_for_rows(self, interval: str) -> None:
        """How long a runner's call waits for the row of an outcome before it goes on without it."""
        for call in get_args(Call):
            await self.admin.execute(f"ALTER FUNCTION asyncjobs.{call} SET lock_timeout = '{interval}'")

    async def line(self, key: str = "k") -> list[tuple[int, str]]:
        """The jobs of a key in their order, with the state of each."""
        rows = await self.admin.fetch(
            "SELECT s.id, CASE WHEN s.halted_at IS NOT NULL THEN 'halted' WHEN s.dispatched_at IS NULL THEN 'waiting'"
            " ELSE j.status END AS state"
            " FROM asyncjobs.serialized_jobs s LEFT JOIN asyncjobs.jobs j ON j.id = s.id"
            " WHERE s.serialization_key = $1 ORDER BY s.dispatched_at IS NULL, s.place",
            key,
        )
        return [(row["id"], row["state"] or "gone") for row in rows]

    async def status(self, job_id: int) -> str | None:
        return await jobs.status(self.a.link, job_id)

    async def promises_hold(self) -> None:
        """No key is stalled, no two heads, no limbo, no two lives of one dedup key."""
        await promises_hold(self.admin, self.database)

    async def clear(self) -> None:
        """Roll back what is open, and empty all tables but for the runners' rows."""
        for peer in (self.a, self.b):
            await peer.end_transaction()
        await clear(self.admin, self.database)
        for peer in (self.a, self.b):
            await self.register(peer)

    async def register(self, peer: Peer) -> None:
        """The runner's row."""
        await insert_runner(self.admin, schema=self.database.schema, id=peer.runner_id, types=list(TYPES))

    async def promote(self) -> None:
        """Make everything due that is scheduled or to be retried, and do what a promoter does."""
        await self.admin.execute("UPDATE asyncjobs.jobs SET run_at = now() WHERE status IN ('scheduled', 'failed')")
        promoted, _ = await due.promote(self.b.link, 1000)
        if promoted.keys:
            await due.promote_keyed(self.b.link, promoted.keys, 1000)

    async def drain(self, *by: Peer) -> list[int]:
        """Complete all that can be run, by both peers in turn (or these); returns the ids in the order of the starts."""
        order: list[int] = []
        while True:
            claimed = [(peer, job) for peer in by or (self.a, self.b) for job in await peer.claim(1)]
            if not claimed:
                return order
            for peer, job in claimed:
                order.append(job.id)
                await peer.ack(job)


@asynccontextmanager
async def peers(database: Database, *, call: Call = "finish") -> AsyncGenerator[Peers]:
    """Two processes on this database."""
    async with AsyncExitStack() as stack:
        named = {"application_name": "test"}
        admin = await asyncpg.connect(database.dsn, command_timeout=30, server_settings=named, connection_class=Knowing)
        stack.push_async_callback(admin.close, timeout=5)
        made: list[Peer] = []
        for number in (1, 2):
            link = database.link(f"peer {number}", command_timeout=30)
            stack.push_async_callback(link.close)
            await link.connection()
            made.append(Peer(link, number, call=call))
        pair = Peers(made[0], made[1], admin, database)
        for peer in made:
            await pair.register(peer)
        await pair.wait_for_keys("30s")  # a machine that stands still makes nobody give up
        await pair.wait_for_rows("30s")
        yield pair


def spawn(coroutine: Any) -> "asyncio.Task[Any]":
    """Start a call that is expected to wait."""
    return asyncio.get_running_loop().create_task(coroutine)
