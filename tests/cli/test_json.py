"""`--json`: every verb answers with one document, whose fields were reviewed: programs rely on them."""

import shlex
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.cli.program import program
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.factories import insert
from tests.support.full_database import fill, fill_workflows_and_limits
from tests.support.shapes import OTHERS, WORDS, shape, verbs

GOLDEN = Path(__file__).parent / "json.txt"
APP = """
from asyncjobs import AsyncJobs
jobs = AsyncJobs()

@jobs.job("email")
async def email(to: str) -> None: ...
"""


@pytest.fixture
async def filled(dsn: str, connection: Connection) -> None:
    """Something of everything, a schedule too."""
    jobs = AsyncJobs(dsn)

    @jobs.cron("nightly", "0 3 * * *")
    async def nightly() -> None: ...

    async with jobs.runner():
        definition = await connection.fetchval("SELECT definition FROM asyncjobs.schedules")
    await fill(connection)
    await insert(connection, "schedules", name="nightly", definition=definition)
    await fill_workflows_and_limits(connection)


@pytest.mark.unaudited("rows of runners that do not exist")
@pytest.mark.usefixtures("filled")
async def test_the_fields_of_every_document_are_those_that_were_reviewed(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "app_for_json.py").write_text(APP, encoding="utf-8")
    lines: list[str] = []
    for words in WORDS:
        said = await cli(*shlex.split(words), "--json", dsn=dsn, ASYNCJOBS_APP="app_for_json:jobs")
        assert said.out, f"{words}: {said}"
        lines.append(f"{said.code} {words}\n    {shape(said.data)}\n")
    (tmp_path / "json.txt").write_text("".join(lines), encoding="utf-8")
    assert "".join(lines) == GOLDEN.read_text(encoding="utf-8"), f"if it is meant: cp {tmp_path / 'json.txt'} {GOLDEN}"


def test_every_verb_is_among_them() -> None:
    said = {" ".join(word for word in shlex.split(words)[:2] if word[0].isalpha()) for words in WORDS}
    missing = [words for words in verbs(program) if not any(one == words or one.startswith(words + " ") for one in said)]
    assert set(missing) <= OTHERS


@pytest.mark.parametrize(
    "words", ["jobs list", "keys list", "dead list", "queues", "runners", "schedules list", "breakers list", "limits list"]
)
async def test_a_list_of_nothing_is_an_empty_document(dsn: str, words: str) -> None:
    said = await cli(*words.split(), "--json", dsn=dsn)
    assert (said.code, said.data) == (0, [])
