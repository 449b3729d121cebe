"""Two processes at one key, stopped in the middle of what they do: the sentences of the protocol that are about races."""

from typing import get_args

import pytest

from asyncjobs.store.database import Database
from tests.support.peers import Call, peers
from tests.support.scenarios import SCENARIOS


@pytest.mark.parametrize("call", get_args(Call))
@pytest.mark.parametrize("name", SCENARIOS)
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
