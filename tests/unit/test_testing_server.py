"""Where the server of tests has its data."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from asyncjobs.embedded.locks import Lock
from asyncjobs.testing.server import in_memory, remove_left, temporary_folder


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    has = {"free": 4 << 30}
    monkeypatch.delenv("TMPDIR", raising=False)

    def disk_usage(place: Path) -> SimpleNamespace:
        place.stat()
        return SimpleNamespace(free=has["free"])

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    return has


def test_it_is_in_memory_where_there_is_room(tmp_path: Path, room: dict[str, int]) -> None:
    assert in_memory(tmp_path) == tmp_path
    room["free"] -= 1
    assert in_memory(tmp_path) is None


def test_it_is_on_disk_where_there_is_no_such_place(tmp_path: Path) -> None:
    assert in_memory(tmp_path / "shm") is None


def test_it_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert in_memory(tmp_path) is None


def test_what_a_killed_program_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("asyncjobs-left", "asyncjobs-used", "asyncjobs-other", "strangers"):
        (tmp_path / name).mkdir()
    for name in ("asyncjobs-left", "asyncjobs-used", "strangers"):
        (tmp_path / name / "in-use").touch()
    used = Lock(tmp_path / "asyncjobs-used" / "in-use")
    assert used.try_exclusive()
    remove_left(tmp_path)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["asyncjobs-other", "asyncjobs-used", "strangers"]
    used.close()


def test_folder_that_was_taken_for_a_left_one_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = Lock.try_exclusive
    taken: list[Path] = []

    def take_late(self: Lock) -> bool:
        if not taken:
            taken.append(self.path.parent)
            remove_left(tmp_path)
        return take(self)

    monkeypatch.setattr(Lock, "try_exclusive", take_late)
    with temporary_folder(tmp_path) as folder:
        assert folder != taken[0]
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []
