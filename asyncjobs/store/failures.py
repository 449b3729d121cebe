"""Which errors of the database pass by themselves, and which of them leave it open whether the statement took effect."""

from typing import Final

import asyncpg

#: SQLSTATEs after which the same statement may succeed: serialization failure, deadlock, lock timeout, read-only primary
#: (during a fail-over), sessions that the server ended for their idleness or length, shutdown, crash and start-up of the server,
#: too many connections, out of resources, query cancelled.
_PASSING = frozenset(
    {
        *("40001", "40P01", "55P03", "25006", "25P03", "25P04", "57P05", "57P01", "57P02", "57P03", "57014"),
        *("53000", "53100", "53200", "53300", "53400"),
    }
)

_TAKEN: Final = "23505"  # a unique value that another row has

#: Of those, the ones that the server reports after it rolled the statement back.
_ROLLED_BACK = frozenset({"40001", "40P01", "55P03", "25006", "57P03", "53000", "53100", "53200", "53300", "53400", "57014"})

#: What lets a pooler through that pools by transaction.
POOLER_OPTIONS: Final = 'connect_kwargs={"statement_cache_size": 0, "server_settings": {}}'
#: What is said of one that the driver was not told of.
FORGETS: Final = f"a pooler in between forgets prepared statements: give {POOLER_OPTIONS}"
_REFUSES: Final = f"a pooler in between refuses settings at the start of a session: give {POOLER_OPTIONS}"
_REFUSED_SETTING: Final = "unsupported startup parameter"  # PgBouncer's words

#: How a lost connection shows on this side. An InternalClientError ("cannot switch to state 12") is what asyncpg raises between
#: the server's good-bye and the end of the socket.
_BROKEN = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class UnreadableAnswer(Exception):
    """The server has carried the statement out, and something in its answer cannot be read here."""


#: What is said of a prepared statement's name.
_NOT_MINE = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)

#: Whatever a statement, a connect or a close may raise because of the database or the way to it.
DATABASE_ERRORS = (*_BROKEN, asyncpg.PostgresError)


def is_passing(error: BaseException) -> bool:
    """Whether to try again: a lost or refused connection, a time-out, or a conflict that the server resolved against us."""
    if isinstance(error, asyncpg.PostgresError):
        is_lost = isinstance(error, asyncpg.PostgresConnectionError) and not _is_refused_setting(error)
        return error.sqlstate in _PASSING or is_lost
    return _is_broken(error)


def is_ambiguous(error: BaseException) -> bool:
    """Whether the statement may have committed all the same: its answer never came, or cannot be read."""
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate not in _ROLLED_BACK and is_passing(error)
    return _is_broken(error) or isinstance(error, UnreadableAnswer)


def spoils_connection(error: BaseException) -> bool:
    """Whether the next statement needs another connection: this one is broken, in the middle of something (its caller was
    cancelled), or leads to a server that is not the primary any more.
    """
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate == "25006" or is_ambiguous(error)
    return not is_unsendable(error)


def is_rolled_back(error: BaseException) -> bool:
    """Whether the server rolled the statement back for what passes by itself: a conflict, a deadlock, a lock time-out."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in {"40001", "40P01", "55P03"}


def is_lock_timeout(error: BaseException) -> bool:
    """Whether the statement gave up waiting for another transaction's lock."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate == "55P03"


def _is_broken(error: BaseException) -> bool:
    # asyncpg's own complaints about an argument are InterfaceErrors, too, but ValueErrors as well.
    return isinstance(error, _BROKEN) and not isinstance(error, ValueError)


def said_plainly(error: BaseException) -> BaseException:
    """The error, or one that says the same in words: asyncpg's time-outs say nothing, while a connection is ending it names its
    own states only, and behind a pooler its own statements.
    """
    if isinstance(error, asyncpg.PostgresError):
        text = FORGETS if is_forgotten(error) else _REFUSES if _is_refused_setting(error) else ""
        return type(error)(f"{text} ({str(error).partition(chr(10))[0]})") if text else error
    if type(error) is asyncpg.InternalClientError:
        return ConnectionResetError("the connection was closed by the server")
    if type(error) is TimeoutError and not str(error):
        return TimeoutError("the server did not answer in time")
    return error


def is_forgotten(error: BaseException) -> bool:
    """Whether asyncpg's prepared statement is not there, or another process's is: a pooler took the session away."""
    return isinstance(error, _NOT_MINE) and "__asyncpg_" in str(error)


def _is_refused_setting(error: asyncpg.PostgresError) -> bool:
    return _REFUSED_SETTING in str(error)


def is_unsendable(error: BaseException) -> bool:
    """Whether the statement's arguments are at fault (too long, not encodable): it will never succeed."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate)[:2] in {"22", "23", "54"}
    return isinstance(error, (ValueError, TypeError, OverflowError))


def is_refused(error: BaseException) -> bool:
    """Whether the server has answered that it does not do this, or cannot be asked: the same again would be answered the same."""
    if isinstance(error, asyncpg.PostgresError):
        return not is_passing(error) and not isinstance(error, asyncpg.PostgresConnectionError)
    return is_unsendable(error)


def is_refused_value(error: BaseException) -> bool:
    """Whether the server refused a value, of the call or of a row that it read: not what its column can hold."""
    sqlstate = str(error.sqlstate) if isinstance(error, asyncpg.PostgresError) else ""
    return sqlstate[:2] in {"22", "23"} and sqlstate != _TAKEN


def is_unstorable_text(error: BaseException) -> bool:
    """Whether a text of the call is one that PostgreSQL cannot hold: with a NUL character, or a lone surrogate."""
    refused = getattr(error, "sqlstate", None) in {"22021", "22P05"}  # by the server; asyncpg refuses the others itself
    return refused or (isinstance(error, (asyncpg.DataError, ValueError)) and "surrogates not allowed" in str(error))


def is_out_of_range(error: BaseException) -> bool:
    """Whether a number of the call is one that its column, or LIMIT, cannot be."""
    if getattr(error, "sqlstate", None) in {"2201W", "2201X"}:
        return True
    return isinstance(error, asyncpg.DataError) and "invalid input for query argument" in str(error)
