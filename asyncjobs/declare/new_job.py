"""A new job, from a call to a row: what `enqueue` and `enqueue_many` accept, checked, made into what an enqueue sends."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from math import inf
from typing import Any, NoReturn, TypeVar

import msgspec

from asyncjobs.context import JobContext, current
from asyncjobs.declare.definition import JobDefinition, NewJob, columns_of
from asyncjobs.declare.options import Checked, check_options, check_tags, check_together
from asyncjobs.declare.schema import schema_of, sieve_of
from asyncjobs.errors import EnqueueError, InvalidOption, InvalidPayload, PayloadTooLarge, UnknownLane, UnknownQueue, UnknownType
from asyncjobs.model.declared_type import INFINITE, DeclaredType
from asyncjobs.model.json_value import is_deeper
from asyncjobs.model.names import kind_of
from asyncjobs.model.new_row import NewRow
from asyncjobs.settings import Queue, Settings


def make_row(
    definition: JobDefinition, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Checked, settings: Settings
) -> NewRow:
    """The row of a call. An EnqueueError says what does not fit."""
    return fill_row(empty_row(definition, options), definition, args, kwargs, settings)


def fill_row(
    row: NewRow, definition: JobDefinition, args: tuple[Any, ...], kwargs: Mapping[str, Any], settings: Settings
) -> NewRow:
    """The row with what a call gives: its payload and its key. An EnqueueError says what does not fit."""
    encoded = definition.encode(args, kwargs, max_depth=settings.max_depth)
    text = encoded.text
    if len(text) > settings.max_payload_bytes >> 2:  # a character has four bytes at most
        check_size(definition.name, text, settings)
    if definition.makes_keys or encoded.takes:
        return row.with_payload(text, {**definition.keys_for(encoded.arguments, row), "takes": encoded.takes})
    return row.with_payload(text)


def empty_row(definition: JobDefinition, options: Checked) -> NewRow:
    """What the rows of all calls with these options have in common. InvalidOption for what is not complete."""
    check_together(options, has_dedup_rule=definition.is_deduplicated)
    if options.timeout == inf and definition.is_stub:
        raise InvalidOption(
            f"{definition.name}: the timeout of a stub's job is its handler's, and cannot be lifted here.", option="timeout"
        )
    row = NewRow(
        type=definition.name,
        queue=options.queue or definition.queue,
        lane=options.lane or definition.lane,
        version=definition.version,
        payload="{}",
        priority=definition.priority if options.priority is None else options.priority,
        max_attempts=options.max_attempts or definition.max_attempts,
        timeout_seconds=options.timeout or definition.timeout_seconds,
        run_at=options.run_at,
        delay_seconds=options.delay,
        correlation_id=options.correlation_id,
        parent_job_id=options.parent_job_id,
        created_by=options.created_by,
        dedup_key=options.dedup_key,
        dedup_for_seconds=options.dedup_for,
        on_duplicate=options.on_duplicate or "return",
        dedup_until=options.dedup_until or "end",
        expires_seconds=options.expires or definition.expires_seconds,
        serialization_key=options.serialization_key,
        limit_key=_limit_key(definition, options.limit_key),
        keep_payload=options.keep_payload,
        on_dead="ask" if definition.on_dead == "ask all" and options.max_attempts else definition.on_dead,
        notify=options.notify is not False,
        tags=definition.tags if options.tags is None else check_tags("tags", (*definition.tags, *options.tags)),
    )
    if options.debounce is None:
        return row
    of_debounce = columns_of(options.debounce) | ({} if options.dedup_until is None else {"dedup_until": options.dedup_until})
    return msgspec.structs.replace(row, **of_debounce)


def _limit_key(handler: JobDefinition, given: str | None) -> str | None:
    if given is not None and (handler.limit is None or handler.limit.by is None):
        has = "it has no limit" if handler.limit is None else f'its limit "{handler.limit.name}" has no by='
        raise InvalidOption(f'limit_key="{given}" was given for {handler.name}, but {has}.', option="limit_key")
    return given


def check_size(name: str, text: str, settings: Settings) -> None:
    """PayloadTooLarge when the text has more bytes than the app allows."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > settings.max_payload_bytes:
        raise PayloadTooLarge(name, size, settings.max_payload_bytes)


def admit(row: NewRow, definition: JobDefinition, queues: Mapping[str, Queue], settings: Settings) -> NewRow:
    """The row as this app takes it: held against its queues and limits, completed from the current attempt.

    A stub's queue is another service's: it is taken as it is.
    """
    if row.takes:
        refuse_alone(row)
    length = len(row.payload)
    if length > settings.max_payload_bytes >> 2:  # a character has four bytes at most
        check_size(row.type, row.payload, settings)
    if length > settings.max_depth and is_deeper(row.payload, settings.max_depth):
        raise InvalidPayload(row.type, f"nested deeper than {settings.max_depth} levels (max_depth)")
    if not definition.is_stub and (row.lane is not None or row.queue not in queues):
        row = in_queue(row, definition, queues)
    if settings.has_job_defaults:
        row = with_defaults(row, definition, settings)
    context = current.get()
    return row if context is None else _of_attempt(row, context)


def admit_all(jobs: Iterable[NewJob[Any]], queues: Mapping[str, Queue], settings: Settings) -> list[NewRow]:
    """The rows of jobs, as `admit` takes them."""
    # A payload that is no longer breaks no limit: a character has at most four bytes, and each level of depth takes one.
    least = min(settings.max_payload_bytes >> 2, settings.max_depth)
    if current.get() is not None or settings.has_job_defaults:  # an attempt hands its ids on: each row is seen to
        least = -1
    rows: list[NewRow] = []
    for job in jobs:
        row = job.row
        if row.lane is not None or len(row.payload) > least or row.queue not in queues:  # else there is nothing to be seen to
            row = admit(row, job.handler, queues, settings)
        rows.append(row)
    return rows


def in_queue(row: NewRow, definition: JobDefinition, queues: Mapping[str, Queue]) -> NewRow:
    """The row with its lane and timeout, or UnknownQueue, UnknownLane. A lane of the type's own queue is left behind with it."""
    queue = queues.get(row.queue)
    if queue is None:
        raise UnknownQueue(row.queue, queues, of=f"{row.type}: ")
    if row.lane is None:
        return row
    lane = queue.admitted.get(row.lane)
    if lane is not None:
        if row.timeout_seconds is None and lane.timeout_seconds is not None:
            return msgspec.structs.replace(row, timeout_seconds=lane.timeout_seconds)
        return row
    if row.lane == definition.lane and row.queue != definition.queue:
        return msgspec.structs.replace(row, lane=None)
    raise UnknownLane(row.lane, row.queue, queue.admitted, of=f"{row.type}: ")


def declared_types(
    definitions: Mapping[str, JobDefinition], queues: Mapping[str, Queue], settings: Settings
) -> list[DeclaredType]:
    """What enqueues from SQL have to know: handlers by name and alias, without stubs: those are others'."""
    lanes = {name: {lane: one.timeout_seconds for lane, one in queue.admitted.items()} for name, queue in queues.items()}
    schemas = {name: schema_of(one.signature.parameters) for name, one in definitions.items() if not one.is_stub}
    return [
        DeclaredType(
            name=name, type=one.name, version=one.version, queue=one.queue, lane=one.lane,
            breaker=one.breaker, priority=one.priority,
            max_attempts=settings.max_attempts if one.max_attempts is None else one.max_attempts,
            timeout_seconds=INFINITE if one.timeout_seconds == inf else one.timeout_seconds,
            app_timeout_seconds=settings.timeout, expires_seconds=one.expires_seconds, on_dead=one.on_dead,
            serialize_by=one.key_template, dedup_by=one.dedup_key_template,
            limit_name=None if one.limit is None else one.limit.name, limit_by=one.limit_key_template,
            tags=one.tags, redact=one.redact, schema=schemas[name], sieve=sieve_of(schemas[name]), queues=lanes,
            max_payload_bytes=settings.max_payload_bytes, max_depth=settings.max_depth,
        )
        for name, one in sorted(definitions.items()) if name in schemas
    ]  # fmt: skip


def with_defaults(row: NewRow, definition: JobDefinition, settings: Settings) -> NewRow:
    """The row with what nobody has said nearer to it: neither the enqueue, nor the type, nor its router, nor its lane.

    A stub's is left to its handler and that one's app.
    """
    if definition.is_stub:
        return row
    if row.max_attempts is None:
        row = msgspec.structs.replace(row, max_attempts=settings.max_attempts)
    if row.timeout_seconds is None:
        row = msgspec.structs.replace(row, timeout_seconds=settings.timeout)
    return row


def check_placed(definition: JobDefinition, queues: Mapping[str, Queue]) -> None:
    """UnknownQueue or UnknownLane when the app lacks what the type is declared for. A stub's are another service's."""
    if definition.is_stub:
        return
    of = f'job "{definition.name}" ({definition.declared_at}): '
    if definition.queue not in queues:
        raise UnknownQueue(definition.queue, queues, of=of)
    lanes = queues[definition.queue].admitted
    if definition.lane is not None and definition.lane not in lanes:
        raise UnknownLane(definition.lane, definition.queue, lanes, of=of)


def _of_attempt(row: NewRow, context: JobContext[Any]) -> NewRow:
    if row.correlation_id is not None and row.parent_job_id is not None:
        return row
    return msgspec.structs.replace(
        row,
        correlation_id=context.correlation_id if row.correlation_id is None else row.correlation_id,
        parent_job_id=context.job.id if row.parent_job_id is None else row.parent_job_id,
    )


N = TypeVar("N")
T = TypeVar("T")


def named(
    name: str, payload: object, options: Mapping[str, Any], definitions: Mapping[str, JobDefinition], settings: Settings
) -> NewJob[Any]:
    """The job of a type that is known by its name. UnknownType, InvalidPayload, InvalidOption."""
    definition = definitions.get(name)
    if definition is None:
        raise UnknownType(name, definitions)
    if not isinstance(payload, Mapping):
        raise InvalidPayload(name, f'the payload is {kind_of(payload)}: give its fields by name, as in {{"field": value}}')
    checked = check_options(options)
    return NewJob(definition, make_row(definition, (), payload, checked, settings), checked.connection)


def only(job: NewJob[N], payload: object, options: Mapping[str, Any]) -> NewJob[N]:
    """The job itself; InvalidOption when more was given than belongs to it."""
    if payload is None and not options:
        return job
    others = sorted(options.keys() - {"connection"})
    if payload is not None or others:
        what = f"{others[0]}=" if others else "a payload"
        raise InvalidOption(f"{what} was given with a job that is made already: write job_type.using(...).new(...).")
    return job


def check_jobs(jobs: object, definitions: Mapping[str, JobDefinition]) -> list[NewJob[Any]]:
    """The jobs as a list. EnqueueError for anything that is none; UnknownType for a type that the app does not include."""
    if not isinstance(jobs, Iterable):
        raise EnqueueError(f"{jobs!r} is not a list of jobs: write enqueue_many([job_type.new(...), ...]).")
    news = list(jobs)
    for new in news:
        if not isinstance(new, NewJob):
            raise EnqueueError(f"{new!r} is no job: write {getattr(new, 'name', 'job_type')}.new(...).")
        if new.row.type not in definitions:
            raise UnknownType(new.row.type, definitions)
        if new.row.takes:
            refuse_alone(new.row)
    return news


def refuse_alone(row: NewRow) -> NoReturn:
    """EnqueueError: a job that takes the result of another is enqueued with its workflow."""
    raise EnqueueError(f"{row.type} takes {row.takes[0]!r}, which is known in its workflow alone: flow.add({row.type}.new(...)).")


def one_connection(jobs: Sequence[NewJob[Any]], connection: Any) -> Any:
    """The connection that all of them are enqueued on, None for asyncjobs' own. InvalidOption when they differ."""
    if connection is not None:
        check_options({"connection": connection})
    of_jobs = [job.connection for job in jobs if job.connection is not None]
    given = of_jobs if connection is None else [connection, *of_jobs]
    if not given:
        return None
    used = given[0]
    if any(one is not used for one in given):
        raise InvalidOption("two connections were given: jobs that are enqueued together share one.", option="connection")
    if connection is None and len(of_jobs) < len(jobs):
        raise InvalidOption(
            "some of the jobs have a connection and some have none: give it to enqueue_many(..., connection=...).",
            option="connection",
        )
    return used


async def in_slices(items: Sequence[T], *, size: int = 1_000) -> AsyncGenerator[Sequence[T]]:
    """So many items at a time, with a turn of the event loop for others between: 100,000 would stop it for a second."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


def check_job_id(job_id: object) -> int:
    """The id; InvalidOption when it cannot be one."""
    if isinstance(job_id, bool) or not isinstance(job_id, int) or not 0 < job_id < 2**63:
        raise InvalidOption(f"job_id={job_id!r} is no job's id: give the `id` of a handle.", option="job_id")
    return job_id


def is_nobodys(job_id: object) -> bool:
    """Whether this is a whole number that no job can have."""
    return isinstance(job_id, int) and not isinstance(job_id, bool) and not 0 < job_id < 2**63
