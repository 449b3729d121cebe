"""The README's chapter on running it: each procedure's commands, Python and SQL work as printed, and find what they are for.

Every block gets the same data anew: something of everything that can be the matter.
"""

import ast
import inspect
import io
import re
import shlex
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.factories import insert, insert_job, insert_runner, insert_serialized

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
CHAPTER = re.search(r"^## Running it\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
PROCEDURES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", CHAPTER[1] if CHAPTER else "", re.MULTILINE | re.DOTALL))


def blocks(procedure: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PROCEDURES[procedure], re.MULTILINE | re.DOTALL)


async def fill(connection: Connection) -> None:
    """Something of everything."""
    tables = await connection.fetchval(
        "SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables "
        "WHERE schemaname = 'asyncjobs' AND tablename <> 'migrations'"
    )
    await connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
    now = await connection.fetchval("SELECT now()")
    long_ago, ago = now - timedelta(hours=2), now - timedelta(minutes=10)
    await insert_runner(connection, queues=["default", "mail"], types=["email", "report"], beat_at=now)
    await insert_job(connection, id=11, type="report", status="processing", started_at=long_ago)
    await insert_job(connection, id=12, status="failed", attempts=1, last_error="timed out", last_error_at=ago, run_at=now)
    await insert_job(connection, id=13, status="dead", error_message="no", attempts=3, correlation_id="checkout-7")
    await insert_job(connection, id=14, type="pack", status="completed", parent_job_id=13, correlation_id="checkout-7")
    await insert_job(connection, id=15, run_at=long_ago, payload='{"to": "ada"}')
    key = "customer 7"
    await insert_job(connection, id=16, type="sync", status="dead", error_message="no", attempts=1, serialization_key=key)
    await connection.execute("SELECT asyncjobs.bury(ARRAY[13::bigint]), asyncjobs.bury(ARRAY[16::bigint])")
    await insert_serialized(connection, key, id=16, type="sync", job_id=16, halted_at=ago, halt_reason="no")
    await insert_serialized(connection, key, id=17, type="sync")
    await insert(connection, "circuit_breakers", service_name="email-service", state="open", opened_at=ago, half_opens_at=now)
    metadata = f'{{"last_run": "{ago.isoformat()}"}}'
    lease: dict[str, Any] = {
        "job_name": "rescue",
        "held_by_worker_id": "1",
        "lease_acquired_at": long_ago,
        "heartbeat_at": now,
        "metadata": metadata,
    }
    await insert(connection, "background_job_leases", **lease)
    for status, count in (("completed", 8), ("failed", 2)):
        times = f'{{"1": {count}}}'
        span: dict[str, Any] = {"queue_seconds": 1.0, "run_seconds": 1.0, "queue_time": times, "run_time": times}
        await insert(connection, "job_metrics", job_type="email", status=status, minute=now, count=count, **span)


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await fill(connection)
    return connection


def test_the_chapter_has_its_procedures_in_three_ways() -> None:
    assert len(PROCEDURES) == 11
    for procedure in PROCEDURES:
        assert all(blocks(procedure, language) for language in ("sh", "python", "sql")), procedure


@pytest.mark.unaudited("rows of runners that do not exist, and operators' SQL on them")
@pytest.mark.parametrize("procedure", list(PROCEDURES))
async def test_a_procedure_works_as_printed(procedure: str, filled: Connection, dsn: str) -> None:
    for block in blocks(procedure, "sh"):
        await fill(filled)
        for line in block.splitlines():
            program, *words = shlex.split(line, comments=True)
            said = await cli(*words, dsn=dsn)
            assert program == "asyncjobs"
            assert (said.code, bool(said.out.strip())) == (0, True), f"{line}: {said}"
    for block in blocks(procedure, "python"):
        await fill(filled)
        printed = await run(block, AsyncJobs(dsn))
        assert printed.strip(), block
    for block in blocks(procedure, "sql"):
        await fill(filled)
        for statement in filter(str.strip, block.split(";\n")):
            assert await filled.fetch(statement), f"finds nothing: {statement}"


async def run(block: str, jobs: AsyncJobs) -> str:
    """Run it with the app open; what it printed."""
    code: Any = compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert code.co_flags & inspect.CO_COROUTINE
    with redirect_stdout(io.StringIO()) as printed:
        async with jobs:
            await eval(code, {"jobs": jobs})
    return printed.getvalue()
