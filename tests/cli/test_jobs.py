"""`asyncjobs jobs` and `asyncjobs dead`: look, end, repeat; one by one or all that fit."""

import json
from typing import Any

import pytest

from asyncjobs.cli import failures
from asyncjobs.store.database import Connection
from tests.support.cli import Keyboard, cli
from tests.support.factories import insert_job


async def status_of(connection: Connection, job_id: int) -> str:
    return str(await connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", job_id))


async def a_dead_job(connection: Connection, **columns: Any) -> tuple[int, int]:
    """A dead job and its dead letter."""
    job_id = await insert_job(connection, status="dead", error_message="ValueError: no", attempts=3, **columns)
    await connection.execute("SELECT asyncjobs.bury(ARRAY[$1::bigint])", job_id)
    dead_letter_id = await connection.fetchval("SELECT id FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", job_id)
    return job_id, int(dead_letter_id)


async def test_jobs_are_listed_by_filter(dsn: str, connection: Connection) -> None:
    pending = await insert_job(connection, type="email")
    await insert_job(connection, type="report", status="completed")
    said = await cli("jobs", "list", "--type", "email", dsn=dsn)
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["id", "type", "status", "queue", "attempts", "due", "key", "error"]
    assert said.out.splitlines()[2].split()[:5] == [str(pending), "email", "pending", "default", "0/3"]
    assert len(said.out.splitlines()) == 3
    assert [job["id"] for job in (await cli("jobs", "list", "--status", "pending", "--json", dsn=dsn)).data] == [pending]


async def test_a_filter_that_nothing_fits_is_code_3(dsn: str) -> None:
    said = await cli("jobs", "list", "--type", "emial", dsn=dsn)
    assert (said.code, said.err) == (failures.NOT_FOUND, "asyncjobs: no job fits the filter.\n")
    nothing = await cli("jobs", "list", dsn=dsn)
    assert (nothing.code, nothing.err) == (0, "asyncjobs: there are no jobs.\n")


async def test_a_payload_filter_that_is_no_json_is_bad_input(dsn: str) -> None:
    said = await cli("jobs", "list", "--payload", "[1", dsn=dsn)
    assert said.code == failures.BAD_INPUT
    assert said.err.startswith("asyncjobs: --payload is no JSON object")


async def test_one_job_is_shown_and_explained(dsn: str, connection: Connection) -> None:
    job_id = await insert_job(connection, payload=json.dumps({"to": "\x1b]0;evil\x07", "n": 1}))
    said = await cli("jobs", "show", job_id, dsn=dsn)
    assert said.code == 0
    assert "\x1b" not in said.out
    assert "evil" in said.out
    assert (await cli("jobs", "show", job_id, "--json", dsn=dsn)).data["payload"]["n"] == 1
    why = await cli("jobs", "explain", job_id, dsn=dsn)
    assert why.out == f"Job {job_id} (email): no runner lives.\n"
    assert (await cli("jobs", "explain", job_id, "--json", dsn=dsn)).data["reason"] == "no runner"


async def test_unknown_ids_are_code_3(dsn: str) -> None:
    for words in (
        ["jobs", "show"],
        ["jobs", "explain"],
        ["jobs", "cancel"],
        ["jobs", "retry"],
        ["dead", "show"],
        ["dead", "ack"],
    ):
        said = await cli(*words, 999, dsn=dsn)
        assert (said.code, said.err.startswith("asyncjobs: there is no ")) == (failures.NOT_FOUND, True), words


async def test_jobs_are_cancelled_and_retried_by_id(dsn: str, connection: Connection) -> None:
    first, second = [await insert_job(connection) for _ in range(2)]
    said = await cli("jobs", "cancel", first, second, "--message", "not needed", dsn=dsn)
    assert said.out.splitlines() == [f"job {first}: cancelled (was pending)", f"job {second}: cancelled (was pending)"]
    again = await cli("jobs", "cancel", first, dsn=dsn)
    assert (again.code, again.out) == (failures.NOT_DONE, f"job {first} was left as it is: cancelled\n")
    assert (await cli("jobs", "retry", first, dsn=dsn)).out == f"job {first}: retried (was cancelled)\n"
    assert await status_of(connection, first) == "pending"


async def test_known_ids_are_done_although_others_are_unknown(dsn: str, connection: Connection) -> None:
    job_id = await insert_job(connection)
    said = await cli("jobs", "cancel", 998, job_id, 999, dsn=dsn)
    assert said.code == failures.NOT_FOUND
    assert "998" in said.err
    assert "999" in said.err
    assert await status_of(connection, job_id) == "cancelled"


@pytest.mark.parametrize("words", [[], [1, "--type", "email"], [1, "--dry-run"]])
async def test_which_jobs_are_meant_is_to_be_clear(dsn: str, words: list[object]) -> None:
    said = await cli("jobs", "cancel", *words, dsn=dsn)
    assert said.code == failures.BAD_INPUT


async def test_all_that_fit_are_confirmed_at_a_terminal(dsn: str, connection: Connection) -> None:
    job_id = await insert_job(connection)
    no = await cli("jobs", "cancel", "--type", "email", dsn=dsn, stdin=Keyboard("n\n"))
    assert no.code == failures.INTERRUPTED
    assert await status_of(connection, job_id) == "pending"
    yes = await cli("jobs", "cancel", "--type", "email", dsn=dsn, stdin=Keyboard("y\n"))
    assert (yes.code, yes.out) == (0, "1 cancelled\n")
    assert "this would cancel jobs: 1 (1 cancelled). Go on?" in no.err


async def test_a_confirmation_asked_of_a_pipe_is_refused(dsn: str, connection: Connection) -> None:
    job_id = await insert_job(connection)
    said = await cli("jobs", "cancel", "--type", "email", dsn=dsn)
    assert said.code == failures.BAD_INPUT
    assert said.err.endswith("nobody is at a terminal to confirm it. Say --yes (or --dry-run to look first).\n")
    assert await status_of(connection, job_id) == "pending"
    assert (await cli("jobs", "cancel", "--type", "email", "--yes", dsn=dsn)).code == 0


async def test_a_dry_run_changes_nothing(dsn: str, connection: Connection) -> None:
    job_id = await insert_job(connection)
    said = await cli("jobs", "kill", "--type", "email", "--dry-run", dsn=dsn)
    assert (said.code, said.out) == (0, "would kill jobs: 1: 1 dead\n")
    assert (await cli("jobs", "kill", "--type", "email", "--dry-run", "--json", dsn=dsn)).data["outcomes"] == {"dead": 1}
    assert await status_of(connection, job_id) == "pending"
    nothing = await cli("jobs", "kill", "--type", "nope", "--dry-run", dsn=dsn)
    assert nothing.code == failures.NOT_FOUND


async def test_one_user_action_is_a_tree(dsn: str, connection: Connection) -> None:
    parent = await insert_job(connection, type="order", correlation_id="x")
    child = await insert_job(connection, type="pack", correlation_id="x", parent_job_id=parent)
    said = await cli("jobs", "trace", "x", dsn=dsn)
    assert said.out.splitlines() == [f"{parent} order pending", f"  {child} pack pending"]
    assert (await cli("jobs", "trace", "y", dsn=dsn)).code == failures.NOT_FOUND


async def test_dead_letters_are_listed_shown_requeued_and_acknowledged(dsn: str, connection: Connection) -> None:
    job_id, dead_letter_id = await a_dead_job(connection, payload='{"to": "ada"}')
    listed = await cli("dead", "list", "--unacknowledged", dsn=dsn)
    assert listed.out.splitlines()[2].split()[:4] == [str(dead_letter_id), str(job_id), "email", "default"]
    assert '{"to":"ada"}' in (await cli("dead", "show", dead_letter_id, dsn=dsn)).out
    requeued = await cli("dead", "requeue", dead_letter_id, "--by", "ada", dsn=dsn)
    new_id = await connection.fetchval("SELECT max(id) FROM asyncjobs.jobs")
    assert requeued.out == f"dead letter {dead_letter_id} (job {job_id}) was requeued as job {new_id}, pending\n"
    again = await cli("dead", "requeue", dead_letter_id, dsn=dsn)
    assert (again.code, "force" in again.err) == (failures.NOT_DONE, True)
    acknowledged = await cli("dead", "ack", dead_letter_id, "--by", "bob", dsn=dsn)
    assert acknowledged.out == f"dead letter {dead_letter_id}: acknowledged before by ada\n"


async def test_all_dead_letters_are_requeued_by_filter(dsn: str, connection: Connection) -> None:
    await a_dead_job(connection)
    await a_dead_job(connection, type="report")
    would = await cli("dead", "requeue", "--type", "report", "--dry-run", dsn=dsn)
    assert would.out == "would requeue dead letters: 1: 1 requeued\n"
    assert (await cli("dead", "requeue", "--all", dsn=dsn)).code == failures.BAD_INPUT
    assert (await cli("dead", "requeue", "--all", "--yes", dsn=dsn)).out == "2 requeued\n"
    assert (await cli("dead", "ack", dsn=dsn)).code == failures.BAD_INPUT
