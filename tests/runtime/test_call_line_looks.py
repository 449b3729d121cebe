"""Looks of the call line for what scans have skipped: they cost no call more."""

import pytest

from asyncjobs.model.claim import FRONT, Scan
from asyncjobs.settings import Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AcksWritten
from tests.support.at_work import at_work
from tests.support.claims import an_ack
from tests.support.lines import found_by_line


async def test_who_looks_asks_for_jobs_in_the_call_that_writes_what_ended_meanwhile(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(database, connection, Queue(concurrency=1)) as rig:
        [first] = await rig.enqueue(1)
        rig.wake()
        await rig.wait_running(1)
        [second] = await rig.enqueue(1)

        async def skipped(_lanes: object) -> set[object]:
            rig.line.put(an_ack(rig.host.running.pop(first)[0]))  # a handler ends while the look is under way
            return set()

        monkeypatch.setattr(rig.line._statements, "skipped", skipped)
        await rig.line.look({("default", None): FRONT})
        [found] = await found_by_line(rig.line, [Scan("default", None, 1)])
        assert [job.id for job in found.jobs] == [second]
        assert [(len(one.tokens), one.claimed) for one in rig.of(AcksWritten)] == [(1, 1)]
        rig.line.give_back(found.jobs)
        rig.coordinators[0].lanes[None].slots.give_back()
