"""Leases of duties: beating with them, releasing, and statements that touch nothing once their term is over.

The rules are in `model/lease.py`. Each statement may be repeated after an answer that was lost: a renewal counts once more, and
an acquisition whose answer was lost shows as a lease of one's own that is not known, and expires.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from asyncjobs.errors import LeaseLost
from asyncjobs.model.lease import Seen, Try
from asyncjobs.store import migrate
from asyncjobs.store.callers import call
from asyncjobs.store.database import Database, Link, Record

#: How long the transaction of a pass may idle before the server ends it: a process that was stopped in it must not block others.
IDLE_SECONDS: Final = 4.0


class Fence(msgspec.Struct, frozen=True):
    """The term under which statements are sent."""

    duty: str
    holder: int
    token: int

    @property
    def named(self) -> tuple[str, str, int]:
        """As statements name it: the duty, its holder, and the term."""
        return self.duty, str(self.holder), self.token


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a duty's loop has done lately. Ages are seconds, counted back from now."""

    run_age: float
    pass_age: float | None = None
    items: int | None = None
    errors: int | None = None
    failures: int | None = None  # in a row
    duration: float | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner says with a beat: what it holds, what it could hold, and what it tries to take over."""

    held: Mapping[str, int] = {}
    reports: Mapping[str, Report] = {}
    served: Mapping[str, int] = {}  # duty -> the token of a term that begins now
    may_take: bool = False
    tries: Sequence[Try] = ()


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What the beat's answer says."""

    beat: int
    runners: int
    newer: str | None  # the migration that this program is too old for
    rank: int
    peers: Sequence[int] = ()  # runners that serve the same, this one among them
    renewed: list[str]
    lost: list[str]
    acquired: list[str]
    others: list[Seen]


class Lease(msgspec.Struct, frozen=True):
    """One duty's lease as operators see it. A duty that is free has no runner."""

    duty: str
    runner_id: int | None
    host: str | None
    pid: int | None
    acquired_at: datetime | None
    renewed_at: datetime | None
    last_run_at: datetime | None  # the duty's loop turned; a duty whose pass hangs falls behind here
    last_pass_at: datetime | None
    items: int | None  # that the last pass did
    errors: int | None  # passes that failed in this term
    duration_seconds: float | None  # of the last pass
    failures: int | None  # passes in a row that failed, up to the last


def new_token() -> int:
    """A random 62-bit number: one that a fail-over lost is not drawn again."""
    return secrets.randbits(62) or 1


async def beat(
    link: Link,
    runner_id: int,
    said: Said,
    *,
    expiry_seconds: float,
    fresh_seconds: float,
    troubles: Sequence[str] = (),
    stops: bool = False,
    timeout: float | None = None,
) -> Heard | None:
    """Beat, renew, take and look, in one statement. `stops`: from now on its end is no death.

    None: the runner's row is gone, and nothing was done.
    """
    row = await link.fetch_row(
        "beat_with_leases", runner_id, list(said.held), list(said.held.values()), _json(said.reports),
        list(said.served), list(said.served.values()), said.may_take,
        [one.duty for one in said.tries], [one.token for one in said.tries], [one.renewals for one in said.tries],
        [one.is_long for one in said.tries], expiry_seconds, fresh_seconds, migrate.newest(), list(troubles), stops,
        timeout=timeout,
    )  # fmt: skip
    if row is None or row["beat"] is None:
        return None
    return Heard(
        beat=row["beat"],
        runners=row["runners"],
        newer=row["newer"],
        rank=row["rank"],
        peers=row["peers"] or (),
        renewed=row["renewed"] or [],
        lost=row["lost"] or [],
        acquired=row["acquired"] or [],
        others=_others(row),
    )


def _others(row: Record) -> list[Seen]:
    columns = (row[name] or () for name in ("duties", "tokens", "renewals", "ages"))
    return [Seen(*values) for values in zip(*columns, strict=True)]


async def release(
    link: Link,
    runner_id: int,
    held: Mapping[str, int],
    *,
    reports: Mapping[str, Report] | None = None,
    fresh_seconds: float,
    timeout: float | None = None,
) -> tuple[list[str], int | None]:
    """Free these leases, by token; returns which were freed, and the runner that is to take them."""
    args = (runner_id, list(held), list(held.values()), _json(reports or {}), fresh_seconds)
    (row,) = await link.fetch("release_leases", *args, timeout=timeout)
    return row["released"] or [], row["successor"]


async def leases(link: Link) -> list[Lease]:
    """Every duty's lease, by name."""
    return [Lease(*row) for row in await link.fetch("list_leases")]


async def fetch_held(link: Link, name: str, fence: Fence | None, *args: Any, timeout: float | None = None) -> Record:
    """The row of a named statement that holds the lease itself: one round trip. LeaseLost when the term of `fence` is over.

    Without a fence it is done whichever runner has the lease.
    """
    under = (None, None, None) if fence is None else fence.named
    (row,) = await link.fetch(name, *under, *args, timeout=timeout)
    if not row["held"]:
        raise LeaseLost(str(under[0]))
    return row


async def hold(connection: Any, database: Database, fence: Fence) -> bool:
    """Hold the lease in a caller's transaction, until its end; False: the term is over."""
    duty, holder, token = fence.named
    return (
        await call(connection, database.sql("hold_lease_in_transaction"), duty, holder, str(token), str(IDLE_SECONDS)) == "true"
    )


class FencedLink(Link):
    """A link whose statements touch nothing once the term is over: each runs in a transaction that holds the lease.

    LeaseLost instead of an answer when it is over. A statement costs four round trips instead of one.
    """

    def __init__(self, link: Link, fence: Fence) -> None:
        super().__init__(link.database, link.role)
        self._link = link
        self._fence = fence

    async def fetch(self, name: str, *args: Any, timeout: float | None = None) -> list[Record]:
        """The rows of the named statement, or LeaseLost."""
        fence = self._fence
        held, rows = await self._link.fetch_behind("hold_lease", (*fence.named, IDLE_SECONDS), name, args, timeout=timeout)
        if not held:
            raise LeaseLost(fence.duty)
        return rows


def _json(reports: Mapping[str, Report]) -> str:
    return msgspec.json.encode(reports).decode()


async def advisory(link: Link, duties: Collection[str]) -> dict[str, bool]:
    """Which of these duties' advisory locks this link's session holds, or got now."""
    return {duty: bool((await link.fetch("advisory_hold", duty))[0]["held"]) for duty in duties}


async def is_pooled(link: Link) -> bool:
    """Whether there is a pooler in between: the server's process is not the one that the connection was opened with."""
    connection = await link.connection()
    (row,) = await link.fetch("own_backend")
    return bool(row["pid"] != connection.get_server_pid())
