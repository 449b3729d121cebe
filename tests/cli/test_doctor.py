"""`asyncjobs doctor` on real databases: healthy, and with something broken."""

import pytest

from asyncjobs.cli import failures
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.doctoring import expected_indexes
from tests.support.cli import cli
from tests.support.factories import insert_job, insert_runner

#: What depends on the machine that runs the tests, and not on the database of the test.
_OF_THE_MACHINE = {"clocks differ", "connections run out"}


async def found(dsn: str) -> dict[str, str]:
    said = await cli("doctor", "--json", dsn=dsn)
    worst = {one["severity"] for one in said.data}
    assert said.code == (failures.ALARMED if "critical" in worst else failures.WARNED if "warning" in worst else 0)
    return {one["what"]: one["severity"] for one in said.data if one["what"] not in _OF_THE_MACHINE}


async def test_a_new_schema_is_healthy(dsn: str) -> None:
    assert {what: severity for what, severity in (await found(dsn)).items() if what != "autovacuum is off"} == {}


@pytest.mark.unaudited("an index is missing, and runners do not exist")
async def test_a_broken_one_is_told_with_evidence(dsn: str, connection: Connection) -> None:
    await connection.execute("DROP INDEX asyncjobs.jobs_due")
    await insert_job(connection, type="nobodys")
    symptoms = await found(dsn)
    assert symptoms["an index is missing"] == "critical"
    assert symptoms["no runner lives"] == "critical"
    long_ago = await connection.fetchval("SELECT now() - interval '1 hour'")
    await insert_runner(connection, beat_at=long_ago)
    symptoms = await found(dsn)
    assert symptoms["a runner is silent"] == "warning"
    assert symptoms["jobs that nobody would run wait"] == "warning"
    said = await cli("doctor", dsn=dsn)
    assert said.out.splitlines()[0].split() == ["severity", "what", "evidence", "remedy"]
    assert "jobs_due" in said.out


async def test_every_index_of_the_migrations_is_known(database: Database) -> None:
    assert {"jobs_claim", "serialized_jobs_head", "jobs_ended"} <= expected_indexes(database)
