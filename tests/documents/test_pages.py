"""The pages tell the truth: each is run as it is printed, by itself and in order.

README.md and every page of docs/ in turn: its Python and its SQL, on a schema of its own. Files that a page makes (`app.py`:) are
written where its later blocks can import them; test_programs.py runs them by their commands.
"""

import asyncio
import sys
from pathlib import Path
from types import ModuleType

import django.db
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.embedded import Server
from tests.support.doors import django_alias, django_takes
from tests.support.pages import PAGES, Session, blocks, execute, name_of

NAMES = [name_of(page) for page in PAGES]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("page", [name for name in NAMES if blocks(name, "python", "sql")])
def test_a_page_runs_as_printed(page: str, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.syspath_prepend(str(tmp_path))
    # What stands for the reader's own: a database with a table.
    url = server.dsn.replace("postgresql://", "postgresql+{}://")
    names = {"database_dsn": server.dsn, "database_url": url.format("asyncpg"), "sync_database_url": url.format("psycopg")}
    module.__dict__.update(names)
    django_alias(server.dsn, "default")
    asyncio.run(execute(server.dsn, "DROP SCHEMA IF EXISTS asyncjobs CASCADE; DROP TABLE IF EXISTS bookings, orders"))
    asyncio.run(execute(server.dsn, "CREATE TABLE bookings (cents integer NOT NULL)"))
    asyncio.run(AsyncJobs(server.dsn).migrate())
    session = Session(module, server.dsn)
    before = set(sys.modules)
    try:
        for block in blocks(page, "python", "sql"):
            if block.file is not None:
                (tmp_path / block.file).parent.mkdir(exist_ok=True)
                (tmp_path / block.file).write_text(block.text, encoding="utf-8")
                continue  # a program of its own: run by its command
            if "from django." in block.text and not django_takes(server.dsn):
                continue
            printed = session.run(block)
            assert block.printed == [line for line in printed if line in block.printed], block
    finally:
        django.db.connections.close_all()
        for name in set(sys.modules) - before:
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


#: What is run: here, or by test_programs.py. A block of another language would be run by nothing; `text` is a picture.
LANGUAGES = {"python", "sql", "sh", "text"}

#: Only as files of the shop: test_tutorial.py.
OF_FILES = {"dockerfile", "yaml"}


def test_each_block_is_of_a_language_that_is_run() -> None:
    every = [block for name in NAMES for block in blocks(name)]
    assert {
        (block.page, block.language) for block in every if block.language not in (LANGUAGES | (OF_FILES if block.file else set()))
    } == set()


def test_each_block_is_closed() -> None:
    odd = [name_of(page) for page in PAGES if page.read_text(encoding="utf-8").count("```") % 2]
    assert odd == []
