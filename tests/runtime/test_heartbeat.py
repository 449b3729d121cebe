import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from asyncjobs.runtime import heartbeat as heartbeat_module
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.heartbeat import Heartbeat, MainLoop
from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.listener import Listener
from asyncjobs.telemetry.events import Events, LoopStalled, RunnerLostItself, ServicePassFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.beating import BEAT, PATIENT, Watched
from tests.support.eventually import eventually, patience
from tests.support.factories import insert_runner

WAITS = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'asyncjobs heartbeat' AND wait_event_type = 'Lock')"


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    async with Proxy(dsn) as made:
        yield made


@pytest.fixture
async def runner(connection: Connection, schema: str) -> int:
    return await insert_runner(connection, schema=schema, id=1)


async def beat_of(connection: Connection, runner_id: int = 1) -> int:
    return int(await connection.fetchval("SELECT beat FROM asyncjobs.runners WHERE id = $1", runner_id))


def trusted(heartbeat: Heartbeat) -> bool:
    return heartbeat.is_confirmed


def block_the_loop(until: Callable[[], bool], *, looks: int = 2000) -> None:
    """Let nothing else run in this thread until that is so; at most for so many looks."""
    while looks and not until():
        time.sleep(0.005)
        looks -= 1


def never() -> bool:
    return False


@pytest.mark.matrix("loop", "schema")
async def test_beats_go_on_at_their_interval(database: Database, runner: int) -> None:
    async with Watched(database).following(runner) as heartbeat:
        before, started = heartbeat.beats, time.monotonic()
        await eventually(lambda: heartbeat.beats >= before + 5, description="five more beats")
        assert time.monotonic() - started >= 4 * BEAT * 0.9
        assert trusted(heartbeat)


async def test_blocked_main_loop_does_not_stop_the_beat(database: Database, runner: int, connection: Connection) -> None:
    async with Watched(database).following(runner) as heartbeat:
        before = await beat_of(connection)
        seen = heartbeat.beats
        block_the_loop(lambda: heartbeat.beats >= seen + 4)
        assert await beat_of(connection) >= before + 4


async def test_answer_tells_how_many_others_there_are(database: Database, runner: int, connection: Connection) -> None:
    async with Watched(database).following(runner) as heartbeat:
        assert heartbeat.other_runners == 0
        await insert_runner(connection, id=2)
        await insert_runner(connection, id=3)
        await eventually(lambda: heartbeat.other_runners == 2, description="two others")


async def test_runner_whose_row_is_gone_is_told_once_and_may_come_back_under_another_id(
    database: Database, runner: int, connection: Connection
) -> None:
    watched = Watched(database)
    async with watched.following(runner) as heartbeat:
        await connection.execute("DELETE FROM asyncjobs.runners")
        await eventually(lambda: watched.declared_dead == [runner], description="it is declared dead")
        assert not trusted(heartbeat)
        await asyncio.sleep(3 * BEAT)
        assert watched.declared_dead == [runner]
        await insert_runner(connection, id=2)
        heartbeat.follow(2)
        await eventually(lambda: beat_of_is(connection, 2), description="beats of the other")
        assert trusted(heartbeat)
    assert watched.threads == {threading.get_ident()}


async def beat_of_is(connection: Connection, runner_id: int) -> bool:
    return await beat_of(connection, runner_id) > 0


async def test_runner_without_confirmed_beats_is_told_before_others_may_declare_it_dead(
    proxy: Proxy, runner: int, recorder: Recorder
) -> None:
    now = [0.0]
    watched = Watched(Database(proxy.dsn), clock=lambda: now[0], stall_after_seconds=BEAT, runner_timeout_seconds=360.0)
    async with watched.following(runner) as heartbeat:
        heartbeat.answer_seconds = BEAT
        proxy.black_hole("heartbeat")
        await recorder.wait_for(ServicePassFailed)
        now[0] = 300.0
        await eventually(lambda: watched.unconfirmed == [(runner, 300.0)], description="it is unconfirmed")
        assert not trusted(heartbeat)
        await asyncio.sleep(6 * BEAT)
        assert len(watched.unconfirmed) == 1
        heartbeat.answer_seconds = PATIENT
        proxy.heal()
        await eventually(lambda: trusted(heartbeat), description="a confirmed beat")
        proxy.black_hole("heartbeat")
        now[0] = 600.0
        await eventually(lambda: len(watched.unconfirmed) == 2, description="it is unconfirmed again")
    assert len(recorder.of(RunnerLostItself)) == 2
    assert watched.threads == {threading.get_ident()}


async def test_trust_ends_by_a_clock_that_goes_on_in_suspend_and_knows_no_time_of_day(database: Database, runner: int) -> None:
    assert Watched(database).heartbeat.clock is boottime
    slept = [0.0]
    watched = Watched(database, clock=lambda: slept[0], heartbeat_seconds=600.0, runner_timeout_seconds=360.0)
    async with watched.following(runner) as heartbeat:
        assert trusted(heartbeat)
        slept[0] = 299.0
        assert trusted(heartbeat)
        slept[0] = 300.0
        assert not trusted(heartbeat)
        await eventually(lambda: len(watched.unconfirmed) == 1, description="it is unconfirmed")


async def test_beat_is_confirmed_as_of_when_it_was_sent(database: Database, runner: int, connection: Connection) -> None:
    now = [0.0]
    watched = Watched(database, clock=lambda: now[0], heartbeat_seconds=600.0, runner_timeout_seconds=3600.0)
    async with watched.following(runner) as heartbeat:
        async with connection.transaction():
            await connection.execute("SELECT FROM asyncjobs.runners FOR UPDATE")
            now[0] = 1.0
            heartbeat.follow(runner, sent_at=0.0)  # a beat, now
            await eventually(lambda: connection.fetchval(WAITS), description="the beat has been sent")
            now[0] = 11.0
        await eventually(lambda: heartbeat.beats == 2, description="the beat is confirmed")
        assert heartbeat.confirmed_at == 1.0


async def test_follow_takes_the_moment_when_the_registration_was_sent(database: Database) -> None:
    heartbeat = Watched(database, clock=lambda: 100.0, runner_timeout_seconds=6.0).heartbeat
    heartbeat.follow(1, sent_at=95.1)
    assert trusted(heartbeat)
    heartbeat.follow(1, sent_at=95.0)
    assert not trusted(heartbeat)


async def test_failing_beats_are_repeated_on_a_new_connection(proxy: Proxy, runner: int, recorder: Recorder) -> None:
    async with Watched(Database(proxy.dsn)).following(runner) as heartbeat:
        heartbeat.answer_seconds = BEAT
        proxy.drop_next_response("heartbeat")
        await recorder.wait_for(ServicePassFailed, lambda event: event.service == "heartbeat")
        heartbeat.answer_seconds = PATIENT
        before = heartbeat.beats
        await eventually(lambda: heartbeat.beats > before, description="another beat")


async def test_database_that_is_down_at_the_start_is_waited_for(proxy: Proxy, runner: int, recorder: Recorder) -> None:
    proxy.refuse()
    heartbeat = Watched(Database(proxy.dsn)).heartbeat
    heartbeat.follow(runner)
    heartbeat.start()
    await recorder.wait_for(ServicePassFailed, lambda event: event.failures == 2)
    proxy.heal()
    await eventually(lambda: heartbeat.beats > 0, description="a beat")
    await heartbeat.stop()


async def test_stalled_loop_is_reported_while_it_stands_with_task_and_stack(
    database: Database, runner: int, recorder: Recorder
) -> None:
    async with Watched(database, stall_after_seconds=0.1).following(runner):

        async def work() -> None:
            block_the_loop(lambda: len(recorder.of(LoopStalled)) == 3)

        await asyncio.create_task(work(), name="job 42 (email)")
        reports = recorder.of(LoopStalled)  # nothing was awaited since: they were emitted meanwhile
    assert len(reports) >= 3
    assert all(report.task == "job 42 (email)" and "block_the_loop" in report.stack for report in reports)
    assert reports[0].seconds >= 0.1
    assert all(later.seconds >= 2 * earlier.seconds for earlier, later in pairwise(reports))


async def test_loop_that_turns_is_not_reported(monkeypatch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    now = [0.0]
    monkeypatch.setattr(heartbeat_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    main = MainLoop(asyncio.get_running_loop(), Events(), stall_after_seconds=0.2)
    for _ in range(10):
        main.watch()
        await asyncio.sleep(0)
        now[0] += 10.0
    main.watch()
    now[0] += 0.125
    main.watch()
    assert not recorder.of(LoopStalled)
    now[0] += 0.125
    main.watch()
    assert len(recorder.of(LoopStalled)) == 1


async def test_loop_that_stands_still_for_the_limit_stops_the_beat_until_it_turns(
    database: Database, runner: int, connection: Connection, recorder: Recorder
) -> None:
    watched = Watched(database, stall_after_seconds=0.1, stall_limit_seconds=0.3, runner_timeout_seconds=60.0)
    async with watched.following(runner) as heartbeat:
        block_the_loop(lambda: bool(recorder.of(RunnerLostItself)))
        stopped_at = heartbeat.beats
        block_the_loop(never, looks=40)
        assert heartbeat.beats == stopped_at
        assert [event.runner_id for event in recorder.of(RunnerLostItself)] == [runner]
        assert "stall_limit" in recorder.of(RunnerLostItself)[0].reason
        await eventually(lambda: heartbeat.beats > stopped_at, description="beats go on")


@pytest.mark.direct("ends a session of its own by its process")
async def test_session_that_listens_for_a_loop_that_stands_still_is_ended_at_the_limit(
    database: Database, runner: int, connection: Connection
) -> None:
    listener = Listener(database, on_notification=lambda *_: None, on_lost=lambda: None)
    await listener.listen()
    pid = listener.backend_pid
    lives = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
    watched = Watched(database, stall_after_seconds=0.1, stall_limit_seconds=0.9, listener=lambda: listener.backend_pid)
    async with watched.following(runner):
        time.sleep(0.15)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0.1)
        assert await connection.fetchval(lives, pid) == 1
        time.sleep(2.0)  # noqa: ASYNC251 - that is the point
        assert await connection.fetchval(lives, pid) == 0
        await eventually(lambda: listener.backend_pid is None, description="the loop hears of it")
    await listener.close()


async def test_session_of_somebody_else_is_left_alone(database: Database, connection: Connection) -> None:
    link = database.link("test")
    await runners.end_listener(link, connection.get_server_pid())
    assert await connection.fetchval("SELECT 1") == 1
    await link.close()


async def test_stop_ends_thread_and_connection(database: Database, runner: int) -> None:
    async with Watched(database).following(runner) as heartbeat:
        assert any(thread.name == "asyncjobs heartbeat" for thread in threading.enumerate())
        await heartbeat.stop()
        await eventually(
            lambda: all(thread.name != "asyncjobs heartbeat" for thread in threading.enumerate()), description="no thread"
        )
        await heartbeat.stop()


async def test_thread_has_ended_before_the_interpreter_does(database: Database, runner: int) -> None:
    """What it did while the interpreter was taken apart crashed the process."""
    async with Watched(database).following(runner):
        [thread] = [one for one in threading.enumerate() if one.name == "asyncjobs heartbeat"]
        heartbeat_module._end_living()  # as at the exit
        assert not thread.is_alive()


class _Raced(heartbeat_module.Heartbeat):
    """The main loop follows the new id at the worst moment: as the thread takes note that the former one has no row."""

    is_raced = False
    _id: int | None = None

    @property
    def runner_id(self) -> int | None:
        return self._id

    @runner_id.setter
    def runner_id(self, runner_id: int | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self.is_raced and runner_id is None:
            self.is_raced = False
            following = threading.Thread(target=self.follow, args=[2])
            following.start()
            following.join(0.2)  # it may have to wait for what is under way here
        self._id = runner_id


async def test_new_id_is_followed_although_the_former_is_found_dead_at_that_moment(
    database: Database, runner: int, connection: Connection
) -> None:
    watched = Watched(database)
    watched.heartbeat.__class__ = _Raced
    async with watched.following(runner) as heartbeat:
        await insert_runner(connection, id=2)
        watched.heartbeat.is_raced = True  # type: ignore[attr-defined]
        await connection.execute("DELETE FROM asyncjobs.runners WHERE id = $1", runner)
        await eventually(lambda: watched.declared_dead, description="its death is told")
        before = heartbeat.beats
        await eventually(lambda: heartbeat.runner_id == 2 and heartbeat.beats > before, description="it beats for the new id")
        assert heartbeat.is_confirmed


async def test_stop_does_not_wait_for_a_silent_server(proxy: Proxy, runner: int) -> None:
    async with Watched(Database(proxy.dsn), heartbeat_seconds=3600.0).following(runner) as heartbeat:
        proxy.black_hole()
        heartbeat.follow(runner)  # a beat, now
        await asyncio.sleep(0.05)
        async with patience(5):
            await heartbeat.stop(timeout_seconds=3600.0)  # returns when the thread has closed its connection


async def test_stop_before_the_thread_came_to_work(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Event()
    work = heartbeat_module.BeatThread._work

    def begin_late(self: heartbeat_module.BeatThread) -> None:
        begin.wait()
        work(self)

    monkeypatch.setattr(heartbeat_module.BeatThread, "_work", begin_late)
    heartbeat = Watched(database).heartbeat
    heartbeat.start()
    stopping = asyncio.create_task(heartbeat.stop(timeout_seconds=5.0))
    await asyncio.sleep(0)
    begin.set()
    async with patience(1):
        await stopping
    assert heartbeat.beats == 0
    await eventually(
        lambda: all(thread.name != "asyncjobs heartbeat" for thread in threading.enumerate()), description="no thread"
    )


async def test_stop_without_start_is_nothing(database: Database, runner: int) -> None:
    watched = Watched(database)
    await watched.heartbeat.stop()
    assert watched.heartbeat.turn_age_seconds is None
    async with watched.following(runner) as heartbeat:  # it can be started after that
        assert heartbeat.is_confirmed


async def test_beats_carry_on_next_to_a_busy_connection_of_the_main_loop(
    database: Database, runner: int, connection: Connection
) -> None:
    async with Watched(database).following(runner) as heartbeat:
        before = heartbeat.beats
        busy = asyncio.create_task(connection.fetch("SELECT pg_sleep(3600)"))
        await eventually(lambda: heartbeat.beats >= before + 3, description="three more beats")
        assert not busy.done()
        busy.cancel()
        await asyncio.wait([busy])


async def test_registration_beats_and_leaving_round_trip(database: Database) -> None:
    link = database.link("runner")
    runner_id = runners.new_runner_id()
    await runners.register(link, runner_id, host="h", pid=1, version="0", queues=["default"], types=["email"])
    async with Watched(database).following(runner_id):
        pass
    await runners.leave(link, runner_id)
    assert (await runners.look(link)).beats == {}
    await link.close()


async def test_beats_notify_nobody(database: Database, runner: int, connection: Connection) -> None:
    heard: list[object] = []
    await connection.add_listener(database.channel, lambda *args: heard.append(args[3]))
    watched = Watched(database)
    async with watched.following(runner) as heartbeat:
        await eventually(lambda: heartbeat.beats >= 5, description="five beats")
    await connection.execute("SELECT pg_notify($1, 'last')", database.channel)
    await eventually(lambda: heard, description="a notification")
    assert heard == ["last"]
