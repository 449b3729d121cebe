"""The table of rights in SECURITY.md, and everything in the schema that a role could have a right to, with a way to try each."""

import re
from typing import Any, Literal

import msgspec

Kind = Literal["table", "column", "sequence", "function"]

_VERBS = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE", "N": "NEXTVAL", "X": "EXECUTE"}


class Thing(msgspec.Struct, frozen=True):
    """Something in the schema; `attempts` do nothing but need the right: the server asks for it before it looks at a row."""

    kind: Kind
    name: str  # of a column: table.column
    attempts: dict[str, str]  # verb -> statement


class Rights:
    """What the document says."""

    def __init__(self, document: str) -> None:
        (table,) = re.findall(r"^\| what \|.*\n(?:\|.*\n)+", document, re.MULTILINE)
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
        roles = [cell.strip("`").removeprefix("jobs_") for cell in head[1:]]
        self.rows = [
            (
                what,
                {
                    role: {_VERBS[dead_letter] for dead_letter in cell.replace("none", "").split()}
                    for role, cell in zip(roles, cells, strict=True)
                },
            )
            for what, *cells in rows
        ]

    def allow(self, thing: Thing, role: str, verb: str) -> bool:
        """What the first row says that names the thing, or the table of the column."""
        return next(verb in verbs[role] for what, verbs in self.rows if _names(what, thing))


def _names(what: str, thing: Thing) -> bool:
    names = re.findall(r"`(\w+)`", what)
    if what.startswith("columns"):
        *columns, table = names
        return thing.kind == "column" and thing.name in {f"{table}.{column}" for column in columns}
    if what.startswith("any"):
        return (
            thing.kind
            in {"table or column": {"table", "column"}, "sequence": {"sequence"}, "function": {"function"}}[
                what.removeprefix("any other ").removeprefix("any ")
            ]
        )
    kind = "function" if what.startswith("function") else "table"
    owner = thing.name.partition(".")[0] if kind == "table" else thing.name
    return owner in names and (thing.kind == kind or (kind == "table" and thing.kind == "column"))


_RELATIONS = """
SELECT c.relname AS name, c.relkind::text AS kind, ARRAY(
    SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND
        a.attgenerated = '' ORDER BY a.attnum) AS columns
FROM pg_class AS c WHERE c.relnamespace = 'asyncjobs'::regnamespace AND c.relkind IN ('r', 'v', 'S', 'm', 'p') ORDER BY 1"""

_FUNCTIONS = """
SELECT p.proname AS name, ARRAY(SELECT 'NULL::' || format_type(t.oid, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS
    a(oid, at)
    JOIN pg_type AS t ON t.oid = a.oid ORDER BY a.at) AS args, p.oid::regprocedure::text AS signature, p.prorettype =
        'trigger'::regtype AS fires
FROM pg_proc AS p WHERE p.pronamespace = 'asyncjobs'::regnamespace AND p.prokind = 'f' ORDER BY 1, 3"""


async def things(connection: Any) -> list[Thing]:
    """All that is in the schema."""
    found: list[Thing] = []
    for name, kind, columns in await connection.fetch(_RELATIONS):
        if kind == "S":
            found.append(Thing("sequence", name, {"NEXTVAL": f"SELECT nextval('asyncjobs.{name}')"}))
            continue
        tries = _of_table(f"asyncjobs.{name}", columns)
        found.append(Thing("table", name, {"SELECT": tries["SELECT"]} if kind == "v" else tries))
        if kind == "r":
            found += [Thing("column", f"{name}.{column}", _of_column(f"asyncjobs.{name}", column)) for column in columns]
    for name, args, signature, fires in await connection.fetch(_FUNCTIONS):
        call = f"asyncjobs.{name}({', '.join(args)})"
        fired = f"CREATE TEMP TABLE t (); CREATE TRIGGER t AFTER INSERT ON t EXECUTE FUNCTION {signature}"
        found.append(Thing("function", name, {"EXECUTE": fired if fires else f"SELECT {call} WHERE false"}))
    return found


def _of_table(name: str, columns: list[str]) -> dict[str, str]:
    every = ", ".join(columns)
    return {
        "SELECT": f"SELECT {every} FROM {name} WHERE false",
        "INSERT": f"INSERT INTO {name} ({every}) OVERRIDING SYSTEM VALUE SELECT {', '.join(['NULL'] * len(columns))} WHERE false",
        "UPDATE": f"UPDATE {name} SET {', '.join(f'{column} = DEFAULT' for column in columns)} WHERE false",
        "DELETE": f"DELETE FROM {name} WHERE false",
        "TRUNCATE": f"TRUNCATE {name}",
    }


def _of_column(name: str, column: str) -> dict[str, str]:
    return {
        "SELECT": f"SELECT {column} FROM {name} WHERE false",
        "INSERT": f"INSERT INTO {name} ({column}) OVERRIDING SYSTEM VALUE SELECT NULL WHERE false",
        "UPDATE": f"UPDATE {name} SET {column} = DEFAULT WHERE false",
    }
