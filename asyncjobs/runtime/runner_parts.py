"""What a runner is made of: its parts, in the order in which each can be made, and the tasks among them in that of their start.

A part gets what it needs by name. There are two circles, and both are closed by a part that is made empty: `queues`
(coordinators need the call line, the line's turnstile and probation need to wake coordinators) and `registration` (the line and
the heartbeat tell it that the runner's row is gone, and it is the runner who registers anew).
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from asyncjobs.declare.hooks import Hook
from asyncjobs.model.declared_type import DeclaredType
from asyncjobs.model.schedule import Schedule
from asyncjobs.runtime import workflows
from asyncjobs.runtime.attempt import OpenContext, Surroundings
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.budget import Budget
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.definition import JobDefinition
from asyncjobs.runtime.duty_set import DeclaredDuty, Duties
from asyncjobs.runtime.giving_back import GivingBack
from asyncjobs.runtime.heartbeat import Heartbeat
from asyncjobs.runtime.keys import KeyActors
from asyncjobs.runtime.listening import Listening
from asyncjobs.runtime.metrics import Metrics
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.polling import Polling
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.progress import Progress
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.registration import Registration
from asyncjobs.runtime.requests import Requests
from asyncjobs.runtime.resources import Resources
from asyncjobs.runtime.service import Service
from asyncjobs.runtime.stubs import Stubs
from asyncjobs.runtime.stuck_check import StuckCheck
from asyncjobs.runtime.threads import Threads
from asyncjobs.runtime.throttling import Throttling
from asyncjobs.runtime.tokens import Tokens
from asyncjobs.runtime.turnstile import Turnstile
from asyncjobs.runtime.verifier import Verifier
from asyncjobs.settings import Queue
from asyncjobs.store.database import Database

#: Outcomes that may wait before claiming stops, by slot: with one more for every slot they are four times the concurrency.
_MOST_UNWRITTEN: Final = 3


class RunnerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run: the application's declarations, as one runner serves them."""

    queues: Sequence[Queue]
    handlers: Mapping[str, JobDefinition]
    stubs: Stubs
    schedules: Sequence[Schedule]
    open_context: OpenContext
    listen: Database  # where to listen: around a pooler, perhaps
    duties: Sequence[DeclaredDuty] = ()
    limits: Sequence[Mapping[str, Any]] = ()
    types: Sequence[DeclaredType] = ()  # what enqueues from SQL are told of the handlers
    guarded: Mapping[str, str] = {}  # types with a circuit breaker, and its service
    hooks: Sequence[Hook] = ()
    name: str | None = None  # what people call it
    budget: Budget | None = None  # of jobs that it starts; None: as many as there are


class RunnerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one runner."""

    attempts: Attempts
    queues: Queues
    registration: Registration
    threads: Threads
    resources: Resources
    listening: Listening
    progress: Progress
    metrics: Metrics
    heartbeat: Heartbeat
    turnstile: Turnstile
    probation: Probation
    line: CallLine
    verifier: Verifier
    keys: KeyActors
    duties: Duties
    polling: Polling
    requests: Requests
    giving_back: GivingBack
    stuck_check: StuckCheck

    def tasks(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """What runs from the start of the runner to its stop, beside its duties: name and task, in the order of their start."""
        services: list[Service] = [self.listening, self.progress, self.probation, self.metrics, self.requests, self.stuck_check]
        if self.queues.claims_ahead:
            services.append(self.giving_back)
        return [
            ("call line", self.line.run),
            *((f"keys {number}", actor.run) for number, actor in enumerate(self.keys.actors)),
            *((service.name, service.run) for service in services),
            *((f"queue {coordinator.queue}", coordinator.run) for coordinator in self.queues),
        ]


def make_parts(opened: OpenApp, declared: RunnerPlan) -> RunnerParts:
    """Make them. None of them runs yet."""
    settings, events, pool = opened.settings, opened.events, opened.pool
    types = sorted(declared.handlers)
    attempts, queues, threads, resources = Attempts(events=events), Queues(), Threads(), Resources(events=events)
    registration = Registration(
        pool, attempts, queues, types=types, events=events, gives_up=settings.connect_timeout is not None,
        versions={name: one.version for name, one in declared.handlers.items() if one.version > 1}, declares=declared.types,
        limits=declared.limits, name=declared.name,
    )  # fmt: skip
    listening = Listening(
        declared.listen, opened.wakes, opened.notifier, events=events, notify=settings.notify,
        keepalive_seconds=settings.listener_keepalive, poll_interval=settings.poll_interval,
    )  # fmt: skip
    progress = Progress(pool, events=events)
    metrics = Metrics(pool, events=events, interval_seconds=settings.metrics_interval)
    heartbeat = Heartbeat(
        opened.database, events=events, on_declared_dead=registration.declared_dead, on_unconfirmed=registration.unconfirmed,
        on_outdated=registration.outdated, listener=listening.listens_on,
        heartbeat_seconds=settings.heartbeat, runner_timeout_seconds=settings.runner_timeout,
        stall_after_seconds=settings.stall_after, stall_limit_seconds=settings.stall_limit,
    )  # fmt: skip
    turnstile = Turnstile(opened.breakers, types, declared.guarded, queues, later=opened.loop.call_later, hears=listening.hears)
    probation = Probation(pool, events=events, released=queues.look_at_the_front)
    line = CallLine(
        opened.database.link("finish"), turnstile=turnstile, probation=probation, stubs=declared.stubs,
        tokens=Tokens(secrets.randbits(31)),
        wakes=opened.wakes, events=events, max_errors=settings.max_errors,
        most_unwritten=sum(_MOST_UNWRITTEN * one.concurrency + one.prefetch for one in declared.queues),
        reconcile_seconds=settings.runner_timeout, runner_id=registration.runner_id, may_claim=heartbeat.may_begin,
        declared_dead=registration.is_gone, is_ample=queues.is_ample, has_many=len(declared.queues) > 1,
    )  # fmt: skip
    verifier = Verifier(
        pool, opened.database, opened.wakes, events=events, written=line.written_elsewhere, lost=line.lost,
        runner_id=registration.runner_id, start=opened.parts.start, max_errors=settings.max_errors,
    )  # fmt: skip
    keys = KeyActors(line, queues, verifier, pool, opened.wakes, events=events)
    duties = Duties(
        opened, declared.duties, declared.schedules, keys=keys, listen=declared.listen, poll_seconds=listening.poll_seconds,
        unheard_seconds=listening.unheard_seconds, lost=metrics.lost, runner_id=registration.runner_id,
    )  # fmt: skip
    heartbeat.leader = duties.leader
    polling = Polling(listening.poll_seconds)
    parts = RunnerParts(
        attempts=attempts, queues=queues, registration=registration, threads=threads, resources=resources, listening=listening,
        progress=progress, metrics=metrics, heartbeat=heartbeat, turnstile=turnstile, probation=probation, line=line,
        verifier=verifier, keys=keys, duties=duties, polling=polling,
        requests=Requests(opened, attempts, queues, runner_id=registration.runner_id, poll_seconds=listening.poll_seconds),
        giving_back=GivingBack(pool, queues, events=events, wait_call=line.wait_call, poll_seconds=listening.poll_seconds),
        stuck_check=StuckCheck(attempts, events=events),
    )  # fmt: skip
    _add_coordinators(opened, declared, parts)
    return parts


def _add_coordinators(opened: OpenApp, declared: RunnerPlan, parts: RunnerParts) -> None:
    from asyncjobs.telemetry.log_keys import name_job  # structlog is a quarter of what `import asyncjobs` would take

    settings = opened.settings
    surroundings = Surroundings(
        name_job=name_job, open_context=declared.open_context, events=opened.events, runner_id=parts.registration.runner_id,
        threads=parts.threads, max_result_bytes=settings.max_result_bytes, max_error_bytes=settings.max_error_bytes,
        report_progress=parts.progress.report, complete=parts.verifier.complete,
        complete_sync=parts.verifier.complete_sync, was_committed=parts.verifier.was_committed,
        share=parts.resources.use, results=partial(workflows.results, opened),
        close_key=Throttling(opened.pool, opened.events).close_key, may_begin=parts.heartbeat.may_begin,
        loop_ends=opened.loop_ends, hooks=declared.hooks, hook_seconds=settings.hook_timeout, retrying=settings.retrying,
        keeps_payload=settings.keep_payload,
    )  # fmt: skip
    shared = Shared(
        line=parts.line, attempts=parts.attempts, handlers=declared.handlers, surroundings=surroundings, polling=parts.polling,
        turnstile=parts.turnstile, probation=parts.probation, keys=parts.keys, verify=parts.verifier.verify,
        note=parts.metrics.ended, others=parts.heartbeat.others, place=parts.heartbeat.place,
        tell=lambda queue, count, passes: opened.wakes.pending(queue, count=count, passes=passes), budget=declared.budget,
    )  # fmt: skip
    for queue in declared.queues:
        parts.queues.add(Coordinator(queue, shared))
