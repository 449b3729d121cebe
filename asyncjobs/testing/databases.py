"""A database per test, cheaply: cloned from a template that was migrated once, with the next clone made ahead.

    with databases(server_dsn) as made, made.fresh() as dsn:
        ...  # the DSN of a migrated database with nothing in it

It needs no pytest, no running event loop and no driver besides asyncpg: what it does happens in a thread of its own. A clone
takes some 40 ms, most of which pass while the test before it runs.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from asyncjobs.dsn import parse_dsn
from asyncjobs.store import closing
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.databases import clone_database, databases_named, drop_database
from asyncjobs.store.migrate import migrate
from asyncjobs.testing.auditor import install_line

T = TypeVar("T")

_NOTHING: Final = "template0"


def with_database(dsn: str, name: str) -> str:
    """The DSN of another database on the same server."""
    return urlunsplit(urlsplit(dsn)._replace(path="/" + name))


class Databases:
    """Makes and drops databases on a server. Their names carry a mark of this object: others may share the server.

    Its role may create databases. Made by `databases(server_dsn)`, which closes it.
    """

    def __init__(self, server_dsn: str) -> None:
        self.server_dsn = parse_dsn(server_dsn).text
        self._mark = "asyncjobs_test_" + secrets.token_hex(4)
        self._made = 0
        self._templates: dict[str, str] = {}
        self._spare: dict[str | None, Future[str]] = {}
        self._connection: Connection | None = None
        self._runner = asyncio.Runner()
        self._background = ThreadPoolExecutor(1, thread_name_prefix="databases")

    def create(self, schema: str | None = "asyncjobs") -> str:
        """The DSN of a new database with a migrated schema of this name (with None: an empty one)."""
        made = self._spare.pop(schema, None) or self._submit(lambda: self._clone(schema))
        name = made.result()
        # The next test probably wants the same: it is made while this one runs.
        self._spare[schema] = self._submit(lambda: self._clone(schema))
        return with_database(self.server_dsn, name)

    def drop(self, dsn: str) -> None:
        """Drop it, whoever is still connected. Happens in the background."""
        self._submit(lambda: self._drop(urlsplit(dsn).path[1:]))

    @contextmanager
    def fresh(self, schema: str | None = "asyncjobs") -> Generator[str]:
        """`create`, and `drop` at the end of the block."""
        dsn = self.create(schema)
        try:
            yield dsn
        finally:
            self.drop(dsn)

    def close(self) -> None:
        """Drop everything that was made here. Twice is once."""
        try:
            self._submit(self._drop_all).result()
        except RuntimeError:  # it was closed before
            return
        self._background.submit(self._runner.close).result()
        self._background.shutdown()

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        return self._background.submit(lambda: self._runner.run(work()))

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.server_dsn, timeout=10, command_timeout=60)
        return self._connection

    async def _clone(self, schema: str | None) -> str:
        return await self._make(_NOTHING if schema is None else await self._template(schema))

    async def _make(self, template: str) -> str:
        self._made += 1
        name = f"{self._mark}_{self._made}"
        await clone_database(await self._connected(), name, template=template)
        return name

    async def _drop(self, name: str) -> None:
        await drop_database(await self._connected(), name)

    async def _drop_all(self) -> None:
        connection = await self._connected()
        for name in await databases_named(connection, self._mark):
            await drop_database(connection, name)
        await closing.close(connection, seconds=5)

    async def _template(self, schema: str) -> str:
        if schema not in self._templates:
            name = await self._make(_NOTHING)
            database = Database(with_database(self.server_dsn, name), schema=schema)
            await migrate(database)
            await install_line(database)  # for the auditor
            self._templates[schema] = name
        return self._templates[schema]


@contextmanager
def databases(server_dsn: str) -> Generator[Databases]:
    """Databases on this server, for as long as the block; all of them are gone at its end."""
    made = Databases(server_dsn)
    try:
        yield made
    finally:
        made.close()
