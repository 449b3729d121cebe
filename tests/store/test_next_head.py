"""Where the next head of a key is looked for: behind the one that ended, so that a long day of a key costs each job the same."""

import pytest

from tests.support.peers import Peers

#: Of the index, in this transaction: how many pages that takes depends on what else the server does.
_READ = "SELECT pg_stat_get_xact_tuples_returned('asyncjobs.serialized_jobs_line'::regclass)"
#: The next head, and what a second look at it reads.
_ENTRIES = 3

_CALLS = {
    "finish_one": "asyncjobs.finish_one(1, $1, $2, NULL, NULL, 'default', '{email}', $2 + 1)",
    "finish_completed": "asyncjobs.finish_completed(1, ARRAY[$1], ARRAY[$2], NULL, NULL, NULL, 0, 0, 0, 0, '{email}', false, 0, 0)",  # noqa: E501
}


@pytest.mark.parametrize("call", _CALLS)
async def test_jobs_that_ended_cost_the_next_of_their_key_nothing(pair: Peers, call: str) -> None:
    await pair.a.enqueue(times=60)
    assert max([await _end(pair, call) for _ in range(50)]) <= _ENTRIES
    await pair.drain()


async def _end(pair: Peers, call: str) -> int:
    """The head of the key ends: how many entries of the lines' index that reads."""
    found = await pair.admin.fetch("SELECT id, claim_token FROM asyncjobs.jobs WHERE status = 'processing'")
    job_id, token = found[0] if found else await _claim(pair)
    async with pair.admin.transaction():
        before = await pair.admin.fetchval(_READ)
        await pair.admin.execute(f"SELECT FROM {_CALLS[call].replace('$1', str(job_id)).replace('$2', str(token))}")
        return int(await pair.admin.fetchval(_READ) - before)


async def _claim(pair: Peers) -> tuple[int, int]:
    job = await pair.a.claim_one()
    return job.id, job.token


async def test_job_that_was_not_the_head_leaves_the_line_in_its_order(pair: Peers) -> None:
    """Its place says nothing of who waits before it."""
    last = await pair.a.enqueue(times=4)
    for table in ("jobs", "serialized_jobs"):
        await pair.admin.execute(f"DELETE FROM asyncjobs.{table} WHERE id = $1", last - 3)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'cancelled', completed_at = now() WHERE id = $1", last - 1)
    assert await pair.admin.fetchval("SELECT asyncjobs.let_keys_go(ARRAY[$1::bigint])", last - 1) == [last - 2]
    assert await pair.drain() == [last - 2, last]
