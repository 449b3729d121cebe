"""Results of thousands of jobs as one argument, read page by page while the handler goes through them.

    @jobs.job("report")
    async def report(pages: Results[str]) -> int:
        return sum([len(page) async for page in pages])

    flow.add(report.new(flow.add_many(…).paged))      # in place of `.results`, which are read whole before the handler starts

The payload names the group, as for `results` (`declare/upstream.py`), and that stays there: nothing is read before the handler
asks, and one page is held at a time. What is missing then (a result that was dropped as too large, a row that somebody deleted)
is raised there, names the upstream, and ends the job: trying again would change nothing.

A list that stands in the payload is as good: `report.enqueue(Results(["a", "b"]))`, `await report(Results(["a"]))` in a test.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar, final, get_args, get_origin

import msgspec

from asyncjobs.declare.signature import Parameter, show_hint
from asyncjobs.declare.upstream import RESULTS, Upstream, check_fits, raw_result
from asyncjobs.errors import InvalidHandler, InvalidOption, InvalidPayload, UndecodablePayload, UsageError
from asyncjobs.model.json_value import ENCODE_ERRORS
from asyncjobs.model.names import kind_of
from asyncjobs.model.workflow import MemberResult, Range

T_co = TypeVar("T_co", covariant=True)

_PAGE: Final = 1_000

#: Reads what members of these numbers have given.
Read = Callable[[Sequence[Range]], Awaitable[list[MemberResult]]]


@final
class Results(Generic[T_co]):
    """Results of a group, in its order, to be gone through with `async for`, as often as you like: read anew each time."""

    __slots__ = ("_decoder", "_given", "_job", "_range", "_read")

    def __init__(self, items: Iterable[T_co] = ()) -> None:
        self._given: tuple[T_co, ...] | None = tuple(items)
        self._range: Range = (0, -1)
        self._job = ""
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
        self._read: Read | None = None

    def __len__(self) -> int:
        """How many there are. Nothing is read for it."""
        first, last = self._range
        return last - first + 1 if self._given is None else len(self._given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and (self._given, self._range) == (other._given, other._range)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} results>"

    async def __aiter__(self) -> AsyncGenerator[T_co]:
        async for page in self.pages():
            for one in page:
                yield one

    async def pages(self, size: int = _PAGE) -> AsyncGenerator[list[T_co]]:
        """So many at a time: one read of the database each. InvalidOption for a size below 1; UndecodablePayload names an
        upstream whose result is not there, or does not fit.
        """
        if not _is_size(size):
            raise InvalidOption(f"size={size!r}: give how many results are read at once, 1 or more.", option="size")
        if self._given is not None:
            for start in range(0, len(self._given), size):
                yield list(self._given[start : start + size])
            return
        if self._read is None:
            raise UsageError("these results are read by the job whose argument they are, while it runs, and by nothing else.")
        first, last = self._range
        for start in range(first, last + 1, size):
            end = min(start + size - 1, last)
            found = {one.number: one for one in await self._read([(start, end)])}
            yield [self._decoded(found.get(number), number) for number in range(start, end + 1)]

    def _decoded(self, found: MemberResult | None, number: int) -> T_co:
        text = raw_result(self._job, found, number)
        try:
            decoded: T_co = self._decoder.decode(text or "null")
        except (msgspec.DecodeError, *ENCODE_ERRORS) as error:
            who = f"a result of job {found.id} ({found.type})" if found else "a result"
            raise UndecodablePayload(self._job, f"{who} does not fit: {error}") from None
        return decoded

    def open(self, job: str, read: Read) -> None:
        """Asyncjobs' own: they are read for a job of this type in this way."""
        self._job, self._read = job, read

    @property
    def stored(self) -> list[T_co]:
        """Asyncjobs' own: as they stand in a payload. Those of a group are named there by their workflow."""
        if self._given is None:
            raise UsageError("results of a group cannot be handed on: enqueue what your handler has made of them.")
        return list(self._given)

    @staticmethod
    def of_payload(hint: Any, value: Any, dec_hook: Callable[[type, Any], Any]) -> "Results[Any]":
        """Asyncjobs' own: what a payload has, as the parameter's type says. TypeError for what is no list."""
        if isinstance(value, dict) and value.keys() == {RESULTS}:
            made = Results[Any]()
            made._given, made._range = None, tuple(value[RESULTS])
            made._decoder = msgspec.json.Decoder(_item_of(hint), dec_hook=dec_hook)
            return made
        if not isinstance(value, list):
            raise TypeError(f"expected array, got {kind_of(value)}")
        given: list[Any] = msgspec.convert(value, stored_hint(hint), dec_hook=dec_hook)
        return Results[Any](given)


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def is_results(hint: Any) -> bool:
    """Whether a parameter of this type takes results in pages."""
    return (get_origin(plain_hint(hint)) or plain_hint(hint)) is Results


def stored_hint(hint: Any) -> Any:
    """The type of what stands in a payload for a parameter of this one: of results a list."""
    return list[_item_of(hint)] if is_results(hint) else hint  # type: ignore[misc]


def _item_of(hint: Any) -> Any:
    return (*get_args(plain_hint(hint)), Any)[0]


def plain_hint(hint: Any) -> Any:
    """The type without its annotations."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint


def check_argument(job: str, parameter: str, hint: Any, upstream: Upstream) -> None:
    """InvalidPayload when what the upstream gives can never be this parameter's argument."""
    paged = is_results(hint)
    if paged and upstream.is_group:
        check_fits(job, parameter, stored_hint(hint), upstream)
    elif paged or upstream.is_paged:
        remedy = "give a group's .paged" if paged else "give its .results, or annotate the parameter Results[...]"
        raise InvalidPayload(job, f"expected {show_hint(hint)}, got {upstream!r}: {remedy}", path=f"$.{parameter}")
    else:
        check_fits(job, parameter, hint, upstream)


def check_parameters(job: str, parameters: Sequence[Parameter], *, is_async: bool) -> frozenset[str]:
    """The parameters that take results in pages. InvalidHandler for a handler that cannot wait for pages."""
    names = frozenset(one.name for one in parameters if is_results(one.hint))
    if names and not is_async:
        raise InvalidHandler(job, f'parameter "{min(names)}" is read with `async for`: make the handler an `async def`.')
    return names
