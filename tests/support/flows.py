"""Workflows of tests: written by numbers, run by two peers, and looked at."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from asyncjobs.model.claim import Claimed
from asyncjobs.model.workflow import FlowPlan, GatePlan, When
from asyncjobs.store import door, workflows
from asyncjobs.store.database import Connection, Link
from tests.support.factories import a_row
from tests.support.peers import Peer, Peers

_tokens = count(1_000_000)

#: A gate: its members' numbers; and who waits there by which rule.
Gate = tuple[Sequence[int], Mapping[int, When] | Sequence[int]]


class Flow:
    """A workflow that was written: the ids of its members by number."""

    def __init__(self, id: int, ids: Sequence[int], admin: Connection, link: Link) -> None:
        self.id = id
        self.ids = list(ids)
        self._admin = admin
        self._link = link

    def number(self, job_id: int) -> int:
        return self.ids.index(job_id)

    async def statuses(self) -> list[str]:
        """Of all members, in their order."""
        rows = await self._admin.fetch("SELECT id, status FROM asyncjobs.jobs WHERE id = ANY ($1)", self.ids)
        found = {row["id"]: row["status"] for row in rows}
        return [found.get(job_id, "gone") for job_id in self.ids]

    async def says(self, number: int) -> str | None:
        """Why this member ended."""
        text: str | None = await self._admin.fetchval("SELECT error_message FROM asyncjobs.jobs WHERE id = $1", self.ids[number])
        return text

    async def state(self) -> str:
        row = await workflows.get(self._link, self.id)
        assert row is not None
        return row.state


def plan(gates: Sequence[Gate], name: str = "flow") -> FlowPlan:
    """Of these gates."""
    waits: list[tuple[int, int, When]] = []
    for number, (_, dependents) in enumerate(gates):
        rules = dependents if isinstance(dependents, Mapping) else dict.fromkeys(dependents, "completed")
        waits += [(job, number, rule) for job, rule in rules.items()]  # type: ignore[misc]
    return FlowPlan(name=name, gates=[GatePlan(tuple((at, at) for at in members)) for members, _ in gates], waits=waits)


async def write(
    pair: Peers,
    size: int,
    gates: Sequence[Gate],
    *,
    fields: Mapping[int, Mapping[str, Any]] | None = None,
    link: Link | None = None,
) -> Flow:
    """A workflow of so many members; `fields` of some of their rows."""
    link = link or pair.a.link
    made = plan(gates)
    waiting = {job for job, _, _ in made.waits}
    rows = [a_row(waits=number in waiting, **(fields or {}).get(number, {})) for number in range(size)]
    written = await workflows.enqueue(link, made, rows, await door.give_ids(link, size), next(_tokens))
    return Flow(written.id, written.ids, pair.admin, pair.a.link)


async def settle(pair: Peers, *, by: Peer | None = None) -> int:
    """What folders do, until nothing is left; returns how many gates they folded."""
    total = 0
    for _ in range(1000):
        fold = await workflows.fold((by or pair.b).link)
        total += fold.gates
        if not fold.gates and not fold.more:
            return total
    raise AssertionError("the folders never rest")


async def sweep(pair: Peers) -> None:
    """What the sweep does for members."""
    from asyncjobs.store import serialized

    look = await workflows.look(pair.b.link, None, 10_000)
    for job_id in look.ended:
        await serialized.release_ended(pair.b.link, job_id)
    for workflow_id in look.cancelling:
        await cancel_rest(pair, workflow_id)
    await settle(pair)


async def cancel(pair: Peers, workflow_id: int, message: str = "not wanted") -> str:
    """What an operator's cancel does."""
    outcome = await workflows.request_cancel(pair.a.link, workflow_id, message)
    if outcome in {"requested", "cancelling"}:
        await cancel_rest(pair, workflow_id)
    return outcome


async def cancel_rest(pair: Peers, workflow_id: int) -> None:
    while ids := await workflows.members_to_cancel(pair.a.link, workflow_id, 500):
        await pair.a.link.fetch("end_jobs", ids, "cancel", "its workflow was cancelled", 10)
        await settle(pair)


async def run(pair: Peers, flow: Flow, *, deaths: Sequence[int] = (), peer: Peer | None = None) -> list[int]:
    """Run what can be run, to its end; members of these numbers die. The numbers in the order of their starts."""
    peer = peer or pair.a
    order: list[int] = []
    while True:
        claimed = await peer.claim(100)
        if not claimed:
            if await settle(pair):
                continue
            return order
        for job in claimed:
            await end(peer, flow, job, deaths)
            order.append(flow.number(job.id))


async def end(peer: Peer, flow: Flow, job: Claimed, deaths: Sequence[int] = ()) -> None:
    dies = flow.number(job.id) in deaths
    await peer.ack(job, *(["dead"] if dies else ["completed"]), **({"message": "no"} if dies else {}))  # type: ignore[arg-type]
