"""What tests of leases need: a runner's side of them without a runner, and the row."""

from typing import Any

import asyncpg

from asyncjobs.model.lease import LeaseTimes, Try
from asyncjobs.store import leases
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.leases import Heard, Said
from tests.support.factories import insert_runner

TIMES = LeaseTimes()


class Candidate:
    """One runner that beats by hand."""

    def __init__(self, link: Link, id: int) -> None:
        self.link = link
        self.id = id
        self.held: dict[str, int] = {}

    async def beat(self, *served: str, renew: bool = True, **said: Any) -> Heard:
        """Beat; takes note of what it acquires and loses."""
        offered = {duty: leases.new_token() for duty in served}
        options: dict[str, Any] = {"held": self.held if renew else {}, "served": offered, "may_take": True} | said
        heard = await leases.beat(self.link, self.id, Said(**options), expiry_seconds=10.0, fresh_seconds=8.0)
        assert heard is not None
        self.held.update({duty: offered[duty] for duty in heard.acquired})
        for duty in heard.lost:
            del self.held[duty]
        return heard

    async def attempt(self, duty: str, heard: Heard, *, is_long: bool = False) -> Heard:
        """Try to take over what an earlier beat showed."""
        [seen] = [one for one in heard.others if one.duty == duty]
        return await self.beat(duty, tries=[Try(duty, seen.token, seen.renewals, is_long)])


async def candidates(database: Database, connection: Connection, count: int) -> list[Candidate]:
    """So many registered runners, numbered from 1."""
    made: list[Candidate] = []
    for id in range(1, count + 1):
        await insert_runner(connection, id=id, duties=["prune", "report"])
        made.append(Candidate(database.link(f"candidate {id}"), id))
    return made


async def lease(connection: Connection, duty: str = "prune") -> asyncpg.Record:
    """The lease's row."""
    row = await connection.fetchrow("SELECT * FROM asyncjobs.background_job_leases WHERE job_name = $1", duty)
    assert row is not None
    return row


async def age(connection: Connection, seconds: float, duty: str = "prune") -> None:
    """Make the lease so old for the server."""
    await connection.execute(
        "UPDATE asyncjobs.background_job_leases SET heartbeat_at = now() - make_interval(secs => $2) WHERE job_name = $1",
        duty, seconds,
    )  # fmt: skip
