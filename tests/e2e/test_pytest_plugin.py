"""The pytest plugin, as users have it: under pytest-asyncio in both modes, under anyio's plugin, and without pytest at all."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.support.plugin import with_plugin

ROOT = Path(__file__).parents[2]

APP = """
from asyncjobs import AsyncJobs
jobs = AsyncJobs("postgresql://production.example.com/x")

@jobs.job("double")
async def double(number: int) -> int:
    return 2 * number
"""

CONFTEST = """
import pytest
from app import jobs as app
from asyncjobs.testing import override

@pytest.fixture
def jobs(asyncjobs_dsn):
    with override(app, dsn=asyncjobs_dsn) as jobs:
        yield jobs
"""

FLOW = """
import pytest
from app import double
from asyncjobs.testing import assert_enqueued, perform, refute_enqueued, run_until_idle

{mark}
@pytest.mark.parametrize("number", [1, 2])
async def test_flow(jobs, number):
    assert await perform(double.new(number)) == 2 * number
    async with jobs:
        await refute_enqueued(jobs, double)
        await double.enqueue(number)
        assert [job.result for job in await run_until_idle(jobs)] == [2 * number]
        await assert_enqueued(jobs, double, {{"number": number}}, count=1)

def test_plain(asyncjobs_dsn):
    assert asyncjobs_dsn.startswith("postgresql://")
"""

ANYIO = """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

UNITTEST = """
import sys
import unittest
from app import double, jobs
from asyncjobs.testing import assert_enqueued, databases, override, perform, run_until_idle, server

class TestFlow(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.databases = cls.enterClassContext(databases(cls.enterClassContext(server())))

    def setUp(self):
        self.enterContext(override(jobs, dsn=self.enterContext(self.databases.fresh())))

    async def test_flow(self):
        async with jobs:
            await double.enqueue(4)
            self.assertEqual([job.result for job in await run_until_idle(jobs)], [8])
            await assert_enqueued(jobs, double, count=1)

    async def test_fresh(self):
        self.assertEqual(await run_until_idle(jobs), [])
        self.assertEqual(await perform(double.new(1)), 2)

if __name__ == "__main__":
    unittest.main(exit=False)
    print("pytest" if "pytest" in sys.modules else "without pytest")
"""


def run(folder: Path, *command: str, server_dsn: str | None) -> subprocess.CompletedProcess[str]:
    environment = with_plugin(os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"})
    environment.pop("ASYNCJOBS_TEST_DSN", None)
    if server_dsn is not None:
        environment["ASYNCJOBS_TEST_DSN"] = server_dsn
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def write(folder: Path, mode: str = "auto", **files: str) -> None:
    settings = f"asyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    (folder / "pytest.ini").write_text("[pytest]\n" + settings, encoding="utf-8")
    for name, text in {"app": APP, "conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("mode", ["auto", "strict"])
async def test_under_pytest_asyncio(mode: str, tmp_path: Path, server_dsn: str) -> None:
    write(tmp_path, mode, test_flow=FLOW.format(mark="@pytest.mark.asyncio" if mode == "strict" else ""))
    before = await marks_on(server_dsn)
    done = await asyncio.to_thread(run, tmp_path, "-m", "pytest", "-q", server_dsn=server_dsn)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert await marks_on(server_dsn) <= before, "a database was left behind"


def test_under_anyio(tmp_path: Path, server_dsn: str) -> None:
    write(tmp_path, conftest=CONFTEST + ANYIO, test_flow=FLOW.format(mark="@pytest.mark.anyio"))
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:asyncio", "-c", os.devnull, server_dsn=server_dsn)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_without_pytest_and_on_a_server_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, flow=UNITTEST)
    done = run(tmp_path, "flow.py", server_dsn=None)
    assert (done.returncode, done.stdout.strip()) == (0, "without pytest"), done.stderr
    assert "Ran 2 tests" in done.stderr
    assert "OK" in done.stderr


def test_starts_no_server_before_a_test_asks(tmp_path: Path) -> None:
    write(tmp_path, test_plain="def test_plain(): pass\n")
    done = run(tmp_path, "-m", "pytest", "-q", "--setup-show", server_dsn="postgresql://nowhere.example.com/x")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_an_app_with_another_schema_overrides_one_fixture(tmp_path: Path, server_dsn: str) -> None:
    schema = "import pytest\n\n@pytest.fixture(scope='session')\ndef asyncjobs_schema():\n    return 'my jobs'\n"
    flow = (
        "from asyncjobs import AsyncJobs\n\nasync def test_it(asyncjobs_dsn):\n"
        "    async with AsyncJobs(asyncjobs_dsn, schema='my jobs') as jobs:\n        assert jobs.health().is_open\n"
    )
    write(tmp_path, conftest=schema, test_flow=flow)
    done = run(tmp_path, "-m", "pytest", "-q", server_dsn=server_dsn)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


async def marks_on(server_dsn: str) -> set[str]:
    """Of which sessions there are databases."""
    connection = await asyncpg.connect(server_dsn)
    rows = await connection.fetch(
        "SELECT DISTINCT left(datname, 23) AS mark FROM pg_database WHERE datname LIKE 'asyncjobs_test_%'"
    )
    await connection.close()
    return {row["mark"] for row in rows}
