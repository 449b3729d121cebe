"""PgBouncer in front of the tests' server, pooling by transaction unless said otherwise."""

import asyncio
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.support.eventually import eventually
from tests.support.program import Program

_CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
auth_type = scram-sha-256
auth_file = {users}
auth_user = {user}
pool_mode = {mode}
default_pool_size = 20
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
"""


@asynccontextmanager
async def pgbouncer(dsn: str, *, mode: str = "transaction") -> AsyncGenerator[str]:
    """A DSN that leads to the same database through PgBouncer."""
    listen = free_port()
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs-pgbouncer-"))
    try:
        async with Program(*command(configure(folder, dsn, listen, mode))) as program:
            to = through(dsn, listen)
            await eventually(
                lambda: asyncio.to_thread(answers, to), description=f"PgBouncer answers; it said: {program.said}", timeout=10
            )
            yield to
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def through(dsn: str, listen: int) -> str:
    """The DSN with this port of PgBouncer's in it."""
    server = urlsplit(dsn)
    return urlunsplit(server._replace(netloc=f"{server.username}:{server.password or ''}@127.0.0.1:{listen}"))


def configure(folder: Path, dsn: str, listen: int, mode: str = "transaction") -> Path:
    """The configuration, written into this folder, for the DSN's server."""
    server = urlsplit(dsn)
    folder.chmod(0o755)
    users = folder / "users.txt"
    users.write_text(f'"{server.username}" "{server.password or ""}"\n')
    configuration = folder / "pgbouncer.ini"
    values = {
        "host": server.hostname,
        "port": server.port,
        "listen": listen,
        "users": users,
        "user": server.username,
        "mode": mode,
    }
    configuration.write_text(_CONFIGURATION.format(**values))
    return configuration


def command(configuration: Path) -> list[str]:
    """What starts PgBouncer so, in the foreground."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")
    assert program is not None, "pgbouncer is missing: python -m tests.support.debian installs it"
    if os.geteuid() != 0:
        return [program, str(configuration)]
    return [program, "--user", pwd.getpwuid(65534).pw_name, str(configuration)]  # it refuses root


def answers(dsn: str) -> bool:
    """Whether a connection is made; it blocks."""
    try:
        psycopg.connect(dsn, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
