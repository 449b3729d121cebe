"""What breakers of several processes hear of each other, in which order, and whom they tell."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.model.breaker import Circuit, Policy, Reset
from asyncjobs.store import breakers as store
from asyncjobs.store.database import Database
from tests.support.breakers import Fleet, Process, breaking
from tests.support.eventually import eventually


@pytest.fixture
async def fleet(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Fleet]:
    async with breaking(database, monkeypatch) as made:
        yield made


async def test_a_success_a_moment_after_another_processs_failure_is_not_known_to_have_come_after_it(fleet: Fleet) -> None:
    one, two = fleet.start(), fleet.start()
    await two.call()
    await one.call("failed")
    await fleet.advance(0.1)
    await two.call("succeeded")
    await fleet.advance(0.1)
    await two.call("failed")
    assert two.state == "open"


async def test_an_answer_that_was_overtaken_by_a_newer_one_changes_nothing(fleet: Fleet, monkeypatch: Any) -> None:
    one = fleet.start()
    await one.call()
    look, seen, deliver = store.look, asyncio.Event(), asyncio.Event()

    async def late(*args: Any) -> Any:
        answer = await look(*args)
        seen.set()
        await deliver.wait()
        return answer

    monkeypatch.setattr(store, "look", late)
    looking = asyncio.create_task(one.looked())
    await seen.wait()
    assert [await one.call("failed"), await one.call("failed"), one.state] == ["failed", "failed", "open"]
    deliver.set()
    await looking
    assert one.state == "open"


async def test_who_waits_for_a_probe_is_told_as_soon_as_its_time_has_come(fleet: Fleet) -> None:
    one, told = fleet.start(open_seconds=1.0), list[str]()
    await one.call()
    one.breakers.watch(told.append)
    assert [await one.call("failed"), await one.call("failed"), one.free] == ["failed", "failed", 0]
    told.clear()
    await fleet.advance(1.01)
    await eventually(lambda: told == ["mail"], description="long before the next look")
    assert one.free == 1


@pytest.mark.parametrize("service", ["mail", "of another program"])
async def test_a_breaker_that_an_operator_moved_is_told_to_all(fleet: Fleet, monkeypatch: Any, service: str) -> None:
    one, told = fleet.start(), list[str]()
    await one.call()
    monkeypatch.setattr(fleet, "deliver", lambda _, payload: told.append(payload))
    moved = store.Happened(seen=store.Seen(Circuit(state="open"), 99), formerly="closed")
    one.breakers.moved(service, moved)
    assert len(told) == 1
    assert one.state == ("open" if service == "mail" else "closed")


async def test_who_waits_for_a_breaker_learns_by_looking_what_no_notification_told(fleet: Fleet) -> None:
    one, two, told = fleet.start(), fleet.start(), list[int | None]()
    two.breakers.watch(lambda _: told.append(two.free))
    await two.call()
    assert [await one.call("failed"), await one.call("failed")] == ["failed", "failed"]
    await two.looked()
    await two.looked()  # it is not used any more, and it is not closed
    assert (two.state, told) == ("open", [0])
    fleet.notifies = False
    link = fleet.database.link("test")
    one.breakers.moved("mail", await store.happen(link, Reset(), one.policy))
    await link.close()
    await fleet.advance(11)
    await eventually(lambda: told == [0, None], description="within an interval, without a call")
    assert two.state == "closed"


@pytest.mark.parametrize(("hears", "seconds"), [(True, 5.0), (False, 1.0)])
async def test_where_no_notification_arrives_it_looks_more_often(fleet: Fleet, *, hears: bool, seconds: float) -> None:
    one = Process(fleet, Policy(service="mail"), look_seconds=None)
    fleet.processes.append(one)
    one.breakers.watch(lambda _: None, hears=lambda: hears)
    assert one.breakers._seconds == seconds
