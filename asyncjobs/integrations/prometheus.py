"""Metrics for Prometheus.

1. What happens is counted where it happens, from events: attempts, claims, notifications, terms of leases, passes of duties …
2. What a process holds is read from its memory by the scrape: slots, leases, the listener, the lag of its event loop.
3. What the database holds is sampled each `sample_every` by the duty `sample`: depths, ages, dead letters, halted keys,
   breakers, limits, open workflows; and those that ended since the last sample are counted, with their seconds. One runner of
   all does it, and only its process shows them: a `sum` over processes is right, and no scrape ever asks the database. Its term
   over, they are gone from there; a sample that fails leaves the last one, and `sampled_at_seconds` tells.

Names end in what they count, in `_seconds` or in `_total`. Labels are queues, lanes, types, duties and services: what was
declared, by this app or by a runner that lives. Whatever else a row or a notification names is `other`: anybody who may enqueue,
or NOTIFY, would else make as many metrics as they like.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, TypeAlias

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from asyncjobs.app import AsyncJobs
from asyncjobs.errors import ConfigurationError
from asyncjobs.model.outcome import Duration
from asyncjobs.runner import Runner
from asyncjobs.settings import config_seconds
from asyncjobs.store.breakers import BreakerState
from asyncjobs.store.limits import LimitRow
from asyncjobs.store.overview import Sample
from asyncjobs.telemetry import events as e

#: The duty that samples the database.
DUTY: Final = "sample"

#: The label of what nobody declared.
OTHER: Final = "other"

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_STATES: Final = ("closed", "open", "half-open")

#: Of each limit that was ever declared, and of each queue with a total.
_LIMITS: Final[Mapping[str, tuple[str, Callable[[LimitRow], float]]]] = {
    "running": ("Jobs that run", lambda one: one.running),
    "total": (
        "How many may run at once, over all keys; infinite without a total",
        lambda one: inf if one.total is None else one.total,
    ),
    "waiting": ("Jobs that wait for a permit, at most 10,000", lambda one: one.waiting),
    "oldest_age_seconds": ("Age of the oldest of them", lambda one: one.oldest_age_seconds),
    "keys_full": ("Keys of which as many run as may", lambda one: one.full_keys),
    "keys_closed": ("Keys that are closed by their rate or by a service", lambda one: one.closed_keys),
    "keys_throttled": ("Of these those that a service has closed", lambda one: one.throttled_keys),
    "idle_seconds": ("For how long a job has waited for a permit that is free, at most", lambda one: one.idle_seconds),
    "differing": ("Runners that declare it otherwise than what counts", lambda one: len(one.differing)),
}

Amount = Callable[[Any], float]
_Depths: TypeAlias = dict[tuple[str, str, str], tuple[int, float]]  # queue, type and status: how many, the age of the oldest


class _Count(msgspec.Struct, frozen=True):
    """A counter that events of one kind move; labels are fields of the event."""

    kind: type[e.Event]
    name: str
    text: str
    labels: tuple[str, ...] = ()
    amount: Amount = lambda _: 1


class _Time(_Count, frozen=True):
    """A histogram of seconds; `amount` is what is observed."""


_COUNTS: Final[Sequence[_Count]] = (
    _Count(e.JobEnqueued, "jobs_enqueued", "Jobs enqueued here", ("queue", "type"), lambda event: event.created),
    _Count(e.WorkflowEnqueued, "workflows_enqueued", "Workflows enqueued here"),
    _Count(e.AttemptEnded, "attempts", "Attempts by outcome", ("queue", "type", "outcome")),
    _Time(e.AttemptStarted, "queue_seconds", "From due to started", ("queue", "type"), lambda event: event.queued_seconds),
    _Time(e.AttemptEnded, "run_seconds", "From started to ended", ("queue", "type"), lambda event: event.run_seconds),
    _Count(e.HandlerStuck, "handlers_stuck", "Handlers that went on after they should have ended", ("type",)),
    _Count(e.JobsClaimed, "claims", "Scans of queues for jobs", ("queue",)),
    _Count(e.JobsClaimed, "jobs_claimed", "Jobs claimed", ("queue",), lambda event: event.claimed),
    _Count(e.ClaimWasLost, "claims_lost", "Claims that were not ours any more", ("during",)),
    _Count(e.OutcomeRefused, "outcomes_refused", "Times that the database refused to write an outcome, alone"),
    _Count(e.RowRefused, "rows_refused", "Times that the database refused what a duty was to write to a row, alone", ("during",)),
    _Time(e.AcksWritten, "ack_seconds", "Calls that wrote outcomes", (), lambda event: event.seconds),
    _Count(
        e.JobsGivenBack,
        "jobs_given_back",
        "Jobs whose claim was not answered, or whose runner stopped",
        (),
        lambda event: len(event.job_ids),
    ),
    _Count(e.JobsPromoted, "jobs_promoted", "Jobs whose time had come", (), lambda event: event.count),
    _Count(e.JobsExpired, "jobs_expired", "Jobs that were not started in time", ("type",), lambda event: event.count),
    _Count(e.JobsRescued, "jobs_rescued", "Jobs taken back from dead runners", (), lambda event: len(event.job_ids)),
    _Count(e.KeysAdvanced, "keys_advanced", "Heads of keys dispatched by a serializer", (), lambda event: event.count),
    _Count(e.NotificationsSent, "notifications_sent", "Notifications sent", (), lambda event: event.count),
    _Count(e.NotificationHeard, "notifications_heard", "Notifications of other processes", ("kind",)),
    _Count(e.ListenerConnected, "listener_reconnects", "Listening connections made anew", (), lambda event: event.reconnect),
    _Count(e.ListenerLost, "listener_losses", "Listening connections lost"),
    _Count(e.LeaseAcquired, "lease_terms", "Terms of leases that began here", ("duty",)),
    _Count(e.LeaseEnded, "lease_ends", "Terms of leases that ended here", ("duty", "reason")),
    _Count(e.DutyPassed, "duty_passes", "Passes of duties", ("duty",)),
    _Count(e.DutyPassed, "duty_errors", "Passes of duties that failed", ("duty",), lambda event: event.failed),
    _Count(e.DutyPassed, "duty_items", "What passes of duties did", ("duty",), lambda event: event.items or 0),
    _Time(e.DutyPassed, "duty_seconds", "How long passes of duties took", ("duty",), lambda event: event.seconds),
    _Count(e.ScheduleFired, "schedule_jobs", "Jobs that schedules made", ("schedule",), lambda event: len(event.job_ids)),
    _Count(e.ScheduleTicksSkipped, "schedule_skips", "Rows of ticks that made no job", ("schedule", "reason")),
    _Count(e.BreakerOpened, "breaker_trips", "Circuit breakers opened by calls of this process", ("service",)),
    _Count(e.RunnerDied, "runners_died", "Runners declared dead by this one"),
    _Count(e.RunnerLostItself, "runner_losses", "Times this process lost its own runner"),
    _Count(e.LoopStalled, "loop_stalls", "Reports of an event loop that did not turn"),
    _Count(e.PartRestarted, "part_restarts", "Parts that ended by themselves and were started again", ("part",)),
    _Count(e.ServicePassFailed, "service_errors", "Passes of services that failed", ("service",)),
    _Count(e.DatabaseFailed, "database_errors", "Calls of the database that failed", ("during",)),
    _Count(e.HookRaised, "hook_errors", "Hooks that raised too late to change anything", ("hook",)),
    _Count(e.SinkFailed, "sink_errors", "Sinks of events that raised", ("event",)),
)


def setup(
    jobs: AsyncJobs,
    /,
    *,
    registry: CollectorRegistry = REGISTRY,
    namespace: str = "asyncjobs",
    sample_every: Duration = 15,
) -> None:
    """Export the metrics of `jobs`, before it is opened for the first time, into the registry.

    How they are served is yours: `prometheus_client.start_http_server(9000)`, or `make_asgi_app()` mounted in your app. A second
    AsyncJobs in the process needs another registry or namespace: ConfigurationError. AlreadyOpen when it is too late.
    """
    seconds = config_seconds(sample_every, name="sample_every", positive=True)
    held = _Held(jobs, namespace)
    jobs.duty(DUTY, every=seconds)(held.sample)
    try:
        registry.register(held)
        held.ended = Histogram(
            "workflow_seconds", "From enqueued to ended, by what workflows ended in; counted where this is sampled", ("state",),
            namespace=namespace, registry=registry, buckets=_BUCKETS,
        )  # fmt: skip
        for count in _COUNTS:
            jobs.events.subscribe(_sink(count, registry, namespace), count.kind)
    except ValueError as error:
        raise ConfigurationError(
            f"these metrics are exported already: pass another registry= or namespace= ({error})."
        ) from error
    jobs.events.subscribe(held.term_ended, e.LeaseEnded)


def _sink(count: _Count, registry: CollectorRegistry, namespace: str) -> Callable[[Any], None]:
    """What moves the metric."""
    labels, amount = count.labels, count.amount
    metric: Counter | Histogram
    if isinstance(count, _Time):
        metric = Histogram(count.name, count.text, labels, namespace=namespace, registry=registry, buckets=_BUCKETS)
    else:
        metric = Counter(count.name, count.text, labels, namespace=namespace, registry=registry)
    movers: dict[tuple[str, ...], Callable[[float], None]] = {}  # labels() costs more than all else here

    def sink(event: Any) -> None:
        values = tuple([getattr(event, label) for label in labels])
        move = movers.get(values)
        if move is None:
            child = metric.labels(*values) if labels else metric
            move = movers[values] = child.observe if isinstance(child, Histogram) else child.inc
        move(amount(event))

    return sink


class _Held(Collector):
    """What is there rather than what happens: read at the scrape, in whatever thread that is made, and sampled by the duty."""

    ended: Histogram

    def __init__(self, jobs: AsyncJobs, namespace: str) -> None:
        self._jobs = jobs
        self._namespace = namespace
        self._ended_until: datetime | None = None
        self._sampled: tuple[float, Sample, _Depths, list[BreakerState]] | None = None

    async def sample(self) -> int:
        """One pass of the duty."""
        admin = self._jobs.admin
        sample, breakers, runners = await admin.sample(), await admin.breakers(), await admin.runners(former=0)
        types = set(self._jobs.handlers).union(*(runner.types for runner in runners))
        queues = set(self._jobs.queues).union(*(runner.queues for runner in runners))
        self._sampled = time.time(), sample, _declared(sample, queues, types), breakers
        await self._count_ended()
        return len(sample.depths)

    async def _count_ended(self) -> None:
        """Count the workflows that ended since the last sample; a term begins with those that end from now on."""
        self._ended_until, ended = await self._jobs.admin.workflows_ended(self._ended_until or datetime.now(UTC))
        for one in ended:
            self.ended.labels(one.state).observe(one.seconds)

    def term_ended(self, event: e.LeaseEnded) -> None:
        """Another runner samples from now on."""
        if event.duty == DUTY:
            self._sampled = self._ended_until = None

    def describe(self) -> Iterable[Metric]:
        """The names, so that a registry refuses them twice."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """What a scrape gets."""
        yield from self._of_this_process()
        yield from self._of_the_database()

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{self._namespace}_{name}", text, labels=labels)

    def _of_this_process(self) -> Iterator[Metric]:
        runners = list(self._jobs.runners)
        slots = self._gauge("slots", "Slots of this process; lane is empty for the general ones", "queue", "lane")
        taken = self._gauge("slots_taken", "Slots with a running attempt", "queue", "lane")
        for key, (size, used) in _slots(runners).items():
            slots.add_metric(key, size)
            taken.add_metric(key, used)
        held = self._gauge("lease_held", "1 for the duties whose lease is held here, 0 for those that could be", "duty")
        for duty, is_held in sorted(_leases(runners).items()):
            held.add_metric((duty,), is_held)
        yield from (slots, taken, held)
        for name, text, value in (
            ("runners", "Runners in this process", len(runners)),
            ("listening", "Runners to which notifications arrive", sum(runner.listening.hears() for runner in runners)),
            ("loop_lag_seconds", "For how long the event loop made a call wait", max(map(_lag, runners), default=0.0)),
        ):
            gauge = self._gauge(name, text)
            gauge.add_metric((), value)
            yield gauge

    def _of_the_database(self) -> Iterator[Metric]:
        jobs = self._gauge("jobs", "Unfinished jobs, sampled", "queue", "type", "status")
        oldest = self._gauge("oldest_age_seconds", "Age of the oldest of them, sampled", "queue", "type", "status")
        dead_letters = self._gauge("dead_letters", "Dead letters that nobody has acknowledged, sampled")
        keys = self._gauge("keys_halted", "Keys that a dead job has halted, sampled")
        failed = self._gauge("schedules_failed", "Schedules that could not make their jobs, sampled")
        flows = self._gauge("workflows", "Workflows that have not ended, sampled", "state")
        oldest_flow = self._gauge("oldest_workflow_age_seconds", "Age of the oldest of them, sampled")
        states = self._gauge(
            "breaker_state",
            "1 for the state that the breaker is in, sampled; service is other for those of other apps, which are counted",
            "service",
            "state",
        )
        limits = {
            name: self._gauge(
                f"limit_{name}", f"{text}, sampled; limit is empty for totals of queues, queue for limits", "limit", "queue"
            )
            for name, (text, _) in _LIMITS.items()
        }
        at = self._gauge("sampled_at_seconds", "When that was, in seconds since 1970")
        if self._sampled is not None:
            moment, sample, depths, breakers = self._sampled
            for labels, (count, age) in depths.items():
                jobs.add_metric(labels, count)
                oldest.add_metric(labels, age)
            dead_letters.add_metric((), sample.dead_letters)
            keys.add_metric((), sample.halted_keys)
            failed.add_metric((), sample.failed_schedules)
            flows.add_metric(("running",), sample.workflows.running)
            flows.add_metric(("cancelling",), sample.workflows.cancelling)
            oldest_flow.add_metric((), sample.workflows.oldest_age_seconds)
            for service in {_named(one): None for one in breakers}:
                for state in _STATES:
                    states.add_metric((service, state), sum(_named(one) == service and one.state == state for one in breakers))
            for name, (_, value) in _LIMITS.items():
                for limit in sample.limits:
                    of = (limit.name, "") if limit.kind == "limit" else ("", limit.name)
                    limits[name].add_metric(of, value(limit))
            at.add_metric((), moment)
        yield from (jobs, oldest, dead_letters, keys, failed, flows, oldest_flow, states, *limits.values(), at)


def _declared(sample: Sample, queues: Container[str], types: Container[str]) -> _Depths:
    """The depths by their labels: number and age of the oldest."""
    sums: _Depths = {}
    for depth in sample.depths:
        labels = depth.queue if depth.queue in queues else OTHER, depth.type if depth.type in types else OTHER, depth.status
        count, age = sums.get(labels, (0, 0.0))
        sums[labels] = count + depth.count, max(age, depth.oldest_age_seconds)
    return sums


def _named(breaker: BreakerState) -> str:
    return breaker.service if breaker.declared else OTHER


def _slots(runners: Sequence[Runner]) -> dict[tuple[str, str], tuple[int, int]]:
    """Slots and those taken, by queue and lane."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for queue in (one for runner in runners for one in runner.parts.queues):
        for lane in queue.lanes.values():
            known, used = sums.get((queue.queue, lane.name or ""), (0, 0))
            sums[queue.queue, lane.name or ""] = known + lane.slots.size, used + lane.slots.taken
    return sums


def _leases(runners: Sequence[Runner]) -> dict[str, bool]:
    """The duties under a lease that runners here could do, and whether one of them does."""
    held = {duty for runner in runners for duty in runner.duties.leader.held()}
    return {duty: duty in held for runner in runners for duty in runner.duties.leader.duties}


def _lag(runner: Runner) -> float:
    return runner.heartbeat.loop_lag_seconds
