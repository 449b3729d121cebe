import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import asyncpg
import psycopg
import pytest

from asyncjobs.errors import ConfigurationError
from asyncjobs.runtime.listening import Listening
from asyncjobs.runtime.notifier import Notifier
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.listener import Listener
from asyncjobs.telemetry.events import Events, ListenerConnected, ListenerFellBack, ListenerLost, ServicePassFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import eventually, patience
from tests.support.services import Woken, running


class Setup:
    """A listening service and what belongs to it, through a proxy."""

    def __init__(self, proxy: Proxy, schema: str, **options: Any) -> None:
        self.database = Database(proxy.dsn, schema=schema)
        # Behind a pooler that swallows notifications, the notifier might as well speak of another schema.
        swallowed = options.pop("swallowed", False)
        sender = Database(proxy.dsn, schema="elsewhere") if swallowed else self.database
        events = Events()
        self.notifier = Notifier(sender.link("notifier"), events=events, timeout_seconds=0.5)
        self.wakes = Wakes(self.notifier.notify)
        self.woken = Woken()
        self.wakes.add(self.woken)
        defaults: dict[str, Any] = {"keepalive_seconds": 0.2, "probe_seconds": 0.3, "timeout_seconds": 0.3}
        self.listening = Listening(self.database, self.wakes, self.notifier, events=events, **(defaults | options))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run until the context is left."""
        try:
            async with running(self.notifier, self.listening):
                yield
        finally:
            await self.notifier.close_link()

    @asynccontextmanager
    async def settled(self) -> AsyncGenerator[None]:
        """Run, and wait until it is known that notifications arrive."""
        async with self.running():
            async with patience(5):
                assert await self.listening.wait_decided() == "listen"
            yield


Make = Callable[..., Setup]


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    async with Proxy(dsn) as made:
        yield made


@pytest.fixture
def make(proxy: Proxy, schema: str, recorder: Recorder) -> Make:
    return lambda **options: Setup(proxy, schema, **options)


async def notify(connection: Connection, setup: Setup, payload: str) -> None:
    await connection.fetch("SELECT pg_notify($1, $2)", setup.database.channel, payload)


async def backends(connection: Connection) -> list[Any]:
    rows = await connection.fetch(
        "SELECT pid, state FROM pg_stat_activity WHERE application_name = 'asyncjobs listener' AND datname = current_database()"
    )
    return [dict(row) for row in rows]


async def nth_connection(setup: Setup, connects: int) -> None:
    """Wait for the nth connection."""
    await eventually(lambda: setup.listening.connects >= connects, description=f"connection {connects}", timeout=2.0)


async def terminate(connection: Connection) -> None:
    await connection.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'asyncjobs listener' AND datname = current_database()"
    )


@pytest.mark.direct("is about LISTEN", only="poll")
@pytest.mark.matrix("loop", "schema")
async def test_notifications_of_others_wake_whom_they_are_for(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.settled():
        for payload in ("q:mail", "f:mail", "d", "z:unknown", "", "q:with:colon"):
            await notify(connection, setup, payload)
        await eventually(lambda: len(setup.woken.queues) == 3, description="the last notification")
    assert setup.woken.queues == [("mail", False), ("mail", True), ("with:colon", False)]
    assert setup.woken.due == [0.0]


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_own_notifications_are_not_heard_again(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.settled():
        setup.notifier.notify("q:own")
        assert await setup.notifier.flush(2)
        await notify(connection, setup, "q:other")
        await eventually(lambda: setup.woken.queues, description="the other's notification")
    assert setup.woken.queues == [("other", False)]


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_everybody_is_woken_after_listen_took_effect(make: Make, dsn: str) -> None:
    setup = make()
    with psycopg.connect(dsn, autocommit=True) as sender:

        def commit_in_the_gap() -> None:
            sender.execute("SELECT pg_notify(%s, 'q:gap')", [setup.database.channel])

        setup.woken.wake = commit_in_the_gap  # type: ignore[method-assign]
        async with setup.settled():
            await eventually(lambda: setup.woken.queues == [("gap", False)], description="what is notified from then on arrives")


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_terminated_connection_is_replaced_at_once_and_everybody_woken(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(keepalive_seconds=60.0)
    async with setup.settled():
        assert setup.woken.all == 1
        await terminate(connection)
        await recorder.wait_for(ListenerConnected, lambda event: event.reconnect, timeout=1.0)
        assert setup.woken.all == 2
        assert len(recorder.of(ListenerLost)) == 1
        assert len(await backends(connection)) == 1
        await notify(connection, setup, "q:a")
        await eventually(lambda: setup.woken.queues == [("a", False)], description="a notification")
        assert setup.listening.mode == "listen"


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_silent_connection_is_replaced_within_its_bound(
    make: Make, proxy: Proxy, connection: Connection, recorder: Recorder
) -> None:
    setup = make()
    async with setup.settled():
        proxy.black_hole("listener")
        await recorder.wait_for(ListenerLost, timeout=0.2 * 1.1 + 0.3 + 0.3)
        assert not setup.listening.is_connected
        proxy.heal()
        await eventually(lambda: setup.listening.connects == 2, description="another connection")
        await eventually(lambda: setup.woken.all == 2, description="everybody is woken")
        await notify(connection, setup, "q:a")
        await eventually(lambda: setup.woken.queues == [("a", False)], description="a notification")


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_connection_that_dies_again_and_again_is_not_replaced_in_a_storm(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(keepalive_seconds=60.0)
    async with setup.settled():
        async with patience(5):
            for connects in range(1, 5):
                await nth_connection(setup, connects)
                await terminate(connection)
                await eventually(lambda: len(recorder.of(ListenerLost)) >= setup.listening.connects, description="its loss")
        started = [entry.at for entry in recorder.recorded if isinstance(entry.event, ListenerLost)]
        connected = [entry.at for entry in recorder.recorded if isinstance(entry.event, ListenerConnected)][1:]
        waits = [up - down for down, up in zip(started, connected, strict=False)]
        assert waits[0] >= 0.05
        assert waits[2] >= 0.2  # 0.1, 0.2, 0.4 s, of which chance takes up to a half


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_sign_of_life_ends_the_doubling_of_waits(make: Make, connection: Connection, recorder: Recorder) -> None:
    setup = make(keepalive_seconds=0.05)
    async with setup.settled():
        for _ in range(5):
            connects = setup.listening.connects
            await terminate(connection)
            await nth_connection(setup, connects + 1)
            await setup.listening.wait_passed()
            assert setup.listening._short_lives == 0


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_refused_connections_are_tried_with_backoff(make: Make, proxy: Proxy, recorder: Recorder) -> None:
    setup = make(keepalive_seconds=5.0)
    async with setup.settled():
        proxy.refuse("listener")
        proxy.reset("listener")
        await eventually(lambda: len(recorder.of(ServicePassFailed)) >= 4, description="four attempts")
        at = [entry.at for entry in recorder.recorded if isinstance(entry.event, ServicePassFailed)]
        waits = [after - before for before, after in pairwise(at)]
        assert all(wait >= least for wait, least in zip(waits, (0.05, 0.1, 0.2), strict=False))  # chance takes up to a half
        proxy.heal()
        await eventually(lambda: setup.listening.is_connected, description="a connection")


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_subscriptions_outlive_the_task(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.settled():
        pass
    async with setup.running():
        await eventually(lambda: setup.listening.is_connected, description="a connection")
        for queue in ("a", "b", "c"):
            await notify(connection, setup, f"q:{queue}")
        await eventually(lambda: len(setup.woken.queues) == 3, description="all three are woken")


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_notifications_on_their_way_at_the_end_wake_nobody(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.settled():
        for _ in range(100):
            await notify(connection, setup, "q:late")
    seen = len(setup.woken.queues)
    await asyncio.sleep(0.05)
    setup.listening._listener._heard(connection, 0, setup.database.channel, "q:late")
    assert len(setup.woken.queues) == seen


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_notifications_that_never_come_back_mean_polling_with_one_warning(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(swallowed=True)
    async with setup.running(), patience(5):
        assert setup.listening.mode == "probing"
        assert await setup.listening.wait_decided() == "poll"
        assert len(recorder.of(ListenerFellBack)) == 1
        await eventually(lambda: _none(backends(connection)), description="its connection is closed")
        await asyncio.sleep(0.5)
    assert setup.listening.connects == 1
    assert len(recorder.of(ListenerFellBack)) == 1
    assert setup.woken.all == 2  # once at the LISTEN, and once more when that was found to say nothing
    assert setup.listening.unheard_seconds() == setup.listening.poll_seconds()


async def _none(rows: Any) -> bool:
    return not await rows


async def test_asking_for_listen_fails_when_notifications_never_come_back(make: Make, recorder: Recorder) -> None:
    setup = make(notify="listen", swallowed=True)
    async with setup.running(), patience(5):
        with pytest.raises(ConfigurationError, match=r'notify="listen": .*listen_dsn='):
            await setup.listening.wait_decided()
    assert not recorder.of(ListenerFellBack)


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_asking_for_listen_listens(make: Make) -> None:
    async with make(notify="listen").settled():
        pass


async def test_polling_never_connects(make: Make, proxy: Proxy) -> None:
    setup = make(notify="poll")
    async with setup.running(), patience(5):
        assert await setup.listening.wait_decided() == "poll"
    assert proxy.accepted == 0


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_probe_that_could_not_be_sent_is_repeated(make: Make, proxy: Proxy, recorder: Recorder) -> None:
    proxy.refuse("notifier")
    setup = make()
    async with setup.running(), patience(5):
        await recorder.wait_for(ServicePassFailed, lambda event: event.service == "listening")
        assert setup.listening.mode == "probing"
        proxy.heal()
        assert await setup.listening.wait_decided() == "listen"
    assert not recorder.of(ListenerFellBack)


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_silence_during_the_probe_is_no_pooler(make: Make, proxy: Proxy, recorder: Recorder) -> None:
    setup = make(keepalive_seconds=5.0)
    setup.woken.wake = lambda: proxy.black_hole("listener")  # type: ignore[method-assign]
    async with setup.running(), patience(5):
        await recorder.wait_for(ServicePassFailed, lambda event: event.service == "listening")
        setup.woken.wake = lambda: None  # type: ignore[method-assign]
        proxy.heal()
        assert await setup.listening.wait_decided() == "listen"
    assert not recorder.of(ListenerFellBack)


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_silence_between_connect_and_listen_is_noticed(make: Make, proxy: Proxy, recorder: Recorder) -> None:
    setup = make(keepalive_seconds=5.0)
    connect = setup.database.connect

    async def connect_and_fall_silent(role: str, **options: Any) -> Connection:
        connection = await connect(role, **options)
        proxy.black_hole("listener")
        return connection

    setup.database.connect = connect_and_fall_silent  # type: ignore[method-assign]
    async with setup.running(), patience(5):
        await recorder.wait_for(ServicePassFailed, lambda event: event.service == "listening", timeout=1.5)
        setup.database.connect = connect  # type: ignore[method-assign]
        proxy.heal()
        assert await setup.listening.wait_decided() == "listen"


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_connection_ends_with_the_task(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.settled():
        assert len(await backends(connection)) == 1
    assert not setup.listening.is_connected
    await eventually(lambda: _none(backends(connection)), description="no connection")


async def test_closing_takes_the_listen_back_for_a_pooler_that_keeps_the_session(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels: list[Any] = []
    close = asyncpg.Connection.close

    async def look_and_close(self: Connection, *, timeout: float | None = None) -> None:
        channels.append(await self.fetch("SELECT pg_listening_channels()"))
        await close(self, timeout=timeout)

    monkeypatch.setattr(asyncpg.Connection, "close", look_and_close)
    listener = Listener(database, on_notification=lambda _payload, _pid: None, on_lost=lambda: None)
    await listener.listen()
    await listener.close()
    await listener.close()
    assert channels == [[]]


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_stopping_does_not_wait_for_a_silent_server(make: Make, proxy: Proxy) -> None:
    setup = make()
    async with patience(2), setup.settled():
        proxy.black_hole()
        await asyncio.sleep(0.25)  # a sign of life is awaited


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_listening_session_is_idle_and_never_in_a_transaction(make: Make, connection: Connection) -> None:
    setup = make(keepalive_seconds=0.005)
    async with setup.settled():
        states = {row["state"] for _ in range(50) for row in await backends(connection)}
    assert states <= {"idle", "active"}
    assert "idle" in states


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_flood_of_notifications_and_keepalives_share_the_connection(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(keepalive_seconds=0.001)
    async with setup.settled():
        for number in range(1000):
            await notify(connection, setup, f"q:{number}")
        await eventually(lambda: len(setup.woken.queues) == 1000, description="all notifications")
    assert not recorder.of(ServicePassFailed)
