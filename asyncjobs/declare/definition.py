"""A job type as it was declared: its function, its defaults, and how its payload, key and result are made and read."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar, Unpack, cast, final

import msgspec

from asyncjobs.declare.key_rule import KeyRule, check_template
from asyncjobs.declare.limit import Limit
from asyncjobs.declare.options import MAX_ATTEMPTS, MAX_PRIORITY, Debounce, Options, check_options
from asyncjobs.declare.payload import Encoded, PayloadCodec, Problem, ResultCodec, to_json
from asyncjobs.declare.results import check_parameters
from asyncjobs.declare.schema import template_of
from asyncjobs.declare.signature import Signature, check_function, is_async, read_signature, wraps_async
from asyncjobs.errors import ConfigurationError, InvalidHandler, InvalidOption, UndecodablePayload
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.names import check_name, kind_of
from asyncjobs.model.new_row import ORDINARY_PRIORITY, NewRow, OnDead
from asyncjobs.model.outcome import Duration
from asyncjobs.model.retrying import BackoffFunction, Errors, checked_retrying
from asyncjobs.model.storable import safe_str
from asyncjobs.settings import config_flag, config_seconds, config_timeout

N_co = TypeVar("N_co", covariant=True)
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


class TypeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a decorator was given, with the router's defaults filled in."""

    queue: str = "default"
    lane: str | None = None
    priority: int = ORDINARY_PRIORITY
    timeout: Duration | None = None
    expires: Duration | None = None
    max_attempts: int | None = None  # None: as the app says, 3 unless it says more
    backoff: Backoff | BackoffFunction | None = None
    retry_on: Errors | None = None
    give_up_on: Errors | None = None
    serialize_by: str | None = None
    dedup_by: str | None = None
    tags: tuple[str, ...] = ()
    on_dead: OnDead = "advance"
    aliases: tuple[str, ...] = ()
    breaker: str | None = None
    limit: Limit | None = None
    keep_payload: bool | None = None  # None: as the app says
    redact: tuple[str, ...] = ()
    version: int = 1
    upgrades: Mapping[int, Upgrade] = {}
    is_stub: bool = False


class Including(Protocol):
    """An app that the type is part of."""

    def includes(self, definition: "JobDefinition") -> bool:
        """Whether this very declaration is."""
        ...


class JobDefinition:
    """One job type. Its signature is read at the declaration, or at first use when an annotation names what is not there yet."""

    def __init__(self, name: str, function: Callable[..., Any], declared: TypeOptions, *, declared_at: str) -> None:
        self.name = check_name("job", name)
        self.is_async = is_async(check_function(name, function))
        self.wraps_async = wraps_async(function)
        _check_declared(name, declared)
        self.function = function
        self.declared_at = declared_at
        self.aliases = tuple(check_name("job", alias) for alias in declared.aliases)
        self.queue = declared.queue
        self.lane = declared.lane
        self.priority = declared.priority
        self.timeout_seconds = None if declared.timeout is None else _timeout(name, declared.timeout)
        self.expires_seconds = None if declared.expires is None else _expires(name, declared.expires)
        self.max_attempts = declared.max_attempts
        of = f'job "{name}": '
        self.retrying = checked_retrying(of, backoff=declared.backoff, retry_on=declared.retry_on, give_up_on=declared.give_up_on)
        self.on_dead: OnDead = declared.on_dead
        self.version = declared.version
        self.upgrades = dict(declared.upgrades)
        self.breaker = declared.breaker
        self.keeps_payload = declared.keep_payload
        self.redact = declared.redact
        self.is_stub = declared.is_stub
        self.apps: Callable[[], Sequence[Including]] = list  # that include it; set where it is declared
        self.tags = declared.tags
        self._key_rule = KeyRule(name, declared.serialize_by, function_name=self.function_name)
        self._dedup_rule = KeyRule(name, declared.dedup_by, function_name=self.function_name, option="dedup_by")
        self.limit = declared.limit
        self._limit_rule = None if self.limit is None else self.limit.rule_for(name, self.function_name)
        #: Whether its jobs get keys by themselves. (An attribute, since each job that is made asks.)
        self.makes_keys = self._key_rule.is_given or self._dedup_rule.is_given or self.limit is not None
        self._local_names: Mapping[str, Any] | None = None
        self._payload: PayloadCodec | None = None
        self.paged: frozenset[str] = frozenset()  # parameters that take results in pages; known with the signature

    def __repr__(self) -> str:
        return f"<JobDefinition {self.name!r} at {self.declared_at}>"

    def prepare(self, local_names: Mapping[str, Any]) -> None:
        """Read the signature now if all of its annotations are there. InvalidHandler for one that cannot be a handler's."""
        self._local_names = local_names
        try:
            self._check()
        except NameError:
            return
        finally:
            self._local_names = None  # a frame's locals are not kept alive

    def _check(self) -> None:
        parameters = self.signature.parameters
        self._key_rule.bind(parameters)
        self._dedup_rule.bind(parameters)
        if self._limit_rule is not None:
            self._limit_rule.bind(parameters)
        self._check_redacted([one.name for one in parameters])
        self.paged = check_parameters(self.name, parameters, is_async=self.is_async)
        self._payload = PayloadCodec(self.name, parameters)

    def _check_redacted(self, names: Sequence[str]) -> None:
        for field in self.redact:
            if field.split(".")[0] not in names:
                problem = (
                    f'redact= has "{field}", and it takes no argument "{field.split(".")[0]}", but {", ".join(names) or "none"}'
                )
                raise InvalidHandler(self.name, f"{problem}.")

    def resolve(self) -> None:
        """Read the signature for good, at first use or at open. InvalidHandler also for an annotation that names nothing."""
        try:
            if self._payload is None:
                self._check()
        except NameError as error:
            raise InvalidHandler(
                self.name, f"an annotation cannot be resolved: {error}. Import it at run time, not only for type checkers."
            ) from None

    @cached_property
    def signature(self) -> Signature:
        """What the function's signature says."""
        return read_signature(self.name, self.function, self._local_names)

    @property
    def payload(self) -> PayloadCodec:
        """How its payload is encoded and decoded. InvalidHandler when its signature cannot be a payload's."""
        if self._payload is None:
            self.resolve()
            return cast("PayloadCodec", self._payload)
        return self._payload

    @cached_property
    def result(self) -> ResultCodec:
        """How its result is encoded and decoded."""
        return ResultCodec(self.name, self.signature.returns)

    @property
    def takes_context(self) -> bool:
        """Whether the function's first parameter is the context."""
        return self.signature.takes_context

    @property
    def function_name(self) -> str:
        """The function's own name, for messages that show a call."""
        return str(getattr(self.function, "__name__", self.name))

    @property
    def is_deduplicated(self) -> bool:
        """Whether its jobs get a dedup key by themselves."""
        return self._dedup_rule.is_given

    def set_key(self, key: Callable[..., str | None]) -> None:
        """Make serialization keys with this function. InvalidHandler when it cannot be called with the handler's arguments."""
        self._set_function(self._key_rule, key)

    def set_dedup_key(self, key: Callable[..., str | None]) -> None:
        """Make dedup keys with this function. InvalidHandler as for `set_key`."""
        self._set_function(self._dedup_rule, key)

    def _set_function(self, rule: KeyRule, key: Callable[..., str | None]) -> None:
        rule.set_function(key)
        self.makes_keys = True
        try:
            rule.bind(self.signature.parameters)
        except NameError:
            return  # resolved at first use, with the signature

    @property
    def key_template(self) -> list[Any] | str | None:
        """How SQL makes its keys: by the parts of a template. "function": only Python can; None: its jobs get none."""
        return self._template_of(self._key_rule)

    @property
    def dedup_key_template(self) -> list[Any] | str | None:
        """The same of its dedup keys."""
        return self._template_of(self._dedup_rule)

    @property
    def limit_key_template(self) -> list[Any] | str | None:
        """The same of its limit keys."""
        return None if self._limit_rule is None else self._template_of(self._limit_rule)

    def _template_of(self, rule: KeyRule) -> list[Any] | str | None:
        if not rule.is_given:
            return None
        return (None if rule.template is None else template_of(rule.template, self.signature.parameters)) or "function"

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, max_depth: int = 200) -> Encoded:
        """The checked payload of a call. InvalidPayload says which field does not fit, and why."""
        codec = self._payload or self.payload
        return codec.encode(args, kwargs, max_depth=max_depth)

    def key_for(self, arguments: Mapping[str, Any]) -> str | None:
        """The serialization key of a job with these arguments (as they will arrive), None when it is not serialized."""
        return self._key_rule.key_for(arguments) if self._key_rule.is_given else None

    def keys_for(self, arguments: Mapping[str, Any], row: NewRow) -> dict[str, str | None]:
        """The keys of a job with these arguments, by column: where its enqueue gave one, that."""
        return {
            "serialization_key": self._key_rule.key_for(arguments) if row.serialization_key is None else row.serialization_key,
            "dedup_key": self._dedup_rule.key_for(arguments) if row.dedup_key is None else row.dedup_key,
            "limit_key": self._limit_key_for(arguments, row.limit_key),
        }

    def _limit_key_for(self, arguments: Mapping[str, Any], given: str | None) -> str | None:
        if self.limit is None or self._limit_rule is None:
            return None
        return self.limit.key(self._limit_rule.key_for(arguments) if given is None else given)

    def decode_payload(self, payload: str, version: int) -> dict[str, Any]:
        """The arguments of a stored payload, upgraded from its version. UndecodablePayload when they do not fit."""
        codec = self._payload or self.payload
        return codec.decode(payload if version == self.version else self._upgraded(payload, version))

    def _upgraded(self, payload: str, version: int) -> str:
        if version > self.version:
            problem = f"it has version {version}, this program knows {self.version}: deploy the newer one here, too"
            raise UndecodablePayload(self.name, problem, is_newer=True)
        fields = self.payload.plain(payload)
        for step in range(version, self.version):
            fields = self._upgraded_once(fields, step, stored_as=version)
        try:
            return to_json(fields)
        except Problem as problem:
            raise UndecodablePayload(
                self.name, f"upgraded from version {version}, it has {problem.text}", path=problem.path
            ) from None

    def _upgraded_once(self, fields: dict[str, Any], step: int, *, stored_as: int) -> dict[str, Any]:
        if step not in self.upgrades:
            oldest = min(self.upgrades, default=self.version)
            problem = f"it has version {stored_as}, and the oldest that this program can upgrade is {oldest}"
            raise UndecodablePayload(self.name, problem)
        try:
            return _fields(self.name, step, self.upgrades[step](fields))
        except UndecodablePayload:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problem = f"its upgrade from version {step} raised {type(error).__name__}: {safe_str(error)}"
            raise UndecodablePayload(self.name, problem) from error

    def encode_result(self, value: Any) -> str | None:
        """The result as JSON text, None for None; UnstorableResult."""
        return self.result.encode(value)

    def decode_result(self, text: str | None) -> Any:
        """The result as the function's return type says; ValueError when it does not fit."""
        return self.result.decode(text)


@final
class NewJob(msgspec.Struct, Generic[N_co], eq=False, gc=False):  # a struct is made in a third of the time
    """A job that is not enqueued yet: its payload and options are checked. Each enqueue of it makes another job."""

    handler: JobDefinition
    row: NewRow
    connection: Any = None

    def __repr__(self) -> str:
        return f"<NewJob type={self.type!r} queue={self.row.queue!r}>"

    @property
    def type(self) -> str:
        """The job type's name."""
        return self.row.type

    def using(self, **options: Unpack[Options]) -> "NewJob[N_co]":
        """The same job with these options over those it was made with: what a hook answers. InvalidOption."""
        checked = check_options(options)
        given = {name: value for name, value in msgspec.structs.asdict(checked).items() if value is not None}
        if checked.max_attempts is not None and self.row.on_dead == "ask all":
            given["on_dead"] = "ask"
        if checked.debounce is not None:
            del given["debounce"]
            given = {**columns_of(checked.debounce), **given}
        connection = given.pop("connection", self.connection)
        row = msgspec.structs.replace(self.row, **{_COLUMNS.get(name, name): value for name, value in given.items()})
        if row.run_at is not None and row.delay_seconds is not None:
            raise InvalidOption("give run_at or delay, not both.", option="run_at")
        if row.dedup_key is None and (
            row.dedup_for_seconds is not None or row.on_duplicate != "return" or row.dedup_until != "end"
        ):
            raise InvalidOption(
                "dedup_for, on_duplicate, debounce and dedup_until need a dedup_key: give one.", option="dedup_for"
            )
        return NewJob(self.handler, row, connection)


#: Options whose columns have other names.
_COLUMNS = {
    "timeout": "timeout_seconds", "delay": "delay_seconds", "dedup_for": "dedup_for_seconds", "expires": "expires_seconds",
}  # fmt: skip


def columns_of(debounce: Debounce | None) -> dict[str, Any]:
    """What a debounce says of a row. (Another `dedup_until` beats it.)"""
    if debounce is None:
        return {}
    return {
        "run_at": None, "delay_seconds": debounce.quiet, "at_most_seconds": debounce.at_most, "on_duplicate": "replace",
        "dedup_until": "start",
    }  # fmt: skip


def _fields(name: str, step: int, upgraded: object) -> dict[str, Any]:
    if not isinstance(upgraded, dict):
        raise UndecodablePayload(name, f"its upgrade from version {step} returned {kind_of(upgraded)}, not a dict")
    return cast("dict[str, Any]", upgraded)


def _timeout(name: str, timeout: Duration) -> float:
    return config_timeout(timeout, name=f'job "{name}": timeout')


def _expires(name: str, expires: Duration) -> float:
    return config_seconds(expires, name=f'job "{name}": expires', positive=True)


def _check_declared(name: str, declared: TypeOptions) -> None:
    check_name("queue", declared.queue)
    if declared.lane is not None:
        check_name("lane", declared.lane)
    _check_range(name, "priority", declared.priority, 0, MAX_PRIORITY)
    if declared.max_attempts is not None:
        _check_range(name, "max_attempts", declared.max_attempts, 1, MAX_ATTEMPTS)
    _check_range(name, "version", declared.version, 1, 2**31 - 1)
    if declared.on_dead not in ("advance", "halt") and not declared.is_stub:
        raise ConfigurationError(f'job "{name}": on_dead={declared.on_dead!r} must be "advance" or "halt".')
    if declared.keep_payload is not None:
        config_flag(declared.keep_payload, name=f'job "{name}": keep_payload')
    if declared.breaker is not None:
        check_name("circuit breaker", declared.breaker)
    limit: Any = declared.limit  # whatever a type checker would say
    if limit is not None and not isinstance(limit, Limit):
        raise ConfigurationError(f'job "{name}": limit={limit!r} is {kind_of(limit)}: write limit=Limit(…).')
    _check_upgrades(name, declared)
    if declared.serialize_by is not None:
        check_template(name, declared.serialize_by)
    if declared.dedup_by is not None:
        check_template(name, declared.dedup_by, option="dedup_by")
    if declared.limit is not None and isinstance(declared.limit.by, str):
        check_template(name, declared.limit.by, option="by")


def _check_upgrades(name: str, declared: TypeOptions) -> None:
    """There is a step to this version, and one to each that has one; the oldest versions may be left behind."""
    version, steps = declared.version, declared.upgrades
    given: Mapping[Any, Any] = steps  # whatever a type checker would say
    for step, upgrade in given.items():
        if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step < version:
            raise ConfigurationError(f'job "{name}": upgrades= has step {step!r}: give 1 to {version - 1} (version - 1).')
        if not callable(upgrade) or is_async(upgrade):
            raise ConfigurationError(f'job "{name}": upgrades[{step}] is no plain function: give one from dict to dict.')
    missing = [step for step in range(min(steps, default=version - 1), version) if step and step not in steps]
    if missing and not declared.is_stub:
        raise ConfigurationError(
            f'job "{name}": version={version} has no upgrade from version {missing[0]}: add it, upgrades={{{missing[0]}: …}}. '
            "Jobs that were enqueued before a deployment still have it."
        )


def _check_range(name: str, what: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f'job "{name}": {what}={value!r} is {kind_of(value)}: give a whole number.')
    if not least <= value <= most:
        raise ConfigurationError(f'job "{name}": {what}={value} is out of range: give {least} to {most:,}.')
