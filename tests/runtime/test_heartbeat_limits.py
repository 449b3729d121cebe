"""How long a beat may take: rule 1 of `runtime/heartbeat.py`, and what may not stop a beat."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from asyncjobs.model.lease import LeaseTimes
from asyncjobs.runtime import heartbeat as heartbeat_module
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.leader import Leader
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, ServicePassFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.beating import BEAT, Watched
from tests.support.eventually import Stopwatch, eventually
from tests.support.factories import insert_runner


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    async with Proxy(dsn) as made:
        yield made


@pytest.fixture
async def runner(connection: Connection, schema: str) -> int:
    return await insert_runner(connection, schema=schema, id=1)


def a_leader(clock: Callable[[], float]) -> Leader:
    times = LeaseTimes(renew_seconds=0.3, trust_seconds=30.0, observe_seconds=40.0, expiry_seconds=60.0)
    return Leader(["prune"], times, events=Events(), fresh_seconds=600.0, clock=clock)


@pytest.mark.parametrize("leads", [False, True])
async def test_trouble_that_no_database_can_hold_is_said_in_letters_that_it_can(
    database: Database, runner: int, connection: Connection, *, leads: bool
) -> None:
    leader = a_leader(boottime) if leads else None
    async with Watched(database, troubles=lambda: ["a\0b \ud800 Ω"], leader=leader).following(runner):
        told = await connection.fetchval("SELECT troubles FROM asyncjobs.runners")
        assert told == [r"a\x00b \ud800 \u03a9"]


async def test_each_beat_is_given_up_in_time_also_while_it_connects(
    proxy: Proxy, runner: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat_module, "_UNHURRIED_SECONDS", BEAT)
    async with Watched(Database(proxy.dsn)).following(runner) as heartbeat:
        heartbeat.answer_seconds = BEAT
        proxy.black_hole("heartbeat")
        await recorder.wait_for(ServicePassFailed, lambda event: event.failures == 4)


async def test_connecting_has_two_seconds_of_its_own(
    database: Database, runner: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Database.connect

    async def connect_slowly(self: Database, role: str, *, command_timeout: float | None = None) -> Connection:
        await asyncio.sleep(0.7)
        return await connect(self, role, command_timeout=command_timeout)

    monkeypatch.setattr(Database, "connect", connect_slowly)
    async with Watched(database, answer_seconds=0.2).following(runner) as heartbeat:
        assert heartbeat.beats
    assert recorder.of(ServicePassFailed) == []


@pytest.mark.parametrize("leads", [False, True])
async def test_runner_that_is_not_confirmed_has_two_seconds_for_a_beat(
    proxy: Proxy, runner: int, recorder: Recorder, *, leads: bool
) -> None:
    now = [0.0]
    leader = a_leader(lambda: now[0]) if leads else None
    # Through this proxy an answer takes 0.25 s, and each beat asks twice: for the statement's types, and for its rows.
    watched = Watched(Database(proxy.dsn), clock=lambda: now[0], runner_timeout_seconds=360.0, leader=leader)
    async with watched.following(runner) as heartbeat:
        if leader is not None:
            await eventually(lambda: leader.held() == ["prune"], description="it holds a lease")
        heartbeat.answer_seconds = 0.2
        proxy.delay(0.25, "heartbeat")
        await recorder.wait_for(ServicePassFailed)
        now[0] = 301.0
        await eventually(lambda: heartbeat.is_confirmed, description="it is confirmed again")
        assert heartbeat.confirmed_at == 301.0


async def test_renewal_of_a_runner_that_is_confirmed_is_given_up_in_time_for_another(
    proxy: Proxy, runner: int, recorder: Recorder
) -> None:
    leader = a_leader(boottime)
    async with Watched(Database(proxy.dsn), leader=leader).following(runner) as heartbeat:
        await eventually(lambda: leader.held() == ["prune"], description="it holds a lease")
        proxy.silence("heartbeat")
        watch = Stopwatch()
        await recorder.wait_for(ServicePassFailed)
        assert watch.stop() < 1.8
        assert heartbeat.is_confirmed
