"""Whether there is something to do: a look that began before a retry became due sees it all the same, a runner's and a test's."""

from collections.abc import Awaitable, Callable

import pytest

from asyncjobs.store.database import Connection, Link
from asyncjobs.store.due import has_work
from asyncjobs.store.inspection import unfinished
from tests.support.factories import insert_job
from tests.support.peers import Peers


async def of_a_runner(link: Link, queue: str, kind: str) -> bool:
    return await has_work(link, 5, {queue: None}, [kind], {kind: 1})


async def of_a_test(link: Link, queue: str, kind: str) -> bool:
    return bool(await unfinished(link, [queue], {kind: 1}))


@pytest.mark.parametrize("look", [of_a_runner, of_a_test])
async def test_retry_that_became_due_after_the_looks_transaction_began_is_work(
    look: Callable[[Link, str, str], Awaitable[bool]], pair: Peers, connection: Connection
) -> None:
    job_id = await insert_job(connection, status="pending")
    theirs = await pair.a.link.connection()
    async with theirs.transaction():
        await theirs.execute("SELECT now()")
        await connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'failed', attempts = 1, run_at = clock_timestamp() WHERE id = $1", job_id
        )
        row = await connection.fetchrow("SELECT type, queue FROM asyncjobs.jobs WHERE id = $1", job_id)
        assert row
        assert await look(pair.a.link, row["queue"], row["type"])
