"""The pages of the documents, their fenced blocks, and a session that runs the blocks of one page as a reader would.

README.md and everything under docs/ are pages (`PAGES`), so a page that is added is run without being named anywhere.
"""

import ast
import asyncio
import inspect
import io
import re
import unittest
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import asyncpg
import msgspec
import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: What is run elsewhere, on data of its own: the file and the chapter (None: all of it).
ELSEWHERE: Final = {"docs/operations.md": "Run book", "docs/coming-from.md": None}  # test_runbook.py, test_coming_from.py


class Block(msgspec.Struct, frozen=True):
    """A fenced block: its language, its text, where its first line stands, and the name of the file that the page makes of it."""

    page: str
    language: str
    text: str
    line: int
    file: str | None

    @property
    def printed(self) -> list[str]:
        """The lines that it says it prints: `print(…)  # → text`."""
        return re.findall(r"# → (.+)$", self.text, re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def chapter(name: str, title: str) -> str:
    """A chapter of the page, up to the next one of its level."""
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text_of(name), re.MULTILINE | re.DOTALL)
    return str(found)


def blocks(name: str, *languages: str) -> list[Block]:
    """The fenced blocks of a page in their order; of these languages, or all."""
    text = text_of(name)
    if name in ELSEWHERE:
        left_out = ELSEWHERE[name]
        pattern = ".*" if left_out is None else rf"^## {left_out}\n.*?(?=^## |\Z)"
        text = re.sub(pattern, lambda found: "\n" * found[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    return [block for block in _blocks(name, text) if not languages or block.language in languages]


def _blocks(name: str, text: str) -> Iterator[Block]:
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[: match.start()]
        named = re.search(r"`([\w./-]+)`:\s*\Z", before)
        yield Block(name, match[1], match[2], before.count("\n") + 2, named[1] if named else None)


def write_file(page: str, name: str, folder: Path) -> None:
    """The file of this name, as the page makes it, into the folder."""
    (block,) = [block for block in blocks(page) if block.file == name]
    (folder / name).write_text(block.text, encoding="utf-8")


class Session:
    """The namespace of a page: its blocks run in it one after another.

    A block that awaits runs while the `jobs` declared so far are open and run, which is what the pages say of such snippets; so
    do statements of SQL. Functions named `test_…` and test cases are called.
    """

    def __init__(self, module: ModuleType, dsn: str) -> None:
        self._names = module.__dict__
        self._dsn = dsn

    def run(self, block: Block) -> list[str]:
        """Run the block; the lines that it printed."""
        try:
            return self._sql(block) if block.language == "sql" else self._python(block)
        except BaseException as error:
            error.add_note(f"in the block at {block.page}:{block.line}")
            raise

    def _python(self, block: Block) -> list[str]:
        known = set(self._names)
        tree = ast.parse("\n" * (block.line - 1) + block.text)
        code = compile(tree, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as printed:
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(self._opened(block, code))
            else:
                exec(code, self._names)
            for name in sorted(self._names.keys() - known):
                self._test(name, self._names[name])
        return printed.getvalue().splitlines()

    def _test(self, name: str, value: Any) -> None:
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            tests = unittest.defaultTestLoader.loadTestsFromTestCase(value)
            assert unittest.TextTestRunner(stream=io.StringIO()).run(tests).wasSuccessful(), name
        elif name.startswith("test_") and (test := value()) is not None:
            asyncio.run(test)

    async def _opened(self, block: Block, code: Any) -> None:
        """Run it while the app is open, unless it opens the app itself, or makes it."""
        opens_it = "jobs.runner()" in block.text or "jobs" not in self._names
        async with nullcontext() if opens_it else self._names["jobs"].runner():
            await eval(code, self._names)

    def _sql(self, block: Block) -> list[str]:
        asyncio.run(self._statements(block.text))
        return []

    async def _statements(self, text: str) -> None:
        error = re.search(r"^-- ERROR:  (.*)$", text, re.MULTILINE)
        hint = re.search(r"^-- HINT:  (.*)$", text, re.MULTILINE)
        async with self._names["jobs"].runner():
            if error is None:
                await execute(self._dsn, text)
                return
            with pytest.raises(asyncpg.PostgresError) as refused:
                await execute(self._dsn, text)
            assert (refused.value.message, refused.value.hint) == (error[1], hint and hint[1])


async def execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
