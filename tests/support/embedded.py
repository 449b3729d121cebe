"""Folders for private servers, and processes that are their clients."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

import asyncjobs
from asyncjobs.embedded.folder import prepare_folder
from asyncjobs.embedded.layout import Layout
from asyncjobs.embedded.leftovers import processes_on
from asyncjobs.embedded.locks import is_held, wait_for
from asyncjobs.embedded.user import server_identity

#: It imports the embedded server alone: any Python will do, also one without our dependencies, and in a tenth of the time.
_CLIENT = """
import json, sys, types
for name, folder in json.loads(sys.argv[1]).items():
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package
from pathlib import Path
from asyncjobs.embedded.client import start_sync
from asyncjobs.embedded.errors import EmbeddedError
print("there", flush=True)
wanted = json.loads(sys.stdin.readline())
folder = wanted.pop("folder")
try:
    server = start_sync(folder and Path(folder), **wanted)
    print(json.dumps({"dsn": server.dsn, "folder": str(server.folder)}), flush=True)
    sys.stdin.readline()
    server.close()
except EmbeddedError as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
"""


@dataclass
class Client:
    """A process that wants a private server. It comes in two steps, so that several can be made to start at once."""

    process: "subprocess.Popen[str]"

    def go(self, folder: Path | None, *, linger: float = 0.0, durable: bool = False) -> None:
        """Let it start the server."""
        self._write(json.dumps({"folder": folder and str(folder), "linger": linger, "durable": durable}))

    def answer(self) -> dict[str, Any]:
        """What it got: `dsn` and `folder`, or `error` and `message`."""
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def start(self, folder: Path | None, *, linger: float = 0.0, durable: bool = False) -> dict[str, Any]:
        """Both."""
        self.go(folder, linger=linger, durable=durable)
        return self.answer()

    def close(self) -> None:
        """Let it close the server and end."""
        self._write("")
        self.process.wait(10)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(10)

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@contextmanager
def client(
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    user: int | None = None,
    package: Path | None = None,
) -> Generator[Client]:
    """A client's process, ready to go. It is dead afterwards."""
    package = package or Path(asyncjobs.__file__).parent
    stand_ins = json.dumps({"asyncjobs": str(package), "asyncjobs.embedded": str(package / "embedded")})
    process = subprocess.Popen(
        [python, "-c", _CLIENT, stand_ins],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env=environment,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"
            yield Client(process)
        finally:
            process.kill()


@contextmanager
def open_folder() -> Generator[Path]:
    """A new folder that every user can pass through (pytest's are closed, and root's server runs as somebody else)."""
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs embedded ")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def nothing_left(folder: Path) -> Generator[Layout]:
    """The folder's layout. At the end the server must end by itself; else the folder is removed, which ends it."""
    layout = Layout(folder)
    try:
        yield layout
    finally:
        stopped = has_stopped(layout)
        left = processes_on(layout.data)
        if not stopped:
            shutil.rmtree(folder, ignore_errors=True)
    assert stopped, f"the server in {folder} has not ended: {left}"


def copy_cluster(source: Path, target: Path) -> None:
    """A copy of a server's folder as it is, with its owners: faster than initdb."""
    prepare_folder(target, server_identity())
    subprocess.run(["cp", "-a", Layout(source).data, target], check=True)


def has_stopped(layout: Layout, seconds: float = 10.0) -> bool:
    """Whether server and supervisor end within that time."""
    return wait_for(lambda: not is_held(layout.supervisor_lock) and not processes_on(layout.data), seconds)


def is_alive(pid: int) -> bool:
    """Whether the process runs. One that has ended may be there still, as a zombie, until the system's init looks."""
    try:
        return bool(Path("/proc", str(pid), "cmdline").read_bytes())
    except OSError:
        return False


def fetch(dsn: str, statement: str) -> Any:
    """The first value that a statement returns, if it returns any; in a connection of its own."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def answers(dsn: str) -> bool:
    """Whether a server is there."""
    try:
        return bool(fetch(dsn, "SELECT true"))
    except psycopg.OperationalError:
        return False


def environment_without(*names: str) -> dict[str, str]:
    """This process's environment without these variables."""
    return {name: value for name, value in os.environ.items() if name not in names}
