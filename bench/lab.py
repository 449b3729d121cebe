"""What the benchmarks share: a server, an app, a table."""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from rich.console import Console
from rich.table import Table

from asyncjobs import AsyncJobs
from asyncjobs.embedded import start_sync


@contextmanager
def server() -> Generator[str]:
    """The DSN of a server: $ASYNCJOBS_BENCH_DSN (an empty database of yours), else an embedded one with durability on."""
    yours = os.environ.get("ASYNCJOBS_BENCH_DSN")
    if yours:
        yield yours
        return
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs-bench-"))
    folder.chmod(0o755)
    embedded = start_sync(folder / "server", linger=0)
    try:
        yield embedded.dsn
    finally:
        embedded.close()
        embedded.wait_stopped()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def counting(dsn: str) -> AsyncGenerator[Callable[[], Coroutine[Any, Any, tuple[int, int]]]]:
    """A function that says how many transactions and statements the database has seen, its own questions apart."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    asked = 0

    async def count() -> tuple[int, int]:
        nonlocal asked
        # Backends report what they did at most once a second.
        await asyncio.sleep(1.1)
        row = await connection.fetchrow(
            """SELECT (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()),
                      (SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
                       WHERE d.datname = current_database())"""
        )
        assert row is not None
        asked += 1
        return row[0] - asked, row[1] - asked

    try:
        yield count
    finally:
        await connection.close()


async def migrated(dsn: str) -> AsyncJobs:
    """An app on the server, with its schema there."""
    jobs = AsyncJobs(dsn)
    await jobs.migrate()
    return jobs


def percentiles(seconds: Sequence[float]) -> list[str]:
    """p50, p95, p99 and the longest, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    return [f"{value * 1000:.1f}" for value in (cuts[49], cuts[94], cuts[98], max(seconds))]


@contextmanager
def stopwatch() -> Generator[Callable[[], float]]:
    """How many seconds went by; stands still when the context is left."""
    began = time.perf_counter()
    ended: float | None = None
    yield lambda: (ended or time.perf_counter()) - began
    ended = time.perf_counter()


def report(question: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the answer."""
    table = Table(title=question, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def main(run: Callable[[str, bool], Coroutine[Any, Any, None]], question: str | None) -> None:
    """Answer the question on a fresh server: `--smoke` does so with a handful of jobs."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--smoke", action="store_true", help="with a handful of jobs, to see that it runs")
    smoke: bool = parser.parse_args(sys.argv[1:]).smoke
    with server() as dsn:
        asyncio.run(run(dsn, smoke))
