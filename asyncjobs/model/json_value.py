"""What JSON and jsonb cannot hold: found before anything is sent, with the place where it is.

Each check first asks the encoded text at the speed of C, and walks the values only when there is something to find.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import msgspec

from asyncjobs.model.names import kind_of, shown

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(r"[\[\]{}]")
_EXPONENT = re.compile(r"\d[eE]\+?\d")
_STRING_OR_LARGE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?[eE]\+?\d+')

#: JSON's own classes: what may be the stored form of another.
_PLAIN: Final = frozenset({str, bool, int, float, type(None), dict, list, tuple})
_MISSING: Final = object()

#: What an encoder may raise for a value that it cannot encode, a failing property of the user's class included.
ENCODE_ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, NotImplementedError)


def is_deeper(text: str, limit: int) -> bool:
    """Whether the JSON text nests more than `limit` levels."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > limit:
            return True
    return False


def is_suspicious(text: str) -> bool:
    """Whether there may be something in the value of which this is the JSON text that jsonb would refuse or change silently."""
    return "null" in text or "\\u0000" in text


def find_unstorable(builtins: Any) -> tuple[str, str] | None:
    """The path and the kind of the first value that jsonb would refuse or change silently; None when there is none."""
    for path, value in _walk(builtins, "$"):
        if isinstance(value, float) and not isfinite(value):
            return path, f"{value} is not a number that JSON can hold"
        if isinstance(value, str) and "\x00" in value:
            return path, "a NUL character, which PostgreSQL cannot store"
    return None


def find_unencodable(value: Any, encode: Callable[[Any], object]) -> tuple[str, Any]:
    """The deepest part that `encode` refuses: its path and itself."""
    path = "$"
    for _ in range(1000):
        for child_path, child in _children(value, path):
            try:
                encode(child)
            except ENCODE_ERRORS:
                path, value = child_path, child
                break
        else:
            break
    return path, value


def find_naive(value: Any) -> tuple[str, str] | None:
    """The path of the first datetime in it that has no time zone, and what is to be done; None when there is none."""
    for path, part in _walk(value, "$"):
        if isinstance(part, datetime) and part.utcoffset() is None:
            return path, "a datetime without a time zone: use datetime.now(UTC)"
    return None


def has_exponent(text: str) -> bool:
    """Whether there may be a number in this JSON text that jsonb writes in another way."""
    return _EXPONENT.search(text) is not None


def as_jsonb(text: str) -> str:
    """The JSON text with its large numbers as jsonb gives them back: 1e23 with 23 zeros, which without a type is an int."""
    return _STRING_OR_LARGE.sub(lambda found: found[0] if found[0][0] == '"' else format(Decimal(found[0]), "f"), text)


def find_changed(sent: Any, arrived: Any) -> tuple[str, str] | None:
    """The path and kind of the first value that arrives as something else than was sent; None when all is well.

    Classes are compared field by field, whatever their own `==` says. Three things are no change: what is equal to a built-in
    value arrives as that (a StrEnum as a str, an OrderedDict as a dict); a plain tuple may arrive as a list; JSON's own values
    are the stored form of a class, where one is declared.
    """
    waiting = [("$", sent, arrived)]
    while waiting:
        path, one, other = waiting.pop()
        if one is other:
            continue
        problem = _change(one, other)
        if problem:
            return path, problem
        waiting.extend(reversed(list(_pairs(one, other, path))))
    return None


def _change(sent: Any, arrived: Any) -> str | None:
    """What becomes another value here, without its parts."""
    if isinstance(arrived, Mapping):
        return _keys_changed(sent, arrived) if isinstance(sent, Mapping) else _arrives(sent, arrived)
    if isinstance(arrived, (list, tuple)):
        is_sequence = isinstance(sent, list) or type(sent) in (tuple, type(arrived)) or sent == arrived
        return None if is_sequence else _arrives(sent, arrived)
    if isinstance(arrived, (set, frozenset)):
        return _set_changed(sent, arrived)
    names = _fields_of(arrived)
    if names is not None:
        return _object_changed(sent, arrived, names)
    if type(arrived) not in _PLAIN and type(sent) in _PLAIN:
        return None  # its stored form
    return None if _is_same(sent, arrived) else _arrives(sent, arrived)


def _keys_changed(sent: Mapping[Any, Any], arrived: Mapping[Any, Any]) -> str | None:
    if _is_stored_form(sent, arrived):
        return None if len(sent) == len(arrived) else "two of its keys would arrive as one"
    for key in sent:
        if key not in arrived:
            if isinstance(key, str):
                return f"unknown field {shown(key)}"
            return f"the key {shown(key)} is {kind_of(key)}: JSON's keys are str"
    return None


def _is_stored_form(sent: Mapping[Any, Any], arrived: Mapping[Any, Any]) -> bool:
    """Whether its keys are what JSON has for keys of a class."""
    return all(isinstance(key, str) for key in sent) and not any(isinstance(key, str) for key in arrived)


def _set_changed(sent: Any, arrived: Any) -> str | None:
    if isinstance(sent, (list, tuple)):
        return None if len(sent) == len(arrived) else "the same value twice, in a set"
    return None if _is_same(sent, arrived) else _arrives(sent, arrived)


def _object_changed(sent: Any, arrived: Any, names: tuple[str, ...]) -> str | None:
    if isinstance(sent, Mapping):  # its stored form
        known = getattr(arrived, "__struct_encode_fields__", names)
        unknown = [key for key in sent if key not in known]
        return f"unknown field {shown(unknown[0])}" if unknown and not is_model(arrived) else None
    if type(sent) in _PLAIN:
        return None
    if _class_of(sent) is not _class_of(arrived):
        return _arrives(sent, arrived)
    private, other = getattr(sent, "__pydantic_private__", None), getattr(arrived, "__pydantic_private__", None)
    return None if _is_same(private, other) else "its private attributes would not arrive"


def _pairs(sent: Any, arrived: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The parts of both, where they have the same."""
    if isinstance(arrived, Mapping):
        if not _is_stored_form(sent, arrived):
            yield from ((f"{path}.{key}", sent[key], arrived[key]) for key in sent)
    elif isinstance(arrived, (list, tuple)):
        yield from ((f"{path}[{index}]", *both) for index, both in enumerate(zip(sent, arrived, strict=False)))
    elif isinstance(sent, Mapping):
        if not is_model(arrived):
            yield from ((f"{path}.{key}", sent[key], getattr(arrived, key)) for key in sent if hasattr(arrived, key))
    elif _class_of(sent) is _class_of(arrived):
        for name in dict.fromkeys((*(_fields_of(sent) or ()), *(_fields_of(arrived) or ()))):
            yield f"{path}.{name}", getattr(sent, name, _MISSING), getattr(arrived, name, _MISSING)


def _is_same(sent: Any, arrived: Any) -> bool:
    if isinstance(sent, bool) != isinstance(arrived, bool):
        return False
    if isinstance(arrived, time) and not isinstance(sent, str) and (sent.tzinfo is None) != (arrived.tzinfo is None):
        return False  # a zone that needs a date to know its offset is left out
    try:
        if isinstance(sent, datetime) and isinstance(arrived, datetime) and sent.utcoffset() is not None:
            # In an hour that a clock shows twice no two zones' datetimes are ever equal (PEP 495).
            sent, arrived = sent.astimezone(UTC), arrived.astimezone(UTC)
        if isinstance(sent, Decimal) and isinstance(arrived, Decimal):
            return str(sent) == str(arrived)  # with its scale; NaN is not equal to itself
        return bool(sent == arrived)
    except ENCODE_ERRORS:  # a user's own `==`
        return False


def _arrives(sent: Any, arrived: Any) -> str:
    kind, other = type(sent).__name__, type(arrived).__name__
    if isinstance(sent, (int, float)) and isinstance(arrived, (int, float)):
        return f"{shown(sent)} would arrive as {shown(arrived)}"
    if kind == other:
        return f"another {kind} would arrive: what is stored of it is not all of it, or is read as something else"
    return f"expected {other}, got {kind} (it would arrive as {other}: annotate the field, or convert the value)"


def is_model(value: Any) -> bool:
    """Whether it is of a class of pydantic's, which says by itself what it reads."""
    return hasattr(type(value), "__pydantic_core_schema__")


def _class_of(value: Any) -> type:
    """Its class; of a generic model of pydantic's the one without parameters, as its own `==` has it."""
    kind = type(value)
    generic: Mapping[str, Any] = getattr(kind, "__pydantic_generic_metadata__", None) or {}
    return generic.get("origin") or kind


def _fields_of(value: Any) -> tuple[str, ...] | None:
    """The names of its fields; None for what has none that are declared."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return tuple(attribute.name for attribute in attributes)
    declared = getattr(kind, "model_fields", None)
    if isinstance(declared, dict) and is_model(value):
        return (*declared, *(getattr(value, "__pydantic_extra__", None) or ()))
    return None


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{path}.{key}", child) for key, child in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{path}[{index}]", child) for index, child in enumerate(value))
    else:
        yield from ((f"{path}.{name}", getattr(value, name, None)) for name in _fields_of(value) or ())


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, Mapping):
            for key in value:
                yield path, key
        waiting.extend(reversed(list(_children(value, path))))
