"""Members that members spawn (`store/routines/gates`, rule 8), where their process dies and where children are fast."""

from asyncjobs.model.claim import Claimed
from asyncjobs.store import runners, workflows
from tests.support import flows
from tests.support.factories import a_row
from tests.support.peers import Peer, Peers


async def spawn(peer: Peer, job: Claimed, count: int, *, first: int = 0) -> workflows.Spawned:
    return await workflows.spawn(peer.link, job.id, job.token, first, [a_row() for _ in range(count)])


async def test_a_process_that_dies_has_spawned_what_the_next_attempt_finds(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    before = await spawn(pair.a, job, 2)
    assert (before.are_new, len(before.ids or ())) == (True, 2)
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    assert (await runners.rescue(pair.b.link, 10, max_errors=10)).ids == [job.id]
    late = await spawn(pair.a, job, 2)
    assert (late.is_lost, late.ids) == (True, None)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET run_at = now() WHERE id = $1", job.id)
    await pair.promote()
    again = next(one for one in await pair.b.claim() if one.id == job.id)
    after = await spawn(pair.b, again, 2)
    assert (after.are_new, after.ids) == (False, before.ids)
    more = await spawn(pair.b, again, 1, first=2)
    assert (more.are_new, set(more.ids or ()) & set(before.ids or ())) == (True, set())
    assert (await workflows.get(pair.b.link, flow.id)).size in {2, 5}  # type: ignore[union-attr] # (folded, or not yet)
    await flows.settle(pair)
    assert (await workflows.get(pair.b.link, flow.id)).size == 5  # type: ignore[union-attr]


async def test_children_that_end_before_the_next_is_spawned_open_no_gate(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    job = await pair.a.claim_one()
    for number in range(3):
        await spawn(pair.a, job, 1, first=number)
        await pair.b.ack(await pair.b.claim_one())
        await flows.settle(pair)
        assert await flow.statuses() == ["processing", "blocked"]
    await spawn(pair.a, job, 1, first=3)
    await pair.a.ack(job)
    await flows.settle(pair)
    assert await flow.statuses() == ["completed", "blocked"], "the last child has not ended"
    await pair.b.ack(await pair.b.claim_one())
    await flows.settle(pair)
    assert await flow.statuses() == ["completed", "pending"]
    await pair.drain(pair.a)
