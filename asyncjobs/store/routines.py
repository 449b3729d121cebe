"""The schema's functions, views and triggers: a file each in `store/routines/`, made anew when its text has changed.

Tables change step by step, by numbered migrations. What computes on them keeps nothing, so a database has the texts of the newest
program that was allowed to migrate it. The rules:

1. The ledger `routines` holds the hash of each text that was applied. Texts that differ are applied in the transaction of the
   migrations that are missing, after them: a program that dies halfway leaves nothing of both.
2. A program that knows every migration of the schema brings the routines to its own texts. One that meets a migration which it
   has never heard of is the older of two, and leaves them as they are. So a release that changes a routine comes with a
   migration, if only with one that says so.
3. A routine with other parameters is made beside the former, which older programs call that still run. What no file makes any
   more is dropped with the next breaking migration, after which none of them goes on. The same parameters with another answer:
   another name.
4. Bodies in `$$` are read by the server when they are called. What stands outside of one is read when the routine is made, so
   routines come after those that are named there.

A file whose name begins with an underscore says what holds for all of its folder.
"""

import hashlib
import re
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files

import msgspec

_NAMED = re.compile(r"\basyncjobs\.(\w+)")
_BODY = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_COMMENT = re.compile(r"--.*")
_MAKES = re.compile(r"^CREATE (FUNCTION|VIEW|AGGREGATE) ", re.MULTILINE)
_TRIGGER = re.compile(r"^CREATE (?:CONSTRAINT )?TRIGGER (\w+)[^;]*? ON (asyncjobs\.\w+)", re.MULTILINE)


class Routine(msgspec.Struct, frozen=True):
    """A function or a view with what belongs to it, its rights and its trigger. In `text` the schema is called asyncjobs."""

    name: str
    chapter: str
    text: str

    @property
    def hash(self) -> str:
        """By which the ledger knows this text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def needs(self) -> set[str]:
        """What is named outside of bodies."""
        return set(_NAMED.findall(_COMMENT.sub("", _BODY.sub("", self.text)))) - {self.name}

    def made_anew(self) -> str:
        """The text for a schema that has this routine, or its former self."""
        triggers = [f"DROP TRIGGER IF EXISTS {name} ON {table};" for name, table in _TRIGGER.findall(self.text)]
        return "\n".join([*triggers, _MAKES.sub(r"CREATE OR REPLACE \1 ", self.text)])


@cache
def known() -> tuple[Routine, ...]:
    """The routines of this version of asyncjobs, each after those that it needs."""
    found: dict[str, Routine] = {}
    for chapter in sorted(files("asyncjobs.store").joinpath("routines").iterdir(), key=lambda folder: folder.name):
        for file in sorted(chapter.iterdir(), key=lambda file: file.name) if chapter.is_dir() else ():
            name = file.name.removesuffix(".sql")
            if name != file.name and not name.startswith("_"):
                found[name] = Routine(name, chapter.name, file.read_text(encoding="utf-8"))
    graph = {name: sorted(routine.needs & found.keys()) for name, routine in found.items()}
    return tuple(found[name] for name in TopologicalSorter(graph).static_order())


def of(name: str) -> Routine:
    """The routine of this name."""
    return next(one for one in known() if one.name == name)
