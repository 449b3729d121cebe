"""Events as lines of a log: the one place that decides their names and levels.

Names are dotted and in the past tense, keys are the fields of the event. Payloads, results and DSNs are in no event, so in no
line. Lines go through structlog when the app has configured it, else to the logger `asyncjobs` of the standard library, so
that an app that configured neither sees warnings on stderr, and nothing on stdout.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, Literal, TextIO

import msgspec

from asyncjobs.errors import AttemptTimeout, LeaseLost, UndecodablePayload, one_line
from asyncjobs.model.storable import safe_str
from asyncjobs.telemetry import events as e

Level = Literal["debug", "info", "warning", "error"]
Style = Literal["json", "console"]

_LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error")
_NUMBERS: Final[Mapping[Level, int]] = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR,
}  # fmt: skip

#: kind of event -> level and name of its line.
_LINES: Final[Mapping[type[e.Event], tuple[Level, str]]] = {
    e.JobEnqueued: ("debug", "asyncjobs.job.enqueued"),
    e.WorkflowEnqueued: ("debug", "asyncjobs.workflow.enqueued"),
    e.EnqueuesUndone: ("warning", "asyncjobs.enqueues.undone"),
    e.AttemptStarted: ("debug", "asyncjobs.job.started"),
    e.AcksWritten: ("debug", "asyncjobs.acks.written"),
    e.OutcomeWritten: ("debug", "asyncjobs.job.acked"),
    e.ClaimWasLost: ("warning", "asyncjobs.claim.lost"),
    e.HandlerWaitsForItsQueue: ("warning", "asyncjobs.handler.waits_for_its_queue"),
    e.OutcomeRefused: ("error", "asyncjobs.outcome.refused"),
    e.RowRefused: ("error", "asyncjobs.row.refused"),
    e.CompletionUndone: ("error", "asyncjobs.job.completion_undone"),
    e.HandlerStuck: ("warning", "asyncjobs.handler.stuck"),
    e.JobsClaimed: ("debug", "asyncjobs.jobs.claimed"),
    e.JobsPromoted: ("debug", "asyncjobs.jobs.promoted"),
    e.JobsExpired: ("info", "asyncjobs.jobs.expired"),
    e.JobsRescued: ("warning", "asyncjobs.jobs.rescued"),
    e.KeysAdvanced: ("debug", "asyncjobs.keys.advanced"),
    e.SequenceMoved: ("warning", "asyncjobs.sequence.moved"),
    e.JobsGivenBack: ("warning", "asyncjobs.jobs.given_back"),
    e.LeaseAcquired: ("info", "asyncjobs.lease.acquired"),
    e.LeaseEnded: ("info", "asyncjobs.lease.ended"),
    e.RowsPruned: ("debug", "asyncjobs.rows.pruned"),
    e.DutyPassed: ("debug", "asyncjobs.duty.passed"),
    e.RunnerStarted: ("info", "asyncjobs.runner.started"),
    e.RunnerStopped: ("info", "asyncjobs.runner.stopped"),
    e.RunnerDied: ("warning", "asyncjobs.runner.died"),
    e.RunnerRegistered: ("info", "asyncjobs.runner.registered"),
    e.RunnerLostItself: ("error", "asyncjobs.runner.lost_itself"),
    e.RunnerOutdated: ("error", "asyncjobs.runner.outdated"),
    e.ListenerConnected: ("info", "asyncjobs.listener.connected"),
    e.ListenerLost: ("warning", "asyncjobs.listener.lost"),
    e.ListenerFellBack: ("warning", "asyncjobs.listener.fell_back"),
    e.NotificationsSent: ("debug", "asyncjobs.notifications.sent"),
    e.NotificationHeard: ("debug", "asyncjobs.notification.heard"),
    e.LoopStalled: ("warning", "asyncjobs.loop.stalled"),
    e.PartRestarted: ("error", "asyncjobs.part.restarted"),
    e.ServicePassFailed: ("error", "asyncjobs.service.pass_failed"),
    e.DatabaseFailed: ("warning", "asyncjobs.database.failed"),
    e.SchedulesDeclared: ("info", "asyncjobs.schedules.declared"),
    e.ScheduleDiffers: ("warning", "asyncjobs.schedule.differs"),
    e.ScheduleFired: ("debug", "asyncjobs.schedule.fired"),
    e.ScheduleTicksSkipped: ("info", "asyncjobs.schedule.ticks_skipped"),
    e.ScheduleReanchored: ("warning", "asyncjobs.schedule.reanchored"),
    e.ScheduleDisabled: ("error", "asyncjobs.schedule.disabled"),
    e.ScheduleRecovered: ("info", "asyncjobs.schedule.recovered"),
    e.BreakerOpened: ("warning", "asyncjobs.breaker.opened"),
    e.BreakerHalfOpened: ("info", "asyncjobs.breaker.half_opened"),
    e.BreakerClosed: ("info", "asyncjobs.breaker.closed"),
    e.BreakerMoved: ("warning", "asyncjobs.breaker.moved"),
    e.LimitsDiffer: ("warning", "asyncjobs.limits.differ"),
    e.LimitKeyClosed: ("info", "asyncjobs.limit_key.closed"),
    e.VerbUsed: ("info", "asyncjobs.verb.used"),
    e.LoginRefused: ("warning", "asyncjobs.login.refused"),
    e.EmbeddedStarted: ("info", "asyncjobs.embedded.started"),
    e.HookRaised: ("error", "asyncjobs.hook.raised"),
    e.ResourceNotClosed: ("error", "asyncjobs.resource.not_closed"),
    e.SinkFailed: ("error", "asyncjobs.sink.failed"),
}

#: An attempt's line goes by its outcome.
_ATTEMPTS: Final[Mapping[str, tuple[Level, str]]] = {
    "completed": ("info", "asyncjobs.job.completed"),
    "retry": ("warning", "asyncjobs.job.failed"),
    "snooze": ("info", "asyncjobs.job.snoozed"),
    "cancel": ("info", "asyncjobs.job.cancelled"),
    "dead": ("error", "asyncjobs.job.died"),
    "interrupted": ("info", "asyncjobs.job.interrupted"),
}


def log_events(events: e.Events, *, logger: Any = None, level: Level = "info") -> Callable[[], None]:
    """Write a line for each event of at least this level; returns what ends it.

    Events below the level are not even asked for, so nobody builds them.
    """
    least = _LEVELS.index(level)
    kinds = [kind for kind, (of, _) in _LINES.items() if _LEVELS.index(of) >= least]
    by_logging = logging.getLogger("asyncjobs") if logger is None and not _is_configured() else None
    out: Callable[[], Any] = cache(partial(_default_logger, by_logging)) if logger is None else lambda: logger

    of_completions = _ATTEMPTS["completed"][0]
    tells_completions: Callable[[], bool]
    if by_logging is None or _LEVELS.index(of_completions) < least:
        tells_completions = partial(bool, _LEVELS.index(of_completions) >= least)
    else:
        tells_completions = partial(by_logging.isEnabledFor, _NUMBERS[of_completions])

    def sink(event: e.Event) -> None:
        if by_logging is not None and isinstance(event, e.RunnerStarted) and not by_logging.hasHandlers():
            # Nothing shows lines of this level: who starts a program for the first time is to see where it runs what.
            sys.stderr.write(_started(event))
            return
        if by_logging is not None and not by_logging.isEnabledFor(_NUMBERS[_level_and_name(event)[0]]):
            return
        of, name, fields = line(event)
        if _LEVELS.index(of) >= least:
            getattr(out(), of)(name, **fields)

    # Most attempts complete, and most apps log no such line. Whoever has another outcome to tell of does not ask.
    end_attempts = events.subscribe_if(tells_completions, sink, e.AttemptEnded)
    end_others = events.subscribe(sink, *kinds)

    def end() -> None:
        end_attempts()
        end_others()

    return end


def configure_logs(style: Style = "json", *, level: Level = "info", file: TextIO | None = None, of_logging: bool = False) -> None:
    """Let structlog write every line, asyncjobs' and the application's: a JSON object each, or for eyes; to stdout if not told.

    For programs that have not configured structlog. Lines of handlers carry `job_id` and `job_type`, those of `ctx.log` the
    attempt and the correlation id, too. Local variables are in no traceback: they may hold payloads. With `of_logging` what is
    logged through the standard library gets the same form, from warnings on (asyncjobs' own from `level` on).
    """
    import structlog

    out = file or sys.stdout
    for_people = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    errors = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
    made: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [errors, structlog.processors.JSONRenderer()] if style == "json" else [_one_line, for_people]
    structlog.configure(
        processors=[*made, *last],
        wrapper_class=structlog.make_filtering_bound_logger(_NUMBERS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
    )
    if of_logging:
        handler = logging.StreamHandler(out)
        without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
        handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[without_meta, *last], foreign_pre_chain=made))
        logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
        logging.getLogger("asyncjobs").setLevel(_NUMBERS[level])


def _started(event: e.RunnerStarted) -> str:
    queues = ", ".join(f"{name} ({slots})" for name, slots in event.queues.items())
    arrive = {"listen": "notifications arrive", "poll": "it polls"}.get(event.notify, "no notification has arrived yet")
    where = f"on {event.database}, schema {event.schema}"
    who = "asyncjobs" if event.name is None else f"asyncjobs ({one_line(event.name)})"
    return f"{who} runs jobs {where}, queues and slots: {one_line(queues)}; {arrive}.\n"


def line(event: e.Event) -> tuple[Level, str, dict[str, Any]]:
    """Level, name and keys of an event's line. Keys without a value are left out."""
    fields = {key: value for key, value in msgspec.structs.asdict(event).items() if value is not None}
    level, name = _level_and_name(event)
    if "event" in fields:  # structlog's own word for the name of a line
        fields["of_event"] = fields.pop("event")
    error = fields.pop("error", None)
    if isinstance(error, BaseException):
        _describe(event, error, fields)
    return level, name, fields


def _level_and_name(event: e.Event) -> tuple[Level, str]:
    if isinstance(event, e.AttemptEnded):
        if event.outcome == "interrupted" and isinstance(event.error, UndecodablePayload):
            return "warning", "asyncjobs.job.too_new"
        return _ATTEMPTS.get(event.outcome, ("info", "asyncjobs.job.ended"))
    level, name = _LINES.get(type(event), ("debug", f"asyncjobs.{type(event).__name__}"))
    if isinstance(event, e.EnqueuesUndone) and event.how == "rolled back":  # which is mostly meant
        return "info", name
    if isinstance(event, e.RunnerStopped) and event.abandoned_job_ids:
        return "warning", name
    return (_level_of_failure(event) if isinstance(event, e.ServicePassFailed) else level), name


def _level_of_failure(event: e.ServicePassFailed) -> Level:
    # An outage fails every service every few seconds: of a row of failures the 1st, 2nd, 4th, 8th … are told.
    if event.failures & (event.failures - 1):
        return "debug"
    return "warning" if _is_expected(event.error) else "error"


def _describe(event: e.Event, error: BaseException, fields: dict[str, Any]) -> None:
    fields["error_type"] = type(error).__name__
    if not isinstance(event, e.AttemptEnded):  # its message says the same
        fields["error_message"] = safe_str(error)
    repeated = isinstance(event, e.ServicePassFailed) and event.failures > 1
    speaks_for_itself = _is_of_the_attempt(error) if isinstance(event, e.AttemptEnded) else _is_expected(error)
    if not repeated and not speaks_for_itself:
        fields["exc_info"] = error


def _is_of_the_attempt(error: BaseException) -> bool:
    """Whether it came before the handler, or around it. What a handler raises has its line there."""
    return isinstance(error, (UndecodablePayload, AttemptTimeout))


def _is_expected(error: BaseException) -> bool:
    """Whether it is the network's or the database's, or a payload's, and a traceback would say nothing."""
    return isinstance(error, (OSError, TimeoutError, LeaseLost, UndecodablePayload)) or type(error).__module__.startswith(
        "asyncpg"
    )


def _is_configured() -> bool:
    """Whether the app configured structlog: not if nothing has imported it yet."""
    structlog: Any = sys.modules.get("structlog")
    return structlog is not None and bool(structlog.is_configured())


def _default_logger(by_logging: logging.Logger | None) -> Any:
    """A logger of structlog's, as the app configured it, or one that goes to `logging`."""
    import structlog

    if by_logging is None:
        return structlog.stdlib.get_logger("asyncjobs")
    return structlog.wrap_logger(
        by_logging,
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, structlog.contextvars.merge_contextvars, _to_logging],
        cache_logger_on_first_use=True,
    )


def _one_line(_: Any, __: str, fields: Any) -> Any:
    """Nothing that a line quotes begins another, or talks to the terminal. A traceback has lines of its own."""
    return {key: one_line(value) if isinstance(value, str) else value for key, value in fields.items()}


def _to_logging(_: Any, __: str, fields: Any) -> tuple[tuple[str, str, str], dict[str, Any]]:
    error = fields.pop("exc_info", None)
    name = fields.pop("event")
    words = " ".join(f"{key}={value!r}" for key, value in fields.items())
    return ("%s %s", name, words), {"exc_info": error}
