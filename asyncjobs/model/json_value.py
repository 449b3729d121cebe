"""What JSON and jsonb cannot hold: found before anything is sent, with the place where it is.

Each check first asks the encoded text at the speed of C, and walks the values only when there is something to find.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import msgspec

from asyncjobs.model.names import kind_of, shown

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(r"[\[\]{}]")

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


def find_changed(sent: Any, arrived: Any, path: str = "$") -> tuple[str, str] | None:
    """The path and kind of the first value that arrives as something else than was sent; None when all is well.

    Whatever arrives as a class of its own was declared, and its decoder has checked it; JSON's own types must be what was sent.
    A tuple may arrive as a list.
    """
    if type(arrived) in (dict, list):
        return _container_changed(sent, arrived, path)
    if arrived is None or type(arrived) in (str, bool, int, float):
        return None if _is_same(sent, arrived) else (path, _arrives(sent, arrived))
    for name in _fields_of(sent) if type(sent) is type(arrived) else ():
        found = find_changed(getattr(sent, name), getattr(arrived, name), f"{path}.{name}")
        if found:
            return found
    return None


def _container_changed(sent: Any, arrived: Any, path: str) -> tuple[str, str] | None:
    if isinstance(arrived, dict) and isinstance(sent, Mapping):
        for key in sent:
            if key not in arrived:
                return path, f"the key {shown(key)} is {kind_of(key)}: JSON's keys are str"
        pairs: Iterator[tuple[Any, Any, str]] = ((sent[key], arrived[key], f"{path}.{key}") for key in sent)
    elif isinstance(arrived, list) and isinstance(sent, (list, tuple)):
        pairs = ((one, other, f"{path}[{index}]") for index, (one, other) in enumerate(zip(sent, arrived, strict=True)))
    else:
        return path, _arrives(sent, arrived)
    return next((found for one, other, where in pairs if (found := find_changed(one, other, where))), None)


def _is_same(sent: Any, arrived: Any) -> bool:
    if isinstance(sent, bool) != isinstance(arrived, bool):
        return False
    return bool(sent == arrived)


def _arrives(sent: Any, arrived: Any) -> str:
    kind, other = type(sent).__name__, type(arrived).__name__
    if isinstance(sent, (int, float)) and isinstance(arrived, (int, float)):
        return f"{shown(sent)} would arrive as {shown(arrived)}"
    return f"expected {other}, got {kind} (it would arrive as {other}: annotate the field, or convert the value)"


def _fields_of(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    fields: Mapping[str, Any] = getattr(value, "__dataclass_fields__", {})
    return tuple(fields)


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{path}.{key}", child) for key, child in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{path}[{index}]", child) for index, child in enumerate(value))
    else:
        yield from ((f"{path}.{name}", getattr(value, name, None)) for name in _fields_of(value))


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, Mapping):
            for key in value:
                yield path, key
        waiting.extend(reversed(list(_children(value, path))))
