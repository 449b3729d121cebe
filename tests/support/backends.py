"""Backends of asyncjobs, found by the names of their connections: behind a pooler no connection knows which one works for it."""

import asyncio

from asyncjobs.store.database import Connection, Link
from tests.support.eventually import eventually

_OF = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"


async def waits_for_lock(link: Link, asking: Connection, *, timeout: float = 5.0) -> None:
    """Return when the link's statement waits for somebody's lock. `asking` may be the one that holds it, in its transaction."""
    name = f"asyncjobs {link.role}"

    async def waits() -> bool:
        await asking.execute("SELECT pg_stat_clear_snapshot()")  # a transaction goes on seeing what it saw first
        return bool(await asking.fetchval(f"SELECT count(*) > 0 {_OF} AND cardinality(pg_blocking_pids(pid)) > 0", name))

    await eventually(waits, description=f"{name} waits for a lock", timeout=timeout)


async def end_transaction(link: Link, asking: Connection) -> None:
    """End the backend that the link has a transaction open in."""
    assert await asking.fetchval(f"SELECT pg_terminate_backend(pid) {_OF} AND state <> 'idle'", f"asyncjobs {link.role}")


async def fill(connection: Connection, pid: int, *, channel: str = "news") -> None:
    """Notify the channel until the backend with this number cannot send any more: its client does not read."""
    stuck = "SELECT wait_event = 'ClientWrite' AND backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = $1"
    for number in range(200):
        texts = "SELECT count(pg_notify($1, $2 || n || repeat('x', 200))) FROM generate_series(1, 5000) AS n"
        await connection.fetchval(texts, channel, f"{number} ")
        if await connection.fetchval(stuck, pid):
            await asyncio.sleep(0.1)
            if await connection.fetchval(stuck, pid):
                return
    raise AssertionError("it goes on sending")
