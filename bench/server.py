"""The server that all contenders take turns on, and what is to be known about it and the machine."""

import os
import platform
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from asyncjobs.testing.server import temporary

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "shared_preload_libraries")


@contextmanager
def server(*, durable: bool) -> Generator[str]:
    """The DSN of a server: $ASYNCJOBS_BENCH_DSN (one of yours, with a role that may do anything), else an embedded one."""
    yours = os.environ.get("ASYNCJOBS_BENCH_DSN")
    if yours:
        yield yours
        return
    with temporary({"max_connections": "400"}, durable=durable) as dsn:
        yield dsn


def database_at(dsn: str, name: str) -> str:
    """The DSN of another database of the server."""
    return urlunsplit(urlsplit(dsn)._replace(path="/" + name))


@asynccontextmanager
async def connected(dsn: str) -> AsyncGenerator[Connection]:
    """A connection for the lab itself."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
    try:
        yield connection
    finally:
        await connection.close()


async def settings(connection: Connection) -> dict[str, str]:
    """What was measured on: machine, server and its settings."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    rows = await connection.fetch("SELECT name, current_setting(name) AS value FROM pg_settings WHERE name = ANY ($1)", _SETTINGS)
    return {
        "machine": f"{os.cpu_count()} cores ({_processor()}), {memory / 2**30:.0f} GiB, {platform.system()}",
        **{row["name"]: row["value"] for row in rows},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
