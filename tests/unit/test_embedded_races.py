"""Moments that cannot be hit from outside: between two steps of a supervisor or of a start."""

import asyncio
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from asyncjobs.embedded import ServerFailed, client, start, supervisor
from asyncjobs.embedded.layout import Layout, Order, State
from asyncjobs.embedded.locks import Lock
from asyncjobs.embedded.postgres import free_port
from asyncjobs.embedded.starter import Starter
from asyncjobs.embedded.supervisor import Supervisor


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def idle(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """A supervisor without a server, whose linger time is over at once. (No signal handlers: this is pytest's process.)"""
    monkeypatch.setattr(supervisor, "_Bell", Mock)
    made = Supervisor(Order(str(layout.folder), "/nowhere", linger=0, durable=True, settings={}))
    assert made.take()
    return made


def test_client_that_slips_in_before_the_door_is_closed_is_seen(
    layout: Layout, idle: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Lock(layout.clients_lock)
    take = idle._start.try_exclusive

    def slip_in() -> bool:
        assert late.try_shared()
        return take()

    monkeypatch.setattr(idle._start, "try_exclusive", slip_in)
    assert not idle._is_unwanted()
    other = Lock(layout.start_lock)
    assert other.try_exclusive()
    other.close()
    late.close()


def test_supervisor_without_clients_stays_while_somebody_starts(layout: Layout, idle: Supervisor) -> None:
    starting = Lock(layout.start_lock)
    assert starting.try_exclusive()
    assert not idle._is_unwanted()
    starting.close()
    assert idle._is_unwanted()


def test_door_stays_closed_until_the_supervisor_is_gone(layout: Layout, idle: Supervisor) -> None:
    assert idle._is_unwanted()
    for path in (layout.start_lock, layout.clients_lock):
        late = Lock(path)
        assert not late.try_shared()
        late.close()


def test_second_supervisor_is_refused(layout: Layout, idle: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_TAKE_SECONDS", 0.01)
    assert not Supervisor(Order(str(layout.folder), "/nowhere", linger=0, durable=True, settings={})).take()


def test_those_who_ask_for_the_supervisor_do_not_keep_one_out(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_Bell", Mock)
    asking = Lock(layout.supervisor_lock)
    assert asking.try_shared()
    threading.Timer(0.05, asking.close).start()
    assert Supervisor(Order(str(layout.folder), "/nowhere", linger=0, durable=True, settings={})).take()


def test_sixth_death_of_postgres_within_a_minute_is_the_last(idle: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Mock()
    monkeypatch.setattr(idle, "_up", started)
    for _ in range(5):
        idle._restart()
    with pytest.raises(ServerFailed, match="died 6 times within a minute"):
        idle._restart()
    assert started.call_count == 5


def test_what_a_dead_supervisor_said_is_not_taken_for_the_new_ones_word(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    State(port=1, pid=2, supervisor_pid=3, major=18, durable=True, settings={}).write(layout.state)
    seen: list[bool] = []

    def run(self: Starter, *_: object) -> dict[str, str]:
        seen.append(layout.state.exists())
        return {}

    monkeypatch.setattr(Starter, "_run_supervisor", run)
    with pytest.raises(ServerFailed, match="ended at once"):
        Starter(layout, linger=0, settings={}, durable=True).join(threading.Event())
    assert seen == [False]


def test_server_that_does_not_answer_is_not_handed_out(layout: Layout, idle: Supervisor) -> None:
    """Its supervisor was killed a moment ago, and its lock is not free yet."""
    State(port=free_port(), pid=2, supervisor_pid=3, major=18, durable=True, settings={}).write(layout.state)
    layout.data.mkdir()
    layout.password.touch()
    given_up = threading.Event()
    threading.Timer(0.1, given_up.set).start()
    with pytest.raises(ServerFailed, match="gave up waiting"):
        Starter(layout, linger=0, settings={}, durable=True).join(given_up)


async def test_server_that_comes_up_as_its_start_is_cancelled_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Mock()
    entered = threading.Event()

    def start_anyway(*_: object, given_up: threading.Event, **__: object) -> Mock:
        entered.set()
        given_up.wait(5)
        return server

    monkeypatch.setattr(client, "start_sync", start_anyway)
    task = asyncio.create_task(start())
    await asyncio.to_thread(entered.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.close.assert_called_once()
