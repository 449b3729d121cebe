"""Enqueues of rows that wait for no lock: without dedup key and serialization key, sent for the first time.

They are most of all enqueues, and one plain INSERT does, of which there are three:

1. `enqueue_usual`: one row that asks for nothing special.
2. `enqueue_alike`: rows that differ by their payloads alone, as those of a call or of a busy type nearly always do.
3. `enqueue_plain`: rows, or one, as a list of JSON.

What they write is the same as what `enqueue` writes. Ids were reserved just now, so none of them is there already, unless the
server has forgotten that it gave them away (a fail-over). Then the INSERT fails as a whole, and is told as a conflict that passes
by itself: made again, by the function for rows of all kinds, it says which ids are another enqueue's.
"""

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import asyncpg
import msgspec
from msgspec.structs import force_setattr

from asyncjobs.model.new_row import NewRow
from asyncjobs.store.database import Link, Record

#: What rows are told apart by: all that is said of a job, but its payload. (Members of workflows are written elsewhere.)
_OTHERS: Final = {"payload", "notify", "dedup_for_seconds", "on_duplicate", "dedup_until", "at_most_seconds", "waits", "takes"}
_NAMES: Final = [name for name in NewRow.__struct_fields__ if name not in _OTHERS]
_LIKE: Final = attrgetter(*_NAMES)
#: What a row that asks for nothing special has there, by the defaults of types and of the table.
_RARE: Final = attrgetter(*(name for name in _NAMES if name not in {"type", "queue"}))
_USUAL: Final = _RARE(NewRow(type="", queue="", payload=""))
_keys: Final = attrgetter("dedup_key", "serialization_key", "limit_key")

#: What a list of payloads is cut at, since the server has all of one list in memory, in up to some thirty times of its size. No
#: list is longer than places lie apart (`place_seq`).
LIST: Final = 1_000
_LIST_CHARACTERS: Final = 1 << 20

#: So many rows at a time: others want the event loop, too.
MANY: Final = 2_000


async def enqueue_one(link: Link, row: NewRow, job_id: int, token: int, *, timeout: float | None) -> tuple[int, bool]:
    """Write the row; an id for the next one, and whether this one's time has come."""
    if _RARE(row) == _USUAL:
        rows = await _write(link, "enqueue_usual", job_id, token, row.type, row.queue, row.payload, timeout=timeout)
        return rows[0][0], True
    reserved, later = await enqueue_plain(link, [row], [job_id], [token], reserve=1, timeout=timeout)
    return reserved[0], not later


async def are_alike(rows: Sequence[NewRow], tokens: Sequence[int]) -> bool:
    """Whether `enqueue_alike` will do."""
    first, last = rows[0], rows[-1]
    if _keys(first) != (None, None, None) or _LIKE(last) != _LIKE(first) or tokens.count(tokens[0]) < len(tokens):
        return False
    for start in range(0, len(rows), MANY):
        if start:
            await asyncio.sleep(0)
        if not _are_like(first, rows[start : start + MANY]):
            return False
    return True


def _are_like(first: NewRow, rows: Sequence[NewRow]) -> bool:
    """Nearly all are equal but for their payloads: that is seen in a third of the time that it takes to collect their columns."""
    with_its_payload = first.with_payload("")
    for row in rows:
        force_setattr(with_its_payload, "payload", row.payload)
        if row != with_its_payload and _LIKE(row) != _LIKE(first):
            return False
    return True


async def enqueue_alike(
    link: Link, rows: Sequence[NewRow], ids: Sequence[int], token: int, *, reserve: int, timeout: float | None
) -> tuple[list[int], bool]:
    """Write rows that are alike; ids for the next ones, and whether the time of these has come."""
    like = msgspec.json.encode(msgspec.structs.replace(rows[0], payload="")).decode()
    payloads = [row.payload for row in rows]
    size = min(max(_LIST_CHARACTERS // max(map(len, payloads)), 1), LIST)
    lists = ["[" + ",".join(payloads[start : start + size]) + "]" for start in range(0, len(payloads), size)]
    (row,) = await _write(link, "enqueue_alike", _first(ids), len(rows), token, like, size, lists, reserve, timeout=timeout)
    return row["reserved"], row["is_due"]


async def enqueue_plain(
    link: Link, rows: Sequence[NewRow], ids: Sequence[int], tokens: Sequence[int], *, reserve: int, timeout: float | None
) -> tuple[list[int], list[int]]:
    """Write the rows; ids for the next ones, and the ordinals (from 1) of those whose time has not come."""
    document = msgspec.json.encode(rows).decode()
    (row,) = await _write(link, "enqueue_plain", ids, tokens, document, reserve, timeout=timeout)
    return row["reserved"], [at for at, is_later in enumerate(row["later"], 1) if is_later]


def fit_in_one_list(rows: Sequence[NewRow]) -> bool:
    """Whether the server can have all of these in one list: it has that in memory, in up to some thirty times of its size."""
    return len(rows) <= LIST and sum(len(row.payload) for row in rows) <= _LIST_CHARACTERS


async def _write(link: Link, name: str, *args: Any, timeout: float | None) -> list[Record]:
    try:
        return await link.fetch_often(name, *args, timeout=timeout)
    except asyncpg.UniqueViolationError as error:
        raise asyncpg.SerializationError("a reserved id belongs to another job") from error


def _first(ids: Sequence[int]) -> Sequence[int]:
    """The first id, if the others are those that follow, as they nearly always do: numbers are dear in an array."""
    return ids[:1] if list(ids) == list(range(ids[0], ids[0] + len(ids))) else ids
