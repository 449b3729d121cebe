"""The decorators that make job types of functions, typed so that a type keeps its handler's signature."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload
from uuid import UUID

from msgspec import Struct

from asyncjobs.context import DutyContext, JobContext
from asyncjobs.job_type import AsyncJobType, JobType, SyncJobType
from asyncjobs.model.outcome import Verdict


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _Attrs(Protocol):
    __attrs_attrs__: ClassVar[Any]


class _Pydantic(Protocol):
    def model_dump_json(self) -> str: ...


#: What jsonb can hold. The bound also keeps `async def` out of the overloads for plain functions: without it mypy calls the
#: decorator ambiguous as soon as a signature mentions Any, and infers JobType[Any, Any].
Storable: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | date
    | time
    | timedelta
    | Decimal
    | UUID
    | Enum
    | Mapping[Any, Any]
    | Sequence[Any]
    | AbstractSet[Any]
    | Struct
    | _Dataclass
    | _Attrs
    | _Pydantic
    | Verdict
    | None
)
P = ParamSpec("P")
R = TypeVar("R", bound=Storable)
DutyFunction = TypeVar("DutyFunction", bound=Callable[[], Awaitable[int | None]] | Callable[[DutyContext], Awaitable[int | None]])

Declare = Callable[[Callable[..., Any]], JobType[..., Any]]


class JobDecorator:
    """Makes a job type of a function."""

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, fn: Callable[Concatenate[JobContext[Any], P], Awaitable[R | Verdict]], /) -> AsyncJobType[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R | Verdict]], /) -> AsyncJobType[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[JobContext[Any], P], R | Verdict], /) -> SyncJobType[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Verdict], /) -> SyncJobType[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> JobType[..., Any]:
        """The job type; InvalidHandler when the function cannot be a handler."""
        return self._declare(fn)


class CronDecorator:
    """Makes a job type of a function that needs no arguments."""

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, fn: Callable[[JobContext[Any]], Awaitable[R | Verdict]], /) -> AsyncJobType[[], R]: ...
    @overload
    def __call__(self, fn: Callable[[], Awaitable[R | Verdict]], /) -> AsyncJobType[[], R]: ...
    @overload
    def __call__(self, fn: Callable[[JobContext[Any]], R | Verdict], /) -> SyncJobType[[], R]: ...
    @overload
    def __call__(self, fn: Callable[[], R | Verdict], /) -> SyncJobType[[], R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> JobType[..., Any]:
        """The job type; InvalidHandler when the function cannot be a handler, or needs arguments."""
        return self._declare(fn)


class DutyDecorator:
    """Takes note of a duty's function, and gives it back unchanged."""

    def __init__(self, declare: Callable[[Callable[..., Any]], None]) -> None:
        self._declare = declare

    def __call__(self, fn: DutyFunction, /) -> DutyFunction:
        """The function, unchanged; InvalidHandler unless it is `async def` without other arguments than the context."""
        self._declare(fn)
        return fn
