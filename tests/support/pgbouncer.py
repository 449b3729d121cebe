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
from urllib.parse import SplitResult, urlsplit, urlunsplit

import psycopg

from tests.support.eventually import eventually
from tests.support.program import Program

_CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
auth_type = plain
auth_file = {users}
pool_mode = {mode}
default_pool_size = 20
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
"""


@asynccontextmanager
async def pgbouncer(dsn: str, *, mode: str = "transaction") -> AsyncGenerator[str]:
    """A DSN that leads to the same database through PgBouncer."""
    server = urlsplit(dsn)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        listen: int = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs-pgbouncer-"))
    try:
        configuration = _configure(folder, server, listen, mode)
        async with Program(*_command(configuration)) as program:
            through = urlunsplit(server._replace(netloc=f"{server.username}:{server.password or ''}@127.0.0.1:{listen}"))
            await eventually(lambda: _answers(through), description=f"PgBouncer answers; it said: {program.said}", timeout=10)
            yield through
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path, server: SplitResult, listen: int, mode: str) -> Path:
    folder.chmod(0o755)
    users = folder / "users.txt"
    users.write_text(f'"{server.username}" "{server.password or ""}"\n')
    configuration = folder / "pgbouncer.ini"
    values = {"host": server.hostname, "port": server.port, "listen": listen, "users": users, "mode": mode}
    configuration.write_text(_CONFIGURATION.format(**values))
    return configuration


def _command(configuration: Path) -> list[str]:
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")
    assert program is not None, "pgbouncer is missing: python -m tests.support.debian installs it"
    if os.geteuid() != 0:
        return [program, str(configuration)]
    return [program, "--user", pwd.getpwuid(65534).pw_name, str(configuration)]  # it refuses root


async def _answers(dsn: str) -> bool:
    def ask() -> bool:
        try:
            psycopg.connect(dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    return await asyncio.to_thread(ask)
