"""One database per test, cloned from a template that was migrated once."""

import asyncio
import secrets
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg

from asyncjobs.store.database import Database
from asyncjobs.store.migrate import migrate
from asyncjobs.testing.auditor import install_line


def with_database(dsn: str, name: str) -> str:
    """The DSN of another database on the same server."""
    return urlunsplit(urlsplit(dsn)._replace(path="/" + name))


class Databases:
    """Makes and drops databases on the tests' server. Their names carry a mark: sessions may share a server."""

    def __init__(self, server_dsn: str) -> None:
        self.server_dsn = server_dsn
        self._mark = "asyncjobs_test_" + secrets.token_hex(4)
        self._made = 0
        self._templates: dict[str | None, str] = {}
        self._connection = psycopg.connect(server_dsn, autocommit=True)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="databases")
        self._spare: dict[str | None, Future[str]] = {}

    def create(self, schema: str | None) -> str:
        """The DSN of a new database with a migrated schema of this name (with none: an empty one)."""
        made = self._spare.pop(schema, None) or self._background.submit(self._clone, schema)
        name = made.result()
        # The next test probably wants the same: it is made while this one runs.
        self._spare[schema] = self._background.submit(self._clone, schema)
        return with_database(self.server_dsn, name)

    def drop(self, dsn: str) -> None:
        """Drop it, whoever is still connected. Happens in the background."""
        self._background.submit(self._drop, urlsplit(dsn).path[1:])

    def close(self) -> None:
        """Drop everything this session made."""
        self._background.shutdown(wait=True)
        with self._connection as connection:
            rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [self._mark + "%"]).fetchall()
            for (name,) in rows:
                self._drop(str(name))

    def _clone(self, schema: str | None) -> str:
        template = self._template(schema) if schema is not None else "template0"
        return self._make(template)

    def _make(self, template: str) -> str:
        self._made += 1
        name = f"{self._mark}_{self._made}"
        self._connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY'.encode())
        return name

    def _drop(self, name: str) -> None:
        self._connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())

    def _template(self, schema: str) -> str:
        if schema not in self._templates:
            name = self._make("template0")
            asyncio.run(_prepare(Database(with_database(self.server_dsn, name), schema=schema)))
            self._templates[schema] = name
        return self._templates[schema]


async def _prepare(database: Database) -> None:
    await migrate(database)
    await install_line(database)


@contextmanager
def databases(server_dsn: str) -> Generator[Databases]:
    """The session's databases; all of them are gone at the end."""
    made = Databases(server_dsn)
    try:
        yield made
    finally:
        made.close()
