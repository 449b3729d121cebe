"""What no program can read, in every column: it stands in lists and on pages as unreadable, and breaks none."""

import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs, ResultUnavailable, StateError
from asyncjobs.dashboard import Dashboard
from asyncjobs.store.database import Connection
from tests.support.browser import Browser
from tests.support.cli import cli
from tests.support.factories import insert, insert_job
from tests.support.full_database import fill, fill_workflows_and_limits
from tests.support.shapes import WORDS

pytestmark = pytest.mark.unaudited("rows of strangers")

HUGE, DEEP, BIG = "9" * 5000, "[" * 2000 + "]" * 2000, "9" * 400 + ".5"
BAD = {"an integer of 5,000 digits": HUGE, "2,000 levels": DEEP, "a float beyond all": BIG, "no list of errors": '[1, "x", null]'}
#: Verbs that look, of those that answer.
LOOKS = [words for words in WORDS if words.split()[0] in {"stats", "top", "queues", "runners", "leases", "pauses"}
         or (words.split()[1:2] and words.split()[1] in {"list", "show", "explain", "largest", "trace"})]  # fmt: skip
PATHS = [
    "/", "/jobs", "/jobs/largest", "/keys", "/key?key=customer%207", "/dead", "/dead?acknowledged=all", "/queues", "/schedules",
    "/runners", "/breakers", "/trace?id=checkout-7", *(f"/jobs/{n}" for n in range(11, 18)), "/dead/1", "/dead/2",
]  # fmt: skip


async def spoil(connection: Connection, value: str) -> None:
    """Write it wherever JSON stands, and times beyond all into every column of times."""
    wrapped = f'{{"x": {value}}}'
    await fill(connection)
    await fill_workflows_and_limits(connection)
    await insert(connection, "schedules", name="nightly", definition=json.dumps({
        "job": {"type": "email", "queue": "default", "payload": "@"}, "timing": {"timezone": "UTC", "cron": "0 3 * * *"},
        "misfire": "latest", "overlap": "allow"}).replace('"@"', value))  # fmt: skip
    await connection.execute(
        f"UPDATE asyncjobs.jobs SET payload = '{wrapped}', result = '{value}', progress = '{wrapped}', errors = '{value}'"
    )
    await connection.execute("UPDATE asyncjobs.jobs SET trace_context = '{\"x\": 1'")
    await connection.execute(
        f"UPDATE asyncjobs.dead_letter_jobs SET original_job = CASE WHEN id = 1 THEN '{wrapped}' ELSE"
        f" original_job || jsonb_build_object('payload', '{value}'::jsonb, 'attempts', 'many', 'created_at', 'never') END,"
        f" error_details = jsonb_build_object('attempts', '{value}'::jsonb, 'errors', '{value}'::jsonb)"
    )
    await connection.execute(
        f"UPDATE asyncjobs.background_job_leases SET held_by_worker_id = 'nobody',"
        f" metadata = jsonb_build_object('last_run', 'never', 'last_pass_at', '{value}'::jsonb,"
        f" 'items', '{value}'::jsonb, 'errors', 'x', 'duration', '{value}'::jsonb)"
    )
    await connection.execute(f"UPDATE asyncjobs.runners SET versions = '{wrapped}'")
    await connection.execute("INSERT INTO asyncjobs.pauses (kind, name, paused_at) VALUES ('queue', 'late', '294276-12-31')")
    for table, column in await connection.fetch(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'asyncjobs'"
        " AND data_type LIKE 'timestamp%'"
        " AND table_name IN ('jobs', 'serialized_jobs', 'dead_letter_jobs', 'runners', 'schedules', 'circuit_breakers',"
        " 'background_job_leases')"
    ):
        for instant in ("294276-12-31 23:59:59+00", "-infinity"):
            await connection.execute(f"UPDATE asyncjobs.{table} SET {column} = '{instant}' WHERE {column} IS NOT NULL")


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
async def test_no_verb_that_looks_breaks_for_it(dsn: str, connection: Connection, tmp_path: Path, value: str) -> None:
    await spoil(connection, value)
    broken: list[str] = []
    for words in LOOKS:
        for more in ([], ["--json"]):
            said = await cli(*shlex.split(words), *more, dsn=dsn)
            if said.code not in {0, 6} or "Traceback" in said.err:
                broken.append(f"{said.code} {words}: {said.err[-300:]}")
    assert broken == []


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
async def test_no_page_breaks_for_it(dsn: str, connection: Connection, value: str) -> None:
    await spoil(connection, value)
    async with AsyncJobs(dsn) as jobs, Browser(Dashboard(jobs, auth=lambda request: "ada")) as browser:
        statuses = {path: (await browser.get(path)).status for path in PATHS}
        assert {path: status for path, status in statuses.items() if status != 200} == {}
        assert "Unreadable:" in (await browser.get("/jobs/14")).text
        assert "Unreadable:" in (await browser.get("/dead/1")).text


async def test_job_names_what_cannot_be_read_and_the_others_of_the_list_are_whole(dsn: str, connection: Connection) -> None:
    good = await insert_job(connection, payload='{"to": "ada"}')
    bad = await insert_job(
        connection, status="completed", payload=f'{{"x": {HUGE}}}', result=HUGE, errors="[1]", progress=f'{{"x": {DEEP}}}'
    )
    async with AsyncJobs(dsn) as jobs:
        found = {job.id: job for job in (await jobs.admin.find()).jobs}
        assert (found[good].payload, found[good].unreadable) == ({"to": "ada"}, [])
        assert found[bad].unreadable == ["payload", "errors", "result", "progress"]
        assert (found[bad].payload, found[bad].errors, found[bad].result, found[bad].progress) == ({}, [], None, None)
        with pytest.raises(ResultUnavailable, match="cannot be read"):
            await jobs.handle(bad).result(timeout=5)


async def test_download_of_what_cannot_be_read_says_so(dsn: str, connection: Connection) -> None:
    bad = await insert_job(connection, payload=f'{{"x": {HUGE}}}')
    async with AsyncJobs(dsn) as jobs, Browser(Dashboard(jobs, auth=lambda request: "ada")) as browser:
        page = await browser.get(f"/jobs/{bad}/data.json")
        assert (page.status, "cannot be read" in page.text) == (400, True)


#: Records of dead letters that no job can be made of: by a stranger's hand.
RECORDS = {
    "a duration that is none": 'original_job || \'{"timeout": "never"}\'',
    "attempts beyond all": "original_job || '{\"max_attempts\": 99999999999}'",
    "no type": "original_job - 'type'",
    "a priority that no job may have": "original_job || '{\"priority\": 2000000}'",
    "nothing of a job": "'{}'",
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
async def test_dead_letter_that_no_job_can_be_made_of_keeps_no_other_from_being_requeued(
    dsn: str, connection: Connection, record: str
) -> None:
    async with AsyncJobs(dsn) as jobs:
        for number in range(5):
            job_id = await insert_job(connection, payload=f'{{"to": "{number}"}}')
            await jobs.admin.kill(job_id)
        [*_, third, _, _] = found = (await jobs.admin.dead_letters()).dead_letters
        await connection.execute(f"UPDATE asyncjobs.dead_letter_jobs SET original_job = {record} WHERE id = $1", third.id)
        done = await jobs.admin.requeue_all(by="ada")
        assert done.outcomes == {"requeued": 4, "unreadable": 1}
        made = await connection.fetch("SELECT payload ->> 'to' FROM asyncjobs.jobs WHERE requeued_from IS NOT NULL ORDER BY id")
        assert [to for (to,) in made] == [str(n) for n in range(5) if found[4 - n].id != third.id]
        assert not (await jobs.admin.dead_letter(third.id)).dead_letter.acknowledged
        with pytest.raises(StateError, match=f"dead letter {third.id} cannot be requeued.*`original_job`"):
            await jobs.admin.requeue(third.id, by="ada")


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
async def test_no_verb_on_many_breaks_for_it(dsn: str, connection: Connection, value: str) -> None:
    await spoil(connection, value)
    broken: dict[str, str] = {}
    async with AsyncJobs(dsn) as jobs:
        admin = jobs.admin
        verbs: dict[str, Callable[[], Awaitable[object]]] = {
            "fail_all": lambda: admin.fail_all(will_retry=True, status="processing"),
            "retry_all": lambda: admin.retry_all(type="email"),
            "retry_dead": lambda: admin.retry_dead(type="email"),
            "cancel_all": lambda: admin.cancel_all(type="email"),
            "kill_all": lambda: admin.kill_all(queue="default"),
            "requeue_all": lambda: admin.requeue_all(by="ada", acknowledged=None, force=True),
            "acknowledge_all": lambda: admin.acknowledge_all(by="ada"),
            "release_key": lambda: admin.release_key("customer 7"),
            "purge_key": lambda: admin.purge_key("customer 7"),
        }
        for name, verb in verbs.items():
            try:
                await verb()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told below
                broken[name] = f"{type(error).__name__}: {error}"
    assert broken == {}
