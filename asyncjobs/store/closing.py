"""How a connection ends: politely, in a bounded time, and without an error, whatever a version of the driver does.

1. A polite close takes `seconds` at most, which the driver is told, and a tenth more where the driver does not keep to it. A
   server that does not answer until then is not waited for: the connection is aborted.
2. Closing raises nothing. Some versions of asyncpg end a close that ran out of time with a bare CancelledError, which would end
   the task that called it although that task was not cancelled.
3. A cancellation that was meant for the caller goes through, after the connection was aborted.
4. A connection that is in the middle of a transaction, or closed already, is aborted at once.
"""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg


async def close(
    connection: "asyncpg.Connection[asyncpg.Record]", *, seconds: float, before: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Close the connection, politely for at most `seconds`. `before`: what is said to the server first, in the same time."""
    if connection.is_closed() or connection.is_in_transaction():
        connection.terminate()
        return
    task = asyncio.current_task()
    cancelled = task.cancelling() if task else 0
    try:
        async with asyncio.timeout(seconds * 1.1):  # after the driver's: a future that it left behind would complain
            if before is not None:
                await before()
            await connection.close(timeout=seconds)
    except asyncio.CancelledError:
        connection.terminate()
        if task is not None and task.cancelling() > cancelled:
            raise
    except Exception:  # noqa: BLE001 - whatever it is, the connection is not needed any more
        connection.terminate()
