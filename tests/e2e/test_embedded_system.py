"""What takes root to try: other users, a full disk, a machine without a home."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import asyncjobs
from asyncjobs.embedded import DiskFull, FolderUnusable, start_sync
from asyncjobs.embedded.copies import executable_binaries
from asyncjobs.embedded.finder import find_binaries
from asyncjobs.embedded.layout import Layout
from asyncjobs.embedded.user import server_identity
from tests.support.embedded import answers, client, environment_without, fetch, has_stopped, nothing_left, open_folder

pytestmark = pytest.mark.system

NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def folder() -> Generator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture
def everybodys_python() -> str:
    """A Python that an ordinary user can run; root's own may be below its home."""
    candidates = [sys.executable, *(f"/usr/bin/python3{minor}" for minor in ("", ".14", ".13", ".12", ".11"))]
    check = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    for python in candidates:
        try:
            if subprocess.run([python, *check], user=NOBODY, group=NOBODY, extra_groups=[], check=False, cwd="/").returncode == 0:
                return python
        except OSError:
            continue
    pytest.fail("no Python >= 3.11 that an ordinary user could run")


@pytest.fixture
def package(folder: Path) -> Path:
    """A copy of asyncjobs that an ordinary user can read."""
    shutil.copytree(Path(asyncjobs.__file__).parent, folder / "package" / "asyncjobs")
    return folder / "package" / "asyncjobs"


@pytest.fixture
def binaries(folder: Path) -> Path:
    """PostgreSQL's binaries where an ordinary user can run them."""
    return executable_binaries(find_binaries(), server_identity(), copies=folder)


def test_roots_server_runs_as_nobody(folder: Path) -> None:
    with nothing_left(folder / "pg") as layout:
        server = start_sync(layout.folder, linger=0, durable=False)
        postmaster = int((layout.data / "postmaster.pid").read_text().splitlines()[0])
        status = Path("/proc", str(postmaster), "status").read_text()
        assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}" in status
        assert "Groups:\t \n" in status
        assert layout.data.stat().st_uid == NOBODY
        assert layout.data.stat().st_mode & 0o077 == 0
        server.close()


def test_ordinary_users_server_is_their_own(folder: Path, everybodys_python: str, package: Path, binaries: Path) -> None:
    home = folder / "home of nobody"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    environment = environment_without("XDG_STATE_HOME") | {"HOME": str(home), "ASYNCJOBS_PG_BIN": str(binaries)}
    with client(python=everybodys_python, environment=environment, user=NOBODY, package=package) as one:
        got = one.start(None)
        with nothing_left(home / ".local" / "state" / "asyncjobs") as layout:
            assert got["folder"] == str(layout.folder)
            assert answers(got["dsn"])
            assert layout.folder.stat().st_uid == NOBODY
            assert layout.folder.stat().st_mode & 0o077 == 0
            one.close()


def test_ordinary_user_without_home_gets_a_temporary_folder(
    folder: Path, everybodys_python: str, package: Path, binaries: Path
) -> None:
    temporary = folder / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    environment = environment_without("XDG_STATE_HOME", "HOME") | {"TMPDIR": str(temporary), "ASYNCJOBS_PG_BIN": str(binaries)}
    with client(python=everybodys_python, environment=environment, user=NOBODY, package=package) as one:
        got = one.start(None)
        with nothing_left(temporary / f"asyncjobs-{NOBODY}") as layout:
            assert got["folder"] == str(layout.folder)
            one.close()


def test_ordinary_user_is_kept_out_of_roots_folder(folder: Path, everybodys_python: str, package: Path) -> None:
    with nothing_left(folder / "pg") as layout:
        server = start_sync(layout.folder, linger=0, durable=False)
        with client(python=everybodys_python, user=NOBODY, package=package) as one:
            got = one.start(layout.folder)
        assert got["error"] == FolderUnusable.__name__
        assert "Permission denied" in got["message"]
        server.close()


def test_root_without_home_has_a_folder_of_the_systems(folder: Path) -> None:
    """In a mount namespace of its own, so that the machine's /var/lib stays as it is."""
    (folder / "lib").mkdir()
    start = "from asyncjobs.embedded import start_sync; print(start_sync(linger=0).folder)"
    command = ["sh", "-c", 'mount --bind "$1" /var/lib && exec "$2" -c "$3"', "sh", str(folder / "lib"), sys.executable, start]
    done = subprocess.run(
        ["unshare", "--mount", *command],
        env=environment_without("HOME", "XDG_STATE_HOME"),
        capture_output=True,
        text=True,
        check=False,
    )
    home_is_closed = Path("~root").expanduser().stat().st_mode & 0o001 == 0
    expected = "/var/lib/asyncjobs" if home_is_closed else "/root/.local/state/asyncjobs"
    assert (done.stdout.strip(), done.stderr) == (expected, "")
    if home_is_closed:
        assert has_stopped(Layout(folder / "lib" / "asyncjobs"))


def test_binaries_below_a_closed_folder_are_copied_once_with_their_libraries(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    package = find_binaries().parents[1]
    for source in (package, package.with_name(package.name + ".libs")):
        shutil.copytree(source, closed / source.name, symlinks=True)
    binaries = closed / package.name / "pginstall" / "bin"
    copied = executable_binaries(binaries, server_identity(), copies=folder)
    made_at = copied.stat().st_ctime_ns
    assert executable_binaries(binaries, server_identity(), copies=folder) == copied
    assert copied.stat().st_ctime_ns == made_at
    with nothing_left(folder / "pg"), client(environment=os.environ | {"ASYNCJOBS_PG_BIN": str(copied)}) as one:
        assert fetch(one.start(folder / "pg")["dsn"], "SHOW shared_preload_libraries") == "pg_stat_statements"
        one.close()


@pytest.fixture
def small_disk(folder: Path) -> Generator[Path]:
    """A file system of 30 MB, too small for a new database."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m,mode=755", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)


def test_full_disk_at_first_start_is_said_and_leaves_nothing(small_disk: Path) -> None:
    layout = Layout(small_disk / "pg")
    with pytest.raises(DiskFull, match="no space left on the file system of"):
        start_sync(layout.folder, linger=0)
    assert has_stopped(layout)
    assert not list(layout.folder.glob("data*"))
    resize(small_disk, "200m")
    server = start_sync(layout.folder, linger=0)
    assert answers(server.dsn)
    server.close()
    assert has_stopped(layout)


def test_disk_that_is_full_later_is_said_and_loses_nothing(small_disk: Path) -> None:
    resize(small_disk, "200m")
    layout = Layout(small_disk / "pg")
    server = start_sync(layout.folder, linger=0)
    fetch(server.dsn, "CREATE TABLE remembered AS SELECT 42 AS value")
    server.close()
    assert has_stopped(layout)
    filler = small_disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M"], check=False, stderr=subprocess.DEVNULL)
    assert shutil.disk_usage(small_disk).free == 0
    with pytest.raises(DiskFull, match="no space left on the file system of"):
        start_sync(layout.folder, linger=0)
    assert has_stopped(layout)
    filler.unlink()
    server = start_sync(layout.folder, linger=0)
    assert fetch(server.dsn, "SELECT value FROM remembered") == 42
    server.close()
    assert has_stopped(layout)
