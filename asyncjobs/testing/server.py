"""The PostgreSQL that tests run on: one of yours when you name it, else an embedded one of the tests' own."""

import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from asyncjobs.embedded import start_sync

#: Speed for safety: nobody misses a test's data.
FAST: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "jit": "off",
    "autovacuum_naptime": "5min",
}


@contextmanager
def server(settings: Mapping[str, str] | None = None) -> Generator[str]:
    """The DSN of a server for tests: $ASYNCJOBS_TEST_DSN, whose role may create databases, else that of an embedded one.

    The embedded one (extra `embedded`) starts in about a second, with these settings besides its fast ones, and is gone with its
    data at the end of the block. Make databases on it with `databases(dsn)`.
    """
    yours = os.environ.get("ASYNCJOBS_TEST_DSN")
    if yours:
        yield yours
        return
    with temporary({**FAST, **(settings or {})}, durable=False) as dsn:
        yield dsn


@contextmanager
def temporary(settings: Mapping[str, str], *, durable: bool) -> Generator[str]:
    """The DSN of an embedded server that is gone with its data at the end of the block."""
    # Not in a folder of pytest's: that is 0700, and a server that root starts runs as nobody.
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs-"))
    folder.chmod(0o755)
    try:
        started = start_sync(folder / "server", linger=0, durable=durable, settings=settings)
        try:
            yield started.dsn
        finally:
            started.close()
            started.wait_stopped()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
