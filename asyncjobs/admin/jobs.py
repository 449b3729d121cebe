"""Verbs on jobs, one by one and in bulk."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from math import inf
from typing import Any, TypedDict, Unpack

from asyncjobs.admin.audit import filtered, recorded, recorded_sync
from asyncjobs.admin.desk import BATCH, TRIES, Desk
from asyncjobs.admin.on_connection import on, on_sync
from asyncjobs.connections import AsyncConnection, SyncConnection
from asyncjobs.declare.options import check_options
from asyncjobs.errors import InvalidOption, JobNotFound, StateError
from asyncjobs.model.outcome import Duration
from asyncjobs.model.request import Wanted
from asyncjobs.runtime.open_app import not_found
from asyncjobs.store import serialized, verbs
from asyncjobs.store.database import Link
from asyncjobs.store.serialized import Verb


class Change(TypedDict, total=False):
    """What of a job is to be other. None: not given."""

    priority: int | None
    queue: str | None
    lane: str | None
    run_at: datetime | None
    delay: Duration | None
    max_attempts: int | None
    timeout: Duration | None


def checked_change(changes: Change) -> dict[str, object]:
    """The changes as they are sent; InvalidOption."""
    given: dict[str, object] = {name: value for name, value in changes.items() if value is not None}
    unknown = sorted(given.keys() - Change.__annotations__.keys())
    if unknown:
        problem = f"{unknown[0]}= of a job cannot be changed: give {', '.join(Change.__annotations__)}."
        raise InvalidOption(problem, option=unknown[0])
    if not given:
        raise InvalidOption(f"nothing is to be changed: give {', '.join(Change.__annotations__)}.", option="priority")
    checked = check_options(given)
    values: dict[str, object] = {name: getattr(checked, name) for name in given}
    return values | ({"timeout": None} if values.get("timeout") == inf else {})


def _dead(given: Mapping[str, Any]) -> str:
    return filtered("dead jobs")({"which": {name: given[name] for name in ("key", "type")}})


class Jobs(Desk):
    """Verbs on jobs."""

    @recorded("jobs.cancel", "job {job_id}")
    async def cancel(
        self, job_id: int, /, message: str | None = None, *, by: str | None = None, connection: AsyncConnection | None = None
    ) -> Verb:
        """Cancel a job; outcome `cancelled`, `requested` (it runs, and is asked to end) or `final`. JobNotFound.

        With `connection`, here and below, in that connection's transaction: `admin/on_connection.py` has the rules.
        """
        return await self._end("cancel", job_id, "cancel", self._why(message, "cancelled", by), connection)

    @recorded("jobs.kill", "job {job_id}")
    async def kill(
        self, job_id: int, /, message: str | None = None, *, by: str | None = None, connection: AsyncConnection | None = None
    ) -> Verb:
        """Make a job dead, with a dead letter; outcome `dead`, `requested` (it runs, and is asked to end) or `final`.

        JobNotFound. A head whose type says `on_dead="halt"` halts its key.
        """
        return await self._end("kill", job_id, "dead", self._why(message, "killed", by), connection)

    @recorded("jobs.fail", "job {job_id}")
    async def fail(
        self,
        job_id: int,
        message: str | None = None,
        /,
        *,
        will_retry: bool,
        by: str | None = None,
        connection: AsyncConnection | None = None,
    ) -> Verb:
        """Fail the attempt that runs, and let the job be retried after its back-off (dead after its last attempt). JobNotFound.

        Outcome `requested`, or the status of a job that does not run: there is no attempt that could fail (`final` for one that
        has ended). One that was claimed and has not begun is given back, and no attempt is charged. With `will_retry=False` it is
        a `kill`, of any job.
        """
        return await self._end("fail", job_id, "fail" if will_retry else "dead", self._why(message, "failed", by), connection)

    @recorded("jobs.retry", "job {job_id}")
    async def retry(self, job_id: int, /, *, by: str | None = None, connection: AsyncConnection | None = None) -> Verb:
        """Run a job now that is to be retried later or not due yet, or start over one that is dead or cancelled.

        A job that has kept its key (it halted it, or waits for its retry) keeps its place; one whose key has moved on goes to the
        end of the line. Outcome `retried`, `duplicate` (`other_id`: the live job that has its dedup key), or the status that does
        not allow it. JobNotFound.
        """
        if connection is not None:
            return _found(job_id, await on(connection, verbs.retry(job_id, self._by(by)), self._unopened()))
        return await self._verb("retry", job_id, lambda link: serialized.retry(link, job_id, self._by(by)))

    @recorded("jobs.change", "job {job_id}")
    async def change(
        self, job_id: int, /, *, by: str | None = None, connection: AsyncConnection | None = None, **changes: Unpack[Change]
    ) -> Verb:
        """Change a job that has not ended and does not run: its priority, queue, lane, time (`run_at`, or `delay` from now),
        `max_attempts` or `timeout` (`math.inf`: none). What is not given stays; in another queue it leaves its lane behind.

        One that is due now may start at once; one with a key that waits in its line keeps its place. One that is due later leaves
        its line, and joins it again then; a retry keeps its key. Outcome `changed`, or `final` or `processing`, and nothing was
        changed. InvalidOption, JobNotFound. The queue need not be this app's: a job of one that nobody serves waits.
        """
        del by  # for the record
        checked = checked_change(changes)
        if connection is not None:
            return _found(job_id, await on(connection, verbs.change(job_id, checked), self._unopened()))
        done = await self._verb("change", job_id, lambda link: serialized.change(link, job_id, checked))
        opened = self._opened("admin was called")
        for queue in done.queues:
            opened.wakes.pending(queue, front=True)
        if checked.keys() & {"run_at", "delay"}:
            opened.wakes.due_in(0.0)
        return done

    @recorded("jobs.delete", "job {job_id}")
    async def delete(self, job_id: int, /, *, by: str | None = None, connection: AsyncConnection | None = None) -> Verb:
        """Delete a job that has ended, with its dead letters, for good. Outcome `deleted`; the status of one that has not ended
        (cancel it first); or `busy`: its key has not let it go (it halted it). JobNotFound.
        """
        del by  # for the record
        if connection is not None:
            return _found(job_id, await on(connection, verbs.delete(job_id), self._unopened()))
        return await self._verb("delete", job_id, lambda link: serialized.delete(link, job_id))

    # -- the same without a loop, in the transaction of a synchronous connection

    @recorded_sync("jobs.cancel", "job {job_id}")
    def cancel_sync(
        self, job_id: int, /, message: str | None = None, *, by: str | None = None, connection: SyncConnection
    ) -> Verb:
        """`cancel` on a synchronous connection."""
        return self._on_sync(
            connection, job_id, verbs.end(job_id, "cancel", self._why(message, "cancelled", by), self._most_errors())
        )

    @recorded_sync("jobs.kill", "job {job_id}")
    def kill_sync(self, job_id: int, /, message: str | None = None, *, by: str | None = None, connection: SyncConnection) -> Verb:
        """`kill` on a synchronous connection."""
        return self._on_sync(connection, job_id, verbs.end(job_id, "dead", self._why(message, "killed", by), self._most_errors()))

    @recorded_sync("jobs.fail", "job {job_id}")
    def fail_sync(
        self, job_id: int, message: str | None = None, /, *, will_retry: bool, by: str | None = None, connection: SyncConnection
    ) -> Verb:
        """`fail` on a synchronous connection."""
        wanted: Wanted = "fail" if will_retry else "dead"
        return self._on_sync(connection, job_id, verbs.end(job_id, wanted, self._why(message, "failed", by), self._most_errors()))

    @recorded_sync("jobs.retry", "job {job_id}")
    def retry_sync(self, job_id: int, /, *, by: str | None = None, connection: SyncConnection) -> Verb:
        """`retry` on a synchronous connection."""
        return self._on_sync(connection, job_id, verbs.retry(job_id, self._by(by)))

    @recorded_sync("jobs.change", "job {job_id}")
    def change_sync(
        self, job_id: int, /, *, by: str | None = None, connection: SyncConnection, **changes: Unpack[Change]
    ) -> Verb:
        """`change` on a synchronous connection."""
        del by  # for the record
        return self._on_sync(connection, job_id, verbs.change(job_id, checked_change(changes)))

    @recorded_sync("jobs.delete", "job {job_id}")
    def delete_sync(self, job_id: int, /, *, by: str | None = None, connection: SyncConnection) -> Verb:
        """`delete` on a synchronous connection."""
        del by  # for the record
        return self._on_sync(connection, job_id, verbs.delete(job_id))

    def _on_sync(self, connection: SyncConnection, job_id: int, asked: verbs.Asked[Verb]) -> Verb:
        return _found(job_id, on_sync(connection, asked, self._unopened()))

    def _most_errors(self) -> int:
        return self._unopened().settings.max_errors

    @recorded("jobs.retry", _dead)
    async def retry_dead(
        self, *, key: str | None = None, type: str | None = None, limit: int = BATCH, by: str | None = None
    ) -> dict[int, Verb]:
        """Retry dead jobs whose dead letters nobody acknowledged, in the order in which they died: jobs of a key keep their
        order.

        Outcomes as of `retry`, `busy` for one that a transaction holds, and `unknown` for one that is gone: the others go on.
        """
        ids = await self._do("retry_dead", lambda link: serialized.dead(link, key, type, limit))
        return {job_id: await self._retry_one(job_id, self._by(by)) for job_id in ids}

    async def _retry_one(self, job_id: int, by: str) -> Verb:
        try:
            return await self.retry(job_id, by=by)
        except StateError:
            return Verb("busy", None, [])
        except JobNotFound:
            return Verb("unknown", None, [])

    async def _end(self, name: str, job_id: int, wanted: Wanted, message: str, connection: AsyncConnection | None = None) -> Verb:
        if connection is not None:
            asked = verbs.end(job_id, wanted, message, self._most_errors())
            return _found(job_id, await on(connection, asked, self._unopened()))
        most = self._opened(f"admin.{name} was called").settings.max_errors
        done = await self._verb(name, job_id, lambda link: serialized.end(link, job_id, wanted, message, most))
        if done.outcome == "requested":
            self._opened("admin was called").wakes.requested()
        return done

    async def _verb(self, name: str, job_id: int, verb: Callable[[Link], Awaitable[Verb]]) -> Verb:
        done = await self._do(name, verb)
        tries = 1
        while done.outcome == "again" and tries < TRIES:
            done = await self._do(name, verb)
            tries += 1
        self._announce(_found(job_id, done).queues)
        return done


def _found(job_id: int, done: Verb) -> Verb:
    if done.outcome == "unknown":
        raise not_found(job_id)
    return done
