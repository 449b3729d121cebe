"""When a claim closes the total of a limit, and what it answers of a job that has a limit."""

from typing import Any

import pytest

from asyncjobs.model.claim import Ack, Finished, Scan
from asyncjobs.store import jobs
from tests.support.claims import Claims, an_ack
from tests.support.limiting import declare, enqueue


async def _is_full(claims: Claims) -> bool:
    return bool(await claims.connection.fetchval("SELECT is_full FROM asyncjobs.limits"))


@pytest.mark.parametrize("call", ["finish", "finish_completed"])
async def test_a_claim_that_has_all_that_it_wanted_leaves_the_total_open_and_the_next_that_wants_more_closes_it(
    claims: Claims, call: str
) -> None:
    await declare(claims.connection, total=3)
    await enqueue(claims, *["api"] * 9)

    async def claim(*acks: Ack) -> Finished:
        scan = Scan("default", None, 3)
        if call == "finish":
            return await claims.finish(acks, [scan])
        seq = await claims.connection.fetchval("SELECT nextval('asyncjobs.place_seq')")
        return await jobs.finish_completed(
            claims.link, 1, acks, scan, ("email",), suspects=False, token_base=5, token_seq=1000 * seq
        )

    first = await claim()
    assert (len(first.claimed), await _is_full(claims)) == (3, False)
    acks = [*map(an_ack, first.claimed)]
    again = await claim(*acks[:2])
    assert ([job.limit_key for job in again.claimed], again.heads) == (["api"] * 2, [])
    assert await _is_full(claims), "this one wanted another"
    assert (await claims.ack(acks[2])).heads == ["default"]


@pytest.mark.parametrize("beside", [0, 1])
async def test_a_claim_that_wanted_more_than_it_had_slots_for_closes_the_total(claims: Claims, beside: int) -> None:
    """(It is not to ask again for what it cannot start: the end of another's job has to tell it.)"""
    await declare(claims.connection, total=3)
    await enqueue(claims, *["api"] * 9, *[None] * beside)
    finished = await claims.finish(scans=[Scan("default", None, 9, slots=3)])
    assert (len(finished.claimed), await _is_full(claims)) == (3 + beside, True)
    assert (await claims.ack(*map(an_ack, finished.claimed))).heads == ["default"]


@pytest.mark.parametrize(
    "fields", [{}, {"lane": "fast"}, {"correlation_id": "c"}, {"on_dead": "ask"}, {"on_dead": "ask all"}, {"created_by": "d"}]
)
@pytest.mark.parametrize("key", ["api", "api:a", "api:job", "api: 7", "limit limit: x", "api:" + "x " * 50])
@pytest.mark.parametrize("workflow", [None, 7])
async def test_a_claim_answers_the_limit_key_whatever_else_the_job_has(
    claims: Claims, fields: dict[str, Any], key: str, workflow: int | None
) -> None:
    await declare(claims.connection, key.partition(":")[0], each=3)
    [job_id] = await enqueue(claims, key, **fields)
    await claims.connection.execute("UPDATE asyncjobs.jobs SET workflow_id = $1", workflow)
    finished = await claims.finish(scans=[Scan("default", None, 1)])
    [job] = finished.claimed or [job for job, _ in finished.asking]
    assert (job.id, job.limit_key, job.workflow_id, job.lane) == (job_id, key, workflow, fields.get("lane"))
    assert [on_dead for _, on_dead in finished.asking] == [one for name, one in fields.items() if name == "on_dead"]
