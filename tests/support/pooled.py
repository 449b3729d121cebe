"""The whole suite behind a real PgBouncer that pools by transaction: `pytest --pooler poll`, or `around` it to listen.

Everything asyncjobs opens to the tests' server goes through the pooler, with the settings that docs/guide/workers.md gives,
in the tests' process and in the programs they start. The tests' own connections, and the templates of their databases, stay
direct.
`poll`: runners of `notify="auto"` poll, each second at least. `around`: apps without a listen_dsn get the server's own.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import msgspec

from asyncjobs import app, testing
from asyncjobs.dsn import resolve_dsn
from asyncjobs.embedded.locks import wait_for
from asyncjobs.open.lifecycle import Lifecycle
from asyncjobs.settings import Settings, make_settings
from asyncjobs.store.database import Database, Link
from asyncjobs.testing.attempts import Violation

#: No statement lives longer than its transaction, and no start-up parameter is passed on.
TRANSACTION_POOLING: Final[Mapping[str, Any]] = {"statement_cache_size": 0, "server_settings": {}}
_PATIENCE_SECONDS: Final = 2.0  # as of an audit without a pooler
_NAME: Final = "ASYNCJOBS_TEST_POOLER"  # how, the server's address and the pooler's, for programs that tests start


def _unique_id(self: Any, prefix: str) -> str:
    assert prefix != "stmt", "a statement was given a name, and the next call may be on another of the server's connections"
    return str(super(_NAMELESS, self)._get_unique_id(prefix))


#: A connection that refuses to name a statement.
_NAMELESS: Final[Any] = type("Nameless", (asyncpg.Connection,), {"_get_unique_id": _unique_id})

_direct: ContextVar[bool] = ContextVar("direct", default=False)


@contextmanager
def pooled(dsn: str, how: str) -> Generator[None]:
    """For as long as the block whatever asyncjobs opens to this server goes through a pooler."""
    import pytest  # here: programs that tests start need neither, and a server that starts workers gives each only so much time

    from tests.support.guardian import guarded
    from tests.support.pgbouncer import answers, command, configure, free_port, through

    with tempfile.TemporaryDirectory(prefix="asyncjobs-pooled-") as folder, pytest.MonkeyPatch.context() as patch:
        listen = free_port()
        start = command(configure(Path(folder), dsn, listen))
        process = subprocess.Popen(start, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            with guarded(process.pid):
                assert wait_for(lambda: answers(through(dsn, listen)), 10), "PgBouncer does not answer"
                value = f"{how} {_address(dsn)} {_address(through(dsn, listen))}"
                patch.setenv(_NAME, value)
                site = Path(__file__).parent / "pooled_site"
                patch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
                _install(value, patch.setattr)
                yield
        finally:
            process.terminate()
            process.wait()


def follow_the_environment() -> None:
    """Go through the pooler in a program that a test started."""
    value = os.environ.get(_NAME)
    if value is not None:
        _install(value, setattr)


def _install(value: str, put: Callable[[Any, str, Any], None]) -> None:
    how, server, pooler = value.split()
    original, proxy = Database.__init__, testing.Proxy.__init__

    def init(self: Database, dsn: str, *, connect_kwargs: Mapping[str, Any] | None = None, **more: Any) -> None:
        way = dsn
        if not _direct.get():
            way = dsn.replace(f"@{server}/", f"@{pooler}/")
            connect_kwargs = {"connection_class": _NAMELESS, **TRANSACTION_POOLING, **(connect_kwargs or {})}
        original(self, way, connect_kwargs=connect_kwargs, **more)
        self.dsn = dsn  # what a test connects to by itself

    def settings(given: dict[str, Any]) -> Settings:
        made = make_settings(given)
        if made.notify != "auto":
            return made
        return msgspec.structs.replace(made, notify="poll", poll_interval=min(made.poll_interval or 1.0, 1.0))

    put(Database, "__init__", init)
    put(testing.Databases, "_template", _directly(testing.Databases._template))
    put(testing.Auditor, "_of_server", _of_pooled_server)
    if how == "poll":
        put(app, "make_settings", settings)
        put(testing.Proxy, "__init__", lambda self, dsn: proxy(self, dsn.replace(f"@{server}/", f"@{pooler}/")))
    else:
        put(Lifecycle, "listening_database", _listening_around)


def _directly(function: Any) -> Any:
    async def call(*args: Any) -> Any:
        token = _direct.set(True)
        try:
            return await function(*args)
        finally:
            _direct.reset(token)

    return call


def _listening_around(self: Lifecycle, database: Database) -> Database:
    dsn = resolve_dsn(self._app.settings.listen_dsn or self._app.dsn)
    token = _direct.set(True)
    try:
        return database if dsn.is_embedded else self._database(dsn)
    finally:
        _direct.reset(token)


async def _of_pooled_server(self: testing.Auditor, link: Link) -> list[Violation]:
    """The pooler keeps connections for whoever comes next: they are idle, and no transaction is open in them."""
    ends = time.monotonic() + _PATIENCE_SECONDS
    while True:
        late = time.monotonic() >= ends
        found = [row["state"] for row in await link.fetch("audit_connections") if row["state"] != "idle"]
        if late or not found:
            return [Violation("P13", None, f"left behind in the pooler: {state}") for state in found]
        await asyncio.sleep(0.02)


def _address(dsn: str) -> str:
    return urlsplit(dsn).netloc.rpartition("@")[2]
