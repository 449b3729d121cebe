"""What a handler's signature says: whether it takes the context, which fields its payload has, what it returns."""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from asyncjobs.context import JobContext
from asyncjobs.errors import InvalidHandler
from asyncjobs.model.outcome import Cancel, Dead, Retry, Snooze

_EMPTY = inspect.Parameter.empty
_VERDICTS = (Snooze, Retry, Cancel, Dead)


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the payload."""

    name: str
    hint: Any
    default: Any = msgspec.NODEFAULT
    keyword_only: bool = False

    @property
    def is_required(self) -> bool:
        """Whether the handler has no default for it."""
        return self.default is msgspec.NODEFAULT


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """A handler's signature without its context."""

    takes_context: bool
    parameters: tuple[Parameter, ...]
    returns: Any  # without verdicts; Any when it is not annotated


def check_function(name: str, function: object) -> Callable[..., Any]:
    """The function, or InvalidHandler for what is no function of the kind that can be a handler."""
    if isinstance(function, (staticmethod, classmethod)):
        raise InvalidHandler(name, "a method cannot be a handler: declare a function of a module.")
    if not callable(function) or isinstance(function, type):
        raise InvalidHandler(name, f"{function!r} is not a function: put the decorator on an `async def`.")
    body = _body_of(function)
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise InvalidHandler(name, f"{_name_of(function)} is a generator: return its result instead of yielding.")
    return function


def is_async(function: Callable[..., Any]) -> bool:
    """Whether the function is `async def`, also inside a partial. What a plain `def` wraps is another matter: it may block."""
    called = _called_of(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def wraps_async(function: Callable[..., Any]) -> bool:
    """Whether the function is a plain `def` round an `async def`: it runs that itself, or hands its coroutine on."""
    return not is_async(function) and inspect.iscoroutinefunction(_body_of(function))


def _called_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a call enters: without partials, the `__call__` of an object."""
    called = function
    while isinstance(called, partial):
        called = called.func
    return called if inspect.isroutine(called) else type(called).__call__


def _body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose code runs in the end: without partials and decorators, the `__call__` of an object."""
    body = function
    while isinstance(body, partial):
        body = body.func
    return _called_of(inspect.unwrap(body))


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(_body_of(function), "__name__", repr(function)))


def read_signature(name: str, function: Callable[..., Any], names: Mapping[str, Any] | None = None) -> Signature:
    """What the handler's signature says. InvalidHandler for a shape that a payload cannot have.

    `names` are the local names at the declaration, for annotations that are strings. NameError when one of them does not exist
    (yet): a class further down in the module, or one imported for type checkers only.
    """
    try:
        declared = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InvalidHandler(name, f"{function!r} has no signature: wrap it in a function of your own.") from None
    hints = get_type_hints(_body_of(function), localns=dict(names) if names is not None else None, include_extras=True)
    for parameter in declared:
        _refuse_kind(name, parameter)
    first = declared[0] if declared and declared[0].kind is not inspect.Parameter.KEYWORD_ONLY else None
    takes_context = first is not None and _is_context(hints.get(first.name, _EMPTY))
    if first is not None and not takes_context:
        _refuse_ambiguous(name, first, hints)
    fields = tuple(_field(name, parameter, hints) for parameter in declared[takes_context:])
    return Signature(takes_context=takes_context, parameters=fields, returns=_without_verdicts(hints.get("return", Any)))


def _refuse_kind(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise InvalidHandler(name, f'parameter "{parameter}" takes anything: name each field, so that it can be checked.')


def _plain(hint: Any) -> Any:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return JobContext if get_origin(hint) is JobContext else hint  # JobContext[AsyncJobs], as type checkers show it


def _members(hint: Any) -> tuple[Any, ...]:
    hint = _plain(hint)
    if get_origin(hint) in (Union, UnionType):
        return tuple(member for part in get_args(hint) for member in _members(part))
    return (hint,)


def _is_context(hint: Any) -> bool:
    return _plain(hint) is JobContext


def _refuse_ambiguous(name: str, first: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    """Type checkers take a first parameter that a context would fit for the context; then the payload lacks a field."""
    hint = hints.get(first.name, _EMPTY)
    if hint is _EMPTY:
        raise InvalidHandler(
            name,
            f'first parameter "{first.name}" has no annotation and could be the context: '
            "annotate it JobContext or a payload type.",
        )
    if any(_takes_a_context(member) for member in _members(hint)):
        raise InvalidHandler(
            name,
            f'first parameter "{first.name}: {show_hint(hint)}" could be the context: annotate it JobContext or a payload type.',
        )


def _takes_a_context(hint: Any) -> bool:
    if hint in (Any, object, JobContext) or isinstance(hint, TypeVar):
        return True
    return bool(getattr(get_origin(hint) or hint, "_is_protocol", False))


def _field(name: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Parameter:
    hint = hints.get(parameter.name, Any)
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise InvalidHandler(name, f'parameter "{parameter.name}" is positional-only: a payload is by name, leave out the "/".')
    if JobContext in _members(hint):
        raise InvalidHandler(name, f'parameter "{parameter.name}" is the context: it comes first, and by position.')
    return Parameter(
        name=parameter.name,
        hint=hint,
        default=msgspec.NODEFAULT if parameter.default is _EMPTY else parameter.default,
        keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
    )


def _without_verdicts(hint: Any) -> Any:
    kept = [member for member in _members(hint) if member not in _VERDICTS]
    if len(kept) == len(_members(hint)):
        return hint
    return Union[tuple(kept)] if kept else NoneType  # noqa: UP007 - made of what is known at run time only


def show_hint(hint: Any) -> str:
    """The annotation as somebody would write it."""
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return re.sub(r"\b(?:\w+\.)+(\w)", r"\1", str(hint))
