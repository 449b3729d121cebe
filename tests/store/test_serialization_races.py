"""Two processes at one key, stopped in the middle of what they do: the sentences of the protocol that are about races."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from asyncjobs.store.database import Database
from tests.support.peers import Call, peers
from tests.support.scenarios import SCENARIOS

CALLS: tuple[Call, ...] = get_args(Call)


def cells() -> Iterator[Any]:
    """Each interleaving with one of the calls, in turn; with the others in `make proof`."""
    for number, name in enumerate(SCENARIOS):
        for call in CALLS:
            marks = [] if call == CALLS[number % len(CALLS)] else [pytest.mark.proof]
            yield pytest.param(name, call, marks=marks, id=f"{name}-{call}")


@pytest.mark.parametrize(("name", "call"), list(cells()))
async def test_after_this_interleaving_nothing_is_stuck_and_all_run_in_order(
    name: str,
    call: Call,
    database: Database,
) -> None:
    async with peers(database, call=call) as pair:
        await SCENARIOS[name](pair)
        await pair.promises_hold()
        await pair.drain()
        await pair.promises_hold()
        assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0
