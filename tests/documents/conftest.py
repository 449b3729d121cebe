import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asyncjobs.embedded import Server, start_sync
from asyncjobs.testing.server import FAST


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """What `embedded://` means while pages are run."""
    with tempfile.TemporaryDirectory(prefix="asyncjobs-pages-") as folder:
        Path(folder).chmod(0o755)  # root's PostgreSQL runs as nobody
        with closing(start_sync(Path(folder) / "asyncjobs", linger=0, settings=FAST)) as server:
            yield server
        server.wait_stopped()


@pytest.fixture
def environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(server.folder.parent))
