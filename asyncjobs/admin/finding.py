"""Finding jobs by what is known of them, and verbs on all that are found."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Unpack

from asyncjobs.admin.audit import filtered, recorded
from asyncjobs.admin.desk import Progress, untold
from asyncjobs.admin.jobs import Change, Jobs, checked_change
from asyncjobs.admin.overview import Overview
from asyncjobs.errors import JobNotFound, StateError, UsageError
from asyncjobs.model.finding import Found, JobFilter, JobsDone, ManyVerb, is_filtered, outcome_of
from asyncjobs.model.request import Wanted
from asyncjobs.model.tree import Node, trees
from asyncjobs.store import finding
from asyncjobs.store.database import Link
from asyncjobs.store.finding import Page
from asyncjobs.store.serialized import Verb

_BATCH: Final = 100
_PAGE: Final = 1_000


class Finding(Jobs, Overview):
    """Verbs on jobs that fit a filter."""

    async def find(self, *, before: int | None = None, limit: int = 100, **which: Unpack[JobFilter]) -> Found:
        """A page of the jobs that fit, those that wait among them, the highest ids first.

        A call looks at 10,000 jobs, and as many that wait for their key, and says so (`looked`): a filter that no index serves (a
        type, what a payload contains) may find nothing on a page, and more `before=found.next`. Those of a correlation id or a
        parent are found directly, and so are those of one unfinished status, or dead: as long as they are not more than that.
        """

        async def read(link: Link) -> Found:
            page = await finding.find(link, which, before=before, limit=limit)
            return Found(await finding.jobs(link, page.ids) if page.ids else [], page.next, page.looked)

        self._check_searched(which)
        found = await self._do("find", read)
        return Found(await self._shown(found.jobs), found.next, found.looked)

    async def tree(self, correlation_id: str, /, *, depth: int = 20, limit: int = 1_000) -> list[Node]:
        """What one user action led to: the jobs of its correlation id as trees of parents and children.

        At most `limit` jobs, the oldest if they are more, `depth` levels of them.
        """
        return trees(await self.trace(correlation_id, limit=limit), depth=depth)

    @recorded("jobs.cancel", filtered("jobs"))
    async def cancel_all(
        self,
        message: str | None = None,
        /,
        *,
        by: str | None = None,
        dry_run: bool = False,
        progress: Progress = untold,
        **which: Unpack[JobFilter],
    ) -> JobsDone:
        """Cancel all jobs that fit, in batches of 100; those that run are asked to end. UsageError without a filter.

        `progress` is called with how many have been looked at so far.
        """
        return await self._end_all(
            "cancel", "cancel", self._why(message, "cancelled", by), which, dry_run=dry_run, progress=progress
        )

    @recorded("jobs.kill", filtered("jobs"))
    async def kill_all(
        self,
        message: str | None = None,
        /,
        *,
        by: str | None = None,
        dry_run: bool = False,
        progress: Progress = untold,
        **which: Unpack[JobFilter],
    ) -> JobsDone:
        """Make all jobs dead that fit, with dead letters, as `cancel_all` cancels them."""
        return await self._end_all("kill", "dead", self._why(message, "killed", by), which, dry_run=dry_run, progress=progress)

    @recorded("jobs.fail", filtered("jobs"))
    async def fail_all(
        self,
        message: str | None = None,
        /,
        *,
        by: str | None = None,
        will_retry: bool,
        dry_run: bool = False,
        progress: Progress = untold,
        **which: Unpack[JobFilter],
    ) -> JobsDone:
        """Fail the attempts that run of all jobs that fit; see `fail`."""
        said = self._why(message, "failed", by)
        if not will_retry:
            return await self._end_all("kill", "dead", said, which, dry_run=dry_run, progress=progress)
        return await self._end_all("fail", "fail", said, which, dry_run=dry_run, progress=progress)

    @recorded("jobs.retry", filtered("jobs"))
    async def retry_all(
        self, *, by: str | None = None, dry_run: bool = False, progress: Progress = untold, **which: Unpack[JobFilter]
    ) -> JobsDone:
        """Retry all jobs that fit, the oldest of a page first: what is not due runs now, dead and cancelled jobs start over."""

        async def one(ids: Sequence[int]) -> list[str]:
            return [await self._outcome(self.retry(job_id, by=by)) for job_id in sorted(ids)]

        return await self._all_found("retry", which, one, dry_run=dry_run, progress=progress)

    @recorded("jobs.change", filtered("jobs"))
    async def change_all(
        self,
        changes: Change,
        /,
        *,
        by: str | None = None,
        dry_run: bool = False,
        progress: Progress = untold,
        **which: Unpack[JobFilter],
    ) -> JobsDone:
        """Change all jobs that fit, as `change` does: `change_all({"priority": 10}, tag="nightly")`."""
        checked_change(changes)

        async def one(ids: Sequence[int]) -> list[str]:
            return [await self._outcome(self.change(job_id, by=by, **changes)) for job_id in sorted(ids)]

        return await self._all_found("change", which, one, dry_run=dry_run, progress=progress)

    @recorded("jobs.delete", filtered("jobs"))
    async def delete_all(
        self, *, by: str | None = None, dry_run: bool = False, progress: Progress = untold, **which: Unpack[JobFilter]
    ) -> JobsDone:
        """Delete all jobs that fit and have ended, as `delete` does."""

        async def one(ids: Sequence[int]) -> list[str]:
            return [await self._outcome(self.delete(job_id, by=by)) for job_id in sorted(ids)]

        return await self._all_found("delete", which, one, dry_run=dry_run, progress=progress)

    async def _end_all(
        self, verb: ManyVerb, wanted: Wanted, message: str, which: JobFilter, *, dry_run: bool, progress: Progress
    ) -> JobsDone:
        most = self._opened(f"admin.{verb}_all was called").settings.max_errors

        async def end(ids: Sequence[int]) -> list[str]:
            outcomes: list[str] = []
            for at in range(0, len(ids), _BATCH):
                batch = ids[at : at + _BATCH]
                try:
                    end_batch = partial(finding.end_many, ids=batch, wanted=wanted, message=message, max_errors=most)
                    done = await self._do(verb, end_batch, most=2)
                except StateError:  # somebody holds one of them: the others are not to wait for it
                    outcomes += [await self._outcome(self._end(verb, job_id, wanted, message)) for job_id in batch]
                    continue
                self._tell(done)
                outcomes += [one.outcome for one in done.values() if one.outcome != "again"]
                again = [job_id for job_id, one in done.items() if one.outcome == "again"]
                outcomes += [await self._outcome(self._end(verb, job_id, wanted, message)) for job_id in again]
            return outcomes

        return await self._all_found(verb, which, end, dry_run=dry_run, progress=progress)

    def _tell(self, done: Mapping[int, Verb]) -> None:
        self._announce(sorted({queue for one in done.values() for queue in one.queues}))
        if any(one.outcome == "requested" for one in done.values()):
            self._opened("admin was called").wakes.requested()

    async def _outcome(self, verb: Awaitable[Verb]) -> str:
        try:
            return (await verb).outcome
        except StateError:
            return "busy"
        except JobNotFound:
            return "unknown"

    async def _all_found(
        self,
        verb: ManyVerb,
        which: JobFilter,
        do: Callable[[Sequence[int]], Awaitable[list[str]]],
        *,
        dry_run: bool,
        progress: Progress,
    ) -> JobsDone:
        if not is_filtered(which):
            raise UsageError(f"admin.{verb}_all would take every job there is: say which, as type= or status=.")
        outcomes: dict[str, int] = {}
        async for page in self._found_pages(which):
            found = [outcome_of(verb, status) for status in page.statuses] if dry_run else await do(page.ids)
            for outcome in found:
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
            progress(sum(outcomes.values()))
        return JobsDone(outcomes, dry_run)

    async def _found_pages(self, which: JobFilter) -> AsyncGenerator[Page]:
        before: int | None = None
        while True:
            page = await self._do("find", partial(finding.find, which=which, before=before, limit=_PAGE, walk=True))
            yield page
            if page.next is None:
                return
            before = page.next
