"""The result of another job of the same workflow as an argument: what stands for it until the job runs.

`node.result` is an `Upstream`, whatever its type says, and so is `group.results`. It may stand anywhere in an argument. In the
payload it is `{"$result": 3}` or `{"$results": [10, 9999]}`, by the numbers of members, the first and the last; the runner puts
the results in their place before it decodes the payload (`runtime/upstream.py`). Nothing else of an argument looks like that.
"""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final, NoReturn, final, get_args, get_origin

import msgspec

from asyncjobs.declare.signature import show_hint
from asyncjobs.errors import InvalidPayload, UndecodablePayload
from asyncjobs.model.workflow import MemberResult, Range

RESULT: Final = "$result"
RESULTS: Final = "$results"
#: Those of an empty group, as they stand in a payload.
NO_RESULTS: Final = '{"$results":[0,-1]}'


class Members(msgspec.Struct, eq=False):
    """Some members, by their numbers, which others may wait for; of a nested workflow more may be added."""

    name: str
    ranges: list[Range] = []


class FlowMark(msgspec.Struct, frozen=True, eq=False):
    """Which workflow something is of: this very mark, and never the workflow itself, whose jobs take what has it. The garbage
    collector does not look into rows, so such a circle would be there as long as the process.
    """

    name: str


class MemberPlace(msgspec.Struct, frozen=True):
    """Where a member stands, for hooks of its enqueue: the last of what its row takes."""

    flow: FlowMark  # whose member it is
    number: int
    waits: tuple[Range, ...]  # for members of these numbers


class Spawner(msgspec.Struct, frozen=True):
    """Who has spawned a member, for hooks of its enqueue, as `Place`: whoever waits for that one waits for this one, too."""

    trace_context: str | None  # of the member that spawns


@final
class Upstream:
    """What stands for a result, or for those of a group. It has no value: code that asks for one is told so."""

    __slots__ = ("flow", "hint", "is_group", "is_paged", "members")

    def __init__(self, flow: FlowMark, members: Members, hint: Any, *, is_group: bool, is_paged: bool = False) -> None:
        self.flow = flow
        self.members = members
        self.hint = hint  # of one result
        self.is_group = is_group
        self.is_paged = is_paged  # for a parameter that takes them in pages alone

    @property
    def document(self) -> dict[str, Any]:
        """As it stands in a payload."""
        first, last = self.members.ranges[0] if self.members.ranges else (0, -1)
        return {RESULTS: [first, last]} if self.is_group else {RESULT: first}

    def __repr__(self) -> str:
        return f"<the results of {self.members.name}>" if self.is_group else f"<the result of {self.members.name}>"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"{self!r} is not known yet: it is an argument of other jobs of the workflow, and of nothing else")

    def __str__(self) -> str:  # noqa: PLE0307 - it never returns
        self._refuse()

    def __format__(self, _spec: str) -> str:
        self._refuse()

    __bool__ = __len__ = __iter__ = __int__ = __float__ = __index__ = __getitem__ = __add__ = __radd__ = __lt__ = _refuse


def without_upstreams(value: Any, enc_hook: Any) -> tuple[Any, list[Upstream]]:
    """The value as plain JSON, with each result that it names; none, and the value as it is, when it names none."""
    found: list[Upstream] = []

    def hook(part: Any) -> Any:
        if isinstance(part, Upstream):
            found.append(part)
            return part.document
        return enc_hook(part)

    try:
        plain = msgspec.to_builtins(value, enc_hook=hook, str_keys=True)
    except Exception:  # noqa: BLE001 - what cannot be encoded is told by the encoder, with its place
        return value, found
    return (plain, found) if found else (value, [])


def check_fits(job: str, parameter: str, hint: Any, upstream: Upstream) -> None:
    """InvalidPayload when a result of the upstream's type can never be this parameter's argument."""
    given: Any = list[upstream.hint] if upstream.is_group else upstream.hint  # type: ignore[name-defined]
    if not _may_fit(given, hint):
        raise InvalidPayload(
            job, f"expected {show_hint(hint)}, got {upstream!r}, which is {show_hint(given)}", path=f"$.{parameter}"
        )


def _may_fit(given: Any, wanted: Any) -> bool:
    """Whether a value of the one type may be one of the other. In doubt it may: it is decoded when the job runs."""
    if wanted is Any or given is Any or given == wanted:
        return True
    if wanted is float and given is int:
        return True
    simple = (int, float, str, bool, bytes, NoneType, None)
    if given in simple and wanted in simple:
        return False
    one, other = get_origin(given) or given, get_origin(wanted) or wanted
    if (one is list) != (other is list) and (one in simple or other in simple):
        return False
    if one is list and other is list and get_args(given) and get_args(wanted):
        return _may_fit(get_args(given)[0], get_args(wanted)[0])
    return True


def names_results(payload: str) -> bool:
    """Whether a payload, as JSON text, may name results."""
    return '"$result' in payload


def count_names(payload: str) -> int:
    """How often something in a payload looks like one."""
    return payload.count(f'"{RESULT}"') + payload.count(f'"{RESULTS}"')


def ranges_in(value: Any) -> list[Range]:
    """The numbers of members whose results a decoded payload names."""
    if isinstance(value, dict):
        if len(value) == 1:
            if isinstance(value.get(RESULT), int):
                return [(value[RESULT], value[RESULT])]
            if isinstance(value.get(RESULTS), list):
                first, last = value[RESULTS]
                return [(first, last)]
        return [one for part in value.values() for one in ranges_in(part)]
    if isinstance(value, list):
        return [one for part in value for one in ranges_in(part)]
    return []


def with_results(job: str, value: Any, results: Mapping[int, MemberResult]) -> Any:
    """The decoded payload with the results in their places. UndecodablePayload names an upstream that has none."""
    if isinstance(value, dict):
        if len(value) == 1:
            if isinstance(value.get(RESULT), int):
                return _result(job, results, value[RESULT])
            if isinstance(value.get(RESULTS), list):
                first, last = value[RESULTS]
                return [_result(job, results, number) for number in range(first, last + 1)]
        return {key: with_results(job, part, results) for key, part in value.items()}
    if isinstance(value, list):
        return [with_results(job, part, results) for part in value]
    return value


def _result(job: str, results: Mapping[int, MemberResult], number: int) -> Any:
    text = raw_result(job, results.get(number), number)
    return None if text is None else msgspec.Raw(text.encode())


def raw_result(job: str, found: MemberResult | None, number: int) -> str | None:
    """The result of a member as JSON text, None for None. UndecodablePayload names one that has none."""
    if found is None or found.status is None:
        raise UndecodablePayload(job, f"an argument is the result of member {number} of its workflow, which is gone")
    who = f"an argument is the result of job {found.id} ({found.type})"
    if found.status != "completed":
        raise UndecodablePayload(job, f"{who}, which is {found.status}")
    if found.dropped is not None:
        raise UndecodablePayload(job, f"{who}, which was dropped: {found.dropped}")
    return found.result


def merged(ranges: Sequence[Range]) -> list[Range]:
    """The same numbers in as few ranges as can be."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
