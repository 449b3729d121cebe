from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs.errors import AsyncJobsError, LeaseLost
from asyncjobs.store import pruning
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.leases import Fence
from asyncjobs.store.pruning import Keep, Pruned
from asyncjobs.testing import MovableClock
from tests.support.factories import insert, insert_job, insert_place

DAY = 86_400.0
KEEP = Keep(completed=7 * DAY, cancelled=7 * DAY, dead_letters=30 * DAY, runners=7 * DAY)


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("prune")
    yield made
    await made.close()


async def ended(connection: Connection, status: str = "completed", /, *, days: float, **columns: Any) -> int:
    """A job that ended so many days ago."""
    job_id = await insert_job(connection, status=status, **columns)
    await connection.execute(
        "UPDATE asyncjobs.jobs SET completed_at = now() - make_interval(secs => $2) WHERE id = $1", job_id, days * DAY
    )
    return job_id


async def dead_letter(connection: Connection, job_id: int, *, acknowledged_days: float | None) -> None:
    """The dead letter of a job, acknowledged so many days ago."""
    await insert(
        connection, "dead_letter_jobs", job_id=job_id, original_job="{}", acknowledged=acknowledged_days is not None,
        acknowledged_at=None if acknowledged_days is None
        else await connection.fetchval("SELECT now()") - timedelta(days=acknowledged_days),
    )  # fmt: skip


async def former_runner(connection: Connection, *, days: int) -> None:
    """A runner that ended so many days ago, with this number for its id."""
    now = await connection.fetchval("SELECT now()")
    columns: dict[str, Any] = {"host": "h", "pid": 1, "version": "0", "queues": [], "types": []}
    await insert(connection, "former_runners", id=days, started_at=now, ended_at=now - timedelta(days=days), **columns)


async def left(connection: Connection, table: str = "jobs") -> list[int]:
    column = "job_id" if table == "dead_letter_jobs" else "id"
    return [row[column] for row in await connection.fetch(f"SELECT {column} FROM asyncjobs.{table} ORDER BY {column}")]


async def test_ended_jobs_go_by_status_and_age(link: Link, connection: Connection) -> None:
    for status in ("completed", "cancelled"):
        await ended(connection, status, days=8)
    kept = [await ended(connection, status, days=6) for status in ("completed", "cancelled")]
    kept += [await insert_job(connection, status=status) for status in ("pending", "scheduled", "failed")]
    assert await pruning.prune(link, KEEP, 100) == Pruned(2, 0, 0, 0, more=False)
    assert await left(connection) == kept


async def test_each_status_has_its_age(link: Link, connection: Connection) -> None:
    cancelled = await ended(connection, "cancelled", days=8)
    await ended(connection, "completed", days=8)
    keep = Keep(completed=7 * DAY, cancelled=9 * DAY, dead_letters=DAY, runners=DAY)
    assert (await pruning.prune(link, keep, 100)).jobs == 1
    assert await left(connection) == [cancelled]


async def test_type_may_be_kept_for_longer_or_shorter(link: Link, connection: Connection) -> None:
    kept = [await ended(connection, days=20, type="invoice"), await ended(connection, days=6, type="mail")]
    await ended(connection, days=2, type="ping")
    await ended(connection, days=20, type="mail")
    keep = Keep(completed=7 * DAY, cancelled=7 * DAY, dead_letters=DAY, runners=DAY, types={"invoice": 30 * DAY, "ping": DAY})
    assert (await pruning.prune(link, keep, 100)).jobs == 2
    assert await left(connection) == kept


async def test_batches_are_bounded_per_type_and_say_that_there_is_more(link: Link, connection: Connection) -> None:
    for number in range(25):
        await ended(connection, days=8 + number / 100, type="mail" if number % 5 else "sms")
    assert await pruning.prune(link, KEEP, 8) == Pruned(13, 0, 0, 0, more=True)
    assert await pruning.prune(link, KEEP, 8) == Pruned(8, 0, 0, 0, more=True)
    assert await pruning.prune(link, KEEP, 8) == Pruned(4, 0, 0, 0, more=False)


@pytest.mark.unaudited("rows are made by hand")
async def test_dead_job_goes_with_its_acknowledged_dead_letter_and_never_before(link: Link, connection: Connection) -> None:
    old, young, unread = [await ended(connection, "dead", days=300) for _ in range(3)]
    await dead_letter(connection, old, acknowledged_days=31)
    await dead_letter(connection, young, acknowledged_days=29)
    await dead_letter(connection, unread, acknowledged_days=None)
    assert await pruning.prune(link, KEEP, 100) == Pruned(1, 1, 0, 0, more=False)
    assert await left(connection) == [young, unread]
    assert await left(connection, "dead_letter_jobs") == [young, unread]


@pytest.mark.unaudited("rows are made by hand")
async def test_dead_letter_of_a_job_that_was_started_over_goes_alone(link: Link, connection: Connection) -> None:
    job_id = await insert_job(connection)
    await dead_letter(connection, job_id, acknowledged_days=31)
    assert await pruning.prune(link, KEEP, 100) == Pruned(0, 1, 0, 0, more=False)
    assert await left(connection) == [job_id]


@pytest.mark.unaudited("rows are made by hand")
async def test_job_of_a_halted_key_is_spared_with_its_dead_letter(link: Link, connection: Connection) -> None:
    job_id = await ended(connection, "dead", days=300, serialization_key="k")
    now = await connection.fetchval("SELECT now()")
    await insert_place(connection, "k", job_id, is_head=True, halted_at=now)
    await dead_letter(connection, job_id, acknowledged_days=100)
    assert await pruning.prune(link, KEEP, 100) == Pruned(0, 0, 0, 0, more=False)
    assert await left(connection) == [job_id]


@pytest.mark.unaudited("rows are made by hand")
async def test_job_that_its_runner_has_not_settled_is_spared(link: Link, connection: Connection) -> None:
    job_id = await ended(connection, days=300, runner_id=9)
    assert (await pruning.prune(link, KEEP, 100)).jobs == 0
    assert await left(connection) == [job_id]


async def test_row_that_somebody_holds_is_skipped(database: Database, link: Link, connection: Connection) -> None:
    held = await ended(connection, days=9)
    await ended(connection, days=8)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", held)
        assert (await pruning.prune(link, KEEP, 100)).jobs == 1
    assert (await pruning.prune(link, KEEP, 100)).jobs == 1


async def test_dead_letter_that_somebody_holds_is_left_to_the_next_pass(link: Link, connection: Connection) -> None:
    """To wait for it, while holding others, would be a circle with whoever acknowledges several."""
    held, free = [await insert_job(connection) for _ in range(2)]
    for job_id in (held, free):
        await dead_letter(connection, job_id, acknowledged_days=31)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.dead_letter_jobs WHERE job_id = $1 FOR UPDATE", held)
        assert (await pruning.prune(link, KEEP, 100)).dead_letters == 1
    assert (await pruning.prune(link, KEEP, 100)).dead_letters == 1


async def test_former_runners_and_expired_dedup_keys_go(link: Link, connection: Connection) -> None:
    for days in (6, 8):
        await former_runner(connection, days=days)
    now = await connection.fetchval("SELECT now()")
    for key, seconds in (("old", -1), ("young", 60)):
        expires_at = now + timedelta(seconds=seconds)
        await insert(connection, "dedup_keys", type="email", dedup_key=key, job_id=1, live=False, expires_at=expires_at)
    assert await pruning.prune(link, KEEP, 100) == Pruned(0, 0, 1, 1, more=False)
    assert await left(connection, "former_runners") == [6]
    assert await connection.fetchval("SELECT dedup_key FROM asyncjobs.dedup_keys") == "young"


async def test_age_is_counted_on_the_schemas_clock(database: Database, link: Link, connection: Connection) -> None:
    await ended(connection, days=0)
    async with MovableClock(database) as clock:
        await clock.advance(timedelta(days=7, seconds=-1))
        assert (await pruning.prune(link, KEEP, 100)).jobs == 0
        await clock.advance(timedelta(seconds=2))
        assert (await pruning.prune(link, KEEP, 100)).jobs == 1


async def test_nothing_is_deleted_when_the_term_is_over(link: Link, connection: Connection) -> None:
    job_id = await ended(connection, days=9)
    await insert(connection, "background_job_leases", job_name="prune", held_by_worker_id="1", token=5)
    with pytest.raises(LeaseLost):
        await pruning.prune(link, KEEP, 100, Fence("prune", 1, 4))
    assert await left(connection) == [job_id]
    assert (await pruning.prune(link, KEEP, 100, Fence("prune", 1, 5))).jobs == 1


async def test_kind_that_cannot_be_pruned_keeps_no_other_from_it(link: Link, connection: Connection) -> None:
    await ended(connection, days=8)
    await dead_letter(connection, await ended(connection, "dead", days=40), acknowledged_days=31)
    await former_runner(connection, days=8)
    await connection.execute(
        """
        CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
        CREATE TRIGGER no BEFORE DELETE ON asyncjobs.dead_letter_jobs FOR EACH ROW EXECUTE FUNCTION public.no();
        """
    )
    pruned = await pruning.prune(link, KEEP, 100)
    assert pruned == Pruned(1, 0, 1, 0, more=False, failures=("dead letters: not this one",))
    with pytest.raises(AsyncJobsError, match="dead letters: not this one"):
        pruned.check()


async def test_all_can_be_pruned_from_a_database_that_publishes_all_tables(link: Link, connection: Connection) -> None:
    await ended(connection, days=8)
    await former_runner(connection, days=8)
    await connection.execute("SET client_min_messages = error; CREATE PUBLICATION all_of_it FOR ALL TABLES")
    assert await pruning.prune(link, KEEP, 100) == Pruned(1, 0, 1, 0, more=False)


async def test_every_table_has_a_primary_key(connection: Connection) -> None:
    rows = await connection.fetch(
        """
        SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'asyncjobs'::regnamespace AND c.relkind = 'r'
          AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary)
        """
    )
    assert [row["relname"] for row in rows] == []
