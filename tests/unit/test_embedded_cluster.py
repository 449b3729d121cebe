"""What is done with a data folder that is there, and what with an initdb that fails. Binaries are scripts here."""

from collections.abc import Generator
from pathlib import Path

import pytest

from asyncjobs.embedded import DiskFull, FolderUnusable, OtherMajorVersion, ServerFailed, start_sync
from asyncjobs.embedded.cluster import ensure_cluster
from asyncjobs.embedded.layout import Layout
from asyncjobs.embedded.user import server_identity
from tests.support.embedded import has_stopped, open_folder

INITDB = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -D ] && folder="$2"; shift; done
mkdir "$folder/global" && echo 18 > "$folder/PG_VERSION" && touch "$folder/global/pg_control"
"""


@pytest.fixture
def layout() -> Generator[Layout]:
    with open_folder() as folder:
        yield Layout(folder)


@pytest.fixture
def binaries() -> Generator[Path]:
    """They make what looks like a data folder."""
    with open_folder() as folder:
        write(folder, "initdb", INITDB)
        write(folder, "postgres", "#!/bin/sh\n[ \"$1\" = -V ] && echo 'postgres (PostgreSQL) 18.6'\ntrue\n")
        yield folder


def write(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


def ensure(layout: Layout, binaries: Path, major: int = 18) -> None:
    ensure_cluster(layout, binaries, major, server_identity(), durable=True)


def make_data(layout: Layout, version: str = "18") -> None:
    (layout.data / "global").mkdir(parents=True)
    (layout.data / "base" / "16384").mkdir(parents=True)
    (layout.data / "global" / "pg_control").touch()
    (layout.data / "PG_VERSION").write_text(version + "\n")
    layout.password.write_text("secret")


def everything(layout: Layout) -> list[str]:
    return sorted(str(place.relative_to(layout.folder)) for place in layout.folder.rglob("*"))


def test_missing_data_folder_is_made_with_a_password(layout: Layout, binaries: Path) -> None:
    ensure(layout, binaries)
    assert len(layout.password.read_text()) >= 24
    assert layout.password.stat().st_mode & 0o077 == 0
    assert layout.data.stat().st_mode & 0o077 == 0
    assert [place.name for place in layout.folder.iterdir()] == ["data"]


def test_empty_data_folder_is_used(layout: Layout, binaries: Path) -> None:
    layout.data.mkdir()
    ensure(layout, binaries)
    assert layout.password.exists()


def test_complete_data_folder_is_left_alone(layout: Layout, binaries: Path) -> None:
    make_data(layout)
    before = everything(layout)
    ensure(layout, binaries)
    assert everything(layout) == before


def test_what_an_unfinished_initdb_left_is_removed(layout: Layout, binaries: Path) -> None:
    (layout.folder / "data.new-1234" / "base").mkdir(parents=True)
    (layout.folder / "data.new-1234.password").touch()
    ensure(layout, binaries)
    assert [place.name for place in layout.folder.iterdir()] == ["data"]


def test_half_a_data_folder_of_another_tools_initdb_is_set_aside(layout: Layout, binaries: Path) -> None:
    (layout.data / "base" / "1").mkdir(parents=True)
    ensure(layout, binaries)
    assert layout.password.exists()
    assert [place.name for place in layout.folder.glob("data.incomplete-*/base/*")] == ["1"]


@pytest.mark.parametrize("lost", ["PG_VERSION", "global/pg_control"])
def test_damaged_data_folder_is_refused_and_kept(layout: Layout, binaries: Path, lost: str) -> None:
    make_data(layout)
    (layout.data / lost).unlink()
    before = everything(layout)
    with pytest.raises(FolderUnusable, match="damaged, but may hold a database"):
        ensure(layout, binaries)
    assert everything(layout) == before


def test_unreadable_version_is_refused_and_kept(layout: Layout, binaries: Path) -> None:
    make_data(layout, "\x00\x00")
    with pytest.raises(FolderUnusable, match="PG_VERSION"):
        ensure(layout, binaries)
    assert layout.password.exists()


def test_other_major_version_is_refused_and_kept(layout: Layout, binaries: Path) -> None:
    make_data(layout, "13")
    before = everything(layout)
    with pytest.raises(OtherMajorVersion, match=r"written by PostgreSQL 13; the binaries in .* are 18.*ASYNCJOBS_PG_BIN"):
        ensure(layout, binaries)
    assert everything(layout) == before


def test_other_major_version_reaches_the_one_who_starts(layout: Layout) -> None:
    make_data(layout, "13")
    with pytest.raises(OtherMajorVersion, match="written by PostgreSQL 13"):
        start_sync(layout.folder)
    assert has_stopped(layout)


def test_somebody_elses_data_folder_is_refused(layout: Layout, binaries: Path) -> None:
    make_data(layout)
    layout.password.unlink()
    with pytest.raises(FolderUnusable, match="was not made by asyncjobs"):
        ensure(layout, binaries)


@pytest.mark.parametrize("program", ["initdb", "postgres"])
def test_full_disk_is_said_and_cleaned_up(layout: Layout, binaries: Path, program: str) -> None:
    write(binaries, program, "#!/bin/sh\necho 'could not write: No space left on device' >&2\nexit 1\n")
    with pytest.raises(DiskFull, match=f"no space left on the file system of {layout.folder}"):
        ensure(layout, binaries)
    assert not everything(layout)


def test_failing_initdb_is_quoted_and_cleaned_up(layout: Layout, binaries: Path) -> None:
    write(binaries, "initdb", "#!/bin/sh\necho 'out of luck' >&2\nexit 3\n")
    with pytest.raises(ServerFailed, match=r"initdb failed \(3\): out of luck"):
        ensure(layout, binaries)
    assert not everything(layout)
