"""The four roles of SECURITY.md: each does what it is for with the rights that are granted there, and no more."""

import random
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Backoff, DatabaseUnavailable, DuplicateJob, JobContext
from asyncjobs.model.new_row import NewRow
from asyncjobs.store import jobs, migrate
from asyncjobs.store.database import Database, quote_identifier
from tests.support.rights import Rights, Thing, things

SECURITY = (Path(__file__).parents[2] / ".github" / "SECURITY.md").read_text(encoding="utf-8")
ROLES = ("migrator", "runner", "enqueuer", "viewer")
SETUP, GRANTS, OBSERVER = re.findall(r"```sql\n(.*?)```", SECURITY, re.DOTALL)[:3]


class Roles:
    """Roles of this test's own, whose names end in its database's."""

    def __init__(self, dsn: str) -> None:
        self.parts = urlsplit(dsn)
        self.database = self.parts.path[1:]

    def name(self, role: str) -> str:
        return f"jobs_{role}_{self.database}"

    def sql(self, text: str) -> str:
        for role in ROLES:
            text = text.replace(f"jobs_{role}", quote_identifier(self.name(role)))
        return text.replace("DATABASE app", f"DATABASE {quote_identifier(self.database)}")

    def dsn(self, role: str) -> str:
        place = self.parts.netloc.rsplit("@", 1)[-1]
        return urlunsplit(self.parts._replace(netloc=f"{self.name(role)}:secret@{place}"))


@pytest.fixture
async def roles(empty_dsn: str) -> AsyncGenerator[Roles]:
    made = Roles(empty_dsn)
    owner = await asyncpg.connect(empty_dsn)
    await owner.execute(made.sql(SETUP))
    for role in ROLES:
        await owner.execute(f"ALTER ROLE {quote_identifier(made.name(role))} PASSWORD 'secret'")
    await AsyncJobs(made.dsn("migrator")).migrate()
    migrator = await asyncpg.connect(made.dsn("migrator"))
    await migrator.execute(made.sql(GRANTS))
    await migrator.close()
    yield made
    for role in ROLES:
        await owner.execute(f"DROP OWNED BY {quote_identifier(made.name(role))}; DROP ROLE {quote_identifier(made.name(role))}")
    await owner.close()


class Shop:
    """An app of one role's."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.jobs = AsyncJobs(dsn, poll_interval=0.2, metrics_interval=0.2, prune_interval=0.2)
        self.breaker = self.jobs.circuit_breaker("mail", failure_threshold=1, counts=(OSError,))

        @self.jobs.job("email", max_attempts=2, backoff=Backoff(0))
        async def email(ctx: JobContext, n: int) -> int:
            ctx.progress(0.5)
            async with self.breaker:
                return n if n > 0 else 1 // n

        self.email = email
        self.jobs.schedule("often", email.new(1), every=3600)

    async def enqueue_in_every_way(self) -> None:
        email, keyed, dedup = self.email, self.email.using(serialization_key="k"), self.email.using(dedup_key="d", delay=3600)
        for one in (email, keyed, keyed, dedup, dedup, email.using(delay=3600), keyed.using(delay=3600)):
            await one.enqueue(1)
        await self.jobs.enqueue_many([email.new(2), keyed.new(2), dedup.using(on_duplicate="replace").new(2)])
        with pytest.raises(DuplicateJob):
            await dedup.using(on_duplicate="raise").enqueue(3)
        theirs = await asyncpg.connect(self.dsn)
        levels: tuple[Any, ...] = ("read_committed", "repeatable_read")
        for level in levels:
            async with theirs.transaction(isolation=level):
                await email.using(connection=theirs).enqueue(4)
                await keyed.using(connection=theirs).enqueue(4)
        await email.using(connection=theirs, dedup_key=f"e{random.random()}").enqueue(5)
        await theirs.close()

    async def look_everywhere(self) -> None:
        admin = self.jobs.admin
        found = await admin.find(limit=100)
        for job in found.jobs[:3]:
            await admin.explain(job.id)
        await admin.keys()
        await admin.line("k")
        for dead_letter in (await admin.dead_letters()).dead_letters:
            await admin.dead_letter(dead_letter.id)
        for look in (admin.stats, admin.sample, admin.metrics, admin.largest, admin.leases, admin.runners,
                     admin.schedules, admin.breakers, admin.pauses, admin.doctor):  # fmt: skip
            await look()


async def test_enqueuer_enqueues_in_every_way_and_reads_no_job(roles: Roles) -> None:
    shop = Shop(roles.dsn("enqueuer"))
    async with shop.jobs:
        await shop.enqueue_in_every_way()
        handle = await shop.email.enqueue(3)
        for read in (shop.jobs.admin.find(type="email"), shop.jobs.get(handle.id), handle.wait(timeout=1)):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await read


async def test_jobs_of_an_enqueuer_run_each_once_and_keep_the_order_of_their_key(roles: Roles) -> None:
    shop, runner = Shop(roles.dsn("enqueuer")), Shop(roles.dsn("runner"))
    async with shop.jobs:
        keyed = shop.email.using(serialization_key="k")
        handles = [await keyed.enqueue(n) for n in range(1, 6)]
        theirs = await asyncpg.connect(shop.dsn)
        async with theirs.transaction():
            handles.append(await keyed.using(connection=theirs).enqueue(6))
        await theirs.close()
        handles += await shop.jobs.enqueue_many([shop.email.new(7), keyed.new(8)])
        async with runner.jobs.runner():
            ended = [await runner.email.handle(handle.id).wait(timeout=10) for handle in handles]
    assert [job.status for job in ended] == ["completed"] * 8
    in_line = [job.started_at for job in ended if job.serialization_key]
    assert in_line == sorted(in_line, key=lambda at: at or datetime.max.replace(tzinfo=UTC))


async def test_enqueue_whose_answer_was_lost_is_written_once_through_the_door(roles: Roles) -> None:
    database = Database(roles.dsn("enqueuer"))
    await migrate.check(database)
    link = database.link("test")
    ids, row = await jobs.reserve_ids(link, 3), NewRow(type="email", queue="default", payload="{}")
    for again in (False, True):
        answer = await jobs.enqueue(link, [row, row], ids[:2], [1, 2], again=again)
        assert ([one.id for one in answer.enqueued], answer.taken) == (ids[:2], [])
    assert (await jobs.enqueue(link, [row], ids[:1], [3], again=True)).taken == [0]  # somebody else's
    await link.close()


async def test_enqueuer_cannot_choose_an_id(roles: Roles) -> None:
    shop = Shop(roles.dsn("enqueuer"))
    async with shop.jobs:
        ids = [(await shop.email.using(serialization_key="k").enqueue(1)).id for _ in range(2)]
    rows = '[{"type": "email", "queue": "default", "payload": "{}", "enqueue_token": 5}]'
    theirs = await asyncpg.connect(shop.dsn)
    for proofs in (None, [7], [], [None]):
        for number in (ids[1], ids[1] + 1000, -1):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="were not given"):
                await theirs.execute(
                    "SELECT asyncjobs.enqueue_in_transaction($1, NULL, ARRAY[$2::bigint], $3::bigint[], true)",
                    rows,
                    number,
                    proofs,
                )
    owner = await asyncpg.connect(roles.dsn("migrator"))
    await owner.execute("DELETE FROM asyncjobs.ids_secret")  # nothing is proven without it
    await owner.close()
    for proofs in ([], [None]):
        with pytest.raises(asyncpg.NoDataFoundError):
            await theirs.execute(
                "SELECT asyncjobs.enqueue_in_transaction($1, NULL, ARRAY[$2::bigint], $3::bigint[], true)", rows, ids[1], proofs
            )
    await theirs.close()


async def test_enqueuer_enqueues_from_sql_and_through_triggers_of_its_own(roles: Roles) -> None:
    async with Shop(roles.dsn("runner")).jobs.runner():
        pass  # it has declared its types
    theirs = await asyncpg.connect(roles.dsn("enqueuer"))
    assert await theirs.fetchval("SELECT asyncjobs.enqueue('email', '{\"n\": 1}', '{\"serialization_key\": \"k\"}')")
    assert len(await theirs.fetchval("SELECT asyncjobs.enqueue_many('email', '[{\"n\": 1}, {\"n\": 2}]')")) == 2
    with pytest.raises(asyncpg.PostgresError, match="expected int, got str"):
        await theirs.execute("SELECT asyncjobs.enqueue('email', '{\"n\": \"x\"}')")
    await theirs.execute(
        "CREATE TEMP TABLE orders (n integer);"
        "CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM asyncjobs.enqueue('email', to_jsonb(NEW)); RETURN NULL; END $$;"
        "CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pg_temp.f();"
        "INSERT INTO orders VALUES (3)"
    )
    await theirs.close()
    viewer = await asyncpg.connect(roles.dsn("viewer"))
    await viewer.execute("SET default_transaction_read_only = off")
    assert await viewer.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 4
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await viewer.execute("SELECT asyncjobs.enqueue('email', '{\"n\": 1}')")
    await viewer.close()


#: What the enqueuer could do by plain SQL: end another's job, run it again or with other arguments, stop a service.
ATTACKS = """
DELETE FROM asyncjobs.serialized_jobs
DELETE FROM asyncjobs.dedup_keys
UPDATE asyncjobs.jobs SET status = 'pending'
UPDATE asyncjobs.jobs SET payload = '{}'
UPDATE asyncjobs.serialized_jobs SET place = 0
UPDATE asyncjobs.dedup_keys SET job_id = 1
UPDATE asyncjobs.circuit_breakers SET state = 'open'
INSERT INTO asyncjobs.replacements (job_id, serialization_key, payload, version, due_at) VALUES (1, 'k', '{}', 1, now())
INSERT INTO asyncjobs.circuit_breakers (service_name, state) VALUES ('x', 'open')
INSERT INTO asyncjobs.jobs (type, enqueue_token) VALUES ('email', 1)
INSERT INTO asyncjobs.jobs (id, type) VALUES (1, 'email')
INSERT INTO asyncjobs.dispatch_requests (serialization_key) VALUES ('k')
SELECT payload FROM asyncjobs.jobs
SELECT schema FROM asyncjobs.types
UPDATE asyncjobs.types SET queue = 'mine'
SELECT asyncjobs.declare_types('[{"digest": 1, "name": "email"}]')
SELECT asyncjobs.enqueue_payloads('email', ARRAY['{}'::jsonb], '{}')
SELECT asyncjobs.end_jobs(ARRAY[1::bigint], 'cancelled', 'x', 3)
SELECT asyncjobs.retry_job(1, 'me')
SELECT asyncjobs.replace_job(1, 'k', '{}', 1, now(), NULL)
SELECT asyncjobs.happen_to_breaker('x', 'force', NULL, NULL, NULL, 1, 1, 1, 1)
SELECT asyncjobs.proofs(ARRAY[1::bigint])
SELECT setval('asyncjobs.jobs_id_seq', 1)
SELECT nextval('asyncjobs.jobs_id_seq')
CREATE TABLE asyncjobs.mine ()
CREATE TEMP TABLE t (); CREATE TRIGGER t AFTER INSERT ON t EXECUTE FUNCTION asyncjobs.join_keys()
""".strip().splitlines()


async def test_enqueuer_moves_takes_and_ends_no_job_by_sql_of_its_own(roles: Roles) -> None:
    owner = Shop(roles.dsn("runner"))
    async with owner.jobs:
        await owner.enqueue_in_every_way()
    theirs = await asyncpg.connect(roles.dsn("enqueuer"))
    for attack in ATTACKS:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await theirs.execute(attack)
    await theirs.close()


async def test_runner_runs_and_its_operators_steer_without_any_ddl(roles: Roles) -> None:
    shop = Shop(roles.dsn("runner"))
    async with shop.jobs.runner():
        await shop.enqueue_in_every_way()
        dead = await (await shop.email.enqueue(0)).wait(timeout=10)
        assert dead.status == "dead"
        [dead_letter] = (await shop.jobs.admin.dead_letters()).dead_letters
        requeued = await shop.jobs.admin.requeue(dead_letter.id, by="me")
        await shop.jobs.admin.acknowledge(dead_letter.id, by="me")
        await shop.email.handle(requeued.new_id or 0).wait(timeout=10)
        for act in (shop.jobs.admin.pause, shop.jobs.admin.resume):
            await act(type="email")
            await act(queue="default")
            await act(key="k")
        await shop.jobs.admin.run_schedule("often")
        await shop.jobs.admin.reset_breaker("mail")
        await shop.jobs.admin.pause_key("k")
        await shop.email.using(serialization_key="k").enqueue(1)
        await shop.jobs.admin.purge_key("k")
        await shop.jobs.admin.resume_key("k")
        await shop.jobs.admin.retry(dead.id)
        await shop.look_everywhere()
    theirs = await asyncpg.connect(shop.dsn)
    for forbidden in (
        "TRUNCATE asyncjobs.jobs", "ALTER TABLE asyncjobs.jobs ADD COLUMN mine int", "DROP TABLE asyncjobs.jobs",
        "DELETE FROM asyncjobs.migrations", "CREATE TABLE asyncjobs.mine ()", "DROP SCHEMA asyncjobs CASCADE",
    ):  # fmt: skip
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await theirs.execute(forbidden)
    await theirs.close()


async def test_viewer_sees_everything_and_changes_nothing(roles: Roles) -> None:
    owner = Shop(roles.dsn("runner"))
    async with owner.jobs.runner():
        await owner.enqueue_in_every_way()
        await (await owner.email.enqueue(0)).wait(timeout=10)
        shop = Shop(roles.dsn("viewer"))
        async with shop.jobs:
            await shop.look_everywhere()
            for act in (shop.email.enqueue(1), shop.jobs.admin.cancel(1), shop.jobs.admin.pause(queue="default")):
                with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)):
                    await act
    theirs = await asyncpg.connect(shop.dsn)
    await theirs.execute("SET default_transaction_read_only = off")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await theirs.execute("DELETE FROM asyncjobs.jobs")
    await theirs.close()


async def test_missing_right_is_named(roles: Roles) -> None:
    migrator = await asyncpg.connect(roles.dsn("migrator"))
    for role in ("runner", "enqueuer", "viewer"):
        await migrator.execute(f"REVOKE USAGE ON SCHEMA asyncjobs FROM {quote_identifier(roles.name(role))}")
        with pytest.raises(DatabaseUnavailable, match="cannot be used: permission denied for schema asyncjobs"):
            async with AsyncJobs(roles.dsn(role)):
                pass
    await migrator.close()


async def test_every_role_may_what_the_table_says_and_nothing_else(roles: Roles) -> None:
    rights = Rights(SECURITY)
    owner = await asyncpg.connect(roles.dsn("migrator"))
    every: list[Thing] = await things(owner)
    await owner.close()
    assert {thing.kind for thing in every} == {"table", "column", "sequence", "function"}
    wrong: list[str] = []
    for role in ("runner", "enqueuer", "viewer"):
        theirs = await asyncpg.connect(roles.dsn(role))
        await theirs.execute("SET default_transaction_read_only = off")
        for thing in every:
            for verb, attempt in thing.attempts.items():
                if await may(theirs, attempt) != rights.allow(thing, role, verb):
                    wrong.append(f"{role}: {verb} of {thing.kind} {thing.name}, against the table: {attempt}")
        await theirs.close()
    assert wrong == []


async def may(connection: Any, attempt: str) -> bool:
    """Whether the server lets this role do it; nothing of it stays."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(attempt)
    except asyncpg.InsufficientPrivilegeError:
        return False
    except asyncpg.NullValueNotAllowedError:
        return True  # an immutable function was called by the planner
    finally:
        await transaction.rollback()
    return True


async def test_observer_sees_all_but_payloads(empty_dsn: str) -> None:
    role = f"jobs_observer_{urlsplit(empty_dsn).path[1:]}"
    await AsyncJobs(empty_dsn).migrate()
    owner = await asyncpg.connect(empty_dsn)
    await owner.execute(OBSERVER.replace("jobs_observer", quote_identifier(role)))
    try:
        await owner.execute(f"SET ROLE {quote_identifier(role)}")
        for allowed in ("id, type, status, error_message FROM asyncjobs.jobs", "job_id FROM asyncjobs.dead_letter_jobs",
                        "* FROM asyncjobs.audit", "* FROM asyncjobs.runners"):  # fmt: skip
            await owner.fetch(f"SELECT {allowed}")
        for refused in ("payload FROM asyncjobs.jobs", "result FROM asyncjobs.jobs", "* FROM asyncjobs.jobs",
                        "original_job FROM asyncjobs.dead_letter_jobs", "payload FROM asyncjobs.schedules"):  # fmt: skip
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await owner.fetch(f"SELECT {refused}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute("DELETE FROM asyncjobs.jobs")
    finally:
        await owner.execute("RESET ROLE")
        await owner.execute(f"DROP OWNED BY {quote_identifier(role)}; DROP ROLE {quote_identifier(role)}")
        await owner.close()
