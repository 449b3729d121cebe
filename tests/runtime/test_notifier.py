import asyncio
import re
from collections.abc import AsyncGenerator

import pytest

from asyncjobs.runtime.notifier import Notifier, times_apart
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, ServicePassFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import eventually, patience
from tests.support.services import running


@pytest.fixture
async def heard(database: Database, connection: Connection) -> list[str]:
    """The payloads that were notified."""
    payloads: list[str] = []
    await connection.add_listener(database.channel, lambda _c, _p, _ch, payload: payloads.append(str(payload)))
    return payloads


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    async with Proxy(dsn) as made:
        yield made


@pytest.fixture
async def notifier(proxy: Proxy, schema: str, recorder: Recorder) -> AsyncGenerator[Notifier]:
    """One that is not running, through the proxy."""
    made = Notifier(Database(proxy.dsn, schema=schema).link("notifier"), events=Events(), timeout_seconds=0.3)
    yield made
    await made.close_link()


@pytest.mark.matrix("loop", "schema")
async def test_payloads_reach_listeners_in_one_statement(notifier: Notifier, heard: list[str]) -> None:
    for payload in ("q:default", "f:mail", "d"):
        notifier.notify(payload)
    async with running(notifier):
        assert await notifier.flush(2)
        await eventually(lambda: len(heard) == 3, description="three notifications")
    assert heard == ["q:default", "f:mail", "d"]
    assert notifier.passes == 1


async def test_marks_of_one_payload_are_one_notification(notifier: Notifier, heard: list[str]) -> None:
    async with running(notifier):
        for _ in range(1000):
            notifier.notify("q:a")
        assert await notifier.flush(2)
        notifier.notify("end")
        await eventually(lambda: "end" in heard, description="the last notification")
    assert heard == ["q:a", "end"]


async def test_mark_made_while_its_like_is_on_the_way_is_sent_again(notifier: Notifier, proxy: Proxy, heard: list[str]) -> None:
    async with running(notifier):
        notifier.notify("q:warm")
        assert await notifier.flush(2)
        proxy.delay(0.1, "notifier")
        notifier.notify("q:a")
        await eventually(lambda: "q:a" in heard, description="the first notification")
        assert not await notifier.flush(0)  # its answer is still on the way
        notifier.notify("q:a")
        assert await notifier.flush(2)
        await eventually(lambda: heard.count("q:a") == 2, description="the second notification")


async def test_marks_that_come_soon_after_a_notification_gather(proxy: Proxy, schema: str, heard: list[str]) -> None:
    link = Database(proxy.dsn, schema=schema).link("notifier")
    notifier = Notifier(link, events=Events(), apart_seconds=3600)
    async with running(notifier):
        notifier.notify("q:first")
        assert await notifier.flush(2)
        notifier.notify("q:a")
        assert not await notifier.flush(0.02)
        notifier.notify("q:b")
        assert not await notifier.flush(0.02)
        assert notifier.sent == 1
    notifier._next_at = 0.0  # an hour has passed
    async with running(notifier):
        assert await notifier.flush(2)
        await eventually(lambda: len(heard) == 3, description="all notifications")
    assert heard == ["q:first", "q:a", "q:b"]
    await notifier.close_link()


def test_a_stream_of_marks_is_sent_in_larger_lots() -> None:
    times, all_times = 1, [1]
    for marks in (1, 2, 4, 8, 100, 7, 1, 2):
        times = times_apart(times, marks)
        all_times.append(times)
    assert all_times == [1, 1, 2, 4, 4, 4, 1, 1, 2]


async def test_commit_of_a_notification_does_not_wait_for_the_disk(database: Database, connection: Connection) -> None:
    await connection.execute("SET synchronous_commit TO on")
    async with connection.transaction():
        await connection.fetch(database.sql("send_notifications"), database.channel, ["q:a"])
        assert await connection.fetchval("SHOW synchronous_commit") == "off"
    assert await connection.fetchval("SHOW synchronous_commit") == "on"


async def test_flush_without_marks_returns_at_once(notifier: Notifier) -> None:
    assert await notifier.flush(0.1)


async def test_flush_tells_that_time_ran_out(notifier: Notifier) -> None:
    notifier.notify("q:a")  # it is not running
    assert not await notifier.flush(0.02)


async def test_marks_survive_a_broken_connection(notifier: Notifier, proxy: Proxy, heard: list[str]) -> None:
    async with running(notifier):
        notifier.notify("q:warm")
        assert await notifier.flush(2)
        proxy.refuse("notifier")
        proxy.reset("notifier")
        notifier.notify("q:a")
        await eventually(lambda: notifier.failures >= 1, description="a failure")
        proxy.heal()
        assert await notifier.flush(2)
        await eventually(lambda: "q:a" in heard, description="the notification")


async def test_notification_whose_answer_was_lost_is_sent_again(notifier: Notifier, proxy: Proxy, heard: list[str]) -> None:
    async with running(notifier):
        notifier.notify("q:warm")
        assert await notifier.flush(2)
        proxy.drop_next_response("notifier")
        notifier.notify("q:a")
        assert await notifier.flush(2)
        await eventually(lambda: heard.count("q:a") == 2, description="it is heard twice")


async def test_silent_connection_is_aborted_in_time_and_replaced(
    notifier: Notifier, proxy: Proxy, recorder: Recorder, heard: list[str]
) -> None:
    async with running(notifier):
        notifier.notify("q:warm")
        assert await notifier.flush(2)
        proxy.black_hole("notifier")
        notifier.notify("q:a")
        failed = await recorder.wait_for(ServicePassFailed, timeout=1.0)
        assert isinstance(failed.error, TimeoutError)
        assert not notifier._link.is_open
        proxy.heal()
        assert await notifier.flush(2)
        await eventually(lambda: "q:a" in heard, description="the notification")


async def test_stopping_does_not_wait_for_a_silent_server(notifier: Notifier, proxy: Proxy) -> None:
    async with patience(1):
        async with running(notifier):
            notifier.notify("q:warm")
            assert await notifier.flush(2)
            proxy.black_hole("notifier")
            notifier.notify("q:a")
            await asyncio.sleep(0.05)
        await notifier.close_link()


@pytest.mark.parametrize("payload", ["q:" + "x" * 8000, "q:" + "😀" * 2000, "q:\0", "q:\ud800"])
async def test_payload_that_can_never_be_sent_does_not_hold_up_others(notifier: Notifier, heard: list[str], payload: str) -> None:
    async with running(notifier):
        notifier.notify(payload)
        notifier.notify("q:a")
        assert await notifier.flush(2)
        await eventually(lambda: heard == ["q:a"], description="the other notification")
    assert notifier.failures == 0


async def test_idle_notifier_opens_no_connection(notifier: Notifier, proxy: Proxy) -> None:
    async with running(notifier):
        await notifier.wait_passed()
    assert proxy.accepted == 0


def lots(heard: list[str]) -> dict[str, int]:
    """The queues that were told of, and of how many jobs."""
    found = [re.fullmatch(r"([qf])([0-9]+)\.([0-9]+)(:.*)", payload) for payload in heard]
    return {f"{one[1]}{one[4]}": int(one[2]) for one in found if one is not None}


async def test_jobs_of_a_queue_are_added_up_and_told_of_with_one_lot(notifier: Notifier, heard: list[str]) -> None:
    for payload in ("q1:a", "q2:a", "f1:a", "q4:b:c", "q1:a", "q1:all", "q:all", "q1:all"):
        notifier.notify(payload)
    async with running(notifier):
        assert await notifier.flush(2)
        await eventually(lambda: len(heard) == 4, description="four notifications")
    assert lots(heard) == {"q:a": 4, "f:a": 1, "q:b:c": 4}
    assert "q:all" in heard, "once it is not known how many, all are called"


async def test_jobs_whose_notify_failed_are_told_of_with_those_that_came_meanwhile(
    notifier: Notifier, proxy: Proxy, heard: list[str]
) -> None:
    async with running(notifier):
        notifier.notify("q:warm")
        assert await notifier.flush(2)
        proxy.black_hole()
        notifier.notify("q3:a")
        notifier.notify("q:all")
        await eventually(lambda: notifier._sending, description="it is on its way")
        for payload in ("q2:a", "q1:all", "q1:new"):
            notifier.notify(payload)
        await eventually(lambda: notifier.failures, description="it failed")
        proxy.heal()
        assert await notifier.flush(5)
        await eventually(lambda: lots(heard).get("q:new"), description="it was told of")
    assert lots(heard) == {"q:a": 5, "q:new": 1}
    assert "q:all" in heard
