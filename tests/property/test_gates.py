"""Random graphs and all that may happen to their members, by two processes and an operator: the SQL against the model (P14)."""

import asyncio
import contextlib
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from asyncjobs.model.claim import Claimed
from asyncjobs.model.workflow import When
from asyncjobs.store import runners, serialized, workflows
from asyncjobs.store.database import Database
from tests.support import flows
from tests.support.factories import insert_runner
from tests.support.gate_model import FINAL, GateModel
from tests.support.peers import Peers, peers

T = TypeVar("T")

_TABLES = (
    "jobs", "serialized_jobs", "dead_letter_jobs", "dispatch_requests", "runners", "former_runners",
    "workflows", "gates", "members", "dependents", "arrivals",
)  # fmt: skip
BY = st.sampled_from([0, 1])


@st.composite
def graphs(draw: st.DrawFn) -> list[list[tuple[frozenset[int], When]]]:
    """By member, what it waits for: some earlier ones."""
    size = draw(st.integers(1, 9))
    found: list[list[tuple[frozenset[int], When]]] = []
    for number in range(size):
        some = st.frozensets(st.integers(0, max(number - 1, 0)), min_size=1, max_size=4)
        rules: st.SearchStrategy[When] = st.sampled_from(["completed", "completed", "completed", "ended"])
        found.append(draw(st.lists(st.tuples(some, rules), max_size=2)) if number else [])
    return found


class GatesMachine(RuleBasedStateMachine):
    """The rules. Folders act when they are drawn to; then the two are compared."""

    def __init__(self, pair: Peers, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.pair = pair
        self.processes = [pair.a, pair.b]
        self.running: dict[int, tuple[int, Claimed]] = {}
        self.rushes = False
        self.open: dict[int, bool] = {0: False, 1: False}  # who has a transaction open
        self.late: dict[int, list[tuple[int, str]]] = {0: [], 1: []}  # what it has written there: who, and as what it ends

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    @initialize(graph=graphs())
    def start(self, graph: list[list[tuple[frozenset[int], When]]]) -> None:
        self.model = GateModel(graph)
        self.do(self._start(graph))

    async def _start(self, graph: list[list[tuple[frozenset[int], When]]]) -> None:
        await self.pair.admin.execute("TRUNCATE " + ", ".join(f"asyncjobs.{table}" for table in _TABLES) + " CASCADE")
        for process in self.processes:
            await insert_runner(self.pair.admin, id=process.runner_id, types=["email", "report"])
        # Batches of two: what takes more than one is as usual as what does not.
        source = await self.pair.admin.fetchval("SELECT pg_get_functiondef('asyncjobs.tell_dependents'::regproc)")
        await self.pair.admin.execute(source.replace("500", "2"))
        sets = sorted({one for waits in graph for one, _ in waits}, key=sorted)
        gates: list[flows.Gate] = []
        for one in sets:
            for when in ("completed", "ended"):  # (a job may wait for the same by both rules)
                who = [number for number, waits in enumerate(graph) if (one, when) in waits]
                if who:
                    gates.append((sorted(one), dict.fromkeys(who, when)))
        self.flow = await flows.write(self.pair, len(graph), gates)

    # What runners do.

    @rule(by=BY, limit=st.integers(1, 3))
    def claim(self, by: int, limit: int) -> None:
        if self.open[by]:
            return
        for job in self.do(self.processes[by].claim(limit)):
            member = self.model.members[self.flow.number(job.id)]
            member.status = "processing"
            self.running[job.id] = (by, job)

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["completed", "completed", "completed", "dead", "cancel"]),
        opens=st.booleans(),
        rushes=st.booleans(),
    )
    def ack(self, data: st.DataObject, kind: Any, opens: bool, rushes: bool) -> None:  # noqa: FBT001
        self.rushes = rushes
        by, job = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        if opens and not self.open[by]:
            self.do(self.processes[by].begin())
            self.open[by] = True
        del self.running[job.id]
        assert self.do(asyncio.wait_for(self.processes[by].ack(job, kind, message="said so"), 10)).lost == []
        ended: tuple[int, str] = (self.flow.number(job.id), "cancelled" if kind == "cancel" else kind)
        if self.open[by]:
            self.late[by].append(ended)
        else:
            self._ended([ended])

    def _ended(self, some: list[tuple[int, str]]) -> None:
        for number, status in some:
            self.model.members[number].status = status
        self.model.settle()

    @precondition(lambda self: any(self.open.values()))
    @rule(by=BY, commits=st.booleans())
    def end_transaction(self, by: int, commits: bool) -> None:  # noqa: FBT001
        by = by if self.open[by] else 1 - by
        self.open[by] = False
        some, self.late[by] = self.late[by], []
        if commits:
            self.do(self.processes[by].commit())
            self._ended(some)
            return
        self.do(self.processes[by].rollback())  # the jobs run on under their tokens
        rows = self.do(
            self.pair.admin.fetch("SELECT id FROM asyncjobs.jobs WHERE status = 'processing' AND runner_id = $1", by + 1)
        )
        assert {self.flow.ids[number] for number, _ in some} <= {row["id"] for row in rows}
        self.do(self._lose(by))

    async def _lose(self, by: int) -> None:
        """The process is gone: what it ran is rescued, and due again."""
        peer = self.processes[by]
        await self.pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = $1", peer.runner_id)
        await runners.rescue(self.processes[1 - by].link if not self.open[1 - by] else peer.link, 100, max_errors=10)
        await insert_runner(self.pair.admin, id=peer.runner_id, types=["email", "report"])
        self.running = {job_id: one for job_id, one in self.running.items() if one[0] != by}
        rows = await self.pair.admin.fetch("SELECT id, status FROM asyncjobs.jobs")
        for row in rows:
            member = self.model.members[self.flow.number(row["id"])]
            if member.status == "processing" and row["status"] != "processing":
                member.status = row["status"]  # after its attempts a job is dead
        self.model.settle()

    # What operators do.

    @rule(data=st.data(), wanted=st.sampled_from(["cancel", "dead"]))
    def end(self, data: st.DataObject, wanted: Any) -> None:
        if any(self.open.values()):
            return
        self.do(flows.settle(self.pair))
        number = data.draw(st.integers(0, len(self.model.members) - 1))
        verb = self.do(serialized.end(self.pair.a.link, self.flow.ids[number], wanted, "no"))
        if verb.outcome in {"cancelled", "dead"}:
            self._ended([(number, verb.outcome)])
        elif verb.outcome == "requested":
            by, job = self.running.pop(self.flow.ids[number])
            self.do(self.processes[by].ack(job, "interrupted"))
            self._ended([(number, "cancelled" if wanted == "cancel" else "dead")])

    @rule(data=st.data(), settles=st.booleans(), rushes=st.booleans())
    def retry(self, data: st.DataObject, settles: bool, rushes: bool) -> None:  # noqa: FBT001
        if any(self.open.values()):
            return
        self.rushes = rushes
        if settles:
            self.do(flows.settle(self.pair))
        number = data.draw(st.integers(0, len(self.model.members) - 1))
        before = self.do(self.flow.statuses())[number]
        verb = self.do(serialized.retry(self.pair.a.link, self.flow.ids[number], "ada"))
        member = self.model.members[number]
        if before not in {"dead", "cancelled"}:
            assert verb.outcome in {"final", before}
            return
        assert before == member.status or not settles
        if verb.outcome == "broken":
            assert self.model.is_barred(member) or not settles
            return
        if verb.outcome == "cancelling":
            assert self.model.cancelling
            return
        assert verb.outcome == "retried"
        self.model.cancelling = False
        member.status, member.broken = "blocked" if member.waits else "pending", False
        member.released = self.do(self._released(number)) if not settles else self.model.open_of(member)
        self.model.settle()

    async def _released(self, number: int) -> set[int]:
        """Which gates have released this member: of gates that are not folded, what the row says is what counts."""
        rows = await self.pair.admin.fetch(
            "SELECT d.gate_id, d.rule FROM asyncjobs.dependents d WHERE d.state = 'released' AND d.job_id = $1",
            self.flow.ids[number],
        )
        found = {(await self._members_of(row["gate_id"]), row["rule"]) for row in rows}
        return {at for at, one in enumerate(self.model.members[number].waits) if one in found}

    async def _members_of(self, gate_id: int) -> frozenset[int]:
        rows = await self.pair.admin.fetch("SELECT number FROM asyncjobs.members WHERE $1 = ANY (gates)", gate_id)
        return frozenset(row["number"] for row in rows)

    @rule()
    def cancel(self) -> None:
        if any(self.open.values()) or self.model.has_ended:
            return
        self.do(flows.settle(self.pair))
        self.model.cancelling = True
        self.do(flows.cancel(self.pair, self.flow.id))
        for number, member in enumerate(self.model.members):
            if member.status == "processing":
                by, job = self.running.pop(self.flow.ids[number])
                self.do(self.processes[by].ack(job, "interrupted"))
            if member.status not in FINAL:
                member.status, member.broken = "cancelled", False
        self.model.settle()
        self.do(flows.settle(self.pair))
        self._same_brokenness()

    def _same_brokenness(self) -> None:
        """Which of those that a cancel ended were ended by their gates, and not by hand, is the order's doing."""
        rows = self.do(self.pair.admin.fetch("SELECT job_id FROM asyncjobs.members WHERE broken_by IS NOT NULL"))
        broken = {row["job_id"] for row in rows}
        for number, member in enumerate(self.model.members):
            member.broken = self.flow.ids[number] in broken

    @rule()
    def fold(self) -> None:
        by = next((peer for at, peer in enumerate(self.processes) if not self.open[at]), None)
        if by is not None:
            self.do(workflows.fold(by.link))

    # What holds.

    @invariant()
    def is_as_the_model_says(self) -> None:
        if not hasattr(self, "model") or any(self.open.values()):
            return
        if self.rushes:  # the next goes on before the folders have looked
            self.rushes = False
            return
        self.do(flows.settle(self.pair))
        assert self.do(self.flow.statuses()) == [member.status for member in self.model.members]
        assert (self.do(self.flow.state()) in {"completed", "broken"}) == self.model.has_ended

    def teardown(self) -> None:
        """Whatever this ended in: it can be run to its end, and then every gate is open."""
        if not hasattr(self, "model"):
            return
        for by, is_open in self.open.items():
            if is_open:
                self.do(self.processes[by].rollback())
                self.do(self._lose(by))
        for by, job in self.running.values():
            self.do(self.processes[by].ack(job))
        self.do(flows.run(self.pair, self.flow))
        self.do(flows.run(self.pair, self.flow, peer=self.pair.b))
        assert set(self.do(self.flow.statuses())) <= FINAL
        assert (
            self.do(self.pair.admin.fetchval("SELECT count(*) FROM asyncjobs.gates WHERE missing > 0 OR opened_at IS NULL")) == 0
        )
        self.do(self.pair.promises_hold())


def _run(database: Database, examples: int, steps: int) -> None:
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        opened = AsyncExitStack()
        stack.callback(lambda: runner.run(opened.aclose()))
        pair = runner.run(opened.enter_async_context(peers(database)))
        machine: Any = partial(GatesMachine, pair, runner.get_loop())
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
                print_blob=True,
            ),
        )


@pytest.mark.unaudited("audited by the machine itself")
def test_gates_do_what_the_model_says(database: Database) -> None:
    _run(database, examples=15, steps=25)


@pytest.mark.proof
@pytest.mark.unaudited("audited by the machine itself")
def test_gates_do_what_the_model_says_in_thousands_of_interleavings(database: Database) -> None:
    _run(database, examples=2000, steps=60)
