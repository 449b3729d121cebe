"""The files of one private PostgreSQL, what they are called, and what client and supervisor tell each other."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

#: The superuser and the database of every private PostgreSQL.
ROLE = "asyncjobs"
DATABASE = "asyncjobs"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below the folder that a DSN `embedded:///folder` names."""

    folder: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's own data folder. It exists under this name only when complete."""
        return self.folder / "data"

    @property
    def password(self) -> Path:
        """The role's password; inside the data folder, so that neither is ever there without the other."""
        return self.data / "asyncjobs.password"

    @property
    def log(self) -> Path:
        """What supervisor and PostgreSQL had to say."""
        return self.folder / "server.log"

    @property
    def old_log(self) -> Path:
        """The log before it grew too long."""
        return self.folder / "server.log.1"

    @property
    def state(self) -> Path:
        """What the supervisor says about the server that is up (a `State`); absent while none is."""
        return self.folder / "server.json"

    @property
    def last_port(self) -> Path:
        """The port that was used last, taken again when it is free: a DSN outlives a restart."""
        return self.folder / "port"

    @property
    def start_lock(self) -> Path:
        """Held exclusively by whoever starts or stops the server."""
        return self.folder / "start.lock"

    @property
    def clients_lock(self) -> Path:
        """Held shared by each client; had exclusively only by a supervisor that stops."""
        return self.folder / "clients.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held exclusively by the supervisor for as long as it lives."""
        return self.folder / "supervisor.lock"


@dataclass(frozen=True, slots=True)
class State:
    """A server that is up."""

    port: int
    pid: int
    supervisor_pid: int
    major: int
    durable: bool
    settings: Mapping[str, str]

    def write(self, path: Path) -> None:
        """Replace the file at once, so that a reader sees the old or the new one."""
        replace_text(path, json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> "State | None":
        """What the file says; None when there is none."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Order:
    """What a client asks a new supervisor to run."""

    folder: str
    binaries: str
    linger: float
    durable: bool
    settings: Mapping[str, str]

    def encode(self) -> str:
        """As the program's one argument."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "Order":
        """From the program's one argument."""
        return cls(**json.loads(text))


def replace_text(path: Path, text: str) -> None:
    """Write the file under another name and rename it."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
