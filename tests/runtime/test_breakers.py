"""Breakers of several processes on one database: one sentence of `runtime/breakers.py` after another."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from asyncjobs.errors import CircuitOpen
from asyncjobs.runtime import breakers as module
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import BreakerClosed, BreakerHalfOpened, BreakerOpened, DatabaseFailed
from tests.support.breakers import Fleet, Process, breaking
from tests.support.eventually import eventually


@pytest.fixture
async def fleet(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Fleet]:
    async with breaking(database, monkeypatch) as made:
        yield made


@contextmanager
def no_statements(fleet: Fleet) -> Generator[None]:
    before = fleet.statements.copy()
    yield
    assert fleet.statements == before


async def opened(process: Process) -> None:
    """Let its breaker open."""
    for _ in range(process.policy.failure_threshold):
        assert await process.call("failed") == "failed"
    assert await process.call() == "refused"
    if process.fleet.down is None:
        await process.looked()


async def knows(process: Process, state: str) -> None:
    await eventually(lambda: process.state == state, description=f"the process knows that it is {state}")


# Knowing.


async def test_a_closed_breaker_costs_no_statement_a_call(fleet: Fleet) -> None:
    one = fleet.start()
    assert await one.call() == "succeeded"
    assert fleet.statements == {"look": 1, "declare": 1}
    with no_statements(fleet):
        for _ in range(1000):
            assert await one.call() == "succeeded"


async def test_a_failure_is_one_statement_and_so_is_the_next_success(fleet: Fleet) -> None:
    one = fleet.start(failure_threshold=3)
    await one.call()
    assert [await one.call("failed"), await one.call("succeeded")] == ["failed", "succeeded"]
    assert fleet.statements["happen"] == 2
    with no_statements(fleet):
        await one.call()
    assert [await one.call("failed") for _ in range(2)] == ["failed", "failed"], "the row of failures had ended"
    assert one.state == "closed"


async def test_successes_at_the_same_time_end_a_row_of_failures_once(fleet: Fleet) -> None:
    one = fleet.start(failure_threshold=3)
    await one.call("failed")
    await asyncio.gather(*(one.call() for _ in range(20)))
    assert fleet.statements["happen"] == 2


async def test_failures_of_all_processes_count_and_all_hear_of_the_change(fleet: Fleet) -> None:
    one, two, three = fleet.start(), fleet.start(), fleet.start()
    assert [await process.call() for process in fleet.processes] == ["succeeded"] * 3
    await fleet.advance(1)
    assert [await one.call("failed"), await two.call("failed")] == ["failed", "failed"]
    assert two.state == "open"
    await knows(one, "open")
    await knows(three, "open")
    with no_statements(fleet):
        assert [await process.call() for process in fleet.processes] == ["refused"] * 3
    assert [event for event in two.seen if isinstance(event, BreakerOpened)] == [
        BreakerOpened(service="mail", formerly="closed", failures=2, seconds=60.0)
    ]
    assert not [event for event in (*one.seen, *three.seen) if isinstance(event, BreakerOpened)], "who does it says it"


async def test_a_success_of_another_process_ends_a_row_of_failures_without_a_statement(fleet: Fleet) -> None:
    one, two = fleet.start(), fleet.start()
    await two.call()
    await one.call("failed")
    await fleet.advance(1)
    await two.call("succeeded")  # it does not know of the failure
    assert fleet.statements["happen"] == 1
    await fleet.advance(1)
    await two.call("failed")
    assert two.state == "closed"
    await one.call("failed")
    assert one.state == "open"


async def test_a_lost_notification_costs_two_intervals_at_most(fleet: Fleet) -> None:
    one, two = fleet.start(), fleet.start()
    await two.call()
    fleet.notifies = False
    await opened(one)
    with no_statements(fleet):
        assert await two.call() == "succeeded"
    await fleet.advance(21)  # it was not used in the last interval, so it has not looked
    assert await two.call() == "refused"


async def test_who_uses_a_breaker_looks_each_interval_and_who_does_not_asks_nothing(fleet: Fleet) -> None:
    one, two = fleet.start(), fleet.start()
    await two.call()
    await two.call()
    fleet.notifies = False
    await opened(one)
    await fleet.advance(11)
    await knows(two, "open")
    await fleet.advance(1000)
    await one.looked()
    await one.call()
    await two.looked()
    assert (one.state, two.state) == ("closed", "closed")
    await eventually(lambda: not two.breakers._known["mail"].used, description="it has looked since its last call")
    await fleet.advance(11)
    before = fleet.statements["look"]
    for _ in range(3):
        passed = asyncio.create_task(two.breakers.wait_passed())
        await asyncio.sleep(0)  # it waits before time passes
        await fleet.advance(11)
        await passed
    assert fleet.statements["look"] - before <= 3, "those of the other process"


async def test_a_row_that_is_deleted_is_a_breaker_that_is_closed(fleet: Fleet, connection: Connection) -> None:
    one = fleet.start()
    await opened(one)
    await connection.execute("DELETE FROM asyncjobs.circuit_breakers")
    await one.looked()
    assert await one.call() == "succeeded"
    await opened(one)


async def test_a_row_that_an_operator_updates_is_obeyed(fleet: Fleet, connection: Connection) -> None:
    one = fleet.start()
    await one.call()
    await connection.execute("UPDATE asyncjobs.circuit_breakers SET state = 'open'")
    await one.looked()
    await fleet.advance(1_000_000)
    assert await one.call() == "refused"
    with pytest.raises(CircuitOpen, match="is open until it is reset") as caught:
        await one.enter()
    assert (caught.value.service, caught.value.retry_at, caught.value.retry_after) == ("mail", None, 60.0)
    await connection.execute("UPDATE asyncjobs.circuit_breakers SET state = 'closed', failure_count = 0")
    await one.looked()
    assert await one.call() == "succeeded"


# Probing.


async def test_when_its_time_is_over_one_call_of_all_processes_is_let_through(fleet: Fleet) -> None:
    one, two, three = fleet.start(), fleet.start(), fleet.start()
    await opened(one)
    await fleet.advance(59)
    assert [await process.call() for process in fleet.processes] == ["refused"] * 3
    await fleet.advance(1.01)
    probe = await two.enter()
    assert [await one.call(), await two.call(), await three.call()] == ["refused"] * 3
    with no_statements(fleet):
        assert [await one.call(), await two.call(), await three.call()] == ["refused"] * 3
    await two.breakers.leave(probe, "succeeded")
    await knows(one, "closed")
    await knows(three, "closed")
    assert [await process.call() for process in fleet.processes] == ["succeeded"] * 3
    assert [event for event in two.seen if isinstance(event, (BreakerHalfOpened, BreakerClosed))] == [
        BreakerHalfOpened(service="mail"),
        BreakerClosed(service="mail", formerly="half-open"),
    ]


async def test_of_callers_at_the_same_time_only_one_asks_for_a_probe(fleet: Fleet) -> None:
    one = fleet.start(success_threshold=2)
    await opened(one)
    await fleet.advance(61)
    before = fleet.statements["happen"]
    made = await asyncio.gather(*(one.enter() for _ in range(20)), return_exceptions=True)
    [probe] = [call for call in made if not isinstance(call, BaseException)]
    assert [type(refused) for refused in made if refused is not probe] == [CircuitOpen] * 19
    await one.breakers.leave(probe, "succeeded")
    assert fleet.statements["happen"] - before == 2, "asked, and succeeded"


async def test_a_failed_probe_opens_it_again_and_so_many_good_ones_close_it(fleet: Fleet) -> None:
    one = fleet.start(success_threshold=2)
    await opened(one)
    await fleet.advance(61)
    assert [await one.call("failed"), await one.call()] == ["failed", "refused"]
    await fleet.advance(61)
    assert [await one.call(), one.state] == ["succeeded", "half-open"]
    assert [await one.call(), one.state] == ["succeeded", "closed"]


async def test_as_many_probes_as_declared_run_at_a_time(fleet: Fleet) -> None:
    one, two = fleet.start(probes=2, success_threshold=5), fleet.start(probes=2, success_threshold=5)
    await opened(one)
    await fleet.advance(61)
    first, second = await one.enter(), await two.enter()
    assert [await one.call(), await two.call()] == ["refused", "refused"]
    await one.breakers.leave(first, "succeeded")
    await two.looked()
    third = await two.enter()
    assert await one.call() == "refused"
    for process, call in ((two, second), (two, third)):
        await process.breakers.leave(call, "ended")


async def test_a_probe_whose_process_died_lapses(fleet: Fleet) -> None:
    one, two = fleet.start(), fleet.start()
    await opened(one)
    await fleet.advance(61)
    dead = await one.enter()
    await fleet.advance(59)
    assert await two.call() == "refused"
    await fleet.advance(2)
    alive = await two.enter()
    # It was only slow: what it found out counts.
    await one.breakers.leave(dead, "succeeded")
    assert one.state == "closed"
    await two.breakers.leave(alive, "failed")
    await two.looked()
    assert two.state == "closed", "one failure"


async def test_a_cancelled_probe_is_given_back(fleet: Fleet) -> None:
    one, two = fleet.start(), fleet.start()
    await opened(one)
    await fleet.advance(61)
    probe = await one.enter()
    await one.breakers.leave(probe, "ended")
    await one.breakers.flush()
    await two.looked()
    assert await two.call() == "succeeded"


async def test_who_is_cancelled_while_it_asks_gives_the_probe_back(fleet: Fleet, connection: Connection) -> None:
    one, two = fleet.start(), fleet.start()
    await opened(one)
    await fleet.advance(61)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.circuit_breakers FOR UPDATE")
        asking = asyncio.create_task(one.enter())
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        await eventually(lambda: connection.fetchval(waiting), description="it waits for the row")
        asking.cancel()
        await asyncio.wait([asking])
    assert asking.cancelled()
    await eventually(lambda: one.state == "half-open", description="the probe was granted")
    await one.breakers.flush()
    await two.looked()
    assert await two.call() == "succeeded"


async def test_late_reports_of_calls_from_before_change_nothing(fleet: Fleet) -> None:
    one = fleet.start()
    await one.call()
    early, late, later = await one.enter(), await one.enter(), await one.enter()
    await opened(one)
    await one.breakers.leave(early, "succeeded")
    assert one.state == "open"
    await fleet.advance(61)
    probe = await one.enter()
    await one.breakers.leave(late, "failed")
    await one.breakers.leave(later, "succeeded")
    assert one.state == "half-open"
    await one.breakers.leave(probe, "succeeded")
    assert one.state == "closed"


# Without the database.


@pytest.fixture
def broken(fleet: Fleet) -> Callable[[], None]:
    def break_() -> None:
        fleet.down = ConnectionRefusedError("away")

    return break_


async def test_a_database_that_is_away_stops_no_call_and_the_process_goes_by_what_it_sees(
    fleet: Fleet, broken: Callable[[], None]
) -> None:
    one = fleet.start()
    await one.call()
    broken()
    assert await one.call() == "succeeded"
    await opened(one)
    assert one.breakers._cut_off
    assert [event.alone for event in one.seen if isinstance(event, BreakerOpened)] == [True]
    assert [event.during for event in one.seen if isinstance(event, DatabaseFailed)] == ["breakers"]
    before = fleet.statements["happen"]
    await fleet.advance(61)
    assert [await one.call("failed"), await one.call()] == ["failed", "refused"]
    await fleet.advance(61)
    assert [await one.call(), one.state] == ["succeeded", "closed"]
    assert fleet.statements["happen"] == before, "it is not asked again by each call"
    await opened(one)
    fleet.down = None
    await fleet.advance(31)
    await eventually(lambda: not one.breakers._cut_off, description="the database answers again")
    assert await one.call() == "succeeded", "what was learned meanwhile is forgotten"


async def test_an_open_breaker_stays_so_without_the_database_until_its_time_is_over(
    fleet: Fleet, broken: Callable[[], None]
) -> None:
    one = fleet.start()
    await opened(one)
    broken()
    await fleet.advance(30)
    assert await one.call() == "refused"
    await fleet.advance(31)
    assert [await one.call(), one.state] == ["succeeded", "closed"]


async def test_a_first_call_without_the_database_goes_through(fleet: Fleet, broken: Callable[[], None]) -> None:
    broken()
    one = fleet.start()
    assert await one.call() == "succeeded"


async def test_a_database_that_is_silent_holds_up_calls_once_and_for_a_moment(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.05)
    one = fleet.start()
    await one.call()
    fleet.hangs = True
    await one.call("failed")
    with no_statements(fleet):
        for _ in range(100):
            assert await one.call() == "succeeded"


async def test_a_strangers_lock_on_the_row_is_not_waited_for(fleet: Fleet, connection: Connection) -> None:
    one = fleet.start()
    await one.call()
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.circuit_breakers FOR UPDATE")
        assert await one.call("failed") == "failed"
        assert one.circuit.failure_count == 1
    await one.looked()
    assert one.circuit.failure_count == 0


async def test_after_the_app_was_closed_nothing_is_reported_and_nothing_raises(fleet: Fleet, monkeypatch: Any) -> None:
    from asyncjobs.errors import UsageError

    one = fleet.start()
    call = await one.enter()

    def closed(name: str, run: Any) -> Any:
        raise UsageError("closed")

    monkeypatch.setattr(one.breakers, "_start", closed)
    await one.breakers.leave(call, "failed")
