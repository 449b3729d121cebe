"""The protocol told in `asyncjobs.embedded`, sentence by sentence."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.embedded import OtherSettings, ServerFailed, start, start_sync
from asyncjobs.embedded.layout import Layout, State
from asyncjobs.embedded.leftovers import processes_on
from asyncjobs.embedded.locks import Lock, is_held, wait_for
from tests.support.embedded import answers, client, copy_cluster, fetch, has_stopped, is_alive, nothing_left, open_folder
from tests.support.eventually import patience


@pytest.fixture(scope="module")
def shared() -> Generator[Path]:
    """The folder that the tests use after each other; made once, because initdb takes longest."""
    with open_folder() as folder:
        yield folder / "shared"


@pytest.fixture
def layout(shared: Path) -> Generator[Layout]:
    """A folder with data in it, but no server yet."""
    if not Layout(shared).data.exists():
        server = start_sync(shared, linger=0, durable=False)
        server.close()
        assert server.wait_stopped()
    with nothing_left(shared) as layout:
        yield layout


@pytest.fixture
def fresh() -> Generator[Layout]:
    """A folder that is not there yet."""
    with open_folder() as folder, nothing_left(folder / "fresh") as layout:
        yield layout


def state(layout: Layout) -> State:
    there = State.read(layout.state)
    assert there is not None
    return there


def remember(dsn: str) -> None:
    fetch(dsn, "DROP TABLE IF EXISTS remembered")
    fetch(dsn, "CREATE TABLE remembered AS SELECT 42 AS value")


def remembered(dsn: str) -> bool:
    return bool(fetch(dsn, "SELECT value = 42 FROM remembered"))


async def test_first_start_makes_a_database_that_speaks_utf8(fresh: Layout) -> None:
    server = await start(fresh.folder, linger=0)
    assert fetch(server.dsn, "SELECT current_database() || ' ' || current_user") == "asyncjobs asyncjobs"
    assert fetch(server.dsn, "SHOW server_encoding") == "UTF8"
    assert fetch(server.dsn, "SHOW fsync") == "on"
    assert fetch(server.dsn, "SELECT rolpassword LIKE 'SCRAM-SHA-256%' FROM pg_authid WHERE rolname = 'asyncjobs'")
    assert fresh.password.read_text() not in repr(server)
    server.close()


def test_server_listens_on_loopback_alone_wants_its_password_and_keeps_its_port(layout: Layout) -> None:
    server = start_sync(layout.folder, linger=0, durable=False)
    listens = "SELECT string_agg(setting, '|') FROM pg_settings WHERE name ~ '^(listen_ad|unix_socket_d)'"
    assert fetch(server.dsn, listens) == "127.0.0.1|"
    assert not answers(server.dsn.replace(layout.password.read_text(), "wrong"))
    server.close()
    server.close()  # twice is once
    assert server.wait_stopped()
    again = start_sync(layout.folder, linger=0, durable=False)
    assert again.dsn == server.dsn
    again.close()


def test_settings_of_the_first_client_hold_and_others_are_refused(layout: Layout) -> None:
    first = start_sync(layout.folder, linger=0, durable=False, settings={"work_mem": "7MB"})
    second = start_sync(layout.folder, durable=False)
    assert fetch(second.dsn, "SHOW work_mem") == "7MB"
    with pytest.raises(OtherSettings, match="work_mem"):
        start_sync(layout.folder, durable=False, settings={"work_mem": "8MB"})
    with pytest.raises(OtherSettings, match="durable=False"):
        start_sync(layout.folder)
    first.close()
    second.close()


def test_setting_that_postgres_refuses_is_named(layout: Layout) -> None:
    with pytest.raises(ServerFailed, match="no_such_setting"):
        start_sync(layout.folder, linger=0, durable=False, settings={"no_such_setting": "1"})
    assert has_stopped(layout)


def test_processes_that_start_at_once_share_one_server(fresh: Layout) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(client()) for _ in range(3)]
        for one in clients:
            one.go(fresh.folder)
        assert len({one.answer()["dsn"] for one in clients}) == 1


def test_server_lingers_after_the_last_client_and_then_ends(layout: Layout) -> None:
    server = start_sync(layout.folder, linger=0.6, durable=False)
    closed_at = time.monotonic()
    server.close()
    assert answers(server.dsn)
    assert has_stopped(layout)
    assert time.monotonic() - closed_at >= 0.6


def test_client_in_the_linger_time_gets_the_same_server(layout: Layout) -> None:
    first = start_sync(layout.folder, linger=0.5, durable=False)
    pid = state(layout).pid
    first.close()
    second = start_sync(layout.folder, durable=False)
    assert state(layout).pid == pid
    assert not second.wait_stopped(0.8)
    second.close()


def test_client_that_comes_while_the_server_stops_waits_and_starts_anew(layout: Layout) -> None:
    first = start_sync(layout.folder, linger=0, durable=False)
    remember(first.dsn)
    old = state(layout)
    os.kill(old.pid, signal.SIGSTOP)
    first.close()
    assert wait_for(lambda: not layout.state.exists(), 5)  # it stops, and cannot: the postmaster stands still
    with client() as late:
        late.go(layout.folder)
        os.kill(old.pid, signal.SIGCONT)
        assert remembered(late.answer()["dsn"])
        assert state(layout).supervisor_pid != old.supervisor_pid


def test_killed_client_is_gone_like_a_closed_one(layout: Layout) -> None:
    with client() as one:
        one.start(layout.folder)
        one.kill()
        assert has_stopped(layout)


def test_client_killed_while_it_starts_the_server_leaves_it_to_the_next(fresh: Layout) -> None:
    with client() as one, client() as other:
        one.go(fresh.folder)
        assert wait_for(lambda: is_held(fresh.supervisor_lock), 5)
        one.kill()
        assert answers(other.start(fresh.folder)["dsn"])


def test_clients_bring_a_killed_supervisor_up_again_together(layout: Layout) -> None:
    server = start_sync(layout.folder, linger=0, durable=False)
    remember(server.dsn)
    with client() as other:
        dsn = other.start(layout.folder)["dsn"]
        old = state(layout)
        os.kill(old.supervisor_pid, signal.SIGKILL)
        assert wait_for(lambda: layout.state.exists() and state(layout).supervisor_pid != old.supervisor_pid, 10)
        assert dsn == server.dsn
        assert remembered(dsn)
        assert old.pid not in processes_on(layout.data)
        other.close()
    server.close()
    assert has_stopped(layout)


def test_postgres_ends_with_its_supervisor_when_nobody_starts_another(layout: Layout) -> None:
    with client() as one:
        one.start(layout.folder, linger=60)
        one.kill()
    os.kill(state(layout).supervisor_pid, signal.SIGKILL)
    assert has_stopped(layout)
    assert not (layout.data / "postmaster.pid").exists()


def test_supervisor_starts_a_killed_postmaster_again_on_its_port(layout: Layout) -> None:
    server = start_sync(layout.folder, linger=0, durable=False)
    remember(server.dsn)
    old = state(layout)
    os.kill(old.pid, signal.SIGKILL)
    assert wait_for(lambda: layout.state.exists() and state(layout).pid != old.pid, 10)
    assert state(layout).supervisor_pid == old.supervisor_pid
    assert remembered(server.dsn)
    server.close()


def test_next_start_recovers_when_all_were_killed_at_once(layout: Layout) -> None:
    with client() as one:
        remember(one.start(layout.folder, linger=60)["dsn"])
        old = state(layout)
        os.kill(old.supervisor_pid, signal.SIGSTOP)  # or it would start the postmaster again
        os.kill(old.pid, signal.SIGKILL)
        os.kill(old.supervisor_pid, signal.SIGKILL)
        one.kill()
    assert (layout.data / "postmaster.pid").exists()
    server = start_sync(layout.folder, linger=0, durable=False)
    assert remembered(server.dsn)
    server.close()


def test_server_that_accepts_and_does_not_answer_is_not_up(layout: Layout) -> None:
    """The kernel accepts for a stopped process, and for a moment for a killed one."""
    server = start_sync(layout.folder, linger=0, durable=False)
    given_up = threading.Event()
    os.kill(state(layout).pid, signal.SIGSTOP)
    threading.Timer(0.2, given_up.set).start()
    with pytest.raises(ServerFailed, match="gave up waiting"):
        start_sync(layout.folder, durable=False, given_up=given_up)
    os.kill(state(layout).pid, signal.SIGCONT)
    server.close()


def test_pid_of_a_dead_server_that_is_somebody_elses_now_keeps_nobody_out(layout: Layout) -> None:
    """After a machine's crash: PostgreSQL alone refuses to start when any process of its user has the pid."""
    with client() as one:
        one.start(layout.folder)
        stranger = next(pid for pid in processes_on(layout.data) if pid != state(layout).pid)
        with open_folder() as folder:
            copy_cluster_of_crashed(layout.folder, folder / "pg", pid=stranger)
            with nothing_left(folder / "pg"):
                server = start_sync(folder / "pg", linger=0, durable=False)
                assert answers(server.dsn)
                server.close()


def copy_cluster_of_crashed(source: Path, target: Path, *, pid: int) -> None:
    copy_cluster(source, target)
    there = target / "data" / "postmaster.pid"
    lines = there.read_text().splitlines()
    lines[0] = str(pid)
    there.write_text("\n".join(lines[:6]) + "\n")


def test_told_supervisor_stops_in_order_although_it_has_clients(layout: Layout) -> None:
    server = start_sync(layout.folder, linger=0, durable=False)
    old, begin = state(layout), layout.log.stat().st_size
    os.kill(old.supervisor_pid, signal.SIGTERM)
    assert wait_for(lambda: layout.state.exists() and state(layout).supervisor_pid != old.supervisor_pid, 10)
    assert answers(server.dsn)
    with layout.log.open() as log:
        log.seek(begin)
        assert "not properly shut down" not in log.read()
    server.close()


def test_removed_folder_ends_the_server(layout: Layout, fresh: Layout) -> None:
    copy_cluster(layout.folder, fresh.folder)
    server = start_sync(fresh.folder, linger=60, durable=False)
    there = state(fresh)
    fresh.folder.rename(fresh.folder.with_name("removed"))  # a removal that nothing comes between
    assert wait_for(lambda: not answers(server.dsn), 5)
    assert wait_for(lambda: not is_alive(there.pid) and not is_alive(there.supervisor_pid), 5)
    server.close()


def test_unfinished_initdb_is_removed_and_done_again(fresh: Layout) -> None:
    with client() as one:
        one.go(fresh.folder)
        assert wait_for(lambda: any(fresh.folder.glob("data.new-*/global")), 10)
        (supervisor,) = set(processes_with(str(fresh.folder))) & set(processes_with("launch.py"))
        os.kill(supervisor, signal.SIGKILL)
        one.kill()
    assert wait_for(lambda: not processes_with("data.new-"), 5)  # initdb does not go on without its supervisor
    assert not fresh.data.exists()
    assert list(fresh.folder.glob("data.new-*"))
    server = start_sync(fresh.folder, linger=0, durable=False)
    assert answers(server.dsn)
    assert not list(fresh.folder.glob("data.new-*"))
    server.close()


def processes_with(word: str) -> list[int]:
    """Those whose command line has the word in it."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in place.read_bytes():
                found.append(int(place.parent.name))
    return found


def test_port_taken_meanwhile_gives_another(layout: Layout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        layout.last_port.write_text(str(taken.getsockname()[1]))
        server = start_sync(layout.folder, linger=0, durable=False)
        assert server.port != taken.getsockname()[1]
        assert answers(server.dsn)
        server.close()


def test_path_too_long_for_a_socket_is_long_enough(layout: Layout, fresh: Layout) -> None:
    folder = fresh.folder / ("long " * 30)
    copy_cluster(layout.folder, folder)
    with nothing_left(folder):
        server = start_sync(folder, linger=0, durable=False)
        assert answers(server.dsn)
        server.close()


async def test_cancelled_start_is_no_client(layout: Layout) -> None:
    held = Lock(layout.start_lock)
    assert held.try_exclusive()
    task = asyncio.create_task(start(layout.folder, linger=0, durable=False))
    await asyncio.sleep(0.05)
    task.cancel()
    async with patience(5):
        with pytest.raises(asyncio.CancelledError):
            await task
    held.close()
    clients = Lock(layout.clients_lock)
    assert clients.try_exclusive()
    clients.close()
    assert not is_held(layout.supervisor_lock)


async def test_app_opens_on_a_private_server_and_lets_it_linger(layout: Layout) -> None:
    jobs = AsyncJobs(f"embedded://{layout.folder}")
    async with jobs:
        assert await jobs.get(1) is None
    assert not has_stopped(layout, 0.5)
    os.kill(state(layout).supervisor_pid, signal.SIGTERM)
