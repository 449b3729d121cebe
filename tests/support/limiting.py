"""What tests of limits do in SQL: declare them, enqueue, and look at the states of keys."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from asyncjobs.model.claim import Claimed
from asyncjobs.store import due, jobs
from asyncjobs.store.database import Connection
from tests.support.claims import Claims
from tests.support.factories import a_row

NAME: Final = "api"


def keys(claimed: Sequence[Claimed]) -> list[str | None]:
    return [job.limit_key for job in claimed]


async def declare(connection: Connection, name: str = NAME, kind: str = "limit", **values: Any) -> list[str]:
    """A program opens and declares this limit; those that others had declared otherwise."""
    text = msgspec.json.encode([{"kind": kind, "name": name, "values": values}]).decode()
    return list(await connection.fetchval("SELECT asyncjobs.declare_limits($1)", text))


async def enqueue(claims: Claims, *limit_keys: str | None, **fields: Any) -> list[int]:
    """Jobs of these keys, in asyncjobs' own transaction."""
    rows = [a_row(limit_key=key, **fields) for key in limit_keys]
    ids = await jobs.reserve_ids(claims.link, len(rows))
    answer = await jobs.enqueue(claims.link, rows, ids, list(range(1, len(rows) + 1)))
    return [one.id for one in answer.enqueued]


async def state(connection: Connection, key: str = NAME) -> str | None:
    found: str | None = await connection.fetchval("SELECT state FROM asyncjobs.limit_turns WHERE key = $1", key)
    return found


async def promote(claims: Claims) -> due.Promoted:
    promoted, _ = await due.promote(claims.link, 1000)
    return promoted
