"""Payloads and results as JSON text: encoded, decoded back, and compared, before anything is sent (promise P11)."""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from inspect import isawaitable
from types import NoneType
from typing import Any, Final, NotRequired, TypedDict

import msgspec
from msgspec import UNSET

from asyncjobs.declare import pydantic_types
from asyncjobs.declare.options import KNOWN as OPTIONS
from asyncjobs.declare.results import Results, check_argument, is_results, stored_hint
from asyncjobs.declare.signature import Parameter, show_hint
from asyncjobs.declare.upstream import Upstream, without_upstreams
from asyncjobs.errors import InvalidHandler, InvalidPayload, UndecodablePayload, UnstorableResult, did_you_mean
from asyncjobs.model.discreet import discreet
from asyncjobs.model.json_value import (
    ENCODE_ERRORS,
    as_jsonb,
    find_changed,
    find_naive,
    find_unencodable,
    find_unstorable,
    has_exponent,
    is_deeper,
    is_suspicious,
)
from asyncjobs.model.names import kind_of, shown

DEFAULT_DEPTH = 200
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_FIELD = re.compile(r"^Object (?P<what>missing required|contains unknown) field `(?P<name>.*?)`")


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A checked payload: its JSON text, and the arguments as they will arrive."""

    text: str
    arrived: msgspec.Struct  # with a field for each parameter, UNSET if it was left out
    takes: tuple[Upstream, ...] = ()  # results that it names
    opened: Mapping[str, Any] | None = None  # the arguments that name some

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, without those that were left out."""
        return {**by_name(self.arrived), **self.opened} if self.opened else by_name(self.arrived)

    def __repr__(self) -> str:
        return discreet(self, "text", "arrived")


def by_name(arrived: msgspec.Struct) -> dict[str, Any]:
    """What is in the fields of a decoded payload."""
    return {name: value for name, value in msgspec.structs.asdict(arrived).items() if value is not UNSET}


def enc_hook(value: Any) -> Any:
    """For msgspec: how to encode what it does not know."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Results):
        return value.stored
    if pydantic_types.is_pydantic_type(type(value)):
        return pydantic_types.dump(value)
    if isawaitable(value):
        if isinstance(value, Coroutine):
            value.close()  # or Python warns that nobody awaited it
        raise NotImplementedError(f"a {type(value).__name__}, not what it would give: an `await` is missing")
    raise NotImplementedError(f"{type(value).__name__} cannot be stored as JSON")


def dec_hook(kind: type, value: Any) -> Any:
    """For msgspec: how to decode what it does not know."""
    if is_results(kind):
        return Results.of_payload(kind, value, dec_hook)
    if pydantic_types.is_pydantic_type(kind):
        return pydantic_types.load(kind, msgspec.json.encode(value))
    raise NotImplementedError(f"{show_hint(kind)} cannot be read from JSON")


#: Called for what only a run knows, which type checkers do not follow.
_typed_dict: Final[Any] = TypedDict

_UNSET: Final = id(UNSET)

_plain: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder(enc_hook=enc_hook)


class Problem(Exception):
    """Why a value cannot be stored, and where; made into the error that suits the caller."""

    def __init__(self, text: str, path: str = "$") -> None:
        super().__init__(text, path)
        self.text, self.path = text, path


def to_json(value: Any, *, max_depth: int = DEFAULT_DEPTH) -> str:
    """The value as JSON text that jsonb takes and gives back unchanged; Problem when there is none."""
    try:
        text = _encoder.encode(value).decode()
    except RecursionError:
        raise Problem(f"nested deeper than {max_depth} levels (max_depth)") from None
    except ENCODE_ERRORS as error:
        path, part = find_unencodable(value, _encoder.encode)
        raise Problem(_encode_problem(error, part), path) from None
    if len(text) > max_depth and is_deeper(text, max_depth):
        raise Problem(f"nested deeper than {max_depth} levels (max_depth)")
    if is_suspicious(text):
        found = find_unstorable(msgspec.to_builtins(value, enc_hook=enc_hook, str_keys=True))
        if found:
            raise Problem(found[1], found[0])
    return text


def _encode_problem(error: BaseException, part: Any) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "a lone surrogate, which UTF-8 cannot hold"
    if isinstance(part, int):
        return "an integer with more digits than Python turns into text"
    wrong = [key for key in part if not isinstance(key, str)] if isinstance(part, Mapping) else []
    if wrong:
        return f"the key {shown(wrong[0])} is {kind_of(wrong[0])}: JSON's keys are str"
    return str(error) or type(error).__name__


def _problem_of(error: Exception) -> Problem:
    """What msgspec said, as a Problem."""
    match = _AT.match(str(error))
    text, path = (match["problem"], match["path"] or "$") if match else (str(error), "$")
    field = _FIELD.match(text)
    if field:
        what = "missing" if field["what"].startswith("missing") else "unknown"
        return Problem(f'{what} field "{field["name"]}"', f"{path}.{field['name']}")
    text = text.replace("`", "")
    return Problem(text[:1].lower() + text[1:], path)


class PayloadCodec:
    """The payload of one job type: parameter name → value."""

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self.name = name
        self.fields = tuple(parameter.name for parameter in parameters)
        self._parameters = parameters
        self._open_codecs: dict[frozenset[str], PayloadCodec] = {}  # for calls in which these name results
        self._known = frozenset(self.fields)
        self._all_required = all(parameter.is_required for parameter in parameters)
        self._positional = tuple(parameter.name for parameter in parameters if not parameter.keyword_only)
        fields = [_struct_field(parameter) for parameter in parameters]
        items = {parameter.name: _as_item(parameter) for parameter in parameters}
        for parameter in parameters:
            refuse_unstorable(name, f'parameter "{parameter.name}: {show_hint(parameter.hint)}"', stored_hint(parameter.hint))
        kw_only = any(parameter.keyword_only for parameter in parameters)  # all, since one class has only one kind
        self._struct = msgspec.defstruct("Payload", fields, kw_only=kw_only, forbid_unknown_fields=True)
        strict = msgspec.json.Decoder(self._struct, dec_hook=dec_hook)
        nodes = [(parameter.name, _nodes(msgspec.inspect.type_info(parameter.hint), {})) for parameter in parameters]
        #: Parameters whose values may change although they are equal, by their own `==`. Plain ones are not looked at twice.
        self._watched = tuple(name for name, found in nodes if any(isinstance(node, _WATCHED) for node in found))
        self._read = _as_stored(strict) if any(_is_open(found) for _name, found in nodes) else strict.decode
        #: A dict comes out of it, and nothing is left to be done. What the handler does not know is left out.
        self._loose: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(_typed_dict("Payload", items), dec_hook=dec_hook)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, max_depth: int = DEFAULT_DEPTH) -> Encoded:
        """The payload of a call, checked by encoding it, decoding it, and comparing. InvalidPayload says what and where."""
        encoded = None
        try:  # where all is well, this is half of the time of the wary way, whose errors say what is wrong
            sent = self._struct(*args, **kwargs)
            text = _encoder.encode(sent).decode()
            arrived: msgspec.Struct = self._read(text)
            if sent == arrived and not is_suspicious(text) and not (self._watched and self._is_changed(sent, arrived)):
                encoded = Encoded(text, arrived)
        except (msgspec.DecodeError, *ENCODE_ERRORS):
            encoded = None
        # What is told from an argument that was left out by nothing has to be refused.
        if not self._all_required and (_UNSET in map(id, args) or _UNSET in map(id, kwargs.values())):
            encoded = None
        if encoded is None or (len(encoded.text) > max_depth and is_deeper(encoded.text, max_depth)):
            return self._encode_warily(args, kwargs, max_depth)
        return encoded

    def _encode_warily(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], max_depth: int) -> Encoded:
        arguments = self.arguments(args, kwargs)
        if not self._known.issuperset(arguments):
            self._refuse_unknown(arguments)
        plain = {name: without_upstreams(value, enc_hook) for name, value in arguments.items()}
        if any(found for _, found in plain.values()):
            return self._encode_with_upstreams(arguments, plain, max_depth)
        try:
            text = to_json(arguments, max_depth=max_depth)
            return Encoded(text, self._arriving(arguments, text))
        except Problem as problem:
            raise InvalidPayload(self.name, problem.text, path=problem.path) from None

    def _encode_with_upstreams(
        self, arguments: Mapping[str, Any], plain: Mapping[str, tuple[Any, list[Upstream]]], max_depth: int
    ) -> Encoded:
        """The payload of a call some of whose arguments are, or have in them, results of others, which may be anything yet."""
        opened = {name: found for name, (_, found) in plain.items() if found}
        for parameter in self._parameters:
            value = arguments.get(parameter.name)
            if isinstance(value, Upstream):
                check_argument(self.name, parameter.name, parameter.hint, value)
            elif any(one.is_paged for one in opened.get(parameter.name, ())):
                problem = "a group's results that are read in pages (.paged) have to be the whole argument"
                raise InvalidPayload(self.name, problem, path=f"$.{parameter.name}")
        codec = self._open_codecs.get(frozenset(opened))
        if codec is None:
            codec = self._open_codecs[frozenset(opened)] = PayloadCodec(self.name, [
                msgspec.structs.replace(one, hint=Any) if one.name in opened else one for one in self._parameters])  # fmt: skip
        sent = {name: value for name, (value, _) in plain.items() if name in opened}
        encoded = codec.encode((), {**arguments, **sent}, max_depth=max_depth)
        takes = tuple(upstream for found in opened.values() for upstream in found)
        return Encoded(encoded.text, encoded.arrived, takes, {name: found[0] for name, found in opened.items()})

    def _arriving(self, arguments: Mapping[str, Any], text: str) -> msgspec.Struct:
        try:
            arrived: msgspec.Struct = self._read(text)
        except (msgspec.DecodeError, *ENCODE_ERRORS) as error:
            raise _problem_of(error) from None
        given = by_name(arrived)
        problem = find_changed(arguments, given) or find_naive(given)
        if problem:
            raise Problem(problem[1], problem[0])
        return arrived

    def _is_changed(self, sent: msgspec.Struct, arrived: msgspec.Struct) -> bool:
        for name in self._watched:
            one, other = getattr(sent, name), getattr(arrived, name)
            if find_changed(one, other) or find_naive(other):
                return True
        return False

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments by name. InvalidPayload for too many, and for one given twice."""
        if len(args) > len(self._positional):
            problem = f"takes at most {len(self._positional)} positional arguments, got {len(args)}"
            raise InvalidPayload(self.name, problem)
        arguments = dict(zip(self._positional, args, strict=False))
        twice = arguments.keys() & kwargs.keys()
        if twice:
            raise InvalidPayload(self.name, f'"{min(twice)}" is given twice', path=f"$.{min(twice)}")
        return {**arguments, **kwargs}

    def _refuse_unknown(self, arguments: Mapping[str, Any]) -> None:
        for name in arguments:
            if name not in self.fields:
                guess = did_you_mean(str(name), self.fields)
                if not guess and name in OPTIONS:
                    value = arguments[name] if isinstance(arguments[name], int | float) else "..."
                    guess = f" That is an option: use .using({name}={value}).enqueue(...)."
                raise InvalidPayload(self.name, f"unknown field {shown(name)}.{guess}", path=f"$.{name}")

    def decode(self, text: str) -> dict[str, Any]:
        """The arguments of a stored payload: fields that the handler does not know are left out, as are those not stored."""
        try:
            return self._loose.decode(text)
        except (msgspec.DecodeError, *ENCODE_ERRORS) as error:
            problem = _problem_of(error)
            raise UndecodablePayload(self.name, problem.text, path=problem.path) from None

    def plain(self, text: str) -> dict[str, Any]:
        """The fields of a stored payload as plain JSON. UndecodablePayload when it is none."""
        try:
            return _plain.decode(text)
        except (msgspec.DecodeError, *ENCODE_ERRORS) as error:
            raise UndecodablePayload(self.name, _problem_of(error).text) from None


def _as_item(parameter: Parameter) -> Any:
    return parameter.hint if parameter.is_required else NotRequired[parameter.hint]


def _struct_field(parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.is_required:
        return parameter.name, parameter.hint
    return parameter.name, parameter.hint, UNSET


def refuse_unstorable(name: str, what: str, hint: Any) -> None:
    """InvalidHandler when values of this type cannot be told from JSON. NameError when it names a type that is not there yet."""
    try:
        nodes = _nodes(msgspec.inspect.type_info(hint), {})
        msgspec.json.Decoder(hint, dec_hook=dec_hook)
    except (TypeError, ValueError) as error:
        raise InvalidHandler(name, f"{what} cannot be stored as JSON: {error}.") from None
    for kind in (node.cls for node in nodes if isinstance(node, msgspec.inspect.CustomType)):
        if not pydantic_types.is_pydantic_type(kind):
            remedy = (
                "Results is a parameter's own type, and nothing within another"
                if kind is Results
                else "use a dataclass, a msgspec.Struct or a pydantic model"
            )
            raise InvalidHandler(name, f"{what} cannot be stored as JSON ({show_hint(kind)}): {remedy}.")


#: Types of which two values may be equal and not the same, or which are refused for what they hold.
_WATCHED: Final = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.CustomType,
    msgspec.inspect.DateTimeType,
    msgspec.inspect.TimeType,
)


def _nodes(node: Any, seen: dict[int, Any]) -> list[Any]:
    """All that a type is made of, as msgspec tells it, itself first."""
    if id(node) in seen or not isinstance(node, (tuple, list, msgspec.inspect.Type, msgspec.inspect.Field)):
        return []
    seen[id(node)] = node
    parts = node if isinstance(node, (tuple, list)) else [getattr(node, name) for name in node.__struct_fields__]
    return [node, *(found for part in parts for found in _nodes(part, seen))]


def _is_open(nodes: Sequence[Any]) -> bool:
    """Whether a number may be in it of which only the text says if it is an int or a float: jsonb writes it in its own way."""
    kinds = {type(node) for node in nodes}
    return bool(kinds & {msgspec.inspect.AnyType, msgspec.inspect.CustomType}) or kinds >= {
        msgspec.inspect.IntType,
        msgspec.inspect.FloatType,
    }


def _as_stored(decoder: msgspec.json.Decoder[Any]) -> Callable[[str], Any]:
    return lambda text: decoder.decode(as_jsonb(text) if has_exponent(text) else text)


class ResultCodec:
    """The result of one job type."""

    def __init__(self, name: str, hint: Any) -> None:
        self.name = name
        if hint in (None, NoneType):  # what it gives to ctx.complete is not what it returns
            hint = Any
        try:
            refuse_unstorable(name, "the result", hint)
            self._decoder = msgspec.json.Decoder(hint, dec_hook=dec_hook)
            self._plain = hint if hint in (str, int, bool) else None
        except (InvalidHandler, NameError):
            self._decoder, self._plain = msgspec.json.Decoder(), None
        self._read = _as_stored(self._decoder)

    def encode(self, value: Any, *, max_depth: int = DEFAULT_DEPTH) -> str | None:
        """The result as JSON text, None for None. UnstorableResult: what JSON cannot hold, or what would come back changed."""
        if value is None:
            return None
        try:
            text = to_json(value, max_depth=max_depth)
            if type(value) is not self._plain:
                self._refuse_changed(value, text)
        except Problem as problem:
            raise UnstorableResult(self.name, problem.text, path=problem.path) from None
        return text

    def _refuse_changed(self, value: Any, text: str) -> None:
        try:
            read = self._read(text)
        except (msgspec.DecodeError, *ENCODE_ERRORS) as error:
            raise _problem_of(error) from None
        changed = find_changed(value, read)
        if changed:
            raise Problem(changed[1], changed[0])

    def decode(self, text: str | None) -> Any:
        """The result as the handler's return type says. ValueError when it does not fit."""
        if text is None:
            return None
        try:
            return self._decoder.decode(text)
        except (msgspec.DecodeError, *ENCODE_ERRORS) as error:
            problem = _problem_of(error)
            raise ValueError(f"{problem.text} - at {problem.path}") from None
