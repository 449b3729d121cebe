"""Plain jobs pay nothing for workflows (P19): no call that enqueues, claims or ends them asks a table of gates for anything.

Another transaction has these tables locked, for reading, too. Whatever asked for a row of theirs would wait, and give up.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import get_args

import asyncpg
import pytest

from asyncjobs.store import workflows
from tests.support import flows
from tests.support.peers import Call, Peers

_TABLES = "asyncjobs.workflows, asyncjobs.gates, asyncjobs.members, asyncjobs.dependents, asyncjobs.arrivals"


@asynccontextmanager
async def locked_gates(pair: Peers) -> AsyncGenerator[None]:
    async with pair.admin.transaction():
        await pair.admin.execute(f"LOCK TABLE {_TABLES} IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("call", get_args(Call))
async def test_plain_jobs_are_enqueued_claimed_and_ended(pair: Peers, call: Call) -> None:
    pair.a.call = call
    async with locked_gates(pair):
        for key in (None, "k"):
            await pair.a.enqueue(key, times=3)
        await pair.a.enqueue(None, dedup_key="d", on_duplicate="replace")
        await pair.a.begin()
        await pair.a.enqueue_in_transaction(None)
        await pair.a.commit()
        ended = 0
        while claimed := await pair.a.claim():
            for job in claimed:
                await pair.a.ack(job)
                ended += 1
        assert ended == 8


async def test_plain_jobs_fail_and_come_back_and_die(pair: Peers) -> None:
    async with locked_gates(pair):
        await pair.a.enqueue(None, times=4)
        again, later, dead, no = await pair.a.claim()
        await pair.a.ack(again, "interrupted", delay_seconds=0.0)
        await pair.a.ack(later, "retry", delay_seconds=3600.0, message="no")
        await pair.a.ack(dead, "dead", message="no")
        await pair.a.ack(no, "cancel", message="no")
        await pair.a.complete_all([await pair.a.claim_one()], limit=5)


async def test_no_index_of_jobs_names_their_workflow(pair: Peers) -> None:
    """A job's workflow is found by way of `members`: an index here would be opened by each write of any job."""
    found = await pair.admin.fetch(
        "SELECT pg_get_indexdef(indexrelid) AS text FROM pg_index WHERE indrelid = 'asyncjobs.jobs'::regclass"
    )
    assert len(found) > 5
    assert [row["text"] for row in found if "workflow" in row["text"]] == []


async def test_a_member_that_ends_does_ask(pair: Peers) -> None:
    await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    await pair.wait_for_rows("100ms")  # as they do: a pair of peers waits for as long as its connections do
    async with locked_gates(pair):
        with pytest.raises(asyncpg.LockNotAvailableError):
            await pair.a.ack(job)
    await pair.a.ack(job)
    assert (await workflows.fold(pair.a.link)).gates == 0
    await pair.drain(pair.a)
