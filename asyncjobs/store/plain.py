"""Enqueues of rows that wait for nobody: without dedup key and serialization key, sent for the first time.

They are most of all enqueues, and one plain INSERT does, of which there are four:

1. `enqueue_usual`: one row that asks for nothing special.
2. `enqueue_one`: one row.
3. `enqueue_alike`: rows that differ by their payloads alone, as those of a call or of a busy type nearly always do.
4. `enqueue_plain`: rows.

What they write is the same. Ids were reserved just now, so none of them is there already, unless the
server has forgotten that it gave them away (a fail-over). Then the INSERT fails as a whole, and is told as a conflict that passes
by itself: made again, by the function for rows of all kinds, it says which ids are somebody else's.
"""

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar

import asyncpg

from asyncjobs.model.new_row import NewRow
from asyncjobs.store.database import Link, Record

T = TypeVar("T")

_ONE: Final = attrgetter(
    "type", "queue", "lane", "version", "payload", "priority", "max_attempts", "timeout_seconds", "correlation_id",
    "parent_job_id", "created_by", "on_dead", "trace_context", "run_at", "delay_seconds",
)  # fmt: skip

#: What a row that asks for nothing special has there, by the defaults of types and of the table.
_RARE: Final = attrgetter(
    "lane", "version", "priority", "max_attempts", "timeout_seconds", "correlation_id", "parent_job_id", "created_by", "on_dead",
    "trace_context", "run_at", "delay_seconds",
)  # fmt: skip
_USUAL: Final = (None, 1, 100, 3, None, None, None, None, "advance", None, None, None)

#: What rows that are alike have in common, in the order of `enqueue_alike`; the keys, which they have not, at the end.
_LIKE: Final = attrgetter(
    "type", "queue", "lane", "version", "priority", "max_attempts", "timeout_seconds", "correlation_id", "parent_job_id",
    "created_by", "on_dead", "trace_context", "run_at", "delay_seconds", "dedup_key", "serialization_key",
)  # fmt: skip
_KEYS: Final = 2

#: What a list of payloads is cut at, since the server has all of one list in memory, in up to some thirty times of its size.
_LIST: Final = 1_000
_LIST_CHARACTERS: Final = 1 << 20

#: So many rows at a time: others want the event loop, too.
MANY: Final = 2_000

#: In this order after types and queues, and their places among the columns of `jobs.enqueue`.
_MANY: Final = (0, 1, 2, 3, 4, 5, 8, 9, 10, 15, 16, 6, 7)


async def enqueue_one(link: Link, row: NewRow, job_id: int, token: int, *, timeout: float | None) -> tuple[int, bool]:
    """Write the row; an id for the next one, and whether this one's time has come."""
    if _RARE(row) == _USUAL:
        rows = await _write(link, "enqueue_usual", job_id, token, row.type, row.queue, row.payload, timeout=timeout)
        return rows[0][0], True
    rows = await _write(link, "enqueue_one", job_id, token, *_ONE(row), timeout=timeout)
    return rows[0]["reserved"], rows[0]["is_due"]


async def are_alike(rows: Sequence[NewRow], tokens: Sequence[int]) -> bool:
    """Whether `enqueue_alike` will do."""
    like = _LIKE(rows[0])
    if like[-_KEYS:] != (None, None) or _LIKE(rows[-1]) != like or tokens.count(tokens[0]) < len(tokens):
        return False
    for start in range(0, len(rows), MANY):
        if start:
            await asyncio.sleep(0)
        some = rows[start : start + MANY]
        if list(map(_LIKE, some)).count(like) < len(some):
            return False
    return True


async def enqueue_alike(
    link: Link, rows: Sequence[NewRow], ids: Sequence[int], token: int, *, reserve: int, timeout: float | None
) -> tuple[list[int], bool]:
    """Write rows that are alike; ids for the next ones, and whether the time of these has come."""
    like = _LIKE(rows[0])[:-_KEYS]
    payloads = [row.payload for row in rows]
    size = min(max(_LIST_CHARACTERS // max(map(len, payloads)), 1), _LIST)
    lists = ["[" + ",".join(payloads[start : start + size]) + "]" for start in range(0, len(payloads), size)]
    (row,) = await _write(
        link, "enqueue_alike", _first(ids), len(rows), token, *like[:2], size, lists, *like[2:], reserve, timeout=timeout
    )
    return row["reserved"], row["is_due"]


async def enqueue_many(
    link: Link,
    rows: Sequence[NewRow],
    ids: Sequence[int],
    tokens: Sequence[int],
    columns: Sequence[list[Any] | None],
    *,
    reserve: int,
    timeout: float | None,
) -> tuple[list[int], list[int] | None]:
    """Write the rows, of which these are the other columns; ids for the next ones, and the ordinals (from 1) of those that are to
    run later.
    """
    alike = [_alike(tokens), _alike([row.type for row in rows]), _alike([row.queue for row in rows])]
    others = [columns[at] for at in _MANY]
    (row,) = await _write(link, "enqueue_plain", _first(ids), *alike, *others, reserve, timeout=timeout)
    return row["reserved"], row["later"]


async def _write(link: Link, name: str, *args: Any, timeout: float | None) -> list[Record]:
    try:
        return await link.fetch_often(name, *args, timeout=timeout)
    except asyncpg.UniqueViolationError as error:
        raise asyncpg.SerializationError("a reserved id belongs to another job") from error


def _first(ids: Sequence[int]) -> Sequence[int]:
    """The first id, if the others are those that follow, as they nearly always do: numbers are dear in an array."""
    return ids[:1] if list(ids) == list(range(ids[0], ids[0] + len(ids))) else ids


def _alike(values: Sequence[T]) -> Sequence[T]:
    return values[:1] if values.count(values[0]) == len(values) else values
