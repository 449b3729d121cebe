"""The safeguards of limits one by one: calls that meet in their middle, as the rules want it, and with one of them taken out.

Each scenario holds, and is missed without each safeguard that it names: so none is there for nothing, and each is tested.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Final

import asyncpg
import pytest

from asyncjobs.model.claim import Claimed
from asyncjobs.store import due
from asyncjobs.store.database import Connection, Database
from tests.support.claims import Claims, an_ack
from tests.support.eventually import eventually
from tests.support.factories import insert_runner
from tests.support.limiting import declare, enqueue, promote
from tests.support.mutants import COUNT_OF_KEY, PERMITS_OF_A_COUNTER, Change, Mutant, mutate

_KEY: Final = "api:a"
#: Where B's call is held up, between what it has read and the lock of the keys.
_HELD: Final = 4711
_LOCK: Final = "SELECT o.keys, o.places, o.turns, o.ahead INTO"
HOLD: Final = Change(
    "take_turns", _LOCK,
    "IF current_setting('application_name') = 'asyncjobs b' THEN\n"
    f"        PERFORM pg_advisory_lock_shared({_HELD}), pg_advisory_unlock_shared({_HELD});\n    END IF;\n    {_LOCK}",
)  # fmt: skip


#: A call waits for as long as the test lets it: on a busy machine that is longer than a runner's patience.
PATIENT: Final = Change("finish", "SET lock_timeout = '100ms'", "SET lock_timeout = '0'")


class Race:
    """Two runners, a client and a look from outside, each with a connection of its own."""

    def __init__(self, a: Claims, b: Claims, client: Claims, admin: Connection) -> None:
        self.a, self.b, self.client, self.admin = a, b, client, admin
        self._calls: list[asyncio.Task[Any]] = []

    async def begin(self, who: Claims) -> Any:
        transaction = (await who.link.connection()).transaction()
        await transaction.start()
        return transaction

    async def start(self, who: Claims, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """It is under way for as long as it can be: as the rules want it, it waits, or passes over what is locked."""
        task = asyncio.get_running_loop().create_task(call)
        self._calls.append(task)

        async def has_come_to_rest() -> bool:
            return task.done() or await self._waits(who)

        await eventually(has_come_to_rest, description="the call has ended, or waits for a lock")
        return task

    async def _waits(self, who: Claims) -> bool:
        found: bool = await self.admin.fetchval(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"
            " AND cardinality(pg_blocking_pids(pid)) > 0",
            f"asyncjobs {who.link.role}",
        )
        return found

    async def end(self) -> None:
        """Whatever a scenario that failed has left."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


@pytest.fixture
async def race(database: Database, connection: Connection) -> AsyncGenerator[Race]:
    links = [database.link(role) for role in ("a", "b", "client")]
    a, b, client = [Claims(link, connection, runner_id=at, token_base=at) for at, link in enumerate(links, 1)]
    for one in (a, b, client):
        await insert_runner(connection, id=one.runner_id)
    made = Race(a, b, client, connection)
    yield made
    await made.end()
    for link in links:
        await link.close()
    await connection.execute("SELECT pg_advisory_unlock_all(); TRUNCATE asyncjobs.jobs; DELETE FROM asyncjobs.runners")


async def what_is_added_while_a_claim_closes_its_key_is_found(race: Race) -> None:
    """The key has one job, which is claimed; another one was added, and is not committed: the key stays open."""
    await declare(race.admin, each=2)
    await enqueue(race.client, _KEY)
    adding = await race.begin(race.client)
    (second,) = await enqueue(race.client, _KEY)
    assert len(await race.a.claim()) == 1
    await adding.commit()
    assert [job.id for job in await race.a.claim()] == [second]


async def what_is_added_to_a_key_that_is_being_closed_opens_it(race: Race) -> None:
    """A claim has found the end of a key, and is not committed: what adds a job waits for it, and looks then."""
    await declare(race.admin, each=2)
    await enqueue(race.client, _KEY)
    closing = await race.begin(race.a)
    assert len(await race.a.claim()) == 1
    adding = await race.start(race.client, enqueue(race.client, _KEY))
    await closing.commit()
    (second,) = await adding
    assert [job.id for job in await race.a.claim()] == [second]


async def _ends_while_it_is_closed(race: Race, job: Claimed) -> None:
    """A claim finds what this job fills full, and is not committed, while its attempt ends."""
    closing = await race.begin(race.b)
    assert await race.b.claim() == []
    ending = await race.start(race.a, race.a.ack(an_ack(job)))
    await closing.commit()
    await ending


async def a_permit_that_is_freed_while_its_key_is_being_closed_opens_it(race: Race) -> None:
    """A claim has found a key full, and is not committed, while the attempt ends that fills it."""
    await declare(race.admin, each=1)
    _, second = await enqueue(race.client, _KEY, _KEY)
    [first] = await race.a.claim()
    await race.admin.execute("UPDATE asyncjobs.limit_turns SET state = 'open'")
    await _ends_while_it_is_closed(race, first)
    assert [job.id for job in await race.a.claim()] == [second]


async def a_total_that_is_freed_while_it_is_being_closed_is_open(race: Race) -> None:
    await declare(race.admin, total=1)
    ids = await enqueue(race.client, "api:a", "api:b")
    [first] = await race.a.claim()
    [second] = {*ids} - {first.id}
    await race.admin.execute("UPDATE asyncjobs.limits SET is_full = false")
    await _ends_while_it_is_closed(race, first)
    assert [job.id for job in await race.a.claim()] == [second]


async def a_claim_counts_what_was_claimed_until_it_has_the_key(race: Race) -> None:
    """A claim is held up before it locks a key; meanwhile another one takes the only permit, and cannot close the key."""
    await declare(race.admin, each=1)
    await enqueue(race.client, _KEY, _KEY)
    await _claims_apart(race)
    assert await _running(race) == 1


async def a_claim_reads_the_clock_when_it_has_the_key(race: Race) -> None:
    """The same of a rate: what is given by a clock that was read before is a burst once more."""
    await declare(race.admin, every=60, burst=2)
    await enqueue(race.client, *["api"] * 6)
    await _claims_apart(race, "api")
    assert await _running(race) == 2


async def two_claims_of_one_key_do_not_count_the_same_permits(race: Race) -> None:
    """Both count zero, and take different rows (failure 36)."""
    await declare(race.admin, each=1)
    await enqueue(race.client, *[_KEY] * 4)  # (a claim locks one row more than it takes)
    claiming = await race.begin(race.a)
    assert len(await race.a.claim()) == 1
    claim = await race.start(race.b, race.b.claim())
    await claiming.commit()
    await claim
    assert await _running(race) == 1


async def two_claims_of_one_limit_do_not_count_the_same_total(race: Race) -> None:
    await declare(race.admin, total=1)
    await enqueue(race.client, "api:a", "api:b", "api:b")
    claiming = await race.begin(race.a)
    assert len(await race.a.claim()) == 1
    claim = await race.start(race.b, race.b.claim())
    await claiming.commit()
    await claim
    assert await _running(race) == 1


async def two_claims_of_one_queue_do_not_count_the_same_total(race: Race) -> None:
    await declare(race.admin, "default", kind="queue", total=1)
    await enqueue(race.client, None, None, None)
    claiming = await race.begin(race.a)
    assert len(await race.a.claim()) == 1
    claim = await race.start(race.b, race.b.claim())
    await claiming.commit()
    await claim
    assert await _running(race) == 1


async def permits_of_a_runner_that_was_killed_come_back(race: Race) -> None:
    """Nobody gives back for it (failure 34); and what it writes in spite of that gives nothing back (failure 33)."""
    await declare(race.admin, each=2)
    await enqueue(race.client, *[_KEY] * 6)
    lost = await race.a.claim()
    assert len(lost) == 2
    await race.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await race.admin.fetch("SELECT rescued FROM asyncjobs.rescue(100, 10)")
    await promote(race.client)
    assert len(await race.b.claim()) == 2
    assert sorted((await race.a.ack(*map(an_ack, lost))).lost) == sorted(job.token for job in lost)
    assert await race.b.claim() == []
    assert await _running(race) == 2


async def jobs_in_a_callers_transaction_open_their_key_after_its_commit(race: Race) -> None:
    """What is not committed cannot be seen by a claim, which finds nothing, and closes the key: the request opens it."""
    await declare(race.admin, each=5)
    await enqueue(race.client, _KEY)
    assert len(await race.a.claim()) == 1
    assert await race.a.claim() == []
    adding = await race.begin(race.client)
    await (await race.client.link.connection()).execute(
        "SELECT asyncjobs.enqueue_in_transaction($1, NULL)",
        '[{"type": "email", "queue": "default", "payload": "{}", "limit_key": "api:a", "enqueue_token": 1}]',
    )
    assert await race.a.claim() == []
    await adding.commit()
    await due.promote(race.b.link, 100)
    assert len(await race.a.claim()) == 1


async def _claims_apart(race: Race, key: str = _KEY) -> None:
    """B is held up in its claim for as long as A's, of the same key, takes. Somebody adds, so that A does not close the key."""
    adding = await race.begin(race.client)
    await enqueue(race.client, key)
    await race.admin.execute(f"SELECT pg_advisory_lock({_HELD})")
    claim = await race.start(race.b, race.b.claim())
    assert not claim.done()
    await race.a.claim(2)
    await race.admin.execute(f"SELECT pg_advisory_unlock({_HELD})")
    await claim
    await adding.rollback()


async def _running(race: Race) -> int:
    count: int = await race.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE runner_id IS NOT NULL")
    return count


Scenario = Callable[[Race], Awaitable[None]]
#: In which a call is held up.
HELD: Final[tuple[Scenario, ...]] = (
    a_claim_counts_what_was_claimed_until_it_has_the_key,
    a_claim_reads_the_clock_when_it_has_the_key,
)
SCENARIOS: Final[tuple[Scenario, ...]] = (
    what_is_added_while_a_claim_closes_its_key_is_found,
    what_is_added_to_a_key_that_is_being_closed_opens_it,
    a_permit_that_is_freed_while_its_key_is_being_closed_opens_it,
    a_total_that_is_freed_while_it_is_being_closed_is_open,
    *HELD,
    two_claims_of_one_key_do_not_count_the_same_permits,
    two_claims_of_one_limit_do_not_count_the_same_total,
    two_claims_of_one_queue_do_not_count_the_same_total,
    permits_of_a_runner_that_was_killed_come_back,
    jobs_in_a_callers_transaction_open_their_key_after_its_commit,
)

_DECLARED: Final = "    _found tid[];"
_SHARED: Final = "PERFORM pg_advisory_xact_lock_shared(hashtext('asyncjobs.limit'), s.slot)"
_IS_CLOSED: Final = "EXISTS (SELECT FROM asyncjobs.limit_turns AS t WHERE t.key = ANY (_freed || _keys) AND t.state <> 'open')"
_WAS: Final = (
    "SELECT jsonb_object_agg(k.key, (SELECT count(1) FROM asyncjobs.jobs AS r WHERE asyncjobs.limit_side(r.status) = 1 "
    "AND r.limit_key = k.key AND r.runner_id IS NOT NULL)) FROM asyncjobs.limit_keys AS k"
)
#: Taken out, one by one, and what misses each.
MUTANTS: Final[tuple[tuple[Mutant, tuple[Scenario, ...]], ...]] = (
    (
        Mutant("a key is closed without the exclusive lock", (
            Change("settle_limits", "pg_try_advisory_xact_lock(hashtext('asyncjobs.limit'), s.slot)", "true"),
        )),
        (
            what_is_added_while_a_claim_closes_its_key_is_found,
            what_is_added_to_a_key_that_is_being_closed_opens_it,
            a_permit_that_is_freed_while_its_key_is_being_closed_opens_it,
            a_total_that_is_freed_while_it_is_being_closed_is_open,
        ),
    ),
    (
        Mutant("a key is opened without the shared lock", (Change("open_turns", _SHARED, "PERFORM s.slot"),)),
        (
            what_is_added_while_a_claim_closes_its_key_is_found,
            what_is_added_to_a_key_that_is_being_closed_opens_it,
            a_permit_that_is_freed_while_its_key_is_being_closed_opens_it,
            a_total_that_is_freed_while_it_is_being_closed_is_open,
        ),
    ),
    (
        Mutant("whether a key is closed is read before the shared lock", (
            Change("open_turns", "    _opened text[];", "    _opened text[];\n    _is_closed boolean;"),
            Change("open_turns", f"IF {_IS_CLOSED} THEN", "IF _is_closed THEN"),
            Change("open_turns", _SHARED, f"_is_closed := {_IS_CLOSED};\n    {_SHARED}"),
        )),
        (
            what_is_added_to_a_key_that_is_being_closed_opens_it,
            a_permit_that_is_freed_while_its_key_is_being_closed_opens_it,
        ),
    ),
    (
        Mutant("permits are counted before the key is locked", (
            Change("take_turns", _DECLARED, f"{_DECLARED}\n    _was jsonb := ({_WAS});"),
            Change("take_turns", COUNT_OF_KEY, "SELECT (_was ->> u.key)::bigint"),
        )),
        (a_claim_counts_what_was_claimed_until_it_has_the_key,),
    ),
    (
        Mutant("the clock is read before the key is locked", (
            Change("take_turns", "    _now timestamptz;", "    _now timestamptz := asyncjobs.moment();"),
            Change("take_turns", "    _now := asyncjobs.moment();\n", ""),
        )),
        (a_claim_reads_the_clock_when_it_has_the_key,),
    ),
    (
        Mutant("a key is not locked", (Change("lock_turns", " FOR UPDATE SKIP LOCKED", ""),)),
        (two_claims_of_one_key_do_not_count_the_same_permits,),
    ),
    (
        Mutant("a total is not locked", (Change("limit_room", "AND NOT l.is_full FOR UPDATE SKIP LOCKED", "AND NOT l.is_full"),)),
        (two_claims_of_one_limit_do_not_count_the_same_total, two_claims_of_one_queue_do_not_count_the_same_total),
    ),
    (
        Mutant("permits are counted by a counter", PERMITS_OF_A_COUNTER),
        (permits_of_a_runner_that_was_killed_come_back,),
    ),
    (
        Mutant("an outcome frees a permit without its token", (
            Change("ack", "AND j.claim_token = o.token AND j.status = 'processing'", ""),
        )),
        (permits_of_a_runner_that_was_killed_come_back,),
    ),
    (
        Mutant("nobody carries out requests", (
            Change("fold_limits", "IF _count > 0 THEN\n        queues", "IF false THEN\n        queues"),
        )),
        (permits_of_a_runner_that_was_killed_come_back, jobs_in_a_callers_transaction_open_their_key_after_its_commit),
    ),
)  # fmt: skip
_CASES = [
    pytest.param(mutant, scenario, id=f"{mutant.name}: {scenario.__name__}")
    for mutant, missed_by in MUTANTS
    for scenario in missed_by
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
async def test_rules_of_limits_hold(scenario: Scenario, race: Race, database: Database) -> None:
    await mutate(race.admin, database, Mutant("calls wait", (PATIENT, *((HOLD,) if scenario in HELD else ()))))
    await scenario(race)


@pytest.mark.unaudited("its protocol is broken")
@pytest.mark.parametrize(("mutant", "scenario"), _CASES)
async def test_a_safeguard_that_is_taken_out_is_missed(
    mutant: Mutant, scenario: Scenario, race: Race, database: Database
) -> None:
    held = (HOLD,) if scenario in HELD else ()
    await mutate(race.admin, database, Mutant(mutant.name, (*mutant.changes, PATIENT, *held)))
    with pytest.raises((AssertionError, asyncpg.PostgresError)):
        await scenario(race)
