"""Gates among what others lost their dependents by: an end that is written twice, the retention, two gates at once."""

from asyncjobs.store import serialized
from tests.support import flows
from tests.support.peers import Peers


async def test_one_member_fails_for_good_and_the_end_is_written_once_when_its_siblings_have_ended(pair: Peers) -> None:
    flow = await flows.write(pair, 4, [([0, 1, 2], {3: "ended"})])
    dead, first, second = await pair.a.claim(3)
    ended_at = "SELECT ended_at FROM asyncjobs.workflows WHERE id = $1"
    await pair.a.ack(dead, "dead", message="no")
    await pair.a.ack(first)
    assert (await pair.admin.fetchval(ended_at, flow.id), await flow.state()) == (None, "running")
    await pair.a.ack(second)
    await pair.a.ack(await pair.a.claim_one())
    at = await pair.admin.fetchval(ended_at, flow.id)
    assert (at is None, await flow.state()) == (False, "broken")
    await flows.settle(pair)
    await flows.sweep(pair)
    assert await pair.admin.fetchval(ended_at, flow.id) == at


async def test_what_waited_for_a_dead_member_comes_back_after_the_retention_too(pair: Peers) -> None:
    flow = await flows.write(pair, 2, [([0], [1])])
    assert await flows.run(pair, flow, deaths=[0]) == [0]
    for table, columns in {"workflows": ["ended_at"], "jobs": ["completed_at", "updated_at"]}.items():
        for column in columns:
            await pair.admin.execute(f"UPDATE asyncjobs.{table} SET {column} = {column} - interval '30 days'")
    await pair.admin.fetch("SELECT * FROM asyncjobs.prune_workflows(1000, interval '1 day')")
    assert await flow.statuses() == ["dead", "cancelled"], "nobody has acknowledged that it died"
    assert (await serialized.retry(pair.a.link, flow.ids[0], "ada")).outcome == "retried"
    await flows.settle(pair)
    assert await flows.run(pair, flow) == [0, 1]
    assert await flow.state() == "completed"
