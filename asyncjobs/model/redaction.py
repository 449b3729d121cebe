"""Fields of payloads that nobody is shown: `@jobs.job("charge", redact=("card", "customer.iban"))`. The rules:

1. The handler, `jobs.get` and handles have the payload as it is; so has the table. `jobs.admin` has it without, and so have
   the command line and the dashboard, which have nothing else. In lists, in dead letters, in results under the same names.
2. A name with dots leads into objects, and into each element of a list.
3. What an attempt says of its failure is scrubbed before it is told or stored: where a text of at least `LEAST` characters, or a
   number of as many digits, that stands under such a name occurs in a message or a traceback, it is replaced. So it is in no row,
   no line of the log, no span and no report. What a handler logs or reports itself is the application's.
4. Which fields they are is registered by runners (`types.redact`); an app that declares the type knows it before any has
   started.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Outcome

#: What stands for it.
REDACTED: Final = "[redacted]"
#: A shorter value is not looked for in texts: they would be full of holes.
LEAST: Final = 4

#: Type -> names of fields.
Redactions: TypeAlias = Mapping[str, Collection[str]]


class Scrubbed(Exception):
    """What sinks are given in place of an exception of a type that redacts: its kind, and its message without values."""


def redacted(value: Any, fields: Collection[str]) -> Any:
    """The JSON value without what stands under these names."""
    for field in fields:
        value = _without(value, field.split("."))
    return value


def _without(value: Any, path: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_without(one, path) for one in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    found = cast("dict[str, Any]", value)
    inner = REDACTED if len(path) == 1 else _without(found[path[0]], path[1:])
    return {**found, path[0]: inner}


def secrets_in(payload: Any, fields: Collection[str]) -> list[str]:
    """The texts under these names that are long enough to be looked for, the longest first."""
    found = {text for field in fields for value in _under(payload, field.split(".")) for text in _texts(value)}
    return sorted((text for text in found if len(text) >= LEAST), key=len, reverse=True)


def _under(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _under(one, path)
    elif not path:
        yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from _under(cast("dict[str, Any]", value)[path[0]], path[1:])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in cast("dict[str, Any]", value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """The text without these."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def scrubbed_outcome(outcome: Outcome, secrets: Sequence[str]) -> Outcome:
    """The outcome with messages and traceback without these."""
    error = outcome.error
    if error is not None:
        error = {name: scrubbed(value, secrets) if isinstance(value, str) else value for name, value in error.items()}
    message = None if outcome.message is None else scrubbed(outcome.message, secrets)
    return msgspec.structs.replace(outcome, message=message, error=error)


def stand_in(error: BaseException, secrets: Sequence[str]) -> BaseException:
    """What stands for the error: its causes, whose texts may hold one of these, are left out."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - whatever it raises, there is nothing to say
        said = ""
    return Scrubbed(scrubbed(f"{name}: {said}" if said else name, secrets)).with_traceback(error.__traceback__)


def shown_job(job: Job, redactions: Redactions, *, payloads: bool) -> Job:
    """The job as operators are shown it; without `payloads` there is nothing of payload, result and progress."""
    if not payloads:
        return msgspec.structs.replace(job, payload={}, result=None, progress=None)
    fields = redactions.get(job.type)
    if not fields:
        return job
    return msgspec.structs.replace(job, payload=redacted(job.payload, fields), result=redacted(job.result, fields))
