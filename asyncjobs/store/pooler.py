"""A pooler that forgets prepared statements is told of at the start, not by whatever fails first.

A pooler that pools by transaction hands the server's sessions from one client to another. A statement that asyncpg prepared on
one is unknown on the next ("prepared statement "__asyncpg_stmt_1__" does not exist"), or is there already, of another process.

1. Where the process that answers is the one that the connection was opened with, there is no pooler, and nothing is tried.
2. Else a statement is prepared and executed, and another connection begins a transaction, for which a pooler takes the session
   that it got back last: that one. If the statement is unknown then, the pooler forgets.
3. A pooler that gives each client a session of its own, or keeps their statements, passes. One that takes another session may
   pass as well: the errors that come of it later say the same (`failures.said_plainly`).
"""

from asyncjobs.errors import ConfigurationError
from asyncjobs.store import closing
from asyncjobs.store.database import ISOLATION, Connection, Database
from asyncjobs.store.failures import DATABASE_ERRORS, FORGETS, is_forgotten


def check_isolation(database: Database, isolation: str) -> None:
    """ConfigurationError when sessions begin at another level than all is made for, since a pooler keeps it from being set."""
    if isolation != ISOLATION:
        raise ConfigurationError(
            f"{database.place} begins transactions as {isolation}, and connect_kwargs says nothing of it: "
            f"ALTER ROLE … SET default_transaction_isolation = '{ISOLATION}'."
        )


async def check(database: Database, connection: Connection, pid: int) -> None:
    """ConfigurationError when statements are kept that a pooler forgets. `pid`: the process that the server answered with."""
    if pid == connection.get_server_pid() or not database.keeps_statements:
        return
    if await _forgets(database, connection):
        raise ConfigurationError(f"{database.place} cannot be used as it is: {FORGETS}.")


async def _forgets(database: Database, connection: Connection) -> bool:
    other = None
    try:
        other = await database.connect("migrate")
        statement = await connection.prepare("SELECT 1")
        await statement.fetch()  # asyncpg asks for the end of a prepare with the next call: until then it keeps the session
        async with other.transaction():
            await other.execute("SELECT 1")
            await statement.fetch()
    except DATABASE_ERRORS as error:
        return is_forgotten(error)  # whatever else fails says nothing
    finally:
        if other is not None:
            await closing.close(other, seconds=1)
    return False
