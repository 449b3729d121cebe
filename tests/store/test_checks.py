"""Rows that no call would write, and that nobody could run or rescue, are refused by the table itself."""

from typing import Any

import asyncpg
import pytest

from asyncjobs.store.database import Connection
from tests.support.factories import insert_job


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "done"},
        {"status": "completed", "completed_at": None},
        {"status": "processing", "runner_id": None},
        {"status": "processing", "claim_token": None},
        {"status": "processing", "started_at": None},
        {"priority": -1},
        {"attempts": -1},
        {"max_attempts": 0},
        {"on_dead": "stop"},
    ],
    ids=str,
)
async def test_row_that_cannot_be_is_refused(connection: Connection, columns: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await insert_job(connection, **columns)
