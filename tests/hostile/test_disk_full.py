"""The server's disk is full for a while: what cannot be written is said, and done when there is room again."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from asyncjobs import DatabaseUnavailable
from asyncjobs.store.database import Database
from asyncjobs.testing import Recorder
from tests.hostile.conftest import migrated
from tests.support.embedded import open_folder
from tests.support.outage import Work, at_work
from tests.support.own_server import OwnServer, started

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("database")]

#: A cluster, and a few segments of the log.
MEGABYTES = 200


@pytest.fixture(scope="module")
def disk() -> Generator[Path]:
    """A small file system."""
    with open_folder() as folder:
        options = f"size={MEGABYTES}m,mode=755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def own(disk: Path) -> Generator[OwnServer]:
    with started(disk / "server", {"min_wal_size": "32MB", "max_wal_size": "48MB"}) as server:
        migrated(server)
        yield server


@pytest.fixture
def database(own: OwnServer) -> Database:
    return Database(own.dsn)


async def test_jobs_go_on_when_there_is_room_for_rows_again(own: OwnServer, disk: Path, recorder: Recorder) -> None:
    async with at_work(own.dsn, recorder, connect_timeout=2) as work:
        with filled(disk), pytest.raises(DatabaseUnavailable, match="No space left on device"):
            await enqueue_until_it_fails(work)
        await work.ends()


async def test_jobs_go_on_when_there_is_room_for_the_log_again(own: OwnServer, disk: Path, recorder: Recorder) -> None:
    """Without it the server panics, and cannot recover before there is room."""
    async with at_work(own.dsn, recorder) as work:
        with filled(disk):
            own.use_up_log()
            await work.notices()  # in words that depend on what the server was at
        await own.back()
        await work.ends()


async def enqueue_until_it_fails(work: Work) -> None:
    while True:
        work.handles.append(await work.quick.enqueue(ballast="0123456789abcdef" * 4000))


@contextmanager
def filled(disk: Path) -> Generator[None]:
    """Not a byte is left, for as long as the block."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(65536))
        yield
    finally:
        filler.unlink()
