"""JSON columns as values, whatever a stranger has written there: one row must not break the list that it stands in."""

from typing import Any, Final

import msgspec

from asyncjobs.model.json_value import is_deeper

#: Levels that what shows a value can walk through as well. Deeper ones are a stranger's: an enqueue refuses them earlier.
_DEEPEST: Final = 300
_JSON: Final = ("payload", "errors", "result", "progress")
_EMPTY: Final[dict[str, Any]] = {"payload": {}, "errors": []}
_ERRORS: Final = (msgspec.DecodeError, ValueError, RecursionError)


def readable(values: dict[str, Any]) -> dict[str, Any]:
    """The columns of a job with their JSON decoded; `unreadable` names those that are not what a program can hold, or show."""
    unreadable: list[str] = []
    for name in _JSON:
        if values[name] is None:
            continue
        try:
            values[name] = _decoded(name, values[name])
        except _ERRORS:
            values[name] = _EMPTY.get(name)
            unreadable.append(name)
    values["unreadable"] = unreadable
    return values


def _decoded(name: str, text: str) -> Any:
    value = decoded(text)
    if name == "errors" and not (isinstance(value, list) and all(isinstance(entry, dict) for entry in value)):
        raise ValueError("no list of errors")
    return value


def decoded(text: str) -> Any:
    """The value. Raises one of several errors when it is none that a program can hold."""
    if is_deeper(text, _DEEPEST):
        raise ValueError(f"nested deeper than {_DEEPEST} levels")
    return msgspec.json.decode(text)


def decoded_or(text: str | None, default: Any, *, type: Any = Any) -> Any:
    """The value, or the default when there is none of this type."""
    try:
        return default if text is None else msgspec.convert(decoded(text), type)
    except _ERRORS:
        return default
