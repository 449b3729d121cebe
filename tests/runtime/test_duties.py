"""The same duties under each strategy: two runners' sides of them, without the runners."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import pytest

from asyncjobs.errors import LeaseLost
from asyncjobs.model.lease import LeaseTimes
from asyncjobs.runtime.duties import Advisory, ByLease, Duty, Everyone, Share, Strategy
from asyncjobs.runtime.heartbeat import Heartbeat
from asyncjobs.runtime.leader import Leader
from asyncjobs.store import leases
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.leases import Heard, Said
from asyncjobs.telemetry.events import DutyPassed, Events, LeaseAcquired, LeaseEnded, ServicePassFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import Stopwatch, eventually
from tests.support.factories import insert_runner
from tests.support.leasing import lease
from tests.support.services import running

Kind = Literal["lease", "advisory", "everyone", "share"]
KINDS: tuple[Kind, ...] = ("lease", "advisory", "everyone", "share")
TIMES = LeaseTimes(renew_seconds=0.1, trust_seconds=0.5, observe_seconds=0.7, expiry_seconds=1.0)


class Counting(Duty):
    """Counts its passes, and does what a test tells it to."""

    duty = "report"

    def __init__(self) -> None:
        super().__init__(events=Events(), interval_seconds=0.05)
        self.done = 0
        self.cancelled = 0
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def pass_(self) -> float | None:
        if self.error is not None:
            raise self.error
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.done += 1
        self.items = 3
        return None


class Side:
    """One runner's side: its heartbeat, its leader, its duty."""

    def __init__(self, database: Database, id: int, kind: Kind, **options: Any) -> None:
        self.id = id
        self.leader = Leader(["report"], TIMES, events=Events(), fresh_seconds=5.0, **options)
        self.heartbeat = Heartbeat(
            database, events=Events(), on_declared_dead=_ignore, on_unconfirmed=_ignore, heartbeat_seconds=0.3,
            answer_seconds=60.0, runner_timeout_seconds=30.0, leader=self.leader if kind == "lease" else None,
        )  # fmt: skip
        self.advisory = Advisory(database)
        strategies: dict[Kind, Strategy] = {
            "lease": ByLease(self.leader),
            "advisory": self.advisory,
            "everyone": Everyone(),
            "share": Share(lambda: 1),
        }
        self.duty = Counting()
        self.duty.strategy = strategies[kind]
        self.duty.leader = self.leader
        self.leader.on_change = lambda _: self.duty.wake()

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        self.heartbeat.follow(self.id)
        self.heartbeat.start()
        try:
            async with running(self.duty):
                yield
        finally:
            await self.heartbeat.stop()
            await self.advisory.close()


def _ignore(_: int) -> None:
    pass


Make = Callable[..., Side]


@pytest.fixture(
    params=[
        pytest.param(kind, marks=pytest.mark.direct("its lock is its session's, and asyncjobs asks for none through a pooler"))
        if kind == "advisory"
        else kind
        for kind in KINDS
    ]
)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
async def first(database: Database, connection: Connection, recorder: Recorder, kind: Kind) -> Side:
    await insert_runner(connection, id=1, duties=["report"])
    return Side(database, 1, kind)


@pytest.fixture
async def second(database: Database, connection: Connection, recorder: Recorder, kind: Kind) -> Side:
    await insert_runner(connection, id=2, duties=["report"])
    return Side(database, 2, kind)


@pytest.fixture
async def leading(database: Database, connection: Connection, recorder: Recorder) -> Side:
    """One that does it under a lease."""
    await insert_runner(connection, id=1, duties=["report"])
    return Side(database, 1, "lease")


def passed(side: Side, more: int = 3) -> Callable[[], bool]:
    wanted = side.duty.done + more
    return lambda: side.duty.done >= wanted


# Under every strategy.


async def test_passes_go_on_at_their_interval(first: Side) -> None:
    async with first.working():
        await eventually(passed(first), description="three passes")


async def test_failing_pass_is_reported_and_ends_nothing(first: Side, recorder: Recorder) -> None:
    first.duty.error = ValueError("no")
    async with first.working():
        await eventually(lambda: len(recorder.of(ServicePassFailed)) >= 3, description="three failures")
        first.duty.error = None
        await eventually(passed(first), description="passes again")


async def test_each_pass_says_what_it_did(first: Side, recorder: Recorder) -> None:
    async with first.working():
        await eventually(lambda: recorder.of(DutyPassed), description="a pass")
    event = recorder.of(DutyPassed)[0]
    assert (event.duty, event.items, event.failed) == ("report", 3, False)


@pytest.mark.direct("is about a lock or a backend of its own session")
async def test_one_does_it_or_all_do_as_the_strategy_says(first: Side, second: Side, kind: Kind) -> None:
    async with first.working():
        await eventually(passed(first, 1), description="the first does it")
        async with second.working():
            await eventually(passed(first, 5), description="it goes on")
            assert (second.duty.done == 0) == (kind in {"lease", "advisory"})


async def test_others_go_on_when_one_has_ended(first: Side, second: Side) -> None:
    async with second.working():
        async with first.working():
            await eventually(lambda: first.duty.done + second.duty.done > 3, description="passes")
        await eventually(passed(second), description="the other one's")


async def test_cancelled_loop_ends_at_once_also_in_a_pass(first: Side) -> None:
    first.duty.gate = asyncio.Event()
    async with first.working():
        await eventually(lambda: first.duty.started_passes > 0, description="a pass")
        await asyncio.sleep(0)
    assert first.duty.done == 0


# Under a lease.


async def test_holder_is_visible_with_what_it_did(leading: Side, connection: Connection) -> None:
    async with leading.working():
        await eventually(lambda: has_report(connection), description="a report in the row")
    row = await lease(connection, "report")
    assert row["held_by_worker_id"] == "1"


async def has_report(connection: Connection) -> bool:
    condition = "metadata @> '{\"items\": 3, \"errors\": 0}' AND metadata ?& ARRAY['last_run', 'last_pass_at', 'duration']"
    return bool(await connection.fetchval(f"SELECT count(*) FROM asyncjobs.background_job_leases WHERE {condition}"))


async def test_holder_that_cannot_renew_stops_its_pass_before_the_lease_can_be_taken(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    await insert_runner(connection, id=1, duties=["report"])
    async with Proxy(dsn) as proxy:
        side = Side(Database(proxy.dsn), 1, "lease")
        side.duty.gate = asyncio.Event()
        async with side.working():
            await eventually(lambda: side.duty.started_passes > 1 or side.duty.turn.fence, description="it works")
            proxy.black_hole()
            watch = Stopwatch()
            await eventually(lambda: side.duty.cancelled == 1, description="its pass is cancelled")
            assert watch.stop() < TIMES.observe_seconds
            assert side.leader.term("report") is None
    assert any(isinstance(event.error, LeaseLost) for event in recorder.of(ServicePassFailed))


async def test_holder_whose_lease_was_taken_is_told_and_stops(leading: Side, connection: Connection, recorder: Recorder) -> None:
    leading.duty.gate = asyncio.Event()
    async with leading.working():
        await eventually(lambda: leading.duty.turn.fence, description="it works")
        await connection.execute("UPDATE asyncjobs.background_job_leases SET token = 1, held_by_worker_id = '77'")
        await eventually(lambda: leading.duty.cancelled == 1, description="its pass is cancelled")
        assert [(event.duty, event.reason) for event in recorder.of(LeaseEnded)] == [("report", "lost")]


async def test_silent_holder_is_replaced(leading: Side, database: Database, connection: Connection) -> None:
    async with leading.working():
        await eventually(passed(leading, 1), description="the first does it")
    await insert_runner(connection, id=2, duties=["report"])
    second = Side(database, 2, "lease")
    async with second.working():
        await eventually(passed(second, 1), description="the second does it")


async def test_stalled_main_loop_renews_nothing_while_the_beat_goes_on(leading: Side, connection: Connection) -> None:
    said = leading.leader.say(1, 100.0, may_renew=False)
    assert (said.held, said.served, said.may_take) == ({}, {}, False)


async def test_released_lease_is_taken_by_the_successor_and_not_taken_back(
    leading: Side, database: Database, connection: Connection, recorder: Recorder
) -> None:
    await insert_runner(connection, id=2, duties=["report"])
    second = Side(database, 2, "lease")
    link = database.link("resign")
    async with leading.working(), second.working():
        holder, other = await the_holder(leading, second)
        assert await holder.leader.resign(link) == other.id
        other.heartbeat.beat_now()
        await eventually(passed(other, 1), description="the successor does it")
        assert holder.leader.term("report") is None
    await link.close()
    assert [event.runner_id for event in recorder.of(LeaseAcquired)] == [holder.id, other.id]


async def the_holder(one: Side, other: Side) -> tuple[Side, Side]:
    await eventually(lambda: one.leader.term("report") or other.leader.term("report"), description="a holder")
    return (one, other) if one.leader.term("report") else (other, one)


def test_who_is_next_asks_for_free_leases_as_often_as_the_poll_and_others_do_not() -> None:
    leader = Leader(["report"], TIMES, events=Events(), fresh_seconds=5.0, poll_seconds=lambda: 0.08)
    assert leader.pause_seconds(0.0) == 0.08
    leader._poll_seconds = lambda: 0.001
    assert leader.pause_seconds(0.0) == TIMES.renew_seconds / 2, "never in a tight loop"
    leader.rank = 3
    assert leader.pause_seconds(0.0) is None
    leader.rank = 0
    leader._leases.acquired([("report", 5)], sent_at=0.0)
    assert leader.pause_seconds(0.0) == TIMES.renew_seconds, "who holds all asks for nothing"


def test_who_is_alone_hears_it_from_its_beats_and_the_rescue_is_told_when_that_changes() -> None:
    now, told = 100.0, list[list[str]]()
    leader = Leader(["report"], TIMES, events=Events(), fresh_seconds=5.0, clock=lambda: now)
    leader.on_change = lambda duties: told.append([*duties])
    assert not leader.is_only_runner(), "nothing was heard yet"

    def hear(runners: int) -> None:
        heard = Heard(beat=1, runners=runners, newer=None, rank=0, renewed=[], lost=[], acquired=[], others=[])
        leader.hear(Said(), heard, sent_at=now, answered_at=now, call=lambda callback, *args: callback(*args))

    hear(1)
    assert leader.is_only_runner()
    assert told == []
    hear(2)
    assert not leader.is_only_runner()
    hear(3)
    assert told == [["rescue"]]
    hear(1)
    assert told == [["rescue"]] * 2
    now = 105.0
    assert not leader.is_only_runner(), "that was long ago"


def test_duty_is_woken_when_the_trust_in_its_term_comes_back() -> None:
    """Its loop asked in between, had no turn, and waits for one: nothing else would tell it for a minute."""
    now, told = 100.0, list[list[str]]()
    leader = Leader(["report"], TIMES, events=Events(), fresh_seconds=5.0, clock=lambda: now)
    leader.say(1, now, may_renew=True)
    leader.on_change = lambda duties: told.append([*duties])
    leader._leases.acquired([("report", 5)], sent_at=now)

    def renew() -> None:
        heard = Heard(beat=1, runners=2, newer=None, rank=0, renewed=["report"], lost=[], acquired=[], others=[])
        said = Said(held={"report": 5})
        leader.hear(said, heard, sent_at=now, answered_at=now, call=lambda callback, *args: callback(*args))

    renew()
    told.clear()  # it is not alone any more
    now += TIMES.trust_seconds - 0.1
    renew()
    assert told == []
    now += TIMES.trust_seconds + 0.1
    assert leader.term("report") is None
    renew()
    assert (leader.term("report") is not None, told) == (True, [["report"]])


async def test_what_was_handed_over_stays_so_when_another_duty_finds_no_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    now, successors = 100.0, iter([2, None])
    leader = Leader(["prune", "report"], TIMES, events=Events(), fresh_seconds=5.0, clock=lambda: now)
    leader.say(1, now, may_renew=True)
    leader._leases.acquired([("prune", 5), ("report", 6)], sent_at=now)

    async def release(_link: Any, _holder: int, held: dict[str, int], **_: Any) -> tuple[list[str], int | None]:
        return [*held], next(successors)

    monkeypatch.setattr(leases, "release", release)
    assert await leader.resign(cast("Any", None), ["prune"]) == 2
    assert await leader.resign(cast("Any", None), ["report"]) is None
    assert [*leader.say(1, now, may_renew=True).served] == ["report"], "prune is the successor's for a while"
    now += TIMES.expiry_seconds
    assert [*leader.say(1, now, may_renew=True).served] == ["prune", "report"]


async def test_holder_hands_over_when_its_time_is_up(leading: Side, database: Database, connection: Connection) -> None:
    await insert_runner(connection, id=2, duties=["report"])
    second, handed = Side(database, 2, "lease"), list[str]()

    async def hand_over(duty: str) -> None:
        handed.append(duty)

    for side in (leading, second):
        side.duty.strategy = ByLease(side.leader, rotation_seconds=0.3, hand_over=hand_over)
    async with leading.working():
        await eventually(lambda: handed, description="it hands over")
    assert leading.duty.done > 2


async def test_suspended_process_has_no_term_when_it_wakes(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    now = 1000.0
    await insert_runner(connection, id=1, duties=["report"])
    side = Side(database, 1, "lease", clock=lambda: now)
    side.leader._leases.acquired([("report", 5)], sent_at=now)
    assert side.leader.term("report") is not None
    fence = side.leader.term("report")
    now += TIMES.trust_seconds
    assert side.leader.term("report") is None
    assert fence is not None
    assert side.leader.trusted_seconds(fence) == 0


# Under an advisory lock.


@pytest.mark.direct("is about a lock or a backend of its own session")
async def test_lost_session_ends_the_pass(database: Database, connection: Connection, recorder: Recorder) -> None:
    side = Side(database, 1, "advisory")
    await insert_runner(connection, id=1)
    side.duty.gate = asyncio.Event()
    async with side.working():
        await eventually(lambda: side.duty.turn.is_limited, description="it works")
        await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'asyncjobs advisory' "
            "AND datname = current_database()"
        )
        await eventually(lambda: side.duty.cancelled == 1, description="its pass is cancelled")


# Shared.


def test_shared_duty_is_done_once_per_interval_by_all_together() -> None:
    assert Share(lambda: 9).pause_seconds(5.0, had_turn=True) == 50.0
