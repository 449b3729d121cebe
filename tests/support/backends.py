"""Backends of asyncjobs, found by the names of their connections: behind a pooler no connection knows which one works for it."""

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
