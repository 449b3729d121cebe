"""Whether there is something to do: a look that began before a retry became due sees it all the same."""

from asyncjobs.store.database import Connection
from asyncjobs.store.due import has_work
from tests.support.factories import insert_job
from tests.support.peers import Peers


async def test_retry_that_became_due_after_the_looks_transaction_began_is_work(pair: Peers, connection: Connection) -> None:
    job_id = await insert_job(connection, status="pending")
    theirs = await pair.a.link.connection()
    async with theirs.transaction():
        await theirs.execute("SELECT now()")
        await connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'failed', attempts = 1, run_at = clock_timestamp() WHERE id = $1", job_id
        )
        row = await connection.fetchrow("SELECT type, queue FROM asyncjobs.jobs WHERE id = $1", job_id)
        assert row
        assert await has_work(pair.a.link, 5, {row["queue"]: None}, [row["type"]], {row["type"]: 1})
