"""Durable background jobs for asyncio on PostgreSQL, run in order per key.

jobs = AsyncJobs("postgresql://…")

@jobs.job("email")
async def send_email(to: str, template: str) -> str: ...

handle = await send_email.enqueue(to="a@example.com", template="welcome")
"""

from asyncjobs.app import AsyncJobs
from asyncjobs.circuit_breaker import CircuitBreaker
from asyncjobs.config import Lane, Queue, Settings
from asyncjobs.connections import Connection
from asyncjobs.context import DutyContext, JobContext
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
    DuplicateJob,
    DuplicateName,
    EnqueueError,
    InvalidDSN,
    InvalidHandler,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    InvalidSchedule,
    JobCancelled,
    JobDied,
    JobError,
    JobFailed,
    JobNotFound,
    KeyNotFound,
    LeaseLost,
    MissingDSN,
    NotIncluded,
    NotOpen,
    PayloadTooLarge,
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
    WouldBlock,
    WrongLoop,
)
from asyncjobs.handlers import NewJob
from asyncjobs.handles import JobHandle
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Cancel, Dead, Duration, Retry, Snooze, Verdict
from asyncjobs.model.status import Status
from asyncjobs.options import Options
from asyncjobs.router import JobRouter, JobType
from asyncjobs.runner import Runner

__all__ = [
    "AlreadyOpen",
    "AmbiguousApp",
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
    "DuplicateJob",
    "DuplicateName",
    "Duration",
    "DutyContext",
    "EnqueueError",
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
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobRouter",
    "JobType",
    "KeyNotFound",
    "Lane",
    "LeaseLost",
    "MissingDSN",
    "NewJob",
    "NotIncluded",
    "NotOpen",
    "Options",
    "PayloadTooLarge",
    "Queue",
    "ResultUnavailable",
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
    "UndecodablePayload",
    "UnknownLane",
    "UnknownQueue",
    "UnknownType",
    "UnstorableResult",
    "UnsupportedConnection",
    "UsageError",
    "Verdict",
    "WaitTimeout",
    "WouldBlock",
    "WrongLoop",
]
