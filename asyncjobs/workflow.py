"""Workflows as users build them: a block that collects jobs, and writes all of them when it ends.

    async with jobs.workflow("import") as flow:
        account = flow.add(create_account.new("ada@example.com"))
        pages = flow.add_many(fetch.new(account.result, n) for n in range(100))
        flow.add(report.new(pages.results))

A job waits for those whose results are its arguments, and for those that `after=` names. The rules by which it starts, and what
a death or a cancel does: `store/routines/gates`. If the block raises, or its transaction is rolled back, nothing was there.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast, final

import msgspec

from asyncjobs.connections import Connection, SyncConnection, check_given
from asyncjobs.context import JobContext, current
from asyncjobs.declare.definition import NewJob
from asyncjobs.declare.flow import FlowPlanner
from asyncjobs.declare.hooks import enqueue_through
from asyncjobs.declare.new_job import admit_all, check_job_id, check_jobs
from asyncjobs.declare.results import Results
from asyncjobs.declare.upstream import MemberPlace, Members, Spawner, Upstream
from asyncjobs.errors import InvalidOption, UsageError, WorkflowError
from asyncjobs.handles import JobHandle
from asyncjobs.model.workflow import MOST_MEMBERS, When
from asyncjobs.open.current_app import keeper_of
from asyncjobs.open.flow_app import FlowApp
from asyncjobs.open.other_threads import without_loop
from asyncjobs.runtime import workflows
from asyncjobs.workflow_handle import WorkflowHandle

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Awaitable:
    """What others may wait for."""

    __slots__ = ("flow", "members")

    def __init__(self, flow: "Workflow", members: Members) -> None:
        self.flow = flow  # these two are the workflow's own business
        self.members = members

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.members.name} of workflow {self.flow.name!r}>"


@final
class Node(_Awaitable, Generic[T_co]):
    """One job of a workflow."""

    __slots__ = ("_job", "number")

    def __init__(self, flow: "Workflow", members: Members, number: int, job: NewJob[T_co]) -> None:
        super().__init__(flow, members)
        self.number = number  # among the workflow's jobs, from 0
        self._job = job

    @property
    def result(self) -> T_co:
        """What the job will give, as an argument of another job of the workflow, or anywhere in one."""
        hint = self._job.handler.signature.returns
        return cast("T_co", Upstream(self.flow.planner.mark, self.members, hint, is_group=False))

    @property
    def id(self) -> int:
        """The job's id, when the workflow is written. UsageError before."""
        return self.flow.ids[self.number]

    @property
    def handle(self) -> JobHandle[T_co]:
        """The job's handle, when the workflow is written. UsageError before."""
        return JobHandle(self.id, self.flow.app, self._job.handler.decode_result, "made")


@final
class Group(_Awaitable, Generic[T_co]):
    """Jobs of a workflow that were added together."""

    __slots__ = ("_jobs", "first")

    def __init__(self, flow: "Workflow", members: Members, first: int, jobs: Sequence[NewJob[T_co]]) -> None:
        super().__init__(flow, members)
        self.first = first
        self._jobs = jobs

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def results(self) -> list[T_co]:
        """What the jobs will give, in their order, as an argument of another job of the workflow, or anywhere in one."""
        return cast("list[T_co]", self._upstream(is_paged=False))

    def _upstream(self, *, is_paged: bool) -> Upstream:
        hints = {id(job.handler): job.handler.signature.returns for job in self._jobs}
        hint = next(iter(hints.values())) if len(hints) == 1 else Any
        return Upstream(self.flow.planner.mark, self.members, hint, is_group=True, is_paged=is_paged)

    @property
    def paged(self) -> Results[T_co]:
        """The same as the argument of a parameter that is `Results[...]`: they are read in pages, while its job runs."""
        return cast("Results[T_co]", self._upstream(is_paged=True))

    @property
    def ids(self) -> list[int]:
        """The jobs' ids, when the workflow is written. UsageError before."""
        return self.flow.ids[self.first : self.first + len(self._jobs)]


@final
class Nested(_Awaitable):
    """A part of a workflow that others may wait for as a whole, whatever is added to it."""

    __slots__ = ()

    def add(self, job: NewJob[T], /, *, after: "After" = (), when: When | None = None) -> Node[T]:
        """As `Workflow.add`; the job is of this part, too."""
        node = self.flow.add(job, after=after, when=when)
        self.members.ranges.append((node.number, node.number))
        return node

    def add_many(self, jobs: Iterable[NewJob[T]], /, *, after: "After" = (), when: When | None = None) -> Group[T]:
        """As `Workflow.add_many`; the jobs are of this part, too."""
        group = self.flow.add_many(jobs, after=after, when=when)
        if len(group):
            self.members.ranges.append((group.first, group.first + len(group) - 1))
        return group


After: TypeAlias = Node[Any] | Group[Any] | Nested | Sequence[Node[Any] | Group[Any] | Nested]


@final
class Workflow:
    """A workflow that is being built. `AsyncJobs.workflow` makes it; it is written when its block ends."""

    def __init__(
        self, name: str, app: FlowApp, *, connection: Connection | None, correlation_id: str | None, max_members: int
    ) -> None:
        self.name = name
        self.planner = FlowPlanner(name, max_members)
        self._app = app
        self._connection = connection
        self._correlation_id = correlation_id
        self._id: int | None = None
        self._ids: list[int] | None = None
        self._is_over = False
        self._context: JobContext[Any] | None = None  # of the handler that builds it

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r} of {len(self.planner.rows)} jobs>"

    def app(self) -> FlowApp:
        """Its app."""
        return self._app

    @property
    def id(self) -> int:
        """Its id, when it is written. UsageError before."""
        self._check_written()
        return cast("int", self._id)

    @property
    def ids(self) -> list[int]:
        """The ids of its jobs in the order in which they were added, when it is written. UsageError before."""
        self._check_written()
        return cast("list[int]", self._ids)

    def _check_written(self) -> None:
        if self._ids is None:
            raise UsageError(f"workflow {self.name!r} is not written yet: it is when its block has ended.")

    async def __aenter__(self) -> Self:
        return self._entered()

    def _entered(self) -> Self:
        if self._is_over:
            raise UsageError(f"workflow {self.name!r} was built before: make another with jobs.workflow(...).")
        self._context = current.get()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over = True
        if error is None:
            await self._write(blocks=False)

    def __enter__(self) -> Self:
        """The block where no loop is: on a synchronous connection, or in a thread without the loop that the app is open in."""
        return self._entered()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over = True
        if error is not None:
            return
        if self._connection is not None:
            without_loop(self._write(blocks=True))
            return
        happened, call = f"workflow {self.name!r} was written", "async with jobs.workflow(...)"
        self._app.wait_in_loop(happened, call, "with jobs.workflow(...)", lambda: self._write(blocks=False))

    def add(self, job: NewJob[T], /, *, after: After = (), when: When | None = None) -> Node[T]:
        """One more job. It waits for those whose results are its arguments, which have to complete, and for those of `after`:
        until they have completed, or with `when="ended"` until they have ended, whatever in.

        WorkflowError, InvalidOption and InvalidPayload say what does not fit.
        """
        self._check_open()
        number = self.planner.add(job, self._awaited(getattr(job, "type", "a job"), after), when)
        return Node(self, Members(f"{job.type} (member {number})", [(number, number)]), number, job)

    def add_many(self, jobs: Iterable[NewJob[T]], /, *, after: After = (), when: When | None = None) -> Group[T]:
        """More jobs, each as of `add`; others may wait for all of them."""
        self._check_open()
        awaited = self._awaited("add_many", after)
        first = len(self.planner.rows)
        added: list[NewJob[T]] = []
        for job in jobs:
            self.planner.add(job, awaited, when)
            added.append(job)
        names = sorted({job.type for job in added})
        members = Members(f"{', '.join(names)} (members {first} to {first + len(added) - 1})" if added else "an empty group")
        if added:
            members.ranges.append((first, first + len(added) - 1))
        return Group(self, members, first, added)

    def nested(self, name: str, /) -> Nested:
        """A part that others may wait for as a whole: what is added to it is added to this workflow."""
        self._check_open()
        return Nested(self, Members(name))

    def _awaited(self, who: str, after: After) -> list[Members]:
        some = [after] if isinstance(after, _Awaitable) else list(cast("Iterable[Any]", after))
        for one in some:
            if not isinstance(one, _Awaitable):
                raise WorkflowError(
                    f"workflow {self.name!r}: after={one!r} of {who} is none of its jobs: give what add, add_many or nested has "
                    "returned."
                )
            if one.flow is not self:
                raise WorkflowError(
                    f"workflow {self.name!r}: after={one!r} of {who} is of another: a job waits for jobs of its own workflow."
                )
        return [one.members for one in some]

    def _check_open(self) -> None:
        if self._is_over:
            raise UsageError(f"workflow {self.name!r} is written: its jobs enqueue more with ctx.spawn, or make another.")

    async def _write(self, *, blocks: bool) -> None:
        """`blocks`: on a connection that is not awaited; then nothing else is, either."""
        app, news = self._app, check_jobs([_alone(job) for job in self.planner.jobs], self._app.handlers)
        if self._connection is not None:
            check_given(self._connection, blocks=blocks)
        write = partial(self._write_jobs, blocks=blocks)
        if not app.hooks.enqueue:
            await write(news)
            return
        placed = [_placed(new, self.planner.place(number)) for number, new in enumerate(news)]
        await enqueue_through(app.hooks.enqueue, placed, write, events=app.events)

    async def _write_jobs(self, news: list[NewJob[Any]], *, blocks: bool) -> list[JobHandle[Any]]:
        app, context = self._app, self._context
        for new in news:
            self.planner.refuse_others(new)  # a hook may have said so
        news = [_alone(new) for new in news]
        keeper = keeper_of(app)
        happened = f"workflow {self.name!r} was written"
        opened = None if keeper is not None or blocks else app.opened_for(happened)
        rows = admit_all(news, app.queues, app.settings)
        correlation_id = self._correlation_id or (context.correlation_id if context is not None else None)
        parent = None if context is None else context.claimed.id
        plan, sent = self.planner.plan(rows, correlation_id=correlation_id, parent_job_id=parent)
        if keeper is not None:
            written = keeper.keep_workflow(plan, sent)
        elif opened is None:
            written = workflows.write_sync(
                app.events, app.lifecycle.texts(), plan, sent, cast("SyncConnection", self._connection)
            )
        else:
            written = await workflows.write(opened, plan, sent, self._connection)
        self._id, self._ids = written.id, written.ids
        pairs = zip(written.ids, news, strict=True)
        return [JobHandle(job_id, self.app, new.handler.decode_result, "made") for job_id, new in pairs]


def _placed(job: NewJob[Any], place: MemberPlace | Spawner) -> NewJob[Any]:
    return NewJob(job.handler, msgspec.structs.replace(job.row, takes=(place,)), None)


def _alone(job: NewJob[Any]) -> NewJob[Any]:
    return NewJob(job.handler, job.row.without_takes(), None) if job.row.takes else job


def chain(flow: Workflow, *jobs: NewJob[Any]) -> list[Node[Any]]:
    """Jobs one after the other."""
    nodes: list[Node[Any]] = []
    for job in jobs:
        nodes.append(flow.add(job, after=nodes[-1:]))
    return nodes


class Workflows:
    """What an app does with workflows."""

    def workflow(
        self,
        name: str,
        /,
        *,
        connection: Connection | None = None,
        correlation_id: str | None = None,
        max_members: int = MOST_MEMBERS,
    ) -> Workflow:
        """A workflow, as a block: `async with jobs.workflow("import") as flow`. Its jobs are written when the block ends, all or
        none, or with the transaction of `connection`; nothing if it raises.

        A plain `with` does the same without awaiting it: on a synchronous connection in any thread, else in one without the loop
        that the app is open in.
        """
        app = cast("FlowApp", self)
        return Workflow(name, app, connection=connection, correlation_id=correlation_id, max_members=max_members)

    async def spawn_for(self, context: JobContext[Any], first: int, jobs: Sequence[Any], /) -> list[Any]:
        """What `ctx.spawn` does: add these to the workflow of its job, as its jobs number `first` and so on."""
        app = cast("FlowApp", self)
        news = check_jobs(jobs, app.handlers)
        for new in news:
            if new.connection is not None or new.row.on_duplicate != "return" or new.row.at_most_seconds is not None:
                problem = f"{new.type} is spawned with connection=, on_duplicate= or a debounce: a member is a job of its own."
                raise InvalidOption(problem, option="connection" if new.connection is not None else "on_duplicate")
        keeper, job_id, token = keeper_of(app), context.claimed.id, context.claimed.token

        async def write(news: list[NewJob[Any]]) -> list[JobHandle[Any]]:
            news = [_alone(new) for new in news]
            rows = admit_all(news, app.queues, app.settings)
            if keeper is not None:
                done = workflows.enqueued_by(job_id, keeper.spawn(job_id, token, first, rows))
            else:
                done = await workflows.spawn(app.opened_for(f"job {job_id} spawned others"), job_id, token, first, rows)
            pairs = zip(done, news, strict=True)
            return [JobHandle(one.id, lambda: app, new.handler.decode_result, one.did) for one, new in pairs]

        if not app.hooks.enqueue:
            return await write(news)
        by = Spawner(context.claimed.trace_context)
        return await enqueue_through(app.hooks.enqueue, [_placed(new, by) for new in news], write, events=app.events)

    def workflow_of(self, workflow_id: int, /) -> WorkflowHandle:
        """The handle of a workflow that is known by its id. Nothing is looked up yet."""
        return WorkflowHandle(check_job_id(workflow_id), cast("FlowApp", self))
