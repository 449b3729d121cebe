"""What is made of the errors of the database."""

import asyncpg
import pytest

from asyncjobs.store.failures import (
    UnreadableAnswer,
    is_ambiguous,
    is_passing,
    is_refused,
    is_unsendable,
    said_plainly,
    spoils_connection,
)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.AdminShutdownError("terminating connection due to administrator command"),
        asyncpg.CrashShutdownError("terminating connection because of crash of another server process"),
        asyncpg.IdleInTransactionSessionTimeoutError("terminating connection due to idle-in-transaction timeout"),
        asyncpg.IdleSessionTimeoutError("terminating connection due to idle-session timeout"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        ConnectionResetError(),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_sessions_that_were_ended_are_replaced_and_their_statement_is_in_doubt(error: Exception) -> None:
    assert is_passing(error)
    assert is_ambiguous(error)
    assert spoils_connection(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.DiskFullError("could not extend file"),
        asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
        asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
        asyncpg.SerializationError("could not serialize access"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_statements_that_were_rolled_back_are_tried_again_on_the_same_connection(error: Exception) -> None:
    assert is_passing(error)
    assert not is_ambiguous(error)
    assert not spoils_connection(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.RaiseError("a stranger's trigger"),
        asyncpg.CheckViolationError("c"),
        asyncpg.ProgramLimitExceededError("an index row is too long"),
        asyncpg.InternalServerError("missing chunk number 0 for toast value"),
        TypeError("an argument"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_server_refuses_would_be_refused_again(error: Exception) -> None:
    assert is_refused(error)
    assert not is_passing(error)
    assert not is_ambiguous(error)


def test_answer_that_cannot_be_read_leaves_it_open_what_was_carried_out() -> None:
    error = UnreadableAnswer("TypeError")
    assert is_ambiguous(error)
    assert not is_refused(error)
    assert not is_unsendable(error)


def test_server_that_became_read_only_is_left() -> None:
    error = asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE in a read-only transaction")
    assert is_passing(error)
    assert not is_ambiguous(error)
    assert spoils_connection(error)


def test_what_the_driver_leaves_unsaid_is_told_in_words() -> None:
    error = asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
    assert str(said_plainly(error)) == "the connection was closed by the server"
    assert str(said_plainly(TimeoutError())) == "the server did not answer in time"
    other = OSError("no route to host")
    assert said_plainly(other) is other


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InvalidSQLStatementNameError('prepared statement "__asyncpg_stmt_1__" does not exist'),
        asyncpg.DuplicatePreparedStatementError('prepared statement "__asyncpg_stmt_1__" already exists'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_pooler_that_forgets_statements_is_named_with_what_to_give(error: asyncpg.PostgresError) -> None:
    said = said_plainly(error)
    assert type(said) is type(error)
    assert str(said) == (
        'a pooler in between forgets prepared statements: give connect_kwargs={"statement_cache_size": 0, "server_settings": {}} '
        f"({error})"
    )


def test_statement_of_the_users_own_that_is_missing_is_told_as_it_is() -> None:
    error = asyncpg.InvalidSQLStatementNameError('prepared statement "mine" does not exist')
    assert said_plainly(error) is error


def test_pooler_that_refuses_a_setting_is_not_asked_again() -> None:
    error = asyncpg.ProtocolViolationError("unsupported startup parameter: default_transaction_isolation")
    assert not is_passing(error)
    assert "refuses settings" in str(said_plainly(error))
