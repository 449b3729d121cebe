"""The run book of docs/operations.md: each procedure's commands, Python and SQL work as printed, and find what they are for.

Every block gets the same data anew: something of everything that can be the matter.
"""

import ast
import inspect
import io
import re
import shlex
from contextlib import redirect_stdout
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.cli.failures import ALARMED
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.full_database import fill
from tests.support.pages import chapter

CHAPTER = chapter("docs/operations.md", "Run book")
PROCEDURES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", CHAPTER, re.MULTILINE | re.DOTALL))


def blocks(procedure: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PROCEDURES[procedure], re.MULTILINE | re.DOTALL)


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await fill(connection)
    return connection


def test_the_chapter_has_its_procedures_in_three_ways() -> None:
    assert len(PROCEDURES) == 12
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
            # (The doctor's code says that there are findings, and there are.)
            expected = ALARMED if words == ["doctor"] else 0
            assert (said.code, bool(said.out.strip())) == (expected, True), f"{line}: {said}"
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
    code: Any = compile(block, "operations.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert code.co_flags & inspect.CO_COROUTINE
    with redirect_stdout(io.StringIO()) as printed:
        async with jobs:
            await eval(code, {"jobs": jobs})
    return printed.getvalue()
