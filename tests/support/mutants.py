"""Mutants: the protocols with one rule taken out, in SQL or in Python. Each has to be missed: by a scenario (`tests/property`),
by a seed of the simulation (`tests/simulation`), or by calls that wait for each other (`tests/interleavings`).

What several of them take out is said here, once.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from asyncjobs.store import routines
from asyncjobs.store.database import Connection, Database, in_schema


class Change(NamedTuple):
    """Of one function of the schema."""

    function: str
    old: str
    new: str

    def of(self, definition: str) -> str:
        """The function's definition with this change. LookupError if what is to be taken out is not in it."""
        if self.old not in definition:
            raise LookupError(f"{self.function} has changed: say again what is to be taken out for {self.new!r}")
        return definition.replace(self.old, self.new)


class Mutant(msgspec.Struct, frozen=True):
    """What is broken, and how."""

    name: str
    changes: tuple[Change, ...] = ()
    patches: Callable[[], list[Any]] = list  # of what Python does
    statement: str = ""  # what else is done to the schema


async def mutate(connection: Connection, database: Database, mutant: Mutant) -> None:
    """Break the schema, for good."""
    if mutant.statement:
        await connection.execute(mutant.statement)
    written: dict[str, str] = {}
    for change in mutant.changes:
        definition = written.get(change.function) or routines.of(change.function).made_anew()
        written[change.function] = change.of(definition)
    for definition in written.values():
        await connection.execute(in_schema(definition, database.schema))


ACK_NAMES_NO_TOKEN: Final = Change("ack", "AND j.claim_token = o.token", "")
FINISH_ONE_NAMES_NO_TOKEN: Final = Change("finish_one", "AND j.claim_token = _token", "")
FINISH_COMPLETED_NAMES_NO_TOKEN: Final = Change(
    "finish_completed", "AND j.claim_token = _tokens[width_bucket(j.claim_token, _tokens)]", ""
)
KEYS_ARE_NOT_LOCKED: Final = Change("lock_keys", "PERFORM pg_advisory_xact_lock(", "PERFORM concat(")
NO_SECOND_LOOK: Final = Change(
    "look_again", "RETURN (SELECT array_agg(d.id) FROM asyncjobs.dispatch_keys(_keys) AS d)", "RETURN NULL"
)
RESCUE_LEAVES_THE_TOKEN: Final = Change("fail_lost", "claim_token = NULL, runner_id", "runner_id")

#: How a claim counts the permits of a key that are taken.
COUNT_OF_KEY: Final = (
    "SELECT count(1) FROM (\n"
    "                    SELECT FROM asyncjobs.jobs AS r\n"
    "                    WHERE asyncjobs.limit_side(r.status) = 1 AND r.limit_key = u.key AND r.runner_id IS NOT NULL\n"
    "                    ORDER BY r.limit_key, r.queue LIMIT _each) AS r"
)
#: How many jobs of a limit key run is counted up by claims and down by what ends attempts: nobody counts down for the dead.
PERMITS_OF_A_COUNTER: Final = (
    Change("take_turns", COUNT_OF_KEY, "SELECT coalesce(k.closed_by, 0)::integer"),
    Change(
        "take_turns",
        "SET tat = asyncjobs.rate_base(k.tat, _every, _burst, _now) + "
        "make_interval(secs => c.taken * _every)\n        FROM counted AS c WHERE _every IS NOT NULL AND c.taken > 0",
        "SET closed_by = coalesce(k.closed_by, 0) + c.taken FROM counted AS c WHERE c.taken > 0",
    ),
    Change(
        "free_permits",
        "BEGIN\n",
        "BEGIN\n    UPDATE asyncjobs.limit_keys AS k SET closed_by = k.closed_by - ("
        "SELECT count(1) FROM unnest(_freed) AS f(key) WHERE f.key = k.key) WHERE k.key = ANY (_freed);\n",
    ),
)
