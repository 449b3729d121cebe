"""`asyncjobs doctor`: what it prints, and how it ends."""

import pytest

from asyncjobs.cli import failures
from asyncjobs.model.symptom import Symptom
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.factories import insert_job, insert_runner


async def test_the_exit_code_is_that_of_the_worst(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warning, critical, info = (Symptom(severity, "it", "seen", "do") for severity in ("warning", "critical", "info"))
    for found, code in (([], 0), ([info], 0), ([info, warning], failures.WARNED), ([critical, warning], failures.ALARMED)):
        monkeypatch.setattr("asyncjobs.admin.doctor.diagnose", lambda *_, found=found, **__: found)
        said = await cli("doctor", "--json", dsn=dsn)
        assert (said.code, [one["what"] for one in said.data]) == (code, ["it"] * len(found))


async def test_findings_are_a_table_with_evidence_and_remedy(dsn: str, connection: Connection) -> None:
    await connection.execute("DROP INDEX asyncjobs.jobs_due")
    await insert_runner(connection)
    await insert_job(connection, type="nobodys")
    said = await cli("doctor", dsn=dsn)
    assert said.code == failures.ALARMED
    head, _, first, *others = said.out.splitlines()
    assert head.split() == ["severity", "what", "evidence", "remedy"]
    assert first.startswith("critical")
    assert "jobs_due" in first
    assert "`asyncjobs migrate --sql`" in first
    (undeclared,) = [line for line in others if "1 of nobodys in default" in line]
    assert "start the program that has its handler" in undeclared


async def test_where_nothing_is_wrong_it_says_so(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncjobs.admin.doctor.diagnose", lambda *_, **__: [])
    assert (await cli("doctor", dsn=dsn)).out == "nothing is wrong\n"


async def test_a_schema_that_no_other_verb_opens_is_diagnosed(empty_dsn: str) -> None:
    said = await cli("doctor", dsn=empty_dsn)
    assert (said.code, "there is no schema" in said.out) == (failures.ALARMED, True)


async def test_a_database_that_is_away_is_one_line() -> None:
    said = await cli("doctor", dsn="postgresql://nobody:secret@127.0.0.1:1/x")
    assert said.code == failures.NO_DATABASE
    assert said.err.startswith("asyncjobs: the database cannot be reached: ")
    assert (len(said.err.splitlines()), "secret" in said.err) == (1, False)
