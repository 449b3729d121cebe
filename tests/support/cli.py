"""The command line in the test's process: what it said, and how it ended."""

import asyncio
import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

import msgspec

from asyncjobs.cli.program import run


class Said(msgspec.Struct, frozen=True):
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it answered with `--json`."""
        return json.loads(self.out)


class Keyboard(io.StringIO):
    """A person at a terminal, who types this."""

    def isatty(self) -> bool:
        return True


def call(*words: str, env: Mapping[str, str] | None = None, stdin: io.StringIO | None = None) -> Said:
    """Run `asyncjobs` on these words."""
    out, err = io.StringIO(), io.StringIO()
    environment = {"COLUMNS": "100", **(env or {})}
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.dict("os.environ", environment),
        mock.patch("sys.stdin", stdin or io.StringIO()),
    ):
        code = run([str(word) for word in words])
    return Said(code, out.getvalue(), err.getvalue())


async def cli(*words: object, dsn: str | None = None, stdin: io.StringIO | None = None, **env: str) -> Said:
    """Run `asyncjobs` on these words, on the database of this DSN, in a thread: it has a loop of its own."""
    where = {"ASYNCJOBS_APP": "", "ASYNCJOBS_DSN": dsn or "", **env}
    return await asyncio.to_thread(lambda: call(*map(str, words), env=where, stdin=stdin))
