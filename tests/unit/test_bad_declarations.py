"""What cannot be declared or configured: the error's class, and its message word for word, at import or at open."""

import functools
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import pytest

from asyncjobs import (
    AsyncJobs,
    AsyncJobsError,
    Backoff,
    ConfigurationError,
    Dead,
    InvalidHandler,
    InvalidName,
    InvalidSchedule,
    JobContext,
    JobRouter,
    Lane,
    Queue,
)

T = TypeVar("T")


class HasAttempt(Protocol):
    attempt: int


class Opaque:
    pass


@dataclass
class Holder:
    content: Opaque


class Case(NamedTuple):
    call: Callable[[], object]
    kind: type[AsyncJobsError]
    message: str


def declared(function: Any, name: Any = "email", **options: Any) -> Callable[[], object]:
    """What declares a job; the type checkers look away."""
    router: Any = JobRouter()
    return lambda: router.job(name, **options)(function)


# Handlers that cannot be one.
async def any_first(data: Any) -> None: ...
async def object_first(data: object, n: int) -> None: ...
async def protocol_first(data: HasAttempt) -> None: ...
async def optional_context(ctx: JobContext | None, n: int) -> None: ...
async def type_variable(data: T) -> T:
    return data


async def bare_first(ctx, to: str) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]  # noqa: ANN001
async def star(to: str, *rest: int) -> None: ...
async def two_stars(to: str, **rest: int) -> None: ...
async def positional_only(to: str, /) -> None: ...
async def context_second(to: str, ctx: JobContext) -> None: ...
async def context_by_name(*, ctx: JobContext) -> None: ...
async def opaque(to: Opaque) -> None: ...
async def holds_opaque(to: list[Holder]) -> None: ...
async def two_models(to: Holder | Opaque) -> None: ...
async def asynchronous_generator(to: str) -> AsyncGenerator[int]:
    yield 1


def generator(to: str) -> Generator[int]:
    yield 1


async def good(to: str, template: str = "x") -> None: ...


async def upgrade_in_vain(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


STILL = "Jobs that were enqueued before a deployment still have it."


async def later(attempt: int, error: BaseException) -> float:
    return float(attempt)


def refused(problem: str, **options: Any) -> Case:
    """A job whose options cannot be meant."""
    return Case(declared(good, **options), ConfigurationError, f'job "email": {problem}')


TYPES = "give types of exceptions, as in {}=(ConnectionError, TimeoutError)."
COULD_BE = "could be the context: annotate it JobContext or a payload type."
USE_MODELS = "cannot be stored as JSON (Opaque): use a dataclass, a msgspec.Struct or a pydantic model."

HANDLERS = [
    (any_first, {}, f'first parameter "data: Any" {COULD_BE}'),
    (object_first, {}, f'first parameter "data: object" {COULD_BE}'),
    (protocol_first, {}, f'first parameter "data: HasAttempt" {COULD_BE}'),
    (optional_context, {}, f'first parameter "ctx: JobContext | None" {COULD_BE}'),
    (type_variable, {}, f'first parameter "data: ~T" {COULD_BE}'),
    (bare_first, {}, f'first parameter "ctx" has no annotation and {COULD_BE}'),
    (star, {}, 'parameter "*rest: int" takes anything: name each field, so that it can be checked.'),
    (two_stars, {}, 'parameter "**rest: int" takes anything: name each field, so that it can be checked.'),
    (positional_only, {}, 'parameter "to" is positional-only: a payload is by name, leave out the "/".'),
    (context_second, {}, 'parameter "ctx" is the context: it comes first, and by position.'),
    (context_by_name, {}, 'parameter "ctx" is the context: it comes first, and by position.'),
    (opaque, {}, f'parameter "to: Opaque" {USE_MODELS}'),
    (holds_opaque, {}, f'parameter "to: list[Holder]" {USE_MODELS}'),
    (asynchronous_generator, {}, "asynchronous_generator is a generator: return its result instead of yielding."),
    (generator, {}, "generator is a generator: return its result instead of yielding."),
    (Opaque, {}, f"{Opaque!r} is not a function: put the decorator on an `async def`."),
    (5, {}, "5 is not a function: put the decorator on an `async def`."),
    (staticmethod(good), {}, "a method cannot be a handler: declare a function of a module."),
    (good, {"serialize_by": "inbox_{too}"}, "serialize_by names {too}, but good has to, template."),
]


def scheduled(problem: str, **given: Any) -> Case:
    """A schedule that is refused."""
    router: Any = JobRouter()
    job = given.pop("job", None) or router.job("email")(good).new("a")
    return Case(lambda: router.schedule("n", job, **given), InvalidSchedule, f'schedule "n": {problem}')


def broken(problem: str, **options: Any) -> Case:
    """A circuit breaker that is refused."""
    return Case(lambda: JobRouter().circuit_breaker("s", **options), ConfigurationError, f'circuit breaker "s": {problem}')


def queue(problem: str, **options: Any) -> Case:
    """A queue that is refused."""
    return Case(lambda: Queue("a", **options), ConfigurationError, f'queue "a": {problem}')


def cron(problem: str, expression: str, **options: Any) -> Case:
    """A schedule by an expression that is refused."""
    return Case(lambda: JobRouter().cron("n", expression, **options), InvalidSchedule, f'schedule "n": {problem}')


DECLARATIONS = [
    Case(declared(good, name=good), InvalidName, 'the job has no name: write @router.job("good").'),
    Case(declared(good, name=5), InvalidName, "job name 5 is an int, not a str: give it a name in quotes."),
    Case(declared(good, name=""), InvalidName, 'job name "" is empty: give it a name.'),
    Case(declared(good, name="x" * 201), InvalidName, f'job name "{"x" * 60}…" is 201 bytes, at most 200.'),
    Case(declared(good, name="mäil" * 41), InvalidName, f'job name "{"mäil" * 15}…" is 205 bytes, at most 200.'),
    Case(lambda: JobRouter(queue="q" * 64), InvalidName, f'queue name "{"q" * 60}…" is 64 bytes, at most 63.'),
    Case(declared(good, name="a\x00"), InvalidName, r"job name 'a\x00' has characters that cannot be printed: leave them out."),
    Case(declared(good, name=" a"), InvalidName, 'job name " a" begins or ends with a space: leave it out.'),
    Case(
        declared(good, name="asyncjobs.promote"),
        InvalidName,
        'job name "asyncjobs.promote" is reserved: names that begin with "asyncjobs." are asyncjobs\' own.',
    ),
    Case(declared(good, aliases="old"), InvalidName, "aliases='old' is one text: write aliases=('old',)."),
    Case(declared(good, queue=""), InvalidName, 'queue name "" is empty: give it a name.'),
    refused("priority=-1 is out of range: give 0 to 32,767.", priority=-1),
    refused("priority=True is a bool: give a whole number.", priority=True),
    refused("max_attempts=0 is out of range: give 1 to 2,147,483,647.", max_attempts=0),
    refused("timeout=0 must be more than 0 seconds.", timeout=0),
    refused("backoff=5 is no Backoff: write Backoff(base, maximum=…), or give a function of (attempt, error).", backoff=5),
    refused("backoff= is called with (attempt, error): too many positional arguments.", backoff=lambda attempt: 1),
    refused("backoff= is an `async def`: give a plain function of (attempt, error), which must not wait.", backoff=later),
    refused(
        'retry_on= has "ConnectionError", a str: give types of exceptions, as in retry_on=(ConnectionError, TimeoutError).',
        retry_on="ConnectionError",
    ),
    refused(
        f"give_up_on= has ValueError('no'), a ValueError: {TYPES.format('give_up_on')}",
        give_up_on=ValueError("no"),
    ),
    refused(
        "retry_on= has [<class 'OSError'>], a list: give types of exceptions, as in retry_on=(ConnectionError, TimeoutError).",
        retry_on=[OSError],
    ),
    refused("give_up_on= has Dead: a verdict says by itself what becomes of the job.", give_up_on=Dead),
    refused("OSError is in retry_on= and in give_up_on=: keep it in one.", retry_on=(OSError, KeyError), give_up_on=OSError),
    refused('on_dead=\'stop\' must be "advance" or "halt".', on_dead="stop"),
    refused("upgrades= has step 2: give 1 to 1 (version - 1).", version=2, upgrades={2: dict}),
    refused("upgrades= has step '1': give 1 to 1 (version - 1).", version=2, upgrades={"1": dict}),
    refused("upgrades[1] is no plain function: give one from dict to dict.", version=2, upgrades={1: None}),
    refused("upgrades[1] is no plain function: give one from dict to dict.", version=2, upgrades={1: upgrade_in_vain}),
    refused(f"version=2 has no upgrade from version 1: add it, upgrades={{1: …}}. {STILL}", version=2),
    refused(
        f"version=4 has no upgrade from version 2: add it, upgrades={{2: …}}. {STILL}", version=4, upgrades={1: dict, 3: dict}
    ),
    refused(f"version=4 has no upgrade from version 3: add it, upgrades={{3: …}}. {STILL}", version=4, upgrades={2: dict}),
    refused('serialize_by is empty: leave it out, or name a resource, as in "inbox_{to}".', serialize_by=""),
    refused("serialize_by=\"{to\" does not parse: expected '}' before end of string.", serialize_by="{to"),
    Case(lambda: Backoff(-1), ConfigurationError, "Backoff(base)=-1 must be at least 0 seconds."),
    Case(lambda: Backoff(10, maximum=5), ConfigurationError, "Backoff: maximum=5 is below base=10."),
    queue("concurrency=0 is out of range: give 1 to 10,000.", concurrency=0),
    queue("prefetch=-1 is out of range: give 0 to 10,000.", prefetch=-1),
    queue("prefetch=10001 is out of range: give 0 to 10,000.", prefetch=10_001),
    queue("prefetch=True is a bool: give a whole number.", prefetch=True),
    queue("prefetch=2.5 is a float: give a whole number.", prefetch=2.5),
    queue("prefetch='9' is a str: give a whole number.", prefetch="9"),
    queue("its lanes keep 5 slots, but concurrency is 4.", concurrency=4, lanes={"fast": 3, "slow": Lane(2)}),
    cron('"61 3 * *": 4 fields, not 5 (minute, hour, day of the month, month, day of the week).', "61 3 * *"),
    cron('"0 0 31 2 *": it never comes: none of its months has a day 31.', "0 0 31 2 *"),
    cron(
        'timezone="Europe/Helsinky" is unknown here: give a name such as "Europe/Helsinki" (a system without time '
        "zones gets them by `pip install tzdata`).",
        "0 3 * * *",
        timezone="Europe/Helsinky",
    ),
    scheduled("every=0 must be more than 0 seconds.", every=0),
    scheduled("every=-5 must be more than 0 seconds.", every=-5),
    scheduled("every=0.01 is too often: give at least 0.1 seconds.", every=0.01),
    scheduled("give cron or every, one of both."),
    scheduled("give cron or every, one of both.", every=5, cron="* * * * *"),
    scheduled('misfire=\'twice\': give "skip", "one" or "all".', every=5, misfire="twice"),
    scheduled('overlap=None: give "allow", "skip" or "queue".', every=5, overlap=None),
    scheduled("5 is no job: give job_type.new(...).", job=5, every=5),
    Case(lambda: JobRouter().duty("d", every=0), ConfigurationError, 'duty "d": every=0 must be more than 0 seconds.'),
    Case(lambda: JobRouter().duty("d", every=-1), ConfigurationError, 'duty "d": every=-1 must be more than 0 seconds.'),
    broken("probes=0 must be a whole number of at least 1.", probes=0),
    broken("probes=101 is out of range: give 1 to 100.", probes=101),
    broken("failure_threshold=True must be a whole number of at least 1.", failure_threshold=True),
    broken("success_threshold=-1 must be a whole number of at least 1.", success_threshold=-1),
    broken("open_for=0 must be more than 0 seconds.", open_for=0),
    broken("counts=OSError is one class: write counts=(OSError,).", counts=OSError),
    broken("counts=() is no tuple of exceptions: write counts=(OSError, TimeoutError).", counts=()),
    broken('counts= has "OSError", which is no class of exceptions.', counts=("OSError",)),
    Case(lambda: JobRouter().circuit_breaker(""), InvalidName, 'circuit breaker name "" is empty: give it a name.'),
    Case(lambda: AsyncJobs(schema="pg_jobs"), InvalidName, 'schema name "pg_jobs" is reserved by PostgreSQL: choose another.'),
    Case(lambda: AsyncJobs(queues=[]), ConfigurationError, "queues= is empty: an app has at least one Queue."),
    Case(
        lambda: AsyncJobs(heartbeat=20),
        ConfigurationError,
        "runner_timeout=30 must be at least three times heartbeat=20: a runner is declared dead after that long without a beat.",
    ),
    Case(
        lambda: AsyncJobs(stall_after=40),
        ConfigurationError,
        "stall_limit=60 must be at least twice stall_after=40: a stalled loop is reported before the heartbeat stops.",
    ),
    Case(lambda: AsyncJobs(pool_size=0), ConfigurationError, "pool_size=0 is out of range: give 1 to 100."),
    Case(lambda: AsyncJobs(connect_timeout=-1), ConfigurationError, "connect_timeout=-1 must be at least 0 seconds."),
]


@pytest.mark.parametrize(
    ("function", "options", "problem"), HANDLERS, ids=lambda value: getattr(value, "__name__", str(value))[:40]
)
def test_a_function_that_cannot_be_a_handler_is_refused_at_its_declaration(function: Any, options: Any, problem: str) -> None:
    with pytest.raises(InvalidHandler) as caught:
        declared(function, **options)()
    assert str(caught.value) == f'job "email": {problem}'
    assert caught.value.name == "email"


@pytest.mark.parametrize("case", DECLARATIONS, ids=lambda case: case.message[:60])
def test_a_declaration_that_cannot_be_meant_is_refused(case: Case) -> None:
    with pytest.raises(AsyncJobsError) as caught:
        case.call()
    assert (type(caught.value), str(caught.value)) == (case.kind, case.message)


def test_a_union_that_json_cannot_tell_apart_is_refused() -> None:
    with pytest.raises(InvalidHandler, match=r'parameter "to: .*" cannot be stored as JSON: Type unions'):
        declared(two_models)()


def test_a_job_is_not_declared_twice_over() -> None:
    router = JobRouter()
    email: Any = router.job("email")(good)
    with pytest.raises(InvalidHandler, match=r"is a job already: add aliases="):
        router.job("email.v2")(email)


def test_a_partial_and_a_callable_object_are_handlers() -> None:
    class Sender:
        async def __call__(self, ctx: JobContext, to: str) -> None: ...

    router = JobRouter()
    copied = router.job("copied")(functools.partial(good, template="y"))
    sender = router.job("sender")(Sender())
    assert copied.new(to="a").row.payload == sender.new(to="a").row.payload == '{"to":"a"}'
    assert sender.declaration.is_async
    assert sender.declaration.takes_context
