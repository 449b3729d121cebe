"""Durable background jobs for asyncio on PostgreSQL, run in order per key.

jobs = AsyncJobs("postgresql://…")

@jobs.job("email")
async def send_email(to: str, template: str) -> str: ...

handle = await send_email.enqueue(to="a@example.com", template="welcome")
"""

from typing import TYPE_CHECKING, TypeAlias

from asyncjobs.app import AsyncJobs
from asyncjobs.circuit_breaker import CircuitBreaker
from asyncjobs.connections import Connection
from asyncjobs.context import DutyContext, Resource, resource
from asyncjobs.declare.definition import NewJob
from asyncjobs.declare.hooks import Hook
from asyncjobs.declare.limit import Limit, Rate
from asyncjobs.declare.options import Debounce, Options
from asyncjobs.declare.results import Results
from asyncjobs.errors import (
    AlreadyOpen,
    AmbiguousApp,
    AsyncJobsError,
    AttemptTimeout,
    BreakerNotFound,
    CircuitOpen,
    ClaimLost,
    ConfigurationError,
    DatabaseUnavailable,
    DeadLetterNotFound,
    DuplicateJob,
    DuplicateName,
    EnqueueError,
    FailedByHand,
    HookFailed,
    InvalidDSN,
    InvalidHandler,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    InvalidSchedule,
    JobCancelled,
    JobDied,
    JobError,
    JobExpired,
    JobFailed,
    JobNotFound,
    KeyNotFound,
    LeaseLost,
    LimitNotFound,
    MissingDSN,
    NotCommitted,
    NotIncluded,
    NotOpen,
    PayloadTooLarge,
    ResourceFailed,
    ResultUnavailable,
    RunnerLost,
    ScheduleNotFound,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    StateError,
    UndecodablePayload,
    UnknownLane,
    UnknownQueue,
    UnknownType,
    UnstorableResult,
    UnsupportedConnection,
    UsageError,
    WaitTimeout,
    WorkflowError,
    WorkflowNotFound,
    WouldBlock,
    WrongLoop,
)
from asyncjobs.handles import JobHandle
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Cancel, Dead, Duration, Outcome, Retry, Snooze, Throttled, Verdict
from asyncjobs.model.status import Status
from asyncjobs.router import AsyncJobType, JobRouter, JobType, SyncJobType
from asyncjobs.runner import Runner
from asyncjobs.settings import Lane, Queue, Settings
from asyncjobs.waiting import Ended, as_completed, gather
from asyncjobs.workflow import Group, Nested, Node, Workflow, chain
from asyncjobs.workflow_handle import WorkflowHandle

# Handlers write it without a parameter: to type checkers it is that of an AsyncJobs, while the program runs it is the class.
if TYPE_CHECKING:
    from asyncjobs import context as _context

    JobContext: TypeAlias = _context.JobContext[AsyncJobs]
else:
    from asyncjobs.context import JobContext

__all__ = [
    "AlreadyOpen",
    "AmbiguousApp",
    "AsyncJobType",
    "AsyncJobs",
    "AsyncJobsError",
    "AttemptTimeout",
    "Backoff",
    "BreakerNotFound",
    "Cancel",
    "CircuitBreaker",
    "CircuitOpen",
    "ClaimLost",
    "ConfigurationError",
    "Connection",
    "DatabaseUnavailable",
    "Dead",
    "DeadLetterNotFound",
    "Debounce",
    "DuplicateJob",
    "DuplicateName",
    "Duration",
    "DutyContext",
    "Ended",
    "EnqueueError",
    "FailedByHand",
    "Group",
    "Hook",
    "HookFailed",
    "InvalidDSN",
    "InvalidHandler",
    "InvalidName",
    "InvalidOption",
    "InvalidPayload",
    "InvalidSchedule",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobDied",
    "JobError",
    "JobExpired",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobRouter",
    "JobType",
    "KeyNotFound",
    "Lane",
    "LeaseLost",
    "Limit",
    "LimitNotFound",
    "MissingDSN",
    "Nested",
    "NewJob",
    "Node",
    "NotCommitted",
    "NotIncluded",
    "NotOpen",
    "Options",
    "Outcome",
    "PayloadTooLarge",
    "Queue",
    "Rate",
    "Resource",
    "ResourceFailed",
    "ResultUnavailable",
    "Results",
    "Retry",
    "Runner",
    "RunnerLost",
    "ScheduleNotFound",
    "SchemaError",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTooNew",
    "Settings",
    "Snooze",
    "StateError",
    "Status",
    "SyncJobType",
    "Throttled",
    "UndecodablePayload",
    "UnknownLane",
    "UnknownQueue",
    "UnknownType",
    "UnstorableResult",
    "UnsupportedConnection",
    "UsageError",
    "Verdict",
    "WaitTimeout",
    "Workflow",
    "WorkflowError",
    "WorkflowHandle",
    "WorkflowNotFound",
    "WouldBlock",
    "WrongLoop",
    "as_completed",
    "chain",
    "gather",
    "resource",
]
