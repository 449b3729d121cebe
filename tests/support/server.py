"""The PostgreSQL that the tests run on: one of your own, one in a container, or an embedded one of the session's own."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from asyncjobs.testing.server import FAST, server
from tests.support.containers import container

#: What needs a start to take effect.
SETTINGS = {"max_connections": "300", "max_prepared_transactions": "10", "shared_buffers": "128MB"}

_COUNTS_ROUNDS_SINCE: Final = 160000


@contextmanager
def running_server() -> Generator[str]:
    """The DSN of a superuser's connection to the server's own database. The server ends with the context, unless it is yours."""
    in_container = os.environ.get("ASYNCJOBS_TEST_POSTGRES") == "testcontainers" and not os.environ.get("ASYNCJOBS_TEST_DSN")
    with fast_container() if in_container else server(SETTINGS) as dsn:
        if not os.environ.get("ASYNCJOBS_TEST_DSN"):
            _make_connects_cheap(dsn)
        yield dsn


def _make_connects_cheap(dsn: str) -> None:
    """The thousands that a run makes: no question for encryption, which these servers have not, and one round of hashing in place
    of 4,096. A test with a database, of which each takes two or three, took 38 ms of a core, and 28 with both.
    """
    os.environ.setdefault("PGSSLMODE", "disable")
    password = urlsplit(dsn).password or ""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if connection.info.server_version >= _COUNTS_ROUNDS_SINCE:
            connection.execute("SET scram_iterations = 1")
            connection.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(password))


@contextmanager
def fast_container() -> Generator[str]:
    """The DSN of a server in a container, as fast as the embedded one."""
    with container(SETTINGS) as dsn:
        _make_fast(dsn)
        yield dsn


def _make_fast(dsn: str) -> None:
    """Switch durability off, and what disturbs measurements. All of it can be changed on a running server."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name, value in FAST.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        connection.execute("SELECT pg_reload_conf()")
