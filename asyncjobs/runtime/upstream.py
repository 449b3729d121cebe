"""The results that a member's arguments name, put in their places before its payload is decoded (`declare/upstream.py`).

One statement by numbers, on a connection of the pool, for jobs whose payload names results; others pay for a search of their
payload for the mark. What looks like a name in a job that is no member is left as it is. A payload
that names what has no result (it was dropped as too large, somebody deleted it) ends its job: trying again would change nothing.
A database that is away fails the attempt, which is tried again as any.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec

from asyncjobs.declare.upstream import merged, ranges_in, with_results
from asyncjobs.model.claim import Claimed
from asyncjobs.model.workflow import MemberResult, Range

Read = Callable[[int, Sequence[Range]], Awaitable[list[MemberResult]]]


async def no_results(_job_id: int, _ranges: Sequence[Range]) -> list[MemberResult]:
    """Of attempts that are in no workflow."""
    return []


async def payload_with_results(claimed: Claimed, read: Read, paged: Collection[str]) -> str:
    """The payload of a member with what its arguments name, but for those that are read in `paged`. UndecodablePayload."""
    value: Any = msgspec.json.decode(claimed.payload)
    kept = {name: value.pop(name) for name in paged if name in value} if isinstance(value, dict) else {}
    ranges = merged(ranges_in(value))
    if not ranges:
        return claimed.payload
    results = {one.number: one for one in await read(claimed.id, ranges)}
    if not results:
        return claimed.payload
    return msgspec.json.encode({**with_results(claimed.type, value, results), **kept}).decode()
