"""Many callers, three lines: who shares a statement, who waits for whom, and who is told what."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from asyncjobs.errors import DatabaseUnavailable, DuplicateJob, EnqueueError, InvalidOption, UsageError
from asyncjobs.model.new_row import Enqueued
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, Database
from tests.support.enqueuing import enqueuing
from tests.support.eventually import Stopwatch, eventually, patience
from tests.support.factories import a_row, insert

BAD = '"\\u0000"'  # JSON, but no jsonb


def counting(calls: list[str]) -> Callable[[str], Awaitable[None]]:
    async def count(name: str) -> None:
        calls.append(name)

    return count


@pytest.mark.parametrize("fields", [{}, {"serialization_key": "k"}, {"dedup": True}], ids=["plain", "keyed", "dedup"])
async def test_those_in_flight_at_the_same_time_share_statements(database: Database, fields: dict[str, object]) -> None:
    calls: list[str] = []
    dedup = bool(fields.get("dedup"))
    rows = [a_row(dedup_key=str(n)) if dedup else a_row(**fields) for n in range(100)]
    async with enqueuing(database) as line:
        with points.installed(counting(calls)):
            answers = await line.gather(rows)
    assert len({answer.id for answer in answers if isinstance(answer, Enqueued)}) == 100
    assert calls.count("enqueue.send") <= 2, "the first is sent alone at the most"


@pytest.mark.direct("the server sees the pooler's connections")
async def test_the_three_lines_have_connections_of_their_own(database: Database, connection: Connection) -> None:
    async with enqueuing(database) as line:
        await line.gather(
            [a_row(), a_row(serialization_key="k"), a_row(dedup_key="d"), a_row(dedup_key="e", serialization_key="k")]
        )
        rows = await connection.fetch(
            "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'asyncjobs enqueue%' "
            "AND datname = current_database()"
        )
        assert sorted(row[0] for row in rows) == ["asyncjobs enqueue dedup", "asyncjobs enqueue keyed", "asyncjobs enqueue plain"]


@pytest.mark.parametrize("kind", ["plain", "keyed", "dedup"])
async def test_only_the_caller_of_a_bad_row_is_told(database: Database, connection: Connection, kind: str) -> None:
    bad = {3, 40, 41, 99}
    rows = [
        a_row(
            payload=BAD if n in bad else f'{{"n": {n}}}',
            serialization_key="k" if kind == "keyed" else None,
            dedup_key=str(n) if kind == "dedup" else None,
        )
        for n in range(100)
    ]
    async with enqueuing(database) as line:
        answers = await line.gather(rows)
    assert {n for n, answer in enumerate(answers) if isinstance(answer, EnqueueError)} == bad
    assert all("the database refused the job" in str(answers[n]) for n in bad)
    found = await connection.fetch("SELECT id, (payload ->> 'n')::integer AS n FROM asyncjobs.jobs")
    assert {row["n"]: row["id"] for row in found} == {
        n: answer.id for n, answer in enumerate(answers) if isinstance(answer, Enqueued)
    }
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == (96 if kind == "dedup" else 0)


async def test_a_bad_row_among_enqueue_many_writes_none(database: Database, connection: Connection) -> None:
    rows = [a_row(), a_row(payload=BAD), a_row(serialization_key="k", dedup_key="d")]
    async with enqueuing(database) as line:
        with pytest.raises(EnqueueError, match="refused the job"):
            await line.enqueuer.enqueue_many(rows)
        assert line.notified == []
    for table in ("jobs", "serialized_jobs", "dedup_keys"):
        assert await connection.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0


@pytest.mark.parametrize("held", ["dedup", "keyed"])
async def test_a_key_that_an_open_transaction_holds_delays_no_innocents(
    held: str, database: Database, connection: Connection
) -> None:
    """30 callers want what a stranger holds, 45 do not; further innocents come while those wait."""
    name = "dedup_key" if held == "dedup" else "serialization_key"
    victims = [a_row(**{name: "held"}) for _ in range(30)]
    innocents = [a_row(**{name: f"i{n}"}) for n in range(45)]
    async with enqueuing(database) as line:
        await line.gather(innocents[:1])
        await connection.execute(
            "DELETE FROM asyncjobs.dedup_keys; DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.jobs"
        )
        async with connection.transaction():
            if held == "dedup":
                await insert(connection, "dedup_keys", type="email", dedup_key="held", job_id=1)
            else:
                await connection.execute("SELECT asyncjobs.lock_keys('{held}')")
            waiting = [asyncio.create_task(line.enqueue(row)) for row in victims]
            watch = Stopwatch()
            async with patience(5):
                answers = await line.gather(innocents)
            assert all(isinstance(answer, Enqueued) for answer in answers)
            first = watch.stop()
            await eventually(lambda: len(line.enqueuer._lonely_senders) == 1, description="the held one goes on alone")
            watch = Stopwatch()
            for row in innocents[:10]:
                await line.enqueue(row)
            second = watch.stop()
            assert not any(task.done() for task in waiting)
            assert len(line.enqueuer._lonely_senders) == 1, "those with the same key wait in memory"
            if held == "dedup":
                await connection.execute("DELETE FROM asyncjobs.dedup_keys WHERE job_id = 1")
        async with patience(5):
            enqueued = await asyncio.gather(*waiting)
        assert len({one.id for one in enqueued}) == (1 if held == "dedup" else 30)
        assert line.enqueuer._held == {}
    assert first < 1.0, "two time-outs of 50 ms, and the work"
    assert second < 1.0


async def test_held_keys_take_turns_so_that_one_that_is_let_go_is_noticed(database: Database, connection: Connection) -> None:
    """More keys are held than there are connections to wait on."""
    other = await database.connect("stranger")
    async with enqueuing(database) as line:
        async with connection.transaction():
            for number in range(4):
                await insert(connection, "dedup_keys", type="email", dedup_key=f"held{number}", job_id=1)
            async with other.transaction():
                await insert(other, "dedup_keys", type="email", dedup_key="last", job_id=1)
                waiting = [asyncio.create_task(line.enqueue(a_row(dedup_key=f"held{number}"))) for number in range(4)]
                await eventually(lambda: len(line.enqueuer._lonely_senders) == 4, description="all connections are in use")
                last = asyncio.create_task(line.enqueue(a_row(dedup_key="last")))
                await eventually(lambda: len(line.enqueuer._held) == 5, description="a fifth key is held")
                await other.execute("DELETE FROM asyncjobs.dedup_keys")
            async with patience(5):
                assert (await last).created
            assert not any(task.done() for task in waiting)
            await connection.execute("DELETE FROM asyncjobs.dedup_keys WHERE dedup_key <> 'last'")
        assert all(one.created for one in await asyncio.gather(*waiting))
    await other.close()


async def test_enqueue_many_that_waits_for_a_held_key_keeps_no_connection_of_the_pool(
    database: Database, connection: Connection
) -> None:
    async with enqueuing(database) as line:
        async with connection.transaction():
            await insert(connection, "dedup_keys", type="email", dedup_key="held", job_id=1)
            waiting = [asyncio.create_task(line.enqueuer.enqueue_many([a_row(dedup_key="held"), a_row()])) for _ in range(3)]
            await eventually(lambda: len(line.enqueuer._lonely_senders) == 3, description="all of them wait alone")
            async with patience(2):
                await line.enqueuer.enqueue_many([a_row(), a_row()])
            await connection.execute("DELETE FROM asyncjobs.dedup_keys")
        enqueued = await asyncio.gather(*waiting)
    assert sum(one[0].created for one in enqueued) == 1
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 6


async def test_a_caller_cancelled_before_its_row_was_sent_leaves_no_job(database: Database, connection: Connection) -> None:
    sent, may_go = asyncio.Event(), asyncio.Event()

    async def wait(name: str) -> None:
        if name == "enqueue.send":
            sent.set()
            await may_go.wait()

    async with enqueuing(database) as line:
        await line.enqueue(a_row())
        with points.installed(wait):
            tasks = [asyncio.create_task(line.enqueue(a_row(payload={"n": 0})))]
            await sent.wait()
            tasks += [asyncio.create_task(line.enqueue(a_row(payload={"n": n}))) for n in range(1, 5)]
            await asyncio.sleep(0)
            tasks[0].cancel()  # was sent: may exist
            tasks[2].cancel()  # was not
            await asyncio.sleep(0)
            may_go.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(answer, Enqueued) for answer in answers] == [False, True, False, True, True]
    found = await connection.fetchval(
        "SELECT array_agg((payload ->> 'n')::integer ORDER BY id) FROM asyncjobs.jobs WHERE payload <> '{}'"
    )
    assert found == [0, 1, 3, 4]


async def test_a_caller_that_is_cancelled_while_it_waits_for_a_held_key_lets_the_next_one_wait(
    database: Database, connection: Connection
) -> None:
    async with enqueuing(database) as line:
        async with connection.transaction():
            await insert(connection, "dedup_keys", type="email", dedup_key="held", job_id=1)
            first = asyncio.create_task(line.enqueue(a_row(dedup_key="held")))
            await eventually(lambda: len(line.enqueuer._lonely_senders) == 1, description="the first waits alone")
            second = asyncio.create_task(line.enqueue(a_row(dedup_key="held")))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await connection.execute("DELETE FROM asyncjobs.dedup_keys")
        assert (await second).created
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1


async def test_raise_is_told_to_whom_it_concerns_only(database: Database, connection: Connection) -> None:
    async with enqueuing(database) as line:
        first = await line.enqueue(a_row(dedup_key="d"))
        rows = [a_row(dedup_key=f"e{n}") for n in range(5)]
        rows.insert(2, a_row(dedup_key="d", on_duplicate="raise"))
        answers = await line.gather(rows)
        assert [type(answer) for answer in answers] == [Enqueued, Enqueued, DuplicateJob, Enqueued, Enqueued, Enqueued]
        duplicate = answers[2]
        assert isinstance(duplicate, DuplicateJob)
        assert (duplicate.job_id, duplicate.status) == (first.id, "pending")
        assert str(duplicate) == f'email "d" is job {first.id}, pending (on_duplicate="raise").'
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 6


async def test_of_several_that_raise_at_once_one_wins_and_the_others_are_told_its_job(
    database: Database, connection: Connection
) -> None:
    async with enqueuing(database) as line:
        answers = await line.gather([a_row(dedup_key="d", on_duplicate="raise") for _ in range(10)])
    (winner,) = [answer for answer in answers if isinstance(answer, Enqueued)]
    losers = [answer for answer in answers if isinstance(answer, DuplicateJob)]
    assert {(loser.job_id, loser.status) for loser in losers} == {(winner.id, "pending")}
    assert len(losers) == 9
    assert await connection.fetchval("SELECT array_agg(id) FROM asyncjobs.jobs") == [winner.id]


async def test_replacing_a_job_of_another_line_is_an_invalid_option(database: Database) -> None:
    async with enqueuing(database) as line:
        first = await line.enqueue(a_row(dedup_key="d", serialization_key="a"))
        rows = [a_row(dedup_key="d", serialization_key="b", on_duplicate="replace"), a_row(dedup_key="e")]
        wrong, right = await line.gather(rows)
        assert isinstance(right, Enqueued)
        assert isinstance(wrong, InvalidOption)
        assert wrong.option == "serialization_key"
        assert f"job {first.id}" in str(wrong)
        with pytest.raises(InvalidOption):
            await line.enqueuer.enqueue_many(rows)


async def test_enqueue_many_with_a_key_twice_says_so(database: Database, connection: Connection) -> None:
    async with enqueuing(database) as line:
        with pytest.raises(DuplicateJob, match="enqueued by the same call"):
            await line.enqueuer.enqueue_many([a_row(dedup_key="d"), a_row(dedup_key="d", on_duplicate="raise")])
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 0


@pytest.mark.parametrize("how", ["alone", "many"])
async def test_whoever_runs_such_jobs_is_woken_once_after_the_commit(how: str, database: Database) -> None:
    many = how == "many"
    rows = [
        a_row(),
        a_row(queue="mail", priority=5),
        a_row(queue="mail"),
        a_row(queue="later", delay_seconds=2.0),
        a_row(delay_seconds=99.0),
    ]
    seen: list[int] = []

    async def look(name: str) -> None:
        if name == "enqueue.sent":
            seen.append(len(line.notified))

    async with enqueuing(database) as line:
        with points.installed(look):
            if many:
                await line.enqueuer.enqueue_many(rows)
            else:
                await line.gather(rows)
        assert seen[0] == 0
        assert set(line.notified) == {"q1:default", "d"} | ({"f2:mail"} if many else {"f1:mail", "q1:mail"})
        assert set(line.woken.queues) == {("default", False), ("mail", True)} | (set() if many else {("mail", False)})
        assert line.woken.due == [0.0]
        line.notified.clear()
        line.woken.queues.clear()
        await line.enqueue(a_row(notify=False))
        assert (line.notified, line.woken.queues) == ([], [("default", False)]), "not beyond this process"
        await line.enqueue(a_row(dedup_key="d"))
        line.notified.clear()
        await line.enqueue(a_row(dedup_key="d"))
        assert line.notified == [], "nothing became pending"
        await line.enqueue(a_row(dedup_key="d", on_duplicate="replace"))
        assert line.notified == ["f1:default", "d"], "it may have been scheduled"


async def test_at_the_end_those_who_wait_are_told_whether_their_job_may_exist(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncjobs.runtime.enqueuer._LONELY_LOCK_TIMEOUT", "60s")
    arrived, never = asyncio.Event(), asyncio.Event()

    async def wait(name: str) -> None:
        if name == "enqueue.send" and not arrived.is_set():
            arrived.set()
            await never.wait()

    async with enqueuing(database) as line:
        await line.enqueue(a_row())
        async with connection.transaction():
            await insert(connection, "dedup_keys", type="email", dedup_key="held", job_id=1)
            held = [asyncio.create_task(line.enqueue(a_row(dedup_key="held"))) for _ in range(2)]
            await eventually(lambda: len(line.enqueuer._lonely_senders) == 1, description="one waits alone, one for that one")
            with points.installed(wait):
                sent = asyncio.create_task(line.enqueue(a_row()))
                await arrived.wait()
                unsent = asyncio.create_task(line.enqueue(a_row()))
                await asyncio.sleep(0)
                async with patience(3):
                    await line.close()
                    answers = await asyncio.gather(sent, unsent, *held, return_exceptions=True)
            await connection.execute("DELETE FROM asyncjobs.dedup_keys")
    assert [type(answer) for answer in answers[:2]] == [DatabaseUnavailable, UsageError]
    assert all(isinstance(answer, DatabaseUnavailable | UsageError) for answer in answers), "the third is sent again and again"
    assert "may have been written" in str(answers[0])
    assert "nothing was written" in str(answers[1])


async def test_flush_waits_for_all_that_was_handed_in(database: Database, connection: Connection) -> None:
    async with enqueuing(database) as line:
        tasks = [
            asyncio.create_task(line.enqueue(row)) for row in (a_row(), a_row(serialization_key="k"), a_row(dedup_key="d")) * 20
        ]
        await asyncio.sleep(0)
        await line.enqueuer.flush()
        assert all(task.done() for task in tasks)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 20 + 20 + 1
