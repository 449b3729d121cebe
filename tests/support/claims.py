"""Claims and claimed jobs of tests."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from asyncjobs.model.claim import FRONT, Ack, Claimed, Finished, Probe, Scan
from asyncjobs.model.outcome import Outcome
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Link
from tests.support.factories import insert_job, insert_runner
from tests.support.peers import Call

_NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_DEFAULTS: dict[str, Any] = {
    "scan": 1, "queue": "default", "id": 1, "token": 1, "lane": None, "type": "email", "version": 1, "payload": "{}",
    "priority": 100, "place": 1, "attempt": 1, "max_attempts": 3, "timeout_seconds": None, "snoozes": 0, "rescues": 0,
    "scheduled_epoch": _NOW, "run_epoch": _NOW, "started_epoch": _NOW + 1, "correlation_id": None,
    "parent_job_id": None, "created_by": None, "dedup_key": None, "serialization_key": None, "requeued_from": None,
    "trace_context": None, "progress": None, "last_error": None, "created_epoch": _NOW,
}  # fmt: skip


#: What a job has that was lost twice: it may have killed its runner.
SUSPECT: dict[str, Any] = {"rescues": 2, "losses": 2, "suspicion": 1}


def a_claimed(**fields: Any) -> Claimed:
    """A claimed job, with what the test does not care about filled in."""
    return Claimed(**(_DEFAULTS | fields))


def an_ack(job: Claimed, kind: str = "completed", /, **outcome: Any) -> Ack:
    """The outcome of a claimed job."""
    key_queue = None if job.serialization_key is None else job.queue
    return Ack(job.id, job.token, Outcome(kind=kind, **outcome), key_queue)  # type: ignore[arg-type]


class Claims:
    """Claims and acks as a runner of this id does, in calls of their own."""

    def __init__(self, link: Link, connection: Connection, *, runner_id: int = 1, token_base: int = 5) -> None:
        self.link = link
        self.connection = connection
        self.runner_id = runner_id
        self.token_base = token_base
        self._seq = count(0, 10_000)

    async def register(self) -> "Claims":
        """Make its runner known."""
        await insert_runner(self.connection, id=self.runner_id)
        return self

    async def finish(
        self, acks: Sequence[Ack] = (), scans: Sequence[Scan] = (), *, types: Sequence[str] = ("email",), suspects: bool = True,
        token_seq: int | None = None, max_errors: int = 10, probes: Sequence[Probe] = (),
    ) -> Finished:  # fmt: skip
        """One call."""
        return await jobs.finish(
            self.link, self.runner_id, acks, scans, types, suspects=[suspects] * len(scans), token_base=self.token_base,
            token_seq=next(self._seq) if token_seq is None else token_seq, max_errors=max_errors,
            probes=probes,
        )  # fmt: skip

    async def claim(
        self, limit: int = 10, *, queue: str = "default", lane: str | None = None, start: tuple[int, int] = FRONT, **options: Any
    ) -> list[Claimed]:
        """What one scan found, best first."""
        finished = await self.finish(scans=[Scan(queue, lane, limit, start)], **options)
        return sorted(finished.claimed, key=lambda job: (job.priority, job.place))

    async def claim_one(self, **columns: Any) -> Claimed:
        """A job with these columns, claimed."""
        job_id = await insert_job(self.connection, **columns)
        found = await self.claim(1000, queue=columns.get("queue", "default"), types=[columns.get("type", "email")])
        return next(job for job in found if job.id == job_id)

    async def ack(self, *acks: Ack, **options: Any) -> Finished:
        """Write these outcomes."""
        return await self.finish(acks, **options)

    async def complete(self, call: Call, ack: Ack) -> Finished:
        """Write this completion by the statement of this name, and claim nothing."""
        if call == "finish":
            return await self.ack(ack)
        if call == "finish_one":
            return await jobs.finish_one(self.link, self.runner_id, ack, None, ("email",), next_token=0)
        return await jobs.finish_completed(
            self.link,
            self.runner_id,
            [ack],
            None,
            ("email",),
            suspects=False,
            token_base=self.token_base,
            token_seq=next(self._seq),
        )

    async def give_back(self, running: Sequence[int]) -> list[tuple[int, str]]:
        """Give back what is not among `running`, whenever it was claimed."""
        last_token = (self.token_base << 32) | (2**31 - 1)
        return await jobs.give_back(self.link, self.runner_id, running, last_token=last_token)

    async def row(self, job_id: int) -> Any:
        """The job's row."""
        return await self.connection.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job_id)

    async def end_all(self) -> None:
        """Complete what runs, so that the auditor finds nothing to say."""
        await self.connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL WHERE status = 'processing';"
            "UPDATE asyncjobs.limit_turns SET state = 'open' WHERE state = 'full';"
            "UPDATE asyncjobs.limits SET is_full = false WHERE is_full"
        )


LOSSES: Final = ("rescue", "give back", "operator", "end", "delete", "another claim")


async def take_away(claims: Claims, job: Claimed, how: str) -> None:
    """What may come between a claim and its ack."""
    execute = claims.connection.execute
    if how == "rescue":
        await execute("DELETE FROM asyncjobs.runners")
        await claims.connection.fetch("SELECT rescued FROM asyncjobs.rescue(100, 10)")
    elif how == "give back":
        await claims.give_back([])
    elif how == "operator":
        await execute("UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL WHERE status = 'processing'")
    elif how == "end":
        await execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL")
    elif how == "delete":
        await execute("DELETE FROM asyncjobs.jobs")
    elif how == "another claim":
        await claims.give_back([])
        assert [again.id for again in await claims.claim()] == [job.id]
