"""Pydantic's types inside payloads and results. pydantic is only imported here, and only when its types are in use."""

import sys
from typing import Any


def is_pydantic_type(kind: type) -> bool:
    """Whether pydantic knows how to store values of this type (a model, `HttpUrl` …)."""
    return "pydantic" in sys.modules and hasattr(kind, "__get_pydantic_core_schema__")


_adapters: dict[type, Any] = {}


def _adapter(kind: type) -> Any:
    adapter = _adapters.get(kind)
    if adapter is None:
        from pydantic import TypeAdapter

        adapter = _adapters[kind] = TypeAdapter(kind)
    return adapter


def dump(value: Any) -> Any:
    """The value as JSON can hold it. ValueError when its own serializers refuse."""
    return _adapter(type(value)).dump_python(value, mode="json", by_alias=True, round_trip=True)


def load(kind: type, text: bytes) -> Any:
    """A value of the type from its JSON. ValueError with one line for what does not fit; never with the input."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_json(text)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc'])) or 'value'}: {item['msg']}" for item in error.errors(include_url=False)]
        raise ValueError("; ".join(problems[:5])) from None
