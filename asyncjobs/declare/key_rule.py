"""Which serialization key a job gets: by a template over its arguments, or by the user's function."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, cast

from asyncjobs.declare.signature import Parameter
from asyncjobs.errors import ConfigurationError, InvalidHandler, InvalidPayload
from asyncjobs.model.names import key_problem, kind_of, shown

KeyFunction = Callable[..., str | None]


def check_template(name: str, template: object) -> list[str]:
    """The parameters that the template names. ConfigurationError when it is no template."""
    if not isinstance(template, str):
        remedy = f'use a template such as "inbox_{{to}}", or the decorator @{name}.serialize_by'
        raise ConfigurationError(f'job "{name}": serialize_by={template!r} is {kind_of(template)}: {remedy}.')
    try:
        parts = [part for _, part, _, _ in Formatter().parse(template) if part is not None]
    except ValueError as error:
        raise ConfigurationError(f'job "{name}": serialize_by="{template}" does not parse: {error}.') from None
    if not template:
        raise ConfigurationError(f'job "{name}": serialize_by is empty: leave it out, or name a resource, as in "inbox_{{to}}".')
    return [part.partition(".")[0].partition("[")[0] for part in parts]


class KeyRule:
    """How the keys of one job type are made."""

    def __init__(self, name: str, template: str | None, *, function_name: str) -> None:
        self.name = name
        self._function_name = function_name
        self.template = template
        self._function: KeyFunction | None = None
        self._defaults: dict[str, Any] = {}
        self.is_given = template is not None  # or a function

    def set_function(self, function: object) -> None:
        """Make keys with this function. InvalidHandler when there is a rule already, or when it is no plain function."""
        if self.is_given:
            raise InvalidHandler(self.name, "serialize_by is given twice: keep one of them.")
        self._function = _plain_function(self.name, function)
        self.is_given = True

    def bind(self, parameters: Sequence[Parameter]) -> None:
        """Hold the rule against the handler's parameters. InvalidHandler when it names others."""
        self._defaults = {parameter.name: parameter.default for parameter in parameters if not parameter.is_required}
        names = [parameter.name for parameter in parameters]
        if self.template is not None:
            unknown = [part for part in check_template(self.name, self.template) if part not in names]
            if unknown:
                has = ", ".join(names) or "no parameters"
                raise InvalidHandler(self.name, f"serialize_by names {{{unknown[0]}}}, but {self._function_name} has {has}.")
        if self._function is not None:
            self._bind_function(self._function, names)

    def _bind_function(self, function: KeyFunction, names: Sequence[str]) -> None:
        try:
            inspect.signature(function).bind(**dict.fromkeys(names))
        except TypeError as error:
            has = ", ".join(names) or "no parameters"
            raise InvalidHandler(self.name, f"serialize_by gets the handler's arguments by name ({has}): {error}.") from None

    def key_for(self, arguments: Mapping[str, Any]) -> str | None:
        """The key of a job with these arguments. InvalidPayload when there is none that can be stored."""
        if not self.is_given:
            return None
        key = self._made({**self._defaults, **arguments})
        if key is None:
            return None
        problem = key_problem(key)
        if problem:
            raise InvalidPayload(self.name, f"the serialization key {shown(key)} {problem}")
        return key

    def _made(self, arguments: Mapping[str, Any]) -> str | None:
        try:
            if self._function is not None:
                return self._function(**arguments)
            return _Filled().vformat(self.template or "", (), arguments)
        except Exception as error:  # the user's function, or a format of the user's class
            raise InvalidPayload(self.name, f"serialize_by failed: {type(error).__name__}: {error}") from error


def _plain_function(name: str, function: Any) -> KeyFunction:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise InvalidHandler(name, f"serialize_by needs a plain function, not {function!r}: it must not wait.")
    return cast("KeyFunction", function)


class _Filled(Formatter):
    """A template's values as text; None has none, since all jobs without a value would share one line."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            raise ValueError("a value is None: decide what that means with the decorator @….serialize_by")
        return str(super().format_field(value, format_spec))
