"""Enqueues from SQL: what the door answers, and what it refuses."""

import json
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection


async def sql(connection: Connection, *args: Any, call: str = "enqueue") -> Any:
    """What the door answers. Mappings and lists go as JSON."""
    given = ", ".join(f"${number}" for number in range(1, len(args) + 1))
    return await connection.fetchval(
        f"SELECT asyncjobs.{call}({given})", *[json.dumps(one) if isinstance(one, (dict, list)) else one for one in args]
    )


async def refused(connection: Connection, *args: Any, call: str = "enqueue") -> str:
    """The words of the refusal."""
    with pytest.raises(asyncpg.PostgresError) as error:
        await sql(connection, *args, call=call)
    assert (error.value.sqlstate or "").startswith("JOB")
    return str(error.value).partition("\n")[0]


async def declared(jobs: AsyncJobs) -> None:
    """A runner opens, which declares its types, and ends."""
    async with jobs.runner():
        pass
