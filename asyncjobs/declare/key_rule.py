"""Which keys a job gets, for its line (`serialize_by`) and against others like it (`dedup_by`): by a template over its arguments,
or by the user's function.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, Final, cast

from asyncjobs.declare.signature import Parameter
from asyncjobs.errors import ConfigurationError, InvalidHandler, InvalidPayload
from asyncjobs.model.names import key_problem, kind_of, shown
from asyncjobs.model.storable import safe_str

KeyFunction = Callable[..., str | None]


_EXAMPLES: Final = {
    "serialize_by": 'name a resource, as in "inbox_{to}"',
    "dedup_by": 'name what is to be there once, as in "{to}"',
    "by": 'name whose jobs are counted together, as in "tenant_{tenant}"',
}
_WHAT: Final = {"serialize_by": "serialization key", "dedup_by": "dedup key", "by": "limit key"}


def check_template(name: str, template: object, *, option: str = "serialize_by") -> list[str]:
    """The parameters that the template names. ConfigurationError when it is no template."""
    if not isinstance(template, str):
        remedy = f'use a template such as "inbox_{{to}}", or the decorator @{name}.{option}'
        raise ConfigurationError(f'job "{name}": {option}={template!r} is {kind_of(template)}: {remedy}.')
    try:
        parts = [part for _, part, _, _ in Formatter().parse(template) if part is not None]
    except ValueError as error:
        raise ConfigurationError(f'job "{name}": {option}="{template}" does not parse: {error}.') from None
    if not template:
        raise ConfigurationError(f'job "{name}": {option} is empty: leave it out, or {_EXAMPLES[option]}.')
    return [part.partition(".")[0].partition("[")[0] for part in parts]


class KeyRule:
    """How the keys of one job type are made."""

    def __init__(self, name: str, template: str | None, *, function_name: str, option: str = "serialize_by") -> None:
        self.name = name
        self._option = option
        self._function_name = function_name
        self.template = template
        self._function: KeyFunction | None = None
        self._defaults: dict[str, Any] = {}
        self.is_given = template is not None  # or a function

    def set_function(self, function: object) -> None:
        """Make keys with this function. InvalidHandler when there is a rule already, or when it is no plain function."""
        if self.is_given:
            raise InvalidHandler(self.name, f"{self._option} is given twice: keep one of them.")
        self._function = _plain_function(self.name, function, self._option)
        self.is_given = True

    def bind(self, parameters: Sequence[Parameter]) -> None:
        """Hold the rule against the handler's parameters. InvalidHandler when it names others."""
        self._defaults = {parameter.name: parameter.default for parameter in parameters if not parameter.is_required}
        names = [parameter.name for parameter in parameters]
        if self.template is not None:
            unknown = [part for part in check_template(self.name, self.template, option=self._option) if part not in names]
            if unknown:
                has = ", ".join(names) or "no parameters"
                raise InvalidHandler(self.name, f"{self._option} names {{{unknown[0]}}}, but {self._function_name} has {has}.")
        if self._function is not None:
            self._bind_function(self._function, names)

    def _bind_function(self, function: KeyFunction, names: Sequence[str]) -> None:
        try:
            inspect.signature(function).bind(**dict.fromkeys(names))
        except TypeError as error:
            has = ", ".join(names) or "no parameters"
            raise InvalidHandler(self.name, f"{self._option} gets the handler's arguments by name ({has}): {error}.") from None

    def key_for(self, arguments: Mapping[str, Any]) -> str | None:
        """The key of a job with these arguments. InvalidPayload when there is none that can be stored."""
        if not self.is_given:
            return None
        key = self._made({**self._defaults, **arguments})
        if key is None:
            return None
        problem = key_problem(key)
        if problem:
            raise InvalidPayload(self.name, f"the {_WHAT[self._option]} {shown(key)} {problem}")
        return key

    def _made(self, arguments: Mapping[str, Any]) -> str | None:
        try:
            if self._function is not None:
                return self._function(**arguments)
            return _Filled().vformat(self.template or "", (), arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's function, or a format of the user's class
            raise InvalidPayload(self.name, f"{self._option} failed: {type(error).__name__}: {safe_str(error)}") from error


def _plain_function(name: str, function: Any, option: str) -> KeyFunction:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise InvalidHandler(name, f"{option} needs a plain function, not {function!r}: it must not wait.")
    return cast("KeyFunction", function)


class _Filled(Formatter):
    """A template's values as text; None has none, since all jobs without a value would share one key."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            raise ValueError("a value is None: decide what that means with the decorator @….serialize_by (or dedup_by)")
        return str(super().format_field(value, format_spec))
