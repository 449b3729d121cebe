"""The page for those who come from elsewhere: its programs run as printed, on tables as procrastinate makes them."""

import ast
import inspect
import io
import re
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from asyncjobs.store.database import Connection

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

#: Of procrastinate's schema, what the page reads and writes.
TABLES = """
CREATE TYPE procrastinate_job_status AS ENUM ('todo', 'doing', 'succeeded', 'failed', 'cancelled', 'aborting', 'aborted');
CREATE TABLE procrastinate_jobs (
    id bigserial PRIMARY KEY,
    queue_name character varying(128) NOT NULL,
    task_name character varying(128) NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    lock text,
    queueing_lock text,
    args jsonb DEFAULT '{}' NOT NULL,
    status procrastinate_job_status DEFAULT 'todo' NOT NULL,
    scheduled_at timestamp with time zone NULL,
    attempts integer DEFAULT 0 NOT NULL
);
"""

WAITING = """
INSERT INTO procrastinate_jobs (queue_name, task_name, args, lock, queueing_lock, status, scheduled_at, priority) VALUES
    ('default', 'invoice', '{"customer": 7, "cents": 100}', 'customer 7', NULL, 'todo', NULL, 0),
    ('default', 'invoice', '{"customer": 7, "cents": 200}', 'customer 7', NULL, 'todo', NULL, 5),
    ('default', 'invoice', '{"customer": 8, "cents": 300}', NULL, 'once', 'todo', NULL, 0),
    ('default', 'remind', '{"customer": 7}', NULL, NULL, 'todo', $1, 0),
    ('default', 'invoice', '{"customer": 9, "cents": 1}', NULL, NULL, 'succeeded', NULL, 0),
    ('default', 'invoice', '{"customer": 9, "cents": 2}', NULL, NULL, 'doing', NULL, 0)
"""


async def run(block: str, names: dict[str, Any]) -> str:
    code: Any = compile(block, "coming-from.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(io.StringIO()) as printed:
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, names)
        else:
            exec(code, names)
    return printed.getvalue()


async def test_what_waits_there_is_taken_over_in_one_transaction(dsn: str, connection: Connection) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    await connection.execute(TABLES)
    await connection.execute(WAITING, later)
    names: dict[str, Any] = {"__name__": "shop", "database_dsn": dsn}
    declare, move = BLOCKS
    await run(declare, names)
    async with names["jobs"] as jobs:
        assert "4 taken over" in await run(move, names)
        assert await run(move, names) == "0 taken over\n"
    async with jobs.runner():
        found = {job.correlation_id: job for job in (await jobs.admin.find()).jobs}
        assert found.keys() == {f"procrastinate-{number}" for number in (1, 2, 3, 4)}
        for number in (1, 2, 3):
            await jobs.handle(found[f"procrastinate-{number}"].id).wait(timeout=30)
        done = {number: await jobs.get(found[f"procrastinate-{number}"].id) for number in (1, 2, 3, 4)}
    assert [done[number].result for number in (1, 2, 3)] == ["customer 7: 100", "customer 7: 200", "customer 8: 300"]
    assert done[2].started_at < done[1].started_at, "the one with the higher priority was the first of their line"
    assert (done[2].priority, done[1].serialization_key, done[3].dedup_key) == (95, "customer 7", "once")
    assert (done[4].status, done[4].run_at) == ("scheduled", later)
    statuses = await connection.fetch("SELECT status::text FROM procrastinate_jobs ORDER BY id")
    assert [row["status"] for row in statuses] == ["cancelled"] * 4 + ["succeeded", "doing"]


def test_every_row_of_the_table_has_a_cell_for_each_of_them() -> None:
    (table,) = re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)
    assert {line.count(" |") for line in table.splitlines()[2:]} == {6}


def test_what_peers_are_asked_for_first_has_a_row() -> None:
    (table,) = re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)
    ours = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    for what in ("expires=", "gather(", "as_completed(", "debounce=", "--until-idle", "enqueue_sync(", "connection=session"):
        assert any(what in cell for cell in ours), what


def test_links_lead_somewhere() -> None:
    titles = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)}
    assert {target[1:] for target in re.findall(r"\]\((#[^)]+)\)", PAGE)} <= titles
