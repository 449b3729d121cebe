"""Closing what a handler opened with `ctx.use`, when its attempt ends. Most handlers open nothing, and pay nothing for it."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol


class Context(Protocol):
    """What a handler is given, as far as the attempt cares: what it opened, if anything, to be closed with the attempt."""

    resources: AsyncExitStack | None


class Closing:
    """As a context manager: closes that at the end, and tells it of an error, since a transaction among it must roll back."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        resources = self._context.resources
        return None if resources is None else await resources.__aexit__(kind, error, traceback)
