"""What the runtime needs of a job type."""

from collections.abc import Callable
from typing import Any, Protocol

from asyncjobs.model.retrying import Retrying


class JobDefinition(Protocol):
    """What an attempt needs of a job type."""

    function: Callable[..., Any]
    is_async: bool
    wraps_async: bool  # a plain function that may answer the coroutine of an `async def`
    version: int
    keeps_payload: bool | None  # also when the job has completed; None: as the app says
    redact: tuple[str, ...]  # fields of the payload that stay out of what is told and stored of failures
    retrying: Retrying
    paged: frozenset[str]  # fields of the payload whose results are read in pages

    @property
    def takes_context(self) -> bool:
        """Whether the function's first parameter is the context."""
        ...

    def decode_payload(self, payload: str, version: int) -> dict[str, Any]:
        """The function's arguments."""
        ...

    def encode_result(self, value: Any) -> str | None:
        """What the function returned, as JSON text. It is not asked for None: that is no result."""
        ...
