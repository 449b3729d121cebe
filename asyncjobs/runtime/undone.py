"""Tells of jobs whose caller's transaction has ended without a commit: handles with ids, and no jobs.

The commonest way there is a helper that commits by itself: SQLAlchemy begins another transaction for the enqueue after it, and
nobody commits that. The rules:

1. SQLAlchemy's sessions and connections say when a transaction ends, so theirs are watched: from the first enqueue in one to its
   end. Other drivers say nothing: there a wait for the job tells (`JobNotFound`).
2. After a commit nothing is told. What a savepoint undoes is told when that is rolled back, and not again with the transaction.
3. A session tells whether it was rolled back, which is mostly meant ("rolled back"), or left without a commit, which is mostly
   forgotten ("closed"). A connection's transaction just ends ("ended").
4. A session is listened to once, however many transactions it has.
5. Nothing here keeps a session or a connection alive, and nothing is asked of the database.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from asyncjobs.connections import ConnectionKind, check_connection
from asyncjobs.model.new_row import Enqueued
from asyncjobs.telemetry.events import EnqueuesUndone, Events

_SESSIONS: Final[frozenset[ConnectionKind]] = frozenset({"sqlalchemy_session", "sqlalchemy_session sync"})
_CONNECTIONS: Final[frozenset[ConnectionKind]] = frozenset({"sqlalchemy_connection", "sqlalchemy_connection sync"})


class _Watched:
    """What was enqueued in the transaction of one of SQLAlchemy's connections, of a session or on its own."""

    def __init__(self, events: Events, *, of_session: bool) -> None:
        self.ids: list[int] = []
        self._undone: list[int] = []
        self._savepoints: list[int] = []  # of each that is open, how many ids there were before it
        self._events = events
        self._of_session = of_session

    def committed(self, *_: object) -> None:
        """What was enqueued is durable."""
        self.ids.clear()
        self._savepoints.clear()

    def ended(self, *_: object) -> None:
        """The transaction was rolled back; a session says next, why."""
        self._undo(0, "ended")
        self._savepoints.clear()

    def began_savepoint(self, *_: object) -> None:
        """What is enqueued from now on ends with it. (Its name is not known yet.)"""
        self._savepoints.append(len(self.ids))

    def released_savepoint(self, *_: object) -> None:
        """What was enqueued in it is the transaction's."""
        if self._savepoints:
            self._savepoints.pop()

    def ended_savepoint(self, *_: object) -> None:
        """One that began before anything was watched is not known: all was enqueued in it."""
        self._undo(self._savepoints.pop() if self._savepoints else 0, "rolled back")

    def _undo(self, at: int, how: Literal["rolled back", "ended"]) -> None:
        self._undone += self.ids[at:]
        del self.ids[at:]
        if not self._of_session:
            self.tell(how)

    def tell(self, how: Literal["rolled back", "closed", "ended"]) -> None:
        if self._undone:
            undone, self._undone = self._undone, []
            self._events.emit(EnqueuesUndone(job_ids=undone, how=how))


class _WatchedSession:
    """A session, which has another connection in each of its transactions, and may have several in one."""

    def __init__(self) -> None:
        self._connections: list[_Watched] = []

    def has(self, connection: _Watched) -> None:
        """It enqueues on this one."""
        if connection not in self._connections:
            self._connections.append(connection)

    def rolled_back(self, *_: object) -> None:
        """`Session.rollback`, or an exception in `with session.begin()`."""
        for connection in self._connections:
            connection.tell("rolled back")

    def ended(self, _: object, transaction: Any) -> None:
        """One of the session's transactions is over, a savepoint's perhaps."""
        if transaction.parent is None:
            connections, self._connections = self._connections, []
            for connection in connections:
                connection.tell("closed")


_watched: WeakKeyDictionary[Any, _Watched] = WeakKeyDictionary()
_watched_sessions: WeakKeyDictionary[Any, _WatchedSession] = WeakKeyDictionary()


def watch(connection: object, enqueued: Sequence[Enqueued], events: Events) -> None:
    """Tell when what was just enqueued on this connection ends without a commit, where its library says so."""
    kind = check_connection(connection)
    of_session = kind in _SESSIONS
    if not of_session and kind not in _CONNECTIONS:
        return
    session, on = _parts_of(connection, of_session=of_session)
    if not on.in_transaction():  # one that commits each statement
        return
    watched = _watched.get(on)
    if watched is None:
        watched = _watched[on] = _Watched(events, of_session=of_session)
        _listen(watched, on)
    if of_session:
        _watch_session(session).has(watched)
    watched.ids += [one.id for one in enqueued if one.created]


def _parts_of(connection: Any, *, of_session: bool) -> tuple[Any, Any]:
    """SQLAlchemy's own session, if it is one, and connection: asynchronous ones stand for these."""
    if not of_session:
        return None, getattr(connection, "sync_connection", connection)
    session = getattr(connection, "sync_session", connection)
    if hasattr(session, "registry"):  # a scoped_session
        session = session.registry()
    return session, session.connection()  # which it has since the enqueue


def _watch_session(session: Any) -> _WatchedSession:
    watched = _watched_sessions.get(session)
    if watched is None:
        watched = _watched_sessions[session] = _WatchedSession()
        _listener()(session, "after_rollback", watched.rolled_back)
        _listener()(session, "after_transaction_end", watched.ended)
    return watched


def _listener() -> Callable[[Any, str, Callable[..., None]], None]:
    return sys.modules["sqlalchemy.event"].listen  # type: ignore[no-any-return] # it is there: the connection is of it


def _listen(watched: _Watched, connection: Any) -> None:
    listen = _listener()
    for name in ("commit", "commit_twophase"):
        listen(connection, name, watched.committed)
    for name in ("rollback", "rollback_twophase"):
        listen(connection, name, watched.ended)
    listen(connection, "savepoint", watched.began_savepoint)
    listen(connection, "release_savepoint", watched.released_savepoint)
    listen(connection, "rollback_savepoint", watched.ended_savepoint)
