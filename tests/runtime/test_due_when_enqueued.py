"""A job whose time has come when it is enqueued starts as soon as one without a time: the server says what became pending."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs.model.new_row import NewRow
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, Database
from tests.support.enqueuing import Enqueuing, enqueuing
from tests.support.factories import a_row

#: Times that have come; the second by any clock.
NOW: dict[str, Callable[[], dict[str, Any]]] = {
    "delay=0": lambda: {"delay_seconds": 0.0},
    "past run_at": lambda: {"run_at": datetime(2020, 2, 29, tzinfo=UTC)},
}
#: How it is sent.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"serialization_key": "k"},
    "dedup": {"dedup_key": "d"},
    "both": {"serialization_key": "k", "dedup_key": "d"},
}


def woken(line: Enqueuing) -> tuple[list[Any], list[Any], list[str]]:
    """Since the last look: the queues, the promoters, and what others were told."""
    found = list(line.woken.queues), list(line.woken.due), list(line.notified)
    line.woken.queues.clear()
    line.woken.due.clear()
    line.notified.clear()
    return found


@pytest.mark.parametrize("now", NOW)
@pytest.mark.parametrize("way", WAYS)
async def test_what_became_pending_wakes_its_queue_whatever_time_it_was_given(database: Database, way: str, now: str) -> None:
    async with enqueuing(database) as line:
        for _ in range(3):  # the third plain one is sent by its caller
            row = a_row(**WAYS[way], **NOW[now](), **({"dedup_key": None} if way == "plain" else {}))
            assert (await line.enqueue(row)).created or way != "plain"
        (first, *_), due, notified = woken(line)
        assert first == ("default", False)
        assert notified[0] == "q1:default"
        assert due == [], "nothing is left to the promoters"


@pytest.mark.parametrize("rows", ["alike", "of all kinds", "with keys"])
async def test_of_many_those_that_are_due_wake_their_queues_and_the_others_the_promoters(database: Database, rows: str) -> None:
    def make(queue: str, **fields: Any) -> NewRow:
        return a_row(queue=queue, serialization_key="k" if rows == "with keys" else None, **fields)

    past = NOW["past run_at"]()
    if rows == "alike":
        calls = [[make("past", **past)] * 3, [make("zero", delay_seconds=0.0)] * 3, [make("later", delay_seconds=3.0)] * 3]
    else:
        calls = [[make("past", **past), make("later", delay_seconds=3.0), make("zero", delay_seconds=0.0)]]
    async with enqueuing(database) as line:
        for call in calls:
            await line.enqueuer.enqueue_many(call)
        queues, due, _ = woken(line)
        assert queues == [("past", False), ("zero", False)]
        assert due == [0.0]


async def test_the_servers_clock_decides_what_is_due(database: Database, connection: Connection) -> None:
    hour = timedelta(hours=1)
    server = await connection.fetchval("SELECT now()")
    await connection.execute(
        "CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE "
        "RETURN pg_catalog.now() + interval '1 hour'"
    )
    async with enqueuing(database) as line:
        await line.enqueue(a_row(run_at=server + hour / 2))
        assert woken(line)[:2] == ([("default", False)], [])
        await line.enqueue(a_row(run_at=server + hour + timedelta(seconds=5)))
        assert woken(line)[0] == [], "it is to run later"


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_delayed_job_that_is_replaced_by_one_that_is_due_wakes_queue_and_promoters(
    database: Database, key: str | None
) -> None:
    async with enqueuing(database) as line:
        await line.enqueue(a_row(dedup_key="d", serialization_key=key, delay_seconds=60.0))
        woken(line)
        await line.enqueue(a_row(dedup_key="d", serialization_key=key, delay_seconds=0.0, on_duplicate="replace"))
        assert woken(line)[:2] == ([("default", True)], [0.0])


async def test_what_an_earlier_try_may_have_written_before_its_time_wakes_both(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def lose(name: str) -> None:
        nonlocal tries
        tries += name == "enqueue.sent"
        if name == "enqueue.sent" and tries == 1:
            raise ConnectionResetError

    async with enqueuing(database) as line:
        with points.installed(lose):
            await line.enqueue(a_row(delay_seconds=0.0))
        assert tries == 2
        assert woken(line)[:2] == ([("default", False)], [0.0])
