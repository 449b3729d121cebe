"""What is handed in to a call line, and what may befall it before, while and after it is sent: merged, cancelled, in doubt."""

import asyncio
from typing import Any

import pytest

from asyncjobs.model.claim import FRONT, Ack, Scan
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime import points
from asyncjobs.runtime.orders import NoAnswer, Scanned
from asyncjobs.settings import Queue
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import ClaimWasLost, DatabaseFailed, JobsClaimed, JobsGivenBack, OutcomeWritten
from tests.support.at_work import AtWork, at_work
from tests.support.eventually import eventually, patience
from tests.support.lines import found_by_line
from tests.support.services import Woken

#: The coordinators have no slots to speak of: what is claimed is the tests'.
BUSY = Queue(concurrency=1)


async def busy(rig: AtWork) -> None:
    """Its one slot is taken, and nothing else waits."""
    await rig.enqueue()
    rig.wake()
    await rig.wait_running(1)
    rig.wake()
    await rig.wait_idle()


async def give_back(rig: AtWork, *answers: Scanned) -> None:
    rig.line.give_back([job for found in answers for job in found.jobs])
    await rig.wait_idle()


async def test_scans_of_the_same_slots_are_one_and_each_submitter_has_its_share(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, BUSY) as rig:
        await busy(rig)
        ids = await rig.enqueue(3)
        scans = len(rig.of(JobsClaimed))
        one, other, third = await asyncio.gather(
            found_by_line(rig.line, [Scan("default", None, 2, (100, 1 << 40))]),
            found_by_line(rig.line, [Scan("default", None, 1)]),
            found_by_line(rig.line, [Scan("default", None, 2)]),
        )
        assert [event.wanted for event in rig.of(JobsClaimed)[scans:]] == [5]
        found = [*one, *other, *third]
        assert [[job.id for job in each.jobs] for each in found] == [ids[:2], ids[2:], []]
        assert {(each.start, each.is_full, each.call) for each in found} == {(FRONT, False, rig.line.calls)}
        await give_back(rig, *found)


async def test_share_of_an_order_that_is_over_is_given_back(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, BUSY) as rig:
        await busy(rig)
        ids = await rig.enqueue(2)
        leaver = asyncio.create_task(found_by_line(rig.line, [Scan("default", None, 1)]))
        stayer = asyncio.create_task(found_by_line(rig.line, [Scan("default", None, 1)]))

        async def leave(point: str) -> None:
            if point == "finish.sent":
                leaver.cancel()

        with points.installed(leave):
            [found] = await stayer
        assert [job.id for job in found.jobs] == ids[1:]
        await rig.wait_idle()
        row = await rig.row(ids[0])
        assert (row["status"], row["attempts"]) == ("pending", 0)
        await give_back(rig, found)


async def test_jobs_of_a_coordinator_whose_task_ends_while_it_asks_start_all_the_same(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        ids = await rig.enqueue(2)
        go, sent = asyncio.Event(), asyncio.Event()

        async def hold(_point: str) -> None:
            sent.set()
            await go.wait()

        calls = rig.line.calls
        with points.installed(hold):
            rig.wake()
            await sent.wait()
            rig.again(len(rig.running) - 1)
            await asyncio.sleep(0)
            go.set()
            assert await rig.wait_running(2) == ids
        assert rig.line.calls == calls + 1


async def test_submitter_that_left_before_the_call_is_not_asked_for(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, BUSY) as rig:
        await busy(rig)
        await rig.enqueue()
        go, sent = asyncio.Event(), asyncio.Event()

        async def hold(_point: str) -> None:
            sent.set()
            await go.wait()

        calls = rig.line.calls
        with points.installed(hold):
            first = asyncio.create_task(found_by_line(rig.line, [Scan("elsewhere", None, 1)]))
            await sent.wait()
            second = asyncio.create_task(found_by_line(rig.line, [Scan("default", None, 1)]))
            await asyncio.sleep(0)
            second.cancel()
            go.set()
            assert [found.jobs for found in await first] == [[]]
        await asyncio.sleep(0.01)
        assert rig.line.calls == calls + 1


async def test_closed_line_takes_outcomes_and_refuses_scans_at_once(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        rig.host.is_confirmed = False
        [job_id] = await rig.enqueue()
        rig.line.put(Ack(7, 7, Outcome(kind="completed")))
        with pytest.raises(NoAnswer):
            await found_by_line(rig.line, [Scan("default", None, 1)])
        with pytest.raises(NoAnswer):
            await found_by_line(rig.line, [Scan("default", None, 1)])
        with pytest.raises(NoAnswer):
            await rig.line.look({("default", None): FRONT})
        await rig.wait_idle()
        assert ((await rig.row(job_id))["status"], rig.line.unwritten) == ("pending", 0)
        rig.host.is_confirmed = True
        async with patience(5):
            await rig.line.wait_open()


async def test_next_head_whose_outcome_is_in_another_call_than_its_scan_is_told_of(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=5), most_unwritten=2000) as rig:
        first, second = await rig.enqueue_keyed(2)
        rig.wake()
        await rig.wait_running(1)
        rig.wakes.add(_Waking(rig))
        go, held = asyncio.Event(), asyncio.Event()

        async def hold(_point: str) -> None:
            held.set()
            await go.wait()

        with points.installed(hold):
            rig.line.put(Ack(1, 1, Outcome(kind="completed")))
            await held.wait()
            for number in range(500):  # as many as one call takes
                rig.line.put(Ack(10_000 + number, 10_000 + number, Outcome(kind="completed")))
            rig.put(first)
            await asyncio.sleep(0)
            go.set()
            await eventually(lambda: second in rig.host.running, description="the next one runs")
        assert rig.notified == ["q1:default"]


class _Waking(Woken):
    """Wakes the coordinators, as a runner does."""

    def __init__(self, rig: AtWork) -> None:
        super().__init__()
        self._rig = rig

    def wake_queue(self, queue: str, *, front: bool) -> None:
        self._rig.queues[queue].wake(front=front)


async def test_head_of_a_queue_that_is_paused_before_the_call_leaves_is_not_started(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        first, second = await rig.enqueue_keyed(2)
        rig.wake()
        await rig.wait_running(1)

        async def pause(point: str) -> None:
            if point == "finish.send":
                await connection.execute(
                    "INSERT INTO asyncjobs.pauses (kind, name) VALUES ('queue', 'default') ON CONFLICT DO NOTHING"
                )

        with points.installed(pause):
            rig.put(first)
            await rig.wait_idle()
        assert ((await rig.row(first))["status"], rig.host.running) == ("completed", {})
        assert rig.coordinators[0].general.slots.free == 2
        await connection.execute("DELETE FROM asyncjobs.pauses")
        rig.wake()
        await eventually(lambda: second in rig.host.running, description="the next one runs when it may")


async def in_a_call(rig: AtWork, point: str) -> None:
    reached = asyncio.Event()

    async def stay(name: str) -> None:
        if name == point:
            reached.set()
            await asyncio.Event().wait()

    with points.installed(stay):
        rig.put(next(iter(rig.host.running)))
        await reached.wait()
        rig.again(0)
        await asyncio.sleep(0)


@pytest.mark.parametrize("point", ["finish.send", "finish.sent"])
async def test_line_that_is_ended_in_its_call_finds_out_what_became_of_it(
    database: Database, connection: Connection, point: str
) -> None:
    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        first, second = await rig.enqueue(2)
        rig.wake()
        await rig.wait_running(1)
        async with patience(10):
            await in_a_call(rig, point)
            await eventually(lambda: list(rig.host.running) == [second], description="the next one runs")
            await rig.wait_idle()
        assert ((await rig.row(first))["status"], (await rig.row(second))["attempts"]) == ("completed", 1)
        assert ([event.job_id for event in rig.of(OutcomeWritten)].count(first), rig.of(ClaimWasLost)) == (1, [])


@pytest.mark.parametrize("reading", ["still_processing", "give_back"])
async def test_line_that_is_ended_while_it_finds_out_finds_out_again(
    database: Database, connection: Connection, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        first, second = await rig.enqueue(2)
        rig.wake()
        await rig.wait_running(1)
        reached, asked = asyncio.Event(), list[str]()
        real = getattr(jobs, reading)

        async def stay(*args: Any, **options: Any) -> Any:
            asked.append(reading)
            if len(asked) == 1:
                reached.set()
                await asyncio.Event().wait()
            return await real(*args, **options)

        monkeypatch.setattr(jobs, reading, stay)
        fails = [ConnectionResetError("cut")]

        async def cut(point: str) -> None:
            if point == "finish.sent" and fails:
                raise fails.pop()

        with points.installed(cut):
            rig.put(first)
            await reached.wait()
            rig.again(0)
            await eventually(lambda: list(rig.host.running) == [second], description="the next one runs")
            await rig.wait_idle()
        assert (len(asked) >= 2, (await rig.row(first))["status"]) == (True, "completed")


async def test_line_that_is_ended_in_its_back_off_goes_on(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        first, second = await rig.enqueue(2)
        rig.wake()
        await rig.wait_running(1)
        fails = [ConnectionResetError("cut")]

        async def cut(point: str) -> None:
            if point == "finish.send" and fails:
                raise fails.pop()

        with points.installed(cut):
            rig.put(first)
            await eventually(lambda: rig.of(DatabaseFailed), description="the call fails", interval=0.001)
            rig.again(0)
            await eventually(lambda: list(rig.host.running) == [second], description="the next one runs")


async def test_line_that_is_restarted_in_doubt_opens_although_nobody_hands_in(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        reached = asyncio.Event()

        async def stay(point: str) -> None:
            if point == "finish.send":
                reached.set()
                await asyncio.Event().wait()

        with points.installed(stay):
            rig.wake()
            await reached.wait()
            rig.again(0)
            await asyncio.sleep(0)
        await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)


async def test_claims_are_not_taken_for_strays_in_the_very_step_after_their_answer(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=3), reconcile_seconds=0.0) as rig:
        for _ in range(3):
            await rig.enqueue(3)
            rig.wake()
            for job_id in await rig.wait_running(3):
                rig.put(job_id)
            await rig.wait_idle()
        assert rig.of(JobsGivenBack) == []


async def test_coordinator_and_actor_that_are_ended_again_and_again_lose_no_slot_and_no_job(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=2, prefetch=4)) as rig:
        rig.wakes.add(_Waking(rig))
        plain = await rig.enqueue(12)
        keyed = await rig.enqueue_keyed(6)
        rig.wake()
        ended: set[int] = set()
        turns = 0

        async def goes_on() -> bool:
            """Ends what runs, and one of the tasks that keep it going; whether all has ended."""
            nonlocal turns
            turns += 1
            for job_id in list(rig.host.running):
                ended.add(job_id)
                rig.put(job_id)
            rig.again(1 + turns % (len(rig.running) - 1))
            await asyncio.sleep(0)
            assert not (rig.coordinators[0].stock._line and rig.coordinators[0].general.slots.free), (
                "a free slot beside what waits"
            )
            return len(ended) == len(plain) + len(keyed)

        await eventually(goes_on, description="all have ended", timeout=20, interval=0.002)
        await rig.wait_idle()
        statuses = {job_id: (await rig.row(job_id))["status"] for job_id in [*plain, *keyed]}
        assert set(statuses.values()) == {"completed"}
        assert [job.id for job in rig.host.started if job.serialization_key] == keyed
