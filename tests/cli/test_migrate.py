"""`asyncjobs migrate`, and `stats` on what it made."""

import asyncpg
import pytest

from asyncjobs.cli import failures
from asyncjobs.store import migrate
from asyncjobs.store.database import Connection, Database
from tests.support.cli import cli
from tests.support.factories import insert_job, insert_runner


async def test_a_schema_is_planned_made_and_current(empty_dsn: str) -> None:
    names = [one.name for one in migrate.known()]
    missing = await cli("stats", dsn=empty_dsn)
    assert missing.code == failures.NO_DATABASE
    assert "run `asyncjobs migrate` with the same --app or --dsn" in missing.err
    assert (await cli("migrate", "--plan", "--json", dsn=empty_dsn)).data == [*names, "routines"]
    assert (await cli("migrate", dsn=empty_dsn)).out.splitlines() == [f"applied {name}" for name in [*names, "routines"]]
    assert (await cli("migrate", dsn=empty_dsn)).out == "nothing to apply\n"
    status = await cli("migrate", "--status", "--json", dsn=empty_dsn)
    assert (status.data["applied"], status.data["pending"]) == (names, [])
    assert (await cli("migrate", "--plan", "--status", dsn=empty_dsn)).code == failures.BAD_INPUT


async def test_the_script_makes_the_same_schema(empty_dsn: str) -> None:
    said = await cli("migrate", "--sql", "--schema", "other")
    connection = await asyncpg.connect(empty_dsn)
    try:
        await connection.execute(said.out)
    finally:
        await connection.close()
    assert (await migrate.status(Database(empty_dsn, schema="other"))).pending == []
    assert (await cli("stats", "--schema", "other", dsn=empty_dsn)).code == 0


@pytest.mark.unaudited("a runner that does not exist runs a job")
async def test_stats_shows_counts_lanes_and_what_nobody_serves(dsn: str, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    await insert_job(connection, status="processing")
    await insert_job(connection, type="report")
    said = await cli("stats", dsn=dsn)
    assert said.code == 0
    lines = [line.split() for line in said.out.splitlines()]
    assert ["pending", "1"] in lines
    report = next(line for line in lines if line[:2] == ["default", "report"])
    assert (report[2], report[-1]) == ("pending", "1")
    data = (await cli("stats", "--json", dsn=dsn)).data
    assert data["processing"] == 1
    assert {one["type"]: one["unserved"] for one in data["counts"]} == {"email": 0, "report": 1}


async def test_top_looks_as_often_as_it_is_told(dsn: str, connection: Connection) -> None:
    await insert_job(connection, type="report")
    said = await cli("top", "--times", "2", "--every", "0", dsn=dsn)
    assert (said.code, said.out.count("pending 1 (oldest")) == (0, 2)
    assert "report" in said.out
    data = (await cli("top", "--times", "1", "--json", dsn=dsn)).data
    assert [(one["type"], one["count"]) for one in data["depths"]] == [("report", 1)]
