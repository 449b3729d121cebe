"""Each safeguard of the key protocol, taken out, is missed by a scenario: so none is there for nothing, and each is tested."""

import asyncpg
import pytest

from asyncjobs.store.database import Connection, Database
from tests.support.mutants import MUTANTS, Mutant, mutate
from tests.support.peers import Call, peers
from tests.support.scenarios import SCENARIOS

_CASES = [pytest.param(mutant, name, id=f"{mutant.name}: {name}") for mutant in MUTANTS for name in mutant.caught_by]


@pytest.mark.unaudited("its protocol is broken")
@pytest.mark.parametrize(("mutant", "name"), _CASES)
async def test_mutant_is_caught(
    mutant: Mutant, name: str, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.peers.LOCK_PATIENCE_SECONDS", 0.3)  # a lock that is not there is not waited for long
    await mutate(connection, database, mutant)
    with pytest.raises((AssertionError, asyncpg.PostgresError)):
        await _run(name, database, call=mutant.call)


async def _run(name: str, database: Database, *, call: Call) -> None:
    async with peers(database, call=call) as world:
        await SCENARIOS[name](world)
        await world.promises_hold()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_names_scenarios_that_exist(mutant: Mutant) -> None:
    assert set(mutant.caught_by) <= set(SCENARIOS)
