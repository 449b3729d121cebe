"""Declarations: which jobs there are. A router knows no database; an app includes it (as FastAPI's APIRouter)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from weakref import ref

from asyncjobs.circuit_breaker import CircuitBreaker, check_breaker
from asyncjobs.declare.decorators import CronDecorator, DutyDecorator, JobDecorator
from asyncjobs.declare.definition import JobDefinition, NewJob, TypeOptions, Upgrade
from asyncjobs.declare.limit import Limit
from asyncjobs.declare.options import check_tags
from asyncjobs.declare.planned import Planned, check_duty, takes_context
from asyncjobs.declare.registry import Declarations
from asyncjobs.declare.schedules import Misfire, Overlap, check_job, check_schedule
from asyncjobs.declare.signature import check_function
from asyncjobs.declare.source_location import callers_place, local_names_of, place_of, variable_of
from asyncjobs.errors import ConfigurationError, InvalidHandler, InvalidName, InvalidOption
from asyncjobs.job_type import AsyncJobType, JobType, SyncJobType
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.breaker import Policy
from asyncjobs.model.names import check_name, shown
from asyncjobs.model.outcome import Duration
from asyncjobs.model.retrying import BackoffFunction, Errors, checked_retrying
from asyncjobs.open.owning_app import OwningApp
from asyncjobs.settings import Settings, Strategy, config_flag, config_seconds, config_timeout

__all__ = ["AsyncJobType", "JobRouter", "JobType", "SyncJobType"]

_DEFAULT_SETTINGS = Settings()


class JobRouter:
    """Declares jobs. Its arguments are defaults for what it declares; a job's own beat them, an enqueue's options beat both. An
    app's own defaults (`AsyncJobs(max_attempts=…)`) come last.

    `prefix` stands before the name of each job type, schedule and duty that is declared here ("billing." makes "charge"
    "billing.charge"), as it is stored and shown. Not before aliases, which are former names as they were, nor circuit breakers,
    which name a service.
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        queue: str | None = None,
        lane: str | None = None,
        timeout: Duration | None = None,
        expires: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors | None = None,
        keep_payload: bool | None = None,
    ) -> None:
        if prefix != "":
            check_name("prefix", prefix)
        if queue is not None:
            check_name("queue", queue)
        if lane is not None:
            check_name("lane", lane)
        if timeout is not None:
            config_timeout(timeout, name="JobRouter(timeout)")
        if expires is not None:
            config_seconds(expires, name="JobRouter(expires)", positive=True)
        checked_retrying("JobRouter: ", backoff=backoff, retry_on=retry_on, give_up_on=give_up_on)
        if keep_payload is not None:
            config_flag(keep_payload, name="JobRouter(keep_payload)")
        self.prefix = prefix
        self.declarations = Declarations(callers_place())
        self._apps: list[ref[OwningApp]] = []
        self._apps_at = -1  # Declarations.changes when they were looked up
        self._defaults: dict[str, Any] = {
            "queue": queue,
            "lane": lane,
            "timeout": timeout,
            "expires": expires,
            "max_attempts": max_attempts,
            "backoff": backoff,
            "retry_on": retry_on,
            "give_up_on": give_up_on,
            "keep_payload": keep_payload,
        }

    @property
    def declared_at(self) -> str:
        """Where the router was made, as file:line."""
        return self.declarations.declared_at

    def job(
        self,
        name: str,
        /,
        *,
        queue: str | None = None,
        lane: str | None = None,
        priority: int | None = None,
        timeout: Duration | None = None,
        expires: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors | None = None,
        serialize_by: str | None = None,
        dedup_by: str | None = None,
        tags: Sequence[str] = (),
        on_dead: Literal["advance", "halt"] = "advance",
        aliases: Sequence[str] = (),
        breaker: str | None = None,
        limit: Limit | None = None,
        keep_payload: bool | None = None,
        redact: Sequence[str] = (),
        version: int = 1,
        upgrades: Mapping[int, Upgrade] | None = None,
    ) -> JobDecorator:
        """Make a job type of the function below: `(ctx: JobContext, …)` or `(…)`, `async def` or `def`.

        What fails is tried again after `backoff`, a Backoff or a function of `(attempt, error)`: with `retry_on` only after these
        exceptions, never after those of `give_up_on`. `timeout=math.inf`: none, whatever router and app say.

        `serialize_by` is a template over the arguments ("inbox_{to}"): jobs with the same key run one at a time, in order;
        `on_dead="halt"` stops the key when one dies. `dedup_by` likewise gives each its dedup key, unless the enqueue gives one.
        `tags` go with those of the enqueue. `limit` says how many run at once, or start in a time, over all processes. A job
        that is not started within `expires` after its time is cancelled.
        With `keep_payload=False` the payload is emptied when the job completes, in the same commit; a dead letter keeps it.
        `redact` names fields of the payload that no operator is shown ("card", "customer.iban"): `model/redaction.py`.

        `aliases` are former names that stored jobs may still have. A payload of an older `version` goes through
        `upgrades[version]`, a plain function from the fields to those of the next version, and so on up to this one; there must
        be a step from each version on since the oldest. Jobs of a newer version are left to runners that know it.
        """
        full_name = self._full_name(name)
        if isinstance(aliases, str):
            raise InvalidName(f"aliases={aliases!r} is one text: write aliases=({aliases!r},).", name=aliases)
        declared = self._declared(
            queue=queue, lane=lane, priority=priority, timeout=timeout, expires=expires, max_attempts=max_attempts,
            backoff=backoff, retry_on=retry_on, give_up_on=give_up_on,
            serialize_by=serialize_by, dedup_by=dedup_by, tags=_tags(full_name, tags), on_dead=on_dead, aliases=tuple(aliases),
            breaker=breaker, limit=limit, keep_payload=keep_payload, redact=_redacted(full_name, redact), version=version,
            upgrades=upgrades,
        )  # fmt: skip
        return JobDecorator(lambda function: self._declare(full_name, function, declared))

    def stub(
        self,
        name: str,
        /,
        *,
        queue: str | None = None,
        lane: str | None = None,
        priority: int | None = None,
        expires: Duration | None = None,
        serialize_by: str | None = None,
        dedup_by: str | None = None,
        tags: Sequence[str] = (),
        limit: Limit | None = None,
        version: int = 1,
    ) -> JobDecorator:
        """A type whose handler runs in another service: the function's signature is its payload, its body is never run.

        Queue, lane, key, priority and expiry are said here, since they count before it is claimed; timeout, attempts and what
        follows a death are the handler's, unless the router or the enqueue's options say more. `version` is that of the handler
        whose payload this is; a newer one there upgrades it.
        """
        full_name = self._full_name(name)
        declared = self._declared(
            queue=queue, lane=lane, priority=priority, expires=expires, serialize_by=serialize_by, dedup_by=dedup_by,
            tags=_tags(full_name, tags), limit=limit, version=version, is_stub=True,
            on_dead="ask all" if self._defaults["max_attempts"] is None else "ask",
        )  # fmt: skip
        return JobDecorator(lambda function: self._declare(full_name, function, declared))

    def cron(
        self,
        name: str,
        expression: str,
        /,
        *,
        timezone: str = "UTC",
        misfire: Misfire = "one",
        overlap: Overlap = "allow",
        run_on_start: bool = False,
        queue: str | None = None,
        lane: str | None = None,
        priority: int | None = None,
        timeout: Duration | None = None,
        expires: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors | None = None,
    ) -> CronDecorator:
        """Make a job type of the function below, which needs no arguments, and enqueue it at each tick of the expression.

        The expression has five fields (or is `@daily` …) and is meant in the time zone. Where its clock changes, a fixed time
        that is left out comes right after the gap, and one that comes twice counts once. Ticks that nobody saw to are made up for
        by one job (`misfire="one"`), by none (`"skip"`), or each by its own (`"all"`, the last thousand). While an earlier job of
        the schedule is not done, a tick makes another (`overlap="allow"`), none (`"skip"`), or one that waits (`"queue"`: at most
        one does).
        """
        name = self._full_name(name)
        details = check_schedule(
            name,
            cron=expression,
            every=None,
            timezone=timezone,
            misfire=misfire,
            overlap=overlap,
            run_on_start=run_on_start,
        )
        declared = self._declared(
            queue=queue, lane=lane, priority=priority, timeout=timeout, expires=expires, max_attempts=max_attempts,
            backoff=backoff, retry_on=retry_on, give_up_on=give_up_on,
        )  # fmt: skip

        def declare(function: Callable[..., Any]) -> JobType[..., Any]:
            _refuse_required(name, function)
            job_type = self._declare(name, function, declared)
            self._plan("schedule", name, job_type.declaration.declared_at, {**details, "type": name})
            return job_type

        return CronDecorator(declare)

    def schedule(
        self,
        name: str,
        job: NewJob[Any],
        /,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str = "UTC",
        misfire: Misfire = "one",
        overlap: Overlap = "allow",
        run_on_start: bool = False,
    ) -> None:
        """Enqueue this job at each tick of the cron expression, or `every` so often; `misfire`, `overlap` and
        `run_on_start` as for `cron`.

        Its payload, key, dedup key, queue and priority are each job's. InvalidSchedule when one of these cannot be meant.
        """
        name = self._full_name(name)
        details = check_schedule(
            name,
            cron=cron,
            every=every,
            timezone=timezone,
            misfire=misfire,
            overlap=overlap,
            run_on_start=run_on_start,
        )
        self._plan("schedule", name, callers_place(), {**details, "job": check_job(name, job)})

    def duty(self, name: str, /, *, every: Duration, strategy: Strategy = "lease") -> DutyDecorator:
        """Do the function below, `async (ctx: DutyContext)` or `()`, every so often on one runner; it returns what it did."""
        name = self._full_name(name)
        details = check_duty(name, every, strategy)

        def declare(function: Callable[..., Any]) -> None:
            takes_context(name, function)
            self._plan("duty", name, place_of(function), {**details, "function": function})

        return DutyDecorator(declare)

    def circuit_breaker(
        self,
        service: str,
        /,
        *,
        failure_threshold: int = 5,
        success_threshold: int = 1,
        probes: int = 1,
        open_for: Duration = 60,
        counts: tuple[type[BaseException], ...] = (Exception,),
    ) -> CircuitBreaker:
        """A circuit breaker for a service, shared by all processes: `async with breaker:` around each call of it.

        After `failure_threshold` failures in a row it is open for `open_for`. Then `probes` calls at a time are let through;
        `success_threshold` good ones close it, a bad one opens it again. `counts`: which exceptions are failures of the service.
        """
        policy = Policy(
            service=service, failure_threshold=failure_threshold, success_threshold=success_threshold, probes=probes,
            open_seconds=config_seconds(open_for, name=f"circuit breaker {shown(service)}: open_for", positive=True),
        )  # fmt: skip
        breaker = CircuitBreaker(policy, check_breaker(policy, counts), self, declared_at=callers_place())
        self._plan("circuit breaker", service, breaker.declared_at, {"breaker": breaker})
        return breaker

    def include_router(self, router: "JobRouter", /) -> None:
        """Take in what another router declares, now and later. Twice is once; DuplicateName names both places."""
        _refuse_other(router)
        if router.declarations.app is not None:
            raise ConfigurationError("an AsyncJobs cannot be included: declare what both need on a JobRouter.")
        self.declarations.include(router.declarations)

    def limits(self) -> Settings:
        """The settings of the app that includes this router, the defaults when none does (yet)."""
        if self._apps_at != Declarations.changes:  # each job that is made asks
            self._apps_at = Declarations.changes
            self._apps = [ref(app) for app in self.declarations.apps()]
        if len(self._apps) == 1 and (app := self._apps[0]()) is not None:
            return app.settings
        known = [app.settings for one in self._apps if (app := one()) is not None]
        return max(known, key=lambda settings: settings.max_payload_bytes, default=_DEFAULT_SETTINGS)

    @property
    def variable(self) -> str | None:
        """`module.name` of the module's variable that holds this router."""
        return variable_of(self)

    def _full_name(self, name: Any) -> str:
        _refuse_function(name)
        return self.prefix + name if self.prefix and isinstance(name, str) and name else name

    def _declared(self, **given: Any) -> TypeOptions:
        defaults = {name: value for name, value in self._defaults.items() if value is not None}
        return TypeOptions(**{**defaults, **{name: value for name, value in given.items() if value is not None}})

    def _declare(self, name: str, function: object, declared: TypeOptions) -> JobType[..., Any]:
        if isinstance(function, JobType):
            raise InvalidHandler(
                name, f'{function!r} is a job already: add aliases=("{name}",) to it, or declare another function.'
            )
        checked = check_function(name, function)
        definition = JobDefinition(name, checked, declared, declared_at=place_of(checked))
        definition.prepare(local_names_of(checked))
        self.declarations.add(definition)
        return (AsyncJobType if definition.is_async else SyncJobType)(definition, self)

    def _plan(self, what: Literal["schedule", "duty", "circuit breaker"], name: str, place: str, details: dict[str, Any]) -> None:
        self.declarations.plan(Planned(what=what, name=name, declared_at=place, details=details))


def _refuse_function(name: object) -> None:
    if callable(name):
        raise InvalidName(f'the job has no name: write @router.job("{getattr(name, "__name__", "name")}").', name=name)


def _redacted(name: str, fields: Sequence[str]) -> tuple[str, ...]:
    """The names; ConfigurationError. That the first of each is an argument is seen when the signature is read."""
    if isinstance(fields, str):
        raise ConfigurationError(f'job "{name}": redact={fields!r} is one text: write redact=({fields!r},).')
    given: Sequence[Any] = fields  # whatever a type checker would say
    for field in given:
        if not isinstance(field, str) or not all(field.split(".")):
            raise ConfigurationError(f'job "{name}": redact= has {field!r}: give names of fields, as "card" or "customer.iban".')
    return tuple(fields)


def _tags(name: str, tags: object) -> tuple[str, ...]:
    try:
        return check_tags("tags", tags)
    except InvalidOption as error:
        raise ConfigurationError(f'job "{name}": {error}') from None


def _refuse_other(router: object) -> None:
    if not isinstance(router, JobRouter):
        raise ConfigurationError(f"{router!r} is no JobRouter: give the router, not its module or a job.")


def _refuse_required(name: str, function: Callable[..., Any]) -> None:
    needed = [
        one.name for one in JobDefinition(name, function, TypeOptions(), declared_at="").signature.parameters if one.is_required
    ]
    if needed:
        raise InvalidHandler(name, f'parameter "{needed[0]}" has no default: a tick has no arguments to give.')
