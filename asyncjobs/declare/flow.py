"""A workflow while it is built: its members, and the gates at which they wait. Nothing is sent; what does not fit is refused."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from asyncjobs.declare.definition import NewJob
from asyncjobs.declare.upstream import NO_RESULTS, FlowMark, MemberPlace, Members, Upstream, count_names, merged
from asyncjobs.errors import InvalidOption, WorkflowError
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.workflow import FlowPlan, GatePlan, Range, When

_RULES: Final = ("completed", "ended")


class FlowPlanner:
    """Collects. `name`: the workflow's."""

    def __init__(self, name: str, max_members: int) -> None:
        self.name = name
        self.mark = FlowMark(name)
        self.rows: list[NewRow] = []
        self.jobs: list[NewJob[Any]] = []
        self._max_members = max_members
        self._waits: dict[int, list[tuple[int, When]]] = {}  # by member: at which of the awaited, by which rule
        self._awaited: list[Members] = []
        self._numbers: dict[int, int] = {}  # of those, by id()

    def add(self, job: object, after: Sequence[Members], when: When | None) -> int:
        """One more member, which waits for these and for what its arguments name; its number."""
        if not isinstance(job, NewJob):
            raise WorkflowError(f"{self._me}: {job!r} is no job: write {getattr(job, 'name', 'job_type')}.new(...).")
        if when is not None and when not in _RULES:
            raise InvalidOption(f'when={when!r}: give "completed" or "ended".', option="when")
        if when is not None and not after:
            raise InvalidOption(
                f'{self._me}: when="{when}" of {job.type} says how after= is meant, and there is none: what an argument names '
                "has always to complete.", option="when",
            )  # fmt: skip
        number = len(self.rows)
        if number >= self._max_members:
            raise WorkflowError(
                f"{self._me} has more than {self._max_members:,} jobs: give max_members= if it is to have so many."
            )
        row = self._checked(job)
        for upstream in row.takes:
            if upstream.flow is not self.mark:
                raise WorkflowError(
                    f'{self._me}: {job.type} takes {upstream!r}, which is of workflow "{upstream.flow.name}": '
                    "a job waits for jobs of its own workflow."
                )
            self._wait(number, upstream.members, "completed")
        for members in after:
            self._wait(number, members, when or "completed")
        self.rows.append(row)
        self.jobs.append(job)
        return number

    def _checked(self, job: NewJob[Any]) -> NewRow:
        row = job.row
        self.refuse_others(job)
        if count_names(row.payload) != len(row.takes):
            raise WorkflowError(
                f'{self._me}: an argument of {job.type} has a field "$result" or "$results", which means another job\'s here.'
            )
        return row

    def refuse_others(self, job: NewJob[Any]) -> None:
        """InvalidOption for what would make of a member another's job, or put it elsewhere."""
        row = job.row
        if job.connection is not None:
            raise InvalidOption(
                f"{self._me}: {job.type} has a connection of its own: give it to the workflow.", option="connection"
            )
        if row.on_duplicate == "replace" or row.at_most_seconds is not None:
            raise InvalidOption(
                f'{self._me}: {job.type} has on_duplicate="replace", or a debounce: a member is a job of its own, no other\'s.',
                option="on_duplicate",
            )

    def _wait(self, number: int, members: Members, rule: When) -> None:
        at = self._numbers.setdefault(id(members), len(self._awaited))
        if at == len(self._awaited):
            self._awaited.append(members)
        self._waits.setdefault(number, []).append((at, rule))

    def place(self, number: int) -> MemberPlace:
        """Where this member stands."""
        ranges = [one for at, _ in self._waits.get(number, ()) for one in self._awaited[at].ranges]
        return MemberPlace(self.mark, number, tuple(merged(ranges)))

    def plan(self, rows: Sequence[NewRow], **about: Any) -> tuple[FlowPlan, list[NewRow]]:
        """What is to be written. WorkflowError for a circle."""
        numbers: dict[tuple[Range, ...], int] = {}
        gates: list[GatePlan] = []
        gate_of: list[int | None] = []
        for members in self._awaited:
            ranges = tuple(merged(members.ranges))
            if not ranges:  # what is empty has ended
                gate_of.append(None)
                continue
            gate_of.append(numbers.setdefault(ranges, len(gates)))
            if len(numbers) > len(gates):
                gates.append(GatePlan(ranges, members.name))
        waits = _waits(self._waits, gate_of)
        self._refuse_circles(gates, waits)
        waiting = {number for number, _, _ in waits}
        sent = [
            msgspec.structs.replace(
                row, takes=(), waits=number in waiting, on_duplicate="return",
                payload=_without_empty_groups(row.payload, self.rows[number].takes),
            )
            if self.rows[number].takes or number in waiting or row.on_duplicate != "return"
            else row
            for number, row in enumerate(rows)
        ]  # fmt: skip
        return FlowPlan(name=self.name, gates=gates, waits=waits, **about), sent

    def _refuse_circles(self, gates: Sequence[GatePlan], waits: Iterable[tuple[int, int, When]]) -> None:
        """Members wait for earlier ones, but for those of nested workflows to which more were added since."""
        of: dict[int, list[int]] = {}
        is_odd = False
        for number, gate, _ in waits:
            of.setdefault(number, []).append(gate)
            is_odd = is_odd or gates[gate].members[-1][1] >= number
        if not is_odd:
            return
        done: set[int] = set()
        for start in of:
            path: list[int] = []
            self._walk(start, of, gates, done, path)

    def _walk(self, start: int, of: dict[int, list[int]], gates: Sequence[GatePlan], done: set[int], path: list[int]) -> None:
        stack: list[tuple[int, bool]] = [(start, False)]
        on_path: set[int] = set()
        while stack:
            number, leaves = stack.pop()
            if leaves:
                on_path.discard(number)
                path.pop()
                done.add(number)
                continue
            if number in done:
                continue
            if number in on_path:
                one, other = self.rows[path[-1]].type, self.rows[number].type
                what = f"{one} (member {path[-1]}) and {other} (member {number})"
                raise WorkflowError(
                    f"{self._me}: {what} wait for each other."
                    if path[-1] != number
                    else f"{self._me}: {one} (member {number}) waits for itself."
                )
            on_path.add(number)
            path.append(number)
            stack.append((number, True))
            for gate in of.get(number, ()):
                for first, last in gates[gate].members:
                    stack += [(one, False) for one in range(first, last + 1) if one in of and one not in done]

    @property
    def _me(self) -> str:
        return f'workflow "{self.name}"'


def _without_empty_groups(payload: str, takes: Sequence[Upstream]) -> str:
    """What an empty group gives is known. (In JSON a quote inside a string is escaped: no string looks like that.)"""
    return payload if all(upstream.members.ranges for upstream in takes) else payload.replace(NO_RESULTS, "[]")


def _waits(waits: Mapping[int, Sequence[tuple[int, When]]], gate_of: Sequence[int | None]) -> list[tuple[int, int, When]]:
    """Who waits at which gate: once, by the stricter rule where there are two."""
    found: list[tuple[int, int, When]] = []
    for number, some in waits.items():
        rules: dict[int, When] = {}
        for at, rule in some:
            gate = gate_of[at]
            if gate is not None and rules.get(gate) != "completed":
                rules[gate] = rule
        for gate, strictest in rules.items():
            found.append((number, gate, strictest))
    return found
