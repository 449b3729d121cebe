import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest

from asyncjobs.errors import LeaseLost
from asyncjobs.store import leases, runners
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.leases import Fence, FencedLink, Report, Said
from tests.support.eventually import eventually, patience
from tests.support.factories import insert_runner
from tests.support.leasing import Candidate, age, candidates, lease

Two = tuple[Candidate, Candidate]


@pytest.fixture
async def two(database: Database, connection: Connection) -> AsyncGenerator[Two]:
    """Two runners; the first holds `prune`."""
    first, second = await candidates(database, connection, 2)
    await first.beat("prune")
    yield first, second
    for one in (first, second):
        await one.link.close()


def fence_of(one: Candidate) -> Fence:
    return Fence("prune", one.id, one.held["prune"])


async def test_free_lease_goes_to_who_asks_first_in_the_statement_that_beats(two: Two, connection: Connection) -> None:
    first, second = two
    assert list(first.held) == ["prune"]
    heard = await second.beat("prune")
    assert heard.acquired == []
    assert [(one.duty, one.token, one.renewals) for one in heard.others] == [("prune", first.held["prune"], 0)]
    row = await lease(connection)
    assert (row["held_by_worker_id"], row["token"]) == ("1", first.held["prune"])


async def test_renewal_names_holder_and_token(two: Two, connection: Connection) -> None:
    first, _ = two
    assert (await first.beat()).renewed == ["prune"]
    assert (await lease(connection))["renewals"] == 1
    first.held["prune"] += 1
    assert (await first.beat()).lost == ["prune"]
    assert (await lease(connection))["renewals"] == 1


async def test_all_leases_of_a_runner_are_renewed_by_one_statement(two: Two, connection: Connection) -> None:
    first, _ = two
    await first.beat("report", "sweep")
    heard = await first.beat()
    assert sorted(heard.renewed) == ["prune", "report", "sweep"]


async def test_lease_that_is_old_and_unchanged_is_taken_over(two: Two, connection: Connection) -> None:
    first, second = two
    heard = await second.beat("prune")
    await age(connection, 10.5)
    assert (await second.attempt("prune", heard)).acquired == ["prune"]
    assert (await first.beat()).lost == ["prune"]
    assert (await lease(connection))["held_by_worker_id"] == "2"


async def test_lease_that_is_not_old_is_not_taken_over_unless_it_was_observed_for_long(two: Two, connection: Connection) -> None:
    _, second = two
    heard = await second.beat("prune")
    assert (await second.attempt("prune", heard)).acquired == []
    assert (await second.attempt("prune", heard, is_long=True)).acquired == ["prune"]


async def test_attempt_touches_nothing_after_a_renewal_however_old_the_server_says_it_is(
    two: Two, connection: Connection
) -> None:
    first, second = two
    heard = await second.beat("prune")
    await first.beat()
    await age(connection, 3600)
    assert (await second.attempt("prune", heard, is_long=True)).acquired == []
    assert (await first.beat()).renewed == ["prune"]


async def test_of_two_attempts_at_once_one_succeeds(database: Database, connection: Connection, two: Two) -> None:
    _, second = two
    heard = await second.beat("prune")
    others = [Candidate(database.link(f"candidate {await insert_runner(connection, id=id)}"), id) for id in range(3, 7)]
    answers = await asyncio.gather(*(one.attempt("prune", heard, is_long=True) for one in others))
    assert sum(answer.acquired == ["prune"] for answer in answers) == 1
    for one in others:
        await one.link.close()


async def test_row_that_somebody_holds_is_neither_waited_for_nor_renewed_nor_taken(two: Two, connection: Connection) -> None:
    first, second = two
    seen = await second.beat("prune")
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.background_job_leases FOR UPDATE")
        async with patience(2):
            heard = await first.beat()
            assert (heard.renewed, heard.lost) == ([], [])
            assert (await second.attempt("prune", seen, is_long=True)).acquired == []


async def test_runner_that_was_declared_dead_renews_nothing(two: Two, connection: Connection) -> None:
    first, _ = two
    await connection.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    said = leases.Said(held=first.held, may_take=True)
    assert await leases.beat(first.link, 1, said, expiry_seconds=10, fresh_seconds=8) is None
    assert (await lease(connection))["renewals"] == 0


async def test_acquisition_whose_answer_was_lost_is_had_again(two: Two) -> None:
    first, _ = two
    first.held.clear()
    assert (await first.beat("prune")).acquired == ["prune"]


async def test_token_is_new_with_every_term(two: Two, connection: Connection) -> None:
    first, _ = two
    tokens = {first.held["prune"]}
    for _ in range(3):
        await leases.release(first.link, 1, first.held, fresh_seconds=8)
        first.held.clear()
        await first.beat("prune")
        tokens.add(first.held["prune"])
    assert len(tokens) == 4


# Release.


async def test_release_names_a_living_successor_that_can_do_it(two: Two, connection: Connection) -> None:
    first, _ = two
    await connection.execute("UPDATE asyncjobs.runners SET beat_at = now() - interval '1 minute' WHERE id = 2")
    assert await leases.release(first.link, 1, first.held, fresh_seconds=8) == (["prune"], None)
    first.held.clear()
    await first.beat("prune")
    await connection.execute("UPDATE asyncjobs.runners SET beat_at = now() WHERE id = 2")
    released, successor = await leases.release(first.link, 1, first.held, fresh_seconds=8)
    assert (released, successor) == (["prune"], 2)
    assert (await lease(connection))["held_by_worker_id"] == "none"


async def test_release_of_a_term_that_is_over_touches_nothing(two: Two, connection: Connection) -> None:
    first, second = two
    old = dict(first.held)
    await second.attempt("prune", await second.beat("prune"), is_long=True)
    assert (await leases.release(first.link, 1, old, fresh_seconds=8))[0] == []
    assert (await lease(connection))["held_by_worker_id"] == "2"


async def test_runner_that_leaves_frees_what_it_holds_but_for_what_is_still_at_work(two: Two, connection: Connection) -> None:
    first, _ = two
    await first.beat("report")
    assert await runners.leave(first.link, 1, kept=["report"]) == 2
    assert (await lease(connection, "prune"))["held_by_worker_id"] == "none"
    assert (await lease(connection, "report"))["held_by_worker_id"] == "1"
    await runners.leave(first.link, 1, kept=["report"])
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.former_runners") == 1


# Fencing.


async def test_statement_of_a_holder_is_executed(two: Two, connection: Connection) -> None:
    first, _ = two
    assert await runners.bury(FencedLink(first.link, fence_of(first)), {2: 99}) == {}
    assert await runners.bury(FencedLink(first.link, fence_of(first)), {2: await beat_of(connection, 2)}) == {2: True}


async def beat_of(connection: Connection, id: int) -> int:
    return int(await connection.fetchval("SELECT beat FROM asyncjobs.runners WHERE id = $1", id))


async def test_late_statement_of_an_old_term_touches_nothing(two: Two, connection: Connection) -> None:
    first, second = two
    fence = fence_of(first)
    await second.attempt("prune", await second.beat("prune"), is_long=True)
    with pytest.raises(LeaseLost):
        await runners.bury(FencedLink(first.link, fence), {2: await beat_of(connection, 2)})
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.runners") == 2


async def test_renewal_passes_and_takeover_waits_while_a_pass_writes(
    database: Database, connection: Connection, two: Two
) -> None:
    first, second = two
    seen = await second.beat("prune")
    async with connection.transaction():
        assert await leases.hold(connection, database, fence_of(first))
        assert (await second.attempt("prune", seen, is_long=True)).acquired == []
        assert (await first.beat()).renewed == ["prune"]
    seen = await second.beat("prune")
    assert (await second.attempt("prune", seen, is_long=True)).acquired == ["prune"]


async def test_hold_that_waited_for_a_takeover_finds_the_term_over(database: Database, connection: Connection, two: Two) -> None:
    first, _ = two
    waiting = await database.connect("waiting")
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.background_job_leases FOR UPDATE")
        await connection.execute("UPDATE asyncjobs.background_job_leases SET token = 1")
        held = asyncio.create_task(leases.hold(waiting, database, fence_of(first)))
        await eventually(lambda: is_waiting(connection), description="it waits")
    try:
        assert not await held
    finally:
        await waiting.close()


async def is_waiting(connection: Connection) -> bool:
    return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))


async def test_pass_that_was_stopped_in_its_transaction_loses_its_connection(
    database: Database, connection: Connection, two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "IDLE_SECONDS", 0.2)
    first, second = two
    seen = await second.beat("prune")
    stopped = await database.connect("stopped")
    transaction = stopped.transaction()
    await transaction.start()
    assert await leases.hold(stopped, database, fence_of(first))
    await eventually(stopped.is_closed, description="the server ended it")
    assert (await second.attempt("prune", seen, is_long=True)).acquired == ["prune"]
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await stopped.execute("SELECT 1")


# What is shown.


async def test_report_comes_with_the_renewal_as_instants_of_the_server(two: Two, connection: Connection) -> None:
    first, _ = two
    report = Report(run_age=0.0, pass_age=2.0, items=5, errors=1, duration=0.25)
    await first.beat(reports={"prune": report})
    [shown] = await leases.leases(first.link)
    assert (shown.duty, shown.runner_id, shown.host, shown.items, shown.errors, shown.duration_seconds) == (
        "prune", 1, "test", 5, 1, 0.25,
    )  # fmt: skip
    assert shown.last_run_at is not None
    assert shown.last_pass_at is not None
    assert (shown.last_run_at - shown.last_pass_at).total_seconds() == 2.0


async def test_operators_find_a_leader_whose_loop_is_stuck(two: Two, connection: Connection) -> None:
    first, _ = two
    stuck = (
        "SELECT job_name FROM background_job_leases WHERE heartbeat_at > now() - interval '30 seconds' "
        "AND (metadata->>'last_run')::timestamptz < now() - interval '5 minutes'"
    )
    await connection.execute("SET search_path = asyncjobs")
    await first.beat(reports={"prune": Report(run_age=0.0)})
    assert await connection.fetch(stuck) == []
    await first.beat(reports={"prune": Report(run_age=301.0)})
    assert [row["job_name"] for row in await connection.fetch(stuck)] == ["prune"]


async def test_rank_counts_living_runners_and_no_holders(database: Database, connection: Connection) -> None:
    made = await candidates(database, connection, 5)
    assert (await made[4].beat()).rank == 4
    await made[0].beat("prune")
    await connection.execute("UPDATE asyncjobs.runners SET beat_at = now() - interval '1 minute' WHERE id = 2")
    assert (await made[4].beat()).rank == 2
    for one in made:
        await one.link.close()


async def test_beat_names_the_peers_that_are_awake(database: Database, connection: Connection) -> None:
    """Who serves the same, has beaten lately and does not stop."""
    made = await candidates(database, connection, 5)
    await connection.execute(
        """
        UPDATE asyncjobs.runners SET serves = 7;
        UPDATE asyncjobs.runners SET serves = 8 WHERE id = 2;
        UPDATE asyncjobs.runners SET beat_at = now() - interval '8.1 seconds' WHERE id = 3;
        UPDATE asyncjobs.runners SET stopped_at = now() WHERE id = 4;
        """
    )
    assert sorted((await made[0].beat()).peers) == [1, 5]
    assert (await made[1].beat()).peers == [2]
    assert sorted((await made[2].beat()).peers) == [1, 3, 5], "its beat is one"
    await connection.execute("UPDATE asyncjobs.runners SET stopped_at = NULL")
    link = database.link("registering")
    same: dict[str, Any] = {"host": "h", "pid": 1, "version": "1", "types": ["b", "a"], "queues": ["q"], "slots": {"q": {"": 1}}}
    others: list[dict[str, Any]] = [
        {"types": ["a"]},
        {"queues": ["r"]},
        {"slots": {"q": {"": 2}}},
        {"prefetch": {"q": 5}},
        {"versions": {"a": 2}},
    ]
    alike: dict[str, Any] = {"types": ["a", "b"], "host": "i", "pid": 2, "duties": ["prune"]}
    for id, fields in enumerate([{}, alike, *others], 11):
        await runners.register(link, id, **(same | fields))
    heard = await leases.beat(link, 11, Said(), expiry_seconds=10.0, fresh_seconds=8.0)
    assert heard is not None
    assert sorted(heard.peers) == [11, 12]
    for one in (link, *(candidate.link for candidate in made)):
        await one.close()
