"""Verbs on jobs, one by one and in bulk."""

from collections.abc import Awaitable, Callable

from asyncjobs.admin.desk import BATCH, TRIES, Desk
from asyncjobs.errors import JobNotFound, StateError
from asyncjobs.model.request import Wanted
from asyncjobs.runtime.open_app import not_found
from asyncjobs.store import serialized
from asyncjobs.store.database import Link
from asyncjobs.store.serialized import Verb


class Jobs(Desk):
    """Verbs on jobs."""

    async def cancel(self, job_id: int, /, message: str = "cancelled by an operator") -> Verb:
        """Cancel a job; outcome `cancelled`, `requested` (it runs, and is asked to end) or `final`. JobNotFound."""
        return await self._end("cancel", job_id, "cancel", message)

    async def kill(self, job_id: int, /, message: str = "killed by an operator") -> Verb:
        """Make a job dead, with a dead letter; outcome `dead`, `requested` (it runs, and is asked to end) or `final`.

        JobNotFound. A head whose type says `on_dead="halt"` halts its key.
        """
        return await self._end("kill", job_id, "dead", message)

    async def fail(self, job_id: int, message: str = "failed by an operator", /, *, will_retry: bool) -> Verb:
        """Fail the attempt that runs, and let the job be retried after its back-off (dead after its last attempt). JobNotFound.

        Outcome `requested`, or the status of a job that does not run: there is no attempt that could fail (`final` for one that
        has ended). One that was claimed and has not begun is given back, and no attempt is charged. With `will_retry=False` it is
        a `kill`, of any job.
        """
        return await self._end("fail", job_id, "fail" if will_retry else "dead", message)

    async def retry(self, job_id: int, /, *, by: str = "operator") -> Verb:
        """Run a job now that is to be retried later or not due yet, or start over one that is dead or cancelled.

        A job that has kept its key (it halted it, or waits for its retry) keeps its place; one whose key has moved on goes to the
        end of the line. Outcome `retried`, `duplicate` (`other_id`: the live job that has its dedup key), or the status that does
        not allow it. JobNotFound.
        """
        return await self._verb("retry", job_id, lambda link: serialized.retry(link, job_id, by))

    async def retry_dead(
        self, *, key: str | None = None, type: str | None = None, limit: int = BATCH, by: str = "operator"
    ) -> dict[int, Verb]:
        """Retry dead jobs whose dead letters nobody acknowledged, in the order in which they died: jobs of a key keep their
        order.

        Outcomes as of `retry`, `busy` for one that a transaction holds, and `unknown` for one that is gone: the others go on.
        """
        ids = await self._do("retry_dead", lambda link: serialized.dead(link, key, type, limit))
        return {job_id: await self._retry_one(job_id, by) for job_id in ids}

    async def _retry_one(self, job_id: int, by: str) -> Verb:
        try:
            return await self.retry(job_id, by=by)
        except StateError:
            return Verb("busy", None, [])
        except JobNotFound:
            return Verb("unknown", None, [])

    async def _end(self, name: str, job_id: int, wanted: Wanted, message: str) -> Verb:
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
        if done.outcome == "unknown":
            raise not_found(job_id)
        self._announce(done.queues)
        return done
