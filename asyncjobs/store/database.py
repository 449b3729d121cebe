"""Connections of asyncjobs' own, and the SQL that runs on them.

A `Link` is one connection with one owner: it is opened when it is first used, thrown away when a statement on it failed in a way
that may have broken it, and opened anew by the next use. It never waits for a dead peer: a broken connection is aborted, not
closed, and every statement has a time-out (without one, asyncpg waits for ever in a silent partition).
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import count
from typing import Any, Final, TypeAlias

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from asyncjobs.store import closing
from asyncjobs.store.failures import said_plainly, spoils_connection
from asyncjobs.store.hosts import Hosts
from asyncjobs.store.known_types import Knowing

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Record: TypeAlias = asyncpg.Record

PINNED_PATH = {"search_path": "pg_catalog, pg_temp"}
#: Each statement of a function looks anew: what it finds after it waited for a lock counts.
ISOLATION: Final = "read committed"

#: What the server says of a prepared statement that a migration has changed, or a pooler has forgotten: it was not carried out.
_NOT_MADE = (asyncpg.InvalidCachedStatementError, asyncpg.InvalidSQLStatementNameError)


def quote_identifier(name: str) -> str:
    """The name as an SQL identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """The text as an SQL literal, quoted."""
    return "'" + text.replace("'", "''") + "'"


@cache
def _read(kind: str, name: str) -> str:
    return files("asyncjobs.store").joinpath(kind, name).read_text(encoding="utf-8")


_PLACES = re.compile(r"'?\basyncjobs\.|\$\$")


@cache
def in_schema(sql: str, schema: str) -> str:
    """The SQL text with the schema's quoted name in place of `asyncjobs.`, also at the start of a string literal."""
    quoted = quote_identifier(schema) + "."
    # Functions' bodies are quoted by dollars, which the name may have, too.
    body = next(tag for number in count() if (tag := f"$body{number or ''}$") not in quoted) if "$" in quoted else "$$"
    names = {"asyncjobs.": quoted, "'asyncjobs.": "'" + quoted.replace("'", "''"), "$$": body}
    return _PLACES.sub(lambda found: names[found[0]], sql)


class Database:
    """Where the jobs are: a server, a schema on it, and how to get a connection.

    `connect_kwargs` goes to `asyncpg.connect` (ssl, passfile …). Its `server_settings` are sent at every start; a pooler that
    refuses the isolation level, which is sent otherwise, is given `{}`. With any settings the search path is sent,
    too: a role's own may put a stranger's operators and functions before those of PostgreSQL, which every statement uses.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "asyncjobs",
        place: str = "the database",
        connect_timeout: float = 10.0,
        command_timeout: float = 10.0,
        connect_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.dsn = dsn
        self.place = place  # for messages: never the DSN, which may hold a password
        self.schema = schema
        self._sql: dict[str, str] = {}
        self.connect_timeout = connect_timeout
        self.command_timeout = command_timeout
        given = dict(connect_kwargs or {})
        settings = given.pop("server_settings", {"default_transaction_isolation": ISOLATION})
        self._connect_kwargs: dict[str, Any] = {**given, "server_settings": {**PINNED_PATH, **settings} if settings else {}}
        #: Whether sessions are told their path as they begin; `plain` ones are told it anew in each transaction.
        self.pins_path = "search_path" in self._connect_kwargs["server_settings"]
        self._pins_transactions = False
        #: Whether this role may enqueue through the door (`enqueue_in_transaction.sql`) alone, as the schema said when it was
        #: opened.
        self.by_door = False
        #: Whether the way to the server leads one session's statements to one session: not through every pooler.
        self.keeps_statements = self._connect_kwargs.get("statement_cache_size") != 0
        self._hosts: Hosts[Connection] = Hosts(dsn)
        #: Whether sessions are told at which isolation level they begin.
        self.sets_isolation = "default_transaction_isolation" in self._connect_kwargs["server_settings"]
        #: NOTIFY's channel for this schema: a fixed 42 bytes, whatever the schema is called.
        self.channel = "asyncjobs_" + sha256(schema.encode()).hexdigest()[:32]

    def sql(self, name: str) -> str:
        """The text of `store/sql/<name>.sql` for this schema."""
        text = self._sql.get(name)
        if text is None:
            text = self._sql[name] = in_schema(_read("sql", name + ".sql"), self.schema)
        return text

    def migration(self, name: str) -> str:
        """The text of `store/migrations/<name>` for this schema."""
        return in_schema(_read("migrations", name), self.schema)

    async def connect(self, role: str, *, command_timeout: float | None = None) -> Connection:
        """A new connection, named `asyncjobs <role>` in pg_stat_activity."""
        given = self._connect_kwargs
        settings = {"application_name": f"asyncjobs {role}", **given["server_settings"]}
        options: dict[str, Any] = {"connection_class": Knowing, **given, "server_settings": settings}

        async def attempt(dsn: str) -> Connection:
            return await asyncpg.connect(
                dsn, timeout=self.connect_timeout, command_timeout=command_timeout or self.command_timeout, **options
            )

        async with asyncio.timeout(self.connect_timeout):
            return await self._hosts.connect(attempt)

    def plain(self) -> "Database":
        """The same, reached in a way that every pooler lets through: no statement outlives its call, no parameter is sent.

        Its connections are for `Link.fetch`, and what is done within `path_of`.
        """
        options = {**self._connect_kwargs, "statement_cache_size": 0, "server_settings": {}}
        plain = Database(
            self.dsn,
            schema=self.schema,
            place=self.place,
            connect_timeout=self.connect_timeout,
            command_timeout=self.command_timeout,
            connect_kwargs=options,
        )
        plain._pins_transactions = self.pins_path
        return plain

    @asynccontextmanager
    async def path_of(self, connection: Connection) -> AsyncGenerator[None]:
        """For as long as the block, names are looked up as on every connection of asyncjobs' own, also on a `plain` one.

        By a transaction: behind a pooler what is set for a session outlives it, and stays with the next client that the pooler
        gives the server's connection.
        """
        if not self._pins_transactions:
            yield
            return
        async with connection.transaction():
            await connection.execute(f"SET LOCAL search_path = {PINNED_PATH['search_path']}")
            yield

    def link(self, role: str, *, command_timeout: float | None = None) -> "Link":
        """A connection for one owner, opened when it is first used."""
        return Link(self, role, command_timeout=command_timeout)


class Link:
    """One connection with one owner: statements wait for each other, a broken connection is replaced by the next use."""

    def __init__(self, database: Database, role: str, *, command_timeout: float | None = None) -> None:
        self.database = database
        self.role = role
        self.opened = 0  # connections opened so far
        self._command_timeout = command_timeout
        self._connection: Connection | None = None
        self._statements: dict[str, PreparedStatement[Record]] = {}  # of the connection
        self._turn = asyncio.Lock()

    @property
    def timeout_seconds(self) -> float:
        """How long a statement may take, unless said otherwise with it."""
        return self._command_timeout or self.database.command_timeout

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._connection is not None and not self._connection.is_closed()

    async def connection(self) -> Connection:
        """The connection, opened if need be. For the owner that needs more than `fetch` (a listener, a transaction)."""
        if self._connection is None or self._connection.is_closed():
            self.abort()
            self._statements.clear()
            self._connection = await self.database.connect(self.role, command_timeout=self._command_timeout)
            self.opened += 1
        return self._connection

    async def fetch(self, name: str, *args: Any, timeout: float | None = None) -> list[Record]:
        """The rows of the named statement. After an error that may have broken the connection, it is aborted."""
        async with self._turn:
            try:
                connection = self._connection
                if connection is None or connection.is_closed():
                    connection = await self.connection()
                async with self.database.path_of(connection):
                    return await connection.fetch(self.database.sql(name), *args, timeout=timeout)
            except BaseException as error:
                self._after(error)
                raise

    async def fetch_often(self, name: str, *args: Any, timeout: float | None = None) -> list[Record]:
        """`fetch` for what is asked again and again: the statement is kept, and need not be found (a tenth of an enqueue)."""
        await self._turn.acquire()
        try:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = await self.connection()
            statement = self._statements.get(name)
            if statement is None:
                if not self.database.keeps_statements:
                    return await connection.fetch(self.database.sql(name), *args, timeout=timeout)
                statement = self._statements[name] = await connection.prepare(self.database.sql(name), timeout=timeout)
            try:
                return await statement.fetch(*args, timeout=timeout)
            except _NOT_MADE:
                self._statements.clear()
                return await connection.fetch(self.database.sql(name), *args, timeout=timeout)
        except BaseException as error:
            self._after(error)
            raise
        finally:
            self._turn.release()

    async def fetch_behind(
        self, guard: str, guard_args: Sequence[Any], name: str, args: Sequence[Any], *, timeout: float | None = None
    ) -> tuple[bool, list[Record]]:
        """Both statements in one transaction, the named one only if the guard's one value is true; and its rows."""
        async with self._turn:
            try:
                connection = await self.connection()
                async with connection.transaction():
                    if not await connection.fetchval(self.database.sql(guard), *guard_args, timeout=timeout):
                        return False, []
                    return True, await connection.fetch(self.database.sql(name), *args, timeout=timeout)
            except BaseException as error:
                self._after(error)
                raise

    def _after(self, error: BaseException) -> None:
        if spoils_connection(error):
            self.abort()
        plain = said_plainly(error)
        if plain is not error:
            raise plain from error

    async def fetch_row(self, name: str, *args: Any, timeout: float | None = None) -> Record | None:
        """The first row of the named statement, or None."""
        rows: Sequence[Record] = await self.fetch(name, *args, timeout=timeout)
        return rows[0] if rows else None

    def abort(self) -> None:
        """Drop the connection at once, without a word to the server. The next use opens another."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._statements.clear()
            connection.terminate()

    async def close(self, *, timeout: float = 1.0) -> None:
        """Close the connection, politely for at most `timeout` seconds. The link can be used again."""
        connection, self._connection = self._connection, None
        self._statements.clear()
        if connection is not None:
            await closing.close(connection, seconds=timeout)
