"""Dependents that are claimed by the call whose outcomes let them go: which of them, and what their rows say then."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from asyncjobs.store.database import Database
from tests.support import flows
from tests.support.claims import Claims
from tests.support.factories import insert
from tests.support.limiting import declare
from tests.support.peers import Peers, peers
from tests.support.plans import Plans, removed

#: Behind all that is pending: where a busy runner's scan starts.
BEHIND: Final = (100, 1 << 40)


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


async def fan_out(pair: Peers, size: int, fields: dict[str, Any] | None = None) -> flows.Flow:
    """One that so many wait for."""
    return await flows.write(pair, size + 1, [([0], range(1, size + 1))], fields=dict.fromkeys(range(1, size + 1), fields or {}))


async def test_dependents_are_claimed_by_the_call_that_lets_them_go(pair: Peers) -> None:
    flow = await fan_out(pair, 3, {"expires_seconds": 60.0, "tags": ("a",)})
    done = await pair.a.complete_all(await pair.a.claim(), limit=5, start=BEHIND)
    assert [job.id for job in done.claimed] == flow.ids[1:]
    assert done.heads == []
    assert {(job.attempt, job.workflow_id, tuple(job.tags)) for job in done.claimed} == {(1, flow.id, ("a",))}
    assert len({job.token for job in done.claimed}) == 3
    rows = await pair.admin.fetch("SELECT * FROM asyncjobs.jobs WHERE id = ANY ($1) ORDER BY id", flow.ids[1:])
    assert {row["status"] for row in rows} == {"processing"}
    assert {row["run_at"] for row in rows} == {row["scheduled_at"] for row in rows} == {row["started_at"] for row in rows}
    assert {row["start_before"] - row["run_at"] for row in rows} == {timedelta(seconds=60)}, "counted from here"
    assert [row["claim_token"] for row in rows] == [job.token for job in done.claimed]
    done = await pair.a.complete_all(done.claimed, limit=5, start=BEHIND)
    assert await flow.state() == "completed"


async def test_no_more_than_there_are_slots_are_claimed_and_the_others_are_pending_and_told(pair: Peers) -> None:
    flow = await fan_out(pair, 5)
    plain = await pair.a.enqueue(None)
    found = {job.id: job for job in await pair.a.claim()}
    root, other = found[flow.ids[0]], found[plain]
    done = await pair.a.complete_all([root], limit=2, start=BEHIND)
    assert [job.id for job in done.claimed] == flow.ids[1:3]
    assert {*done.heads} == {"default"}
    assert await flow.statuses() == ["completed", "processing", "processing", "pending", "pending", "pending"]
    rest = await pair.a.complete_all([*done.claimed, other], limit=9)
    assert [job.id for job in rest.claimed] == flow.ids[3:]
    await pair.a.complete_all(rest.claimed)


async def test_the_scan_gets_what_slots_are_left(pair: Peers) -> None:
    flow = await fan_out(pair, 2)
    [root] = await pair.a.claim()
    late = [await pair.a.enqueue(None) for _ in range(4)]
    done = await pair.a.complete_all([root], limit=4, start=(100, root.place + 2))
    assert sorted(job.id for job in done.claimed) == [*flow.ids[1:], *late[:2]]
    assert len({job.token for job in done.claimed}) == 4
    await pair.drain(pair.a)


@pytest.mark.parametrize(
    ("start", "fields"), [((1, 0), {}), ((1, 0), {"priority": 200}), ((-1, 0), {})], ids=["behind it", "better", "from the front"]
)
async def test_what_does_not_come_before_all_that_the_scan_would_find_takes_part_in_it(
    pair: Peers, start: tuple[int, int], fields: dict[str, Any]
) -> None:
    """A job with a better priority is first, whatever has just been let go."""
    flow = await fan_out(pair, 2, fields)
    [root] = await pair.a.claim()
    first = await pair.a.enqueue(None, priority=1)
    done = await pair.a.complete_all([root], limit=2, start=start)
    assert sorted(job.id for job in done.claimed) == sorted([first, flow.ids[1]])
    assert await flow.statuses() == ["completed", "processing", "pending"]
    await pair.drain(pair.a)


LEFT: Final[dict[str, dict[str, Any]]] = {
    "another queue": {"queue": "mail"},
    "another type": {"type": "unknown"},
    "a newer payload": {"version": 2},
    "a key": {"serialization_key": "k"},
    "a limit": {"limit_key": "api:a"},
    "not due": {"run_at": datetime(2099, 1, 1, tzinfo=UTC)},
}


@pytest.mark.parametrize("why", [*LEFT, "a pause", "no slot"])
async def test_others_are_let_go_as_by_any_call(pair: Peers, why: str) -> None:
    fields = dict(LEFT.get(why, {}))
    if why == "a limit":
        await declare(pair.admin, "api", each=1)
    name = fields.pop("type", "email")
    written = await flows.write(pair, 2, [([0], [1])], fields={1: fields})
    await pair.admin.execute("UPDATE asyncjobs.jobs SET type = $1 WHERE id = $2", name, written.ids[1])
    [root] = await pair.a.claim()
    if why == "a pause":
        await insert(pair.admin, "pauses", kind="type", name="email")
    done = await pair.a.complete_all([root], limit=0 if why == "no slot" else 5, start=BEHIND)
    assert done.claimed == []
    expected = {"a key": "scheduled", "not due": "scheduled", "a pause": "paused"}.get(why, "pending")
    assert await written.statuses() == ["completed", expected]
    await pair.admin.execute("DELETE FROM asyncjobs.pauses")


async def test_nothing_is_claimed_for_a_runner_that_was_declared_dead(pair: Peers) -> None:
    flow = await fan_out(pair, 1)
    [root] = await pair.a.claim()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = $1", pair.a.runner_id)
    done = await pair.a.complete_all([root], limit=5, start=BEHIND)
    assert (done.gone, done.claimed) == (True, [])
    assert await flow.statuses() == ["completed", "pending"]


async def test_dependents_of_a_workflow_that_is_being_cancelled_are_not_claimed(pair: Peers) -> None:
    flow = await fan_out(pair, 2)
    [root] = await pair.a.claim()
    await pair.admin.execute(
        "UPDATE asyncjobs.workflows SET cancel_requested_at = now(), cancel_message = 'no' WHERE id = $1", flow.id
    )
    done = await pair.a.complete_all([root], limit=5, start=BEHIND)
    assert done.claimed == []
    assert await flow.statuses() == ["completed", "cancelled", "cancelled"]
    await flows.settle(pair)


async def test_of_many_dependents_each_is_looked_up_once(pair: Peers) -> None:
    """Each was compared with each: 18 of 20 ms for 400."""
    flow = await fan_out(pair, 400)
    [root] = await pair.a.claim()
    await pair.admin.execute("ANALYZE asyncjobs.dependents, asyncjobs.jobs, asyncjobs.gates, asyncjobs.members")
    plans = await Plans(Claims(pair.a.link, pair.admin)).watch()
    await pair.a.complete_all([root])
    [written] = plans.take("UPDATE asyncjobs.dependents AS d")
    assert "rows=400" in written
    assert removed(written) == 0, written
    await flows.cancel(pair, flow.id)
