"""What SQL knows of a job type's payload: its fields with their kinds of JSON, and how its serialization key is made.

Both are read by routines (`payload_problem` and `key_of` of store/routines/sql_door) that know nothing of Python: so a check is a
path to values and what each has to be, and a template is texts and fields. What they cannot say is left out of the checks, and
makes the key Python's. The words are msgspec's.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, Final

import msgspec
from msgspec import inspect

from asyncjobs.declare.results import stored_hint
from asyncjobs.declare.signature import Parameter

#: How deep checks follow types that are made of types.
_DEEPEST: Final = 8
_ROOT: Final = "strict $"
_Check = dict[str, Any]

#: What each type is called, in the order in which a union names its members, and which kinds of JSON it takes.
_KINDS: Final[Mapping[type[inspect.Type], tuple[str, tuple[str, ...]]]] = {
    inspect.BoolType: ("bool", ("bool",)),
    inspect.IntType: ("int", ("int",)),
    inspect.FloatType: ("float", ("int", "float")),
    inspect.StrType: ("str", ("str",)),
    inspect.BytesType: ("bytes", ("str",)),
    inspect.ByteArrayType: ("bytes", ("str",)),
    inspect.MemoryViewType: ("bytes", ("str",)),
    inspect.DateTimeType: ("datetime", ("str",)),
    inspect.DateType: ("date", ("str",)),
    inspect.TimeType: ("time", ("str",)),
    inspect.TimeDeltaType: ("duration", ("str",)),
    inspect.UUIDType: ("uuid", ("str",)),
    inspect.DecimalType: ("decimal", ("str", "int", "float")),
    inspect.DictType: ("object", ("object",)),
    inspect.TypedDictType: ("object", ("object",)),
    inspect.DataclassType: ("object", ("object",)),
    inspect.ListType: ("array", ("array",)),
    inspect.SetType: ("array", ("array",)),
    inspect.FrozenSetType: ("array", ("array",)),
    inspect.VarTupleType: ("array", ("array",)),
    inspect.CollectionType: ("array", ("array",)),
    inspect.TupleType: ("array", ("array",)),
    inspect.NamedTupleType: ("array", ("array",)),
    inspect.NoneType: ("null", ("null",)),
}
_ORDER: Final = tuple(dict.fromkeys(name for name, _ in _KINDS.values()))
_TYPES: Final = {"str": "string", "int": "number", "float": "number", "bool": "boolean"}  # as jsonpath calls them
_OF_VALUES: Final = {str: "str", int: "int", bool: "bool", type(None): "null"}


def schema_of(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The fields of a payload, and the checks that SQL can make of it. Nothing is in a field that was left out."""
    checks: list[_Check] = []
    for parameter in parameters:
        checks += _checks(
            inspect.type_info(stored_hint(parameter.hint)), _member(_ROOT, parameter.name), f"$.{parameter.name}", ()
        )
    checks += [_has(_ROOT, "$", parameter.name) for parameter in parameters if parameter.is_required]
    return {"fields": [parameter.name for parameter in parameters], "checks": checks}


def sieve_of(schema: Mapping[str, Any]) -> str:
    """A jsonpath that finds something in each payload in which a check would. It takes 1.0 for whole, which checks do not."""
    known = "".join(f" && @.key != {json.dumps(name)}" for name in schema["fields"])
    found = [f'exists (@.keyvalue() ? (@.key != ""{known}))', *(_sifted(check) for check in schema["checks"])]
    return f"strict $ ? ({' || '.join(found)})"


def _sifted(check: _Check) -> str:
    at = "@" + check["at"].removeprefix(_ROOT)
    if "has" in check:
        lacks = f"(exists (@.{json.dumps(check['has'])})) is unknown"
        return lacks if at == "@" else f"exists ({at} ? ({lacks}))"
    types = sorted({_TYPES.get(kind, str(kind)) for kind in check["kinds"]})
    wrong = [" && ".join(f'@.type() != "{type}"' for type in types)]
    if "values" in check:
        for type in types:  # a comparison with another type is neither true nor false
            others = [f"@ != {json.dumps(value)}" for value in check["values"] if _TYPES.get(_OF_VALUES[value.__class__]) == type]
            wrong += [" && ".join([f'@.type() == "{type}"', *others])] if others else []
    if "int" in check["kinds"] and "float" not in check["kinds"]:
        wrong.append('@.type() == "number" && @.floor() != @')
    return f"exists ({at} ? ({' || '.join(wrong)}))"


def _checks(node: inspect.Type, at: str, path: str, above: tuple[object, ...]) -> Iterator[_Check]:
    """What the values at a path have to be; those of their parts come after it."""
    members = node.types if isinstance(node, inspect.UnionType) else (node,)
    taken = [_taken(member) for member in members]
    if None in taken or len(above) > _DEEPEST:
        return
    names = {name for one in taken for name, _ in one or ()}
    check: _Check = {
        "at": at, "path": path, "expected": " | ".join(sorted(names, key=_ORDER.index)),
        "kinds": sorted({kind for one in taken for _, kinds in one or () for kind in kinds}),
    }  # fmt: skip
    if all(isinstance(member, (inspect.EnumType, inspect.LiteralType, inspect.NoneType)) for member in members):
        check["values"] = [value for member in members for value in _values(member)]
    yield check
    for kind in ("array", "object"):
        made_of = [member for member, one in zip(members, taken, strict=True) if any(name == kind for name, _ in one or ())]
        if len(made_of) == 1:  # of several only the runner knows which it is
            yield from _parts(made_of[0], at, path, above)


def _taken(node: inspect.Type) -> list[tuple[str, tuple[str, ...]]] | None:
    """What the type is called, and which kinds it takes; None when it may take any."""
    if isinstance(node, inspect.StructType):
        kind = "array" if node.array_like else "object"
        return [(kind, (kind,))]
    if isinstance(node, (inspect.EnumType, inspect.LiteralType)):
        kinds = {_OF_VALUES.get(type(value)) for value in _values(node)}
        return None if None in kinds else [(kind, (kind,)) for kind in kinds if kind]
    known = _KINDS.get(type(node))
    return None if known is None else [known]


def _values(node: inspect.Type) -> tuple[Any, ...]:
    if isinstance(node, inspect.EnumType):
        return tuple(one.value for one in node.cls)
    return node.values if isinstance(node, inspect.LiteralType) else (None,)


def _parts(node: inspect.Type, at: str, path: str, above: tuple[object, ...]) -> Iterator[_Check]:
    if isinstance(node, (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)):
        yield from _checks(node.item_type, at + ' ? (@.type() == "array") [*]', path + "[...]", (*above, node))
    elif isinstance(node, inspect.DictType):
        yield from _checks(node.value_type, at + ' ? (@.type() == "object") .*', path + "[...]", (*above, node))
    elif isinstance(node, (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)):
        if node.cls in above or (isinstance(node, inspect.StructType) and node.array_like):
            return
        for field in node.fields:
            place = f"{path}.{field.encode_name}"
            yield from _checks(field.type, _member(at, field.encode_name), place, (*above, node.cls))
            if field.required:
                yield _has(at, path, field.encode_name)


def _member(at: str, name: str) -> str:
    quoted = json.dumps(name)
    if at == _ROOT:  # it is known to be an object, and what is missing is no value
        return f"{at}.{quoted}"
    return f'{at} ? (@.type() == "object" && exists (@.{quoted})) .{quoted}'


def _has(at: str, path: str, name: str) -> _Check:
    return {"at": at if at == _ROOT else f'{at} ? (@.type() == "object")', "path": path, "has": name}


def template_of(template: str, parameters: Sequence[Parameter]) -> list[Any] | None:
    """The template for SQL: texts, and what makes text of a field. None when only Python can expand it."""
    by_name = {parameter.name: parameter for parameter in parameters}
    parts: list[Any] = []
    for text, name, spec, conversion in Formatter().parse(template):
        if text:
            parts.append(text)
        if name is None:
            continue
        part = None if spec or conversion or name not in by_name else _text_of(by_name[name])
        if part is None:
            return None
        parts.append(part)
    return parts


def _text_of(parameter: Parameter) -> dict[str, Any] | None:
    node = inspect.type_info(parameter.hint)
    members = node.types if isinstance(node, inspect.UnionType) else (node,)
    made, texts = _as_texts(members)
    if made is None:
        return None
    part: dict[str, Any] = {"field": parameter.name, "as": sorted(made)}
    if texts:
        part["texts"] = texts
    if not parameter.is_required and parameter.default is not None:
        try:
            part["default"] = format(parameter.default, "")
        except Exception:  # noqa: BLE001 - of the user's class: then Python tells what is wrong
            return None
    return part


def _as_texts(members: Iterable[inspect.Type]) -> tuple[set[str] | None, dict[str, str]]:
    """Of which kinds of JSON the server makes the text that Python would, and the texts of an enum's values."""
    made: set[str] = set()
    texts: dict[str, str] = {}
    for member in members:
        if isinstance(member, inspect.AnyType):
            made |= {"str", "int", "bool"}
        elif isinstance(member, inspect.EnumType):
            texts |= {msgspec.json.encode(one.value).decode(): format(one, "") for one in member.cls}
        elif isinstance(member, inspect.UUIDType):
            made.add("uuid")
        elif isinstance(member, (inspect.StrType, inspect.IntType, inspect.BoolType, inspect.LiteralType)):
            made |= {kind for _, kinds in _taken(member) or () for kind in kinds} - {"null"}
        elif not isinstance(member, inspect.NoneType):
            return None, {}
    # Of two members that are read from a JSON string each may make another text of it.
    return (made if len(made & {"str", "uuid"}) + bool(texts) <= 1 else None), texts
