"""A program from before the baseline meets a schema of today, and the other way round: refused in words, and nothing is touched.

The former program is the checkout of a commit, so it takes a clone that has the project's history.
"""

import asyncio
import sys
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import asyncpg
import pytest

from asyncjobs.errors import SchemaError
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.migrate import check, migrate
from tests.support.snapshot import snapshot

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
#: The last commit whose tables were made by eighteen migrations.
BEFORE_THE_BASELINE = "83fee7b"
OPENS = """
import asyncio, sys
from asyncjobs import AsyncJobs

async def main():
    jobs = AsyncJobs(sys.argv[1])
    try:
        await (jobs.migrate() if sys.argv[2] == "migrate" else jobs.__aenter__())
    except Exception as error:
        print(type(error).__name__, error)

asyncio.run(main())
"""


async def answer_of(*command: str | Path, cwd: Path) -> str:
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, stdout=-1, stderr=-1)
    said, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return said.decode()


@pytest.fixture
async def former(tmp_path: Path) -> Path:
    """The checkout of the former program."""
    git = await asyncio.create_subprocess_exec("git", "archive", BEFORE_THE_BASELINE, cwd=ROOT, stdout=-1)
    archive, _ = await git.communicate()
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tmp_path, filter="data")
    (tmp_path / "opens.py").write_text(OPENS, encoding="utf-8")
    return tmp_path


async def rows_of(connection: Connection) -> Sequence[object]:
    return [tuple(row) for row in await connection.fetch("SELECT id, status, payload::text FROM asyncjobs.jobs ORDER BY id")]


@pytest.mark.parametrize("does", ["open", "migrate"])
async def test_a_former_program_is_refused_by_the_schema_and_leaves_it_as_it_was(
    former: Path, dsn: str, connection: Connection, does: str
) -> None:
    await connection.execute("INSERT INTO asyncjobs.jobs (type, payload, enqueue_token) VALUES ('mail', '{}', 1)")
    before = await snapshot(connection), await rows_of(connection)
    said = await answer_of(sys.executable, "opens.py", dsn, does, cwd=former)
    assert said.startswith("SchemaTooNew"), said
    assert "0019_baseline.sql" in said
    assert (await snapshot(connection), await rows_of(connection)) == before


async def test_a_schema_of_a_former_program_is_refused_in_words_and_left_as_it_was(former: Path, empty_dsn: str) -> None:
    assert await answer_of(sys.executable, "opens.py", empty_dsn, "migrate", cwd=former) == ""
    connection = await asyncpg.connect(empty_dsn)
    before = await snapshot(connection)
    for asked in (check, migrate):
        with pytest.raises(SchemaError, match="before its first release"):
            await asked(Database(empty_dsn))
    assert await snapshot(connection) == before
    await connection.close()
