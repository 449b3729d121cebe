"""Verbs on a connection of the caller's, in its transaction: done with its commit, undone by its rollback.

1. No connection of asyncjobs' own is used, and the app need not be open; with a synchronous connection there need not be a loop.
2. Runners are told with the commit. What the answer says is so when that has happened.
3. The job, and the key whose line the verb changes, stay locked until the transaction ends: hold it short, and let nobody decide
   in between. Of transactions with several verbs some may meet in a deadlock, as with any rows.
4. A lock that is not had in a second, and a conflict, abort the transaction, as SQL does (a savepoint saves it): StateError.
"""

from typing import Any, NamedTuple, TypeVar, cast

from asyncjobs.admin.audit import under_way
from asyncjobs.connections import AsyncConnection, SyncConnection, sqlstates_of
from asyncjobs.errors import StateError, UsageError
from asyncjobs.model.names import shown
from asyncjobs.model.redaction import Redactions
from asyncjobs.model.storable import storable
from asyncjobs.settings import Settings
from asyncjobs.store import verbs
from asyncjobs.store.database import Database
from asyncjobs.store.verbs import Asked
from asyncjobs.telemetry.events import Events

T = TypeVar("T")

_CONFLICTS = {"40001", "40P01", "55P03"}
_UNSTORABLE = {"22021", "22P05"}


class Unopened(NamedTuple):
    """What there is of an app whether it is open or not."""

    texts: Database  # its SQL
    settings: Settings
    events: Events
    redactions: Redactions  # of the types that it declares


async def on(connection: AsyncConnection, asked: Asked[T], app: Unopened) -> T:
    """Do it there. UnsupportedConnection, UsageError, StateError."""
    _check(asked)
    try:
        return await verbs.do(asked, under_way(), connection, app.texts)
    except Exception as error:
        raise _meaning_of(error, asked) from error


def on_sync(connection: SyncConnection, asked: Asked[T], app: Unopened) -> T:
    """`on` for a synchronous connection."""
    _check(asked)
    try:
        return verbs.do_sync(asked, under_way(), connection, app.texts)
    except Exception as error:
        raise _meaning_of(error, asked) from error


def _check(asked: Asked[Any]) -> None:
    """Refused before anything is sent: an error there would cost the caller the transaction."""
    for name, value in asked.said.items():
        if isinstance(value, str) and storable(value) != value:
            raise UsageError(f"{asked.verb}: {name}={shown(value)} has a character that the database cannot hold.")
    number = cast("Any", asked.said["id"])
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**63) <= number < 2**63:
        raise UsageError(f"{asked.verb}: {shown(number)} is no id.")


def _meaning_of(error: Exception, asked: Asked[Any]) -> Exception:
    found = sqlstates_of(error)
    if found & _CONFLICTS:
        return StateError(
            f"{asked.verb}: another transaction holds the job or its key for too long, or has changed it: {error}. "
            "Roll this one back, to its savepoint at least."
        )
    if found & _UNSTORABLE:
        return UsageError(f"{asked.verb}: a text has a character that the database's encoding does not have ({error}).")
    return error
