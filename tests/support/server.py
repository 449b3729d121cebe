"""The PostgreSQL that the tests run on: one of your own, one in a container, or an embedded one of the session's own."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from asyncjobs.embedded import start_sync

#: What needs a start to take effect.
SETTINGS = {"max_connections": "300", "max_prepared_transactions": "10", "shared_buffers": "128MB"}
#: Speed for safety: nobody misses a test's data. All of them can be changed on a running server.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "jit": "off",
    "autovacuum_naptime": "5min",
}


@contextmanager
def running_server() -> Generator[str]:
    """The DSN of a superuser's connection to the server's own database. The server ends with the context, unless it is yours."""
    yours = os.environ.get("ASYNCJOBS_TEST_DSN")
    if yours:
        yield yours
    elif os.environ.get("ASYNCJOBS_TEST_POSTGRES") == "testcontainers":
        with _container() as dsn:
            yield dsn
    else:
        with _embedded() as dsn:
            yield dsn


@contextmanager
def _container() -> Generator[str]:
    from testcontainers.community.postgres import PostgresContainer

    image = os.environ.get("ASYNCJOBS_TEST_IMAGE", "postgres:15")
    options = [f"-c {name}={value}" for name, value in SETTINGS.items()]
    with PostgresContainer(image, driver=None).with_command(["postgres", *" ".join(options).split()]) as container:
        dsn = container.get_connection_url()
        make_fast(dsn)
        yield dsn


@contextmanager
def _embedded() -> Generator[str]:
    # Not in pytest's own folder: that is 0700, and a server that root starts runs as nobody.
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs-tests-"))
    folder.chmod(0o755)
    try:
        server = start_sync(folder / "server", linger=0, durable=False, settings=SETTINGS)
        try:
            make_fast(server.dsn)
            yield server.dsn
        finally:
            server.close()
            server.wait_stopped()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_fast(dsn: str) -> None:
    """Switch durability off, and what disturbs measurements."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name, value in FAST.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        connection.execute("SELECT pg_reload_conf()")
