"""Any two operations at the same time, on the same jobs and the same keys: none waits in a circle, and nothing is stuck after it.

The server finds a circle before any lock timeout ends it (`deadlock_timeout`), and counts it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any

import asyncpg
import pytest

from asyncjobs.model.claim import Claimed
from asyncjobs.store import dead_letters, due, jobs, pauses, pruning, runners, serialized
from asyncjobs.store.database import Database
from asyncjobs.store.failures import is_rolled_back
from tests.support.claims import an_ack
from tests.support.factories import a_row, insert_runner
from tests.support.holding import pause_key
from tests.support.peers import Peer, peers, spawn

KEYS = ("a", "b", "c", None)
KEEP = pruning.Keep(completed=0, cancelled=0, dead_letters=0, runners=0, types={})
ENDINGS: tuple[Any, ...] = ("completed", "completed", "retry", "snooze", "dead", "cancel", "interrupted")


class Stress:
    """One session, which does one thing after another by chance, most of them to rows that others are at."""

    def __init__(self, peer: Peer, chance: random.Random, known: list[int]) -> None:
        self.peer, self.chance, self.known = peer, chance, known
        self.claimed: list[Claimed] = []
        self.again = 0

    def job(self) -> int:
        return self.chance.choice(self.known[-30:]) if self.known else 1

    def key(self) -> str:
        return str(self.chance.choice(KEYS[:3]))

    async def enqueue(self) -> None:
        fields: dict[str, Any] = {"delay_seconds": 0.01} if self.chance.random() < 0.2 else {}
        dedup = self.chance.choice([None, None, "x", "y"])
        if dedup is None:
            keys = self.chance.sample(KEYS, 3)
            rows = [a_row(serialization_key=key, **fields) for key in keys]
            ids = await jobs.reserve_ids(self.peer.link, len(rows))
            await jobs.enqueue(self.peer.link, rows, ids, ids)
            job_id = ids[0]
        else:
            job_id = await self.peer.enqueue(self.chance.choice(KEYS), dedup_key=dedup, on_duplicate="replace", **fields)
        self.known.append(job_id)

    async def claim(self) -> None:
        self.claimed += await self.peer.claim(5)

    async def ack(self) -> None:
        acks, self.claimed = self.claimed[:4], self.claimed[4:]
        made = [an_ack(job, self.ending(job), delay_seconds=0.01, error={"message": "e"}) for job in acks]
        self.claimed += (await self.peer.finish(made, limit=2)).claimed

    def ending(self, job: Claimed) -> Any:
        """How the attempt ends: as a runner says it, the last one is not to be retried."""
        ending = self.chance.choice(ENDINGS)
        return "dead" if ending == "retry" and job.attempt >= job.max_attempts else ending

    async def give_back(self) -> None:
        running = [job.id for job in self.claimed]
        await jobs.give_back(self.peer.link, self.peer.runner_id, running, last_token=2**62)

    async def promote(self) -> None:
        promoted, _ = await due.promote(self.peer.link, 50)
        if promoted.keys:
            await due.promote_keyed(self.peer.link, promoted.keys, 50)

    async def sweep(self) -> None:
        swept = await serialized.sweep(self.peer.link, "", 100)
        requests = list(chain.from_iterable(swept.requests.values()))
        await serialized.advance(self.peer.link, sorted({*swept.stalled, *swept.requests}), requests)

    async def verb(self) -> None:
        link, job = self.peer.link, self.job()
        verbs: list[Callable[[], Awaitable[object]]] = [
            lambda: serialized.cancel(link, job, "no"),
            lambda: serialized.retry(link, job, "me"),
            lambda: serialized.end(link, job, "dead", "no"),
            lambda: serialized.end(link, job, "fail", "no"),
            lambda: serialized.purge_key(link, self.key(), "no", 3),
            lambda: serialized.release_key(link, self.key()),
            lambda: pause_key(link, self.key(), None, None),
            lambda: serialized.resume_key(link, self.key()),
            lambda: serialized.resume_key(link, self.key()),
            lambda: pauses.pause(link, "type", "email", None, None),
            lambda: pauses.resume(link, "type", "email"),
            lambda: pauses.resume(link, "type", "email"),
            lambda: pauses.converge(link, 20, window=100, grace_seconds=0),
        ]
        await self.chance.choice(verbs)()

    async def dead_letters(self) -> None:
        ids = [dead_letter.id for dead_letter in (await dead_letters.find(self.peer.link, {}, limit=5)).dead_letters]
        if self.chance.random() < 0.5:
            await dead_letters.requeue(self.peer.link, ids, "me", force=True)
        else:
            await dead_letters.acknowledge(self.peer.link, ids, "me")

    async def prune(self) -> None:
        await pruning.prune(self.peer.link, KEEP, 20)

    async def rescue(self) -> None:
        await runners.rescue(self.peer.link, 20, max_errors=10)

    async def run(self, count: int) -> None:
        verbs: list[Callable[[], Awaitable[None]]] = [
            self.enqueue, self.enqueue, self.claim, self.claim, self.ack, self.ack, self.give_back, self.promote, self.sweep,
            self.verb, self.verb, self.verb, self.dead_letters, self.prune, self.rescue,
        ]  # fmt: skip
        for _ in range(count):
            try:
                await self.chance.choice(verbs)()
            except asyncpg.PostgresError as error:
                if not is_rolled_back(error):
                    raise
                self.again += 1  # as whoever called would: a lock that took long, a head that moved on; a circle is counted below


async def test_any_operations_at_the_same_time_do_not_deadlock(database: Database) -> None:
    async with peers(database) as pair:
        known: list[int] = []
        sessions = [pair.a, pair.b]
        for number in (3, 4, 5, 6):
            await insert_runner(pair.admin, id=number, types=["email"])
            sessions.append(Peer(database.link(f"peer {number}", command_timeout=30), number))
        for session in sessions:
            await (await session.link.connection()).execute("SET deadlock_timeout = '20ms'; SET lock_timeout = '5s'")
        stress = [Stress(session, random.Random(number), known) for number, session in enumerate(sessions)]
        await asyncio.gather(*(one.run(80) for one in stress))
        for session in sessions[2:]:
            await session.link.close()
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert await pair.admin.fetchval(deadlocks) == 0
        await pair.promises_hold()
        await pair.admin.execute("TRUNCATE asyncjobs.jobs, asyncjobs.serialized_jobs, asyncjobs.dedup_keys, asyncjobs.pauses")


@pytest.mark.parametrize("by", ["enqueue", "commit"])
async def test_a_replacement_locks_the_key_of_a_job_that_waits_before_the_job(database: Database, by: str) -> None:
    async with peers(database) as pair:
        head = await pair.a.enqueue()
        job_id = await pair.a.enqueue(dedup_key="d", delay_seconds=60)
        await pair.promote()
        assert await pair.line() == [(head, "pending"), (job_id, "waiting")]
        fields: dict[str, Any] = {"dedup_key": "d", "on_duplicate": "replace", "payload": {"n": 2}}
        if by == "commit":
            await pair.a.begin()
            assert await pair.a.enqueue_in_transaction(**fields) == job_id
        async with pair.admin.transaction():  # as everybody does who lets such a job go: the key, and then the job
            await pair.admin.execute("SELECT asyncjobs.lock_keys('{k}')")
            replacing = spawn(pair.a.commit() if by == "commit" else pair.a.enqueue(**fields))
            await pair.waits_for_lock(pair.a)
            await pair.admin.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE NOWAIT", job_id)
        await replacing
        payloads = "SELECT payload ->> 'n' FROM asyncjobs.jobs WHERE id = $1"
        assert await pair.admin.fetchval(payloads, job_id) == "2"
        await pair.promises_hold()
