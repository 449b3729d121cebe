"""Where a private server may be."""

import os
import stat
from pathlib import Path

import pytest

from asyncjobs.embedded import FolderUnusable, folder
from asyncjobs.embedded.folder import closed_to, default_folder, prepare_folder
from asyncjobs.embedded.user import Identity

ME = Identity(os.geteuid(), os.getegid())
#: Somebody whom no file of this test belongs to, and nothing is done as.
OTHER = Identity(54321, 54321, is_other=True)


@pytest.fixture
def open_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that others can reach, as far as these tests are concerned: whatever it is in itself."""
    passable = folder.is_passable

    def is_passable(place: Path, identity: Identity) -> bool:
        return tmp_path.is_relative_to(place) or passable(place, identity)

    monkeypatch.setattr(folder, "is_passable", is_passable)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "a" / "b", ME)
    assert mode(tmp_path / "a" / "b") == 0o700


def test_roots_folder_lets_the_servers_user_pass_whatever_the_umask(open_path: Path) -> None:
    before = os.umask(0o077)
    try:
        prepare_folder(open_path / "a" / "b", OTHER)
    finally:
        os.umask(before)
    assert mode(open_path / "a") == mode(open_path / "a" / "b") == 0o711


def test_empty_folder_is_opened_for_the_servers_user(open_path: Path) -> None:
    (open_path / "mine").mkdir(mode=0o700)
    prepare_folder(open_path / "mine", OTHER)
    assert mode(open_path / "mine") == 0o711


def test_folder_with_other_things_in_it_is_never_opened(open_path: Path) -> None:
    (open_path / "home").mkdir(mode=0o700)
    (open_path / "home" / "dead_letter").touch()
    with pytest.raises(FolderUnusable, match="is closed to others"):
        prepare_folder(open_path / "home", OTHER)
    assert mode(open_path / "home") == 0o700


def test_nothing_is_made_below_a_closed_folder(open_path: Path) -> None:
    (open_path / "home").mkdir(mode=0o700)
    with pytest.raises(FolderUnusable, match=f"{open_path / 'home'} is closed to others"):
        prepare_folder(open_path / "home" / "a" / "b", OTHER)
    assert not list((open_path / "home").iterdir())


def test_everybody_reaches_their_own_closed_folders(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    assert closed_to(tmp_path / "home", ME) is None


def test_data_folder_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("15\n")
    with pytest.raises(FolderUnusable, match="is itself a data folder"):
        prepare_folder(tmp_path, ME)


def test_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderUnusable, match="cannot be made"):
        prepare_folder(tmp_path / "file", ME)
    with pytest.raises(FolderUnusable, match="cannot be made"):
        prepare_folder(tmp_path / "file" / "below", ME)


@pytest.mark.parametrize(
    ("state", "home", "expected"),
    [
        ("{}/state", "{}", "state/asyncjobs"),
        ("not/absolute", "{}", ".local/state/asyncjobs"),
        ("", "{}/file", f"asyncjobs-{os.geteuid()}"),
    ],
    ids=["the environment's folder for states", "below home", "temporary where there is no home"],
)
def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, home: str, expected: str) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", state.format(tmp_path))
    monkeypatch.setenv("HOME", home.format(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert default_folder(ME) == tmp_path / expected


def test_default_of_root_is_where_the_servers_user_can_go(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (open_path / "home").mkdir(mode=0o700)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(open_path / "home"))
    monkeypatch.setattr(folder, "SYSTEM_STATE", open_path / "var")
    assert default_folder(OTHER) == open_path / "var"


def test_temporary_folder_that_others_may_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    trap = tmp_path / f"asyncjobs-{os.geteuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(FolderUnusable, match="not a folder of this user's alone"):
        default_folder(ME)
