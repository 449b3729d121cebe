"""Connections that know PostgreSQL's own array types.

asyncpg knows the scalar types, and asks the server of each connection for every other type that a statement uses: with a query
over the catalogs, and two more around it that switch its JIT off and on. Of a connection's first statement with a `bigint[]` it
took 5 ms of the server's processor and three round trips more. The types that PostgreSQL brings have the same numbers on every
server, so what asyncpg would be told of them stands here; of all others it asks.

`_introspect_types` is asyncpg's own (0.31, 0.32). Where it goes by another name, connections ask as before.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg

#: PostgreSQL's numbers and names of array types, and of their elements. text[] is one that asyncpg knows.
_ARRAYS: Final = (
    (1000, "_bool", 16, "boolean"),
    (1016, "_int8", 20, "bigint"),
    (1007, "_int4", 23, "integer"),
    (1022, "_float8", 701, "double precision"),
    (1185, "_timestamptz", 1184, "timestamp with time zone"),
)


def _row(oid: int, name: str, element: int, element_name: str) -> Mapping[str, Any]:
    """What asyncpg's query would say of it."""
    nothing = dict.fromkeys(("basetype", "basetype_name", "range_subtype", "range_subtype_name", "attrtypoids", "attrnames"))
    array = {"oid": oid, "ns": "pg_catalog", "name": name, "kind": b"b", "depth": 0}
    return {**nothing, **array, "elemtype": element, "elemtype_name": element_name, "elemdelim": b","}


_KNOWN: Final = {array[0]: _row(*array) for array in _ARRAYS}


class _NotAsked:
    """In the place of the statement that would have asked: the one whose types are looked for is still the server's last."""

    name = "not asked"


if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class Knowing(_Connection):
    """What asyncpg makes, but for the questions."""

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        asked = list(typeoids)
        if all(oid in _KNOWN for oid in asked):
            return [_KNOWN[oid] for oid in asked], _NotAsked
        return await super()._introspect_types(asked, timeout)  # type: ignore[misc]
