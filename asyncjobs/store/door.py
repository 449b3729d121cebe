"""Enqueues of a role that has a right to the door alone (`enqueue_in_transaction` in `store/routines/enqueue`), on connections of
our own.

Whether the role may insert is read when the app opens, with what is read there anyhow; who may takes the other way, as before.
The door takes ids only with the proof that it gave them, so an id carries its proof here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asyncjobs.model.new_row import NewRow
from asyncjobs.store.database import Link


class GivenId(int):
    """An id, with what proves that the database gave it."""

    proof: int


async def give_ids(link: Link, count: int) -> list[int]:
    """Fresh ids."""
    (row,) = await link.fetch("give_ids", count)
    ids: list[int] = []
    for number, proof in zip(row["ids"], row["proofs"], strict=True):
        given = GivenId(number)
        given.proof = proof
        ids.append(given)
    return ids


def as_json(rows: Sequence[NewRow], tokens: Sequence[int]) -> str:
    """The rows as the door takes them."""
    document = [{**msgspec.to_builtins(row), "enqueue_token": token} for row, token in zip(rows, tokens, strict=True)]
    return msgspec.json.encode(document).decode()


async def enqueue(
    link: Link,
    rows: Sequence[NewRow],
    ids: Sequence[int],
    tokens: Sequence[int],
    *,
    again: bool,
    lock_timeout: str | None,
    timeout: float | None,
) -> Mapping[str, Any]:
    """Write the rows in one transaction; the answer of `enqueue`."""
    proofs = [number.proof for number in ids if isinstance(number, GivenId)]
    (row,) = await link.fetch("enqueue_by_door", as_json(rows, tokens), ids, proofs, again, lock_timeout, timeout=timeout)
    return dict(row)
