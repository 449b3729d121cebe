"""Locks, the state file, ports, processes, platforms."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asyncjobs import errors
from asyncjobs.embedded import (
    BinariesNotFound,
    DiskFull,
    FolderUnusable,
    OtherMajorVersion,
    OtherSettings,
    ServerFailed,
    UnsupportedPlatform,
)
from asyncjobs.embedded.layout import Layout, Order, State
from asyncjobs.embedded.leftovers import end_leftovers
from asyncjobs.embedded.locks import Lock, is_held, wait_for
from asyncjobs.embedded.process import as_options, clean_environment


def test_lock_excludes_until_it_is_closed(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    assert first.try_exclusive()
    assert not second.try_shared()
    assert is_held(tmp_path / "lock")
    first.close()
    first.close()
    assert second.try_exclusive()
    second.close()


def test_shared_locks_go_together_and_keep_out_an_exclusive_one(tmp_path: Path) -> None:
    first, second, third = (Lock(tmp_path / "lock") for _ in range(3))
    assert first.try_shared()
    assert second.try_shared()
    assert not third.try_exclusive()
    assert not is_held(tmp_path / "lock")
    first.release()
    second.close()
    assert third.try_exclusive()
    first.close()
    third.close()


def test_lock_knows_when_its_file_was_replaced(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    assert lock.is_current()
    (tmp_path / "lock").unlink()
    assert not lock.is_current()
    (tmp_path / "lock").touch()
    assert not lock.is_current()
    lock.close()


def test_nobody_holds_a_lock_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "gone" / "lock")


def test_lock_is_not_inherited_by_programs(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    assert lock.try_exclusive()
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.close()
        assert not is_held(tmp_path / "lock")
        child.kill()


def test_wait_gives_up_in_time() -> None:
    assert not wait_for(lambda: False, 0.02)
    assert wait_for(lambda: True, 0)


def test_state_and_order_survive_their_files(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert State.read(layout.state) is None
    state = State(port=1, pid=2, supervisor_pid=3, major=18, durable=True, settings={"a": "ä"})
    state.write(layout.state)
    assert State.read(layout.state) == state
    assert [place.name for place in tmp_path.iterdir()] == ["server.json"]
    order = Order(folder="/a b/ä", binaries="/bin", linger=0.5, durable=False, settings={"x": "y z"})
    assert Order.decode(order.encode()) == order


def test_environment_of_postgres_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGDATA", "PGPORT", "PGOPTIONS", "LC_MESSAGES", "LANG", "LANGUAGE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("KEPT", "y")
    made = clean_environment()
    assert not {"PGDATA", "PGPORT", "PGOPTIONS", "LC_MESSAGES", "LANG", "LANGUAGE"} & set(made)
    assert (made["KEPT"], made["LC_ALL"]) == ("y", "C")


def test_settings_become_options() -> None:
    assert as_options({"work_mem": "1MB", "log_line_prefix": "%m "}) == ["-c", "work_mem=1MB", "-c", "log_line_prefix=%m "]


def test_pid_file_is_kept_when_its_process_is_gone(tmp_path: Path) -> None:
    """PostgreSQL recognises that one, and looks at the shared memory that it names, too."""
    (tmp_path / "postmaster.pid").write_text("999999999\n")
    end_leftovers(tmp_path)
    assert (tmp_path / "postmaster.pid").exists()


def test_pid_file_of_a_stranger_is_removed(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n")
    end_leftovers(tmp_path)
    assert not (tmp_path / "postmaster.pid").exists()


@pytest.mark.parametrize("error", [UnsupportedPlatform, BinariesNotFound, OtherMajorVersion, OtherSettings, FolderUnusable])
def test_what_the_user_must_change_is_a_configuration_error(error: type[Exception]) -> None:
    assert issubclass(error, errors.ConfigurationError)


@pytest.mark.parametrize("error", [DiskFull, ServerFailed])
def test_what_fails_by_itself_is_an_unavailable_database(error: type[Exception]) -> None:
    assert issubclass(error, errors.DatabaseUnavailable)
    assert str(error("a message")) == "a message"


@pytest.mark.direct("imports asyncjobs anew, and there programs have imported it at their start")
def test_system_without_flock_is_told_so() -> None:
    program = """
import sys
sys.modules["fcntl"] = sys.modules["pwd"] = None
from asyncjobs.embedded import UnsupportedPlatform, start_sync
try:
    start_sync()
except UnsupportedPlatform as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "give the DSN of a PostgreSQL that runs elsewhere" in done.stdout
