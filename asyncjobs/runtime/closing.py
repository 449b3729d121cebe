"""Closing what a handler opened with `ctx.use`, when its attempt ends. Most handlers open nothing, and pay nothing for it."""

from contextlib import AsyncExitStack
from typing import Protocol


class Context(Protocol):
    """What a handler is given, as far as the attempt cares: what it opened, if anything, to be closed with the attempt."""

    resources: AsyncExitStack | None


async def close(context: Context, error: BaseException | None = None) -> bool:
    """Close it, and tell it of the error, since a transaction among it must roll back. Returns whether it swallowed the error."""
    resources = context.resources
    if resources is None:
        return False
    if error is None:
        return bool(await resources.__aexit__(None, None, None))
    return bool(await resources.__aexit__(type(error), error, error.__traceback__))
