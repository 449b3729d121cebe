"""A run on the runner that claimed it: who starts when, and what is given back (`runtime/followers.py`)."""

from typing import Any

import pytest

from asyncjobs.model.claim import Claimed, Finished
from asyncjobs.model.request import Request
from asyncjobs.runtime.followers import Followers, joined
from asyncjobs.runtime.ledger import Ledger
from tests.runtime.test_stock import Rig
from tests.support.claims import a_claimed
from tests.support.eventually import eventually


def a_run(*ids: int, **fields: Any) -> Claimed:
    """A head and its followers, as a call answers them."""
    given = {"type": "wait", "serialization_key": "k", **fields}
    head, *behind = (a_claimed(id=id, token=id, place=id, **given) for id in ids)
    return joined(Finished([head], [], [], gone=False, followers=behind[::-1])).claimed[0]


class Keyed(Rig):
    """The rig, whose outcomes of jobs with keys go where all go."""

    def __init__(self) -> None:
        super().__init__()
        keys: Any = self.coordinator._shared.keys
        keys.put = lambda _, ack: self.line.put(ack)

    def take(self, *jobs: Claimed) -> None:
        for job in self.coordinator.startable(jobs):
            self.coordinator._start_or_stock(job, self.scan, {})
        self.coordinator._fill_kept()

    @property
    def scan(self) -> Any:
        [scan] = self.coordinator._scans([self.coordinator.general], {None: 1})
        return scan


@pytest.fixture
async def rig() -> Keyed:
    return Keyed()


async def stop(rig: Keyed) -> None:
    rig.stop()
    assert await rig.attempts.wait_ended(5)
    assert (rig.taken, rig.waiting, rig.coordinator.stock._behind) == (0, 0, 0)


async def test_followers_run_one_after_the_other_each_when_the_one_in_front_has_completed(rig: Keyed) -> None:
    rig.take(a_run(1, 2, 3))
    for job_id in (1, 2, 3):
        assert (rig.running, rig.waiting) == ([job_id], 3 - job_id)
        await rig.end(job_id)
    assert [(ack.id, ack.number, ack.key_queue) for ack in rig.line.put_] == [(1, 0, None), (2, 1, None), (3, 2, "default")]
    await stop(rig)
    assert rig.given_back == []


async def test_follower_goes_behind_what_waits_for_a_slot(rig: Keyed) -> None:
    rig.take(a_run(1, 2))
    rig.claim(8, 9, lane="slow")
    await rig.end(1)
    assert (rig.running, rig.waiting) == ([8], 2)
    await rig.end(8)
    assert rig.running == [9]
    await rig.end(9)
    assert rig.running == [2]
    await stop(rig)


async def test_follower_takes_a_free_slot_where_its_own_was_kept_for_a_lane(rig: Keyed) -> None:
    rig.claim(9)
    rig.take(a_run(1, 2))
    assert rig.waiting == 2
    await rig.end(9)
    assert rig.running == [1]
    await stop(rig)


@pytest.mark.parametrize("how", ["fails", "is cancelled", "was lost"])
async def test_run_ends_with_a_job_that_does_not_plainly_complete(rig: Keyed, how: str) -> None:
    head = a_run(1, 2, 3)
    rig.take(head)
    await eventually(lambda: 1 in rig.go, description="it runs")
    if how == "fails":
        rig.attempts.all[0].cancel("failure requested")
    elif how == "is cancelled":
        rig.attempts.all[0].cancel("cancel requested")
    else:
        head.followers.settled(completed=False)
        rig.go[1].set()
    await eventually(lambda: rig.running == [], description="it has ended")
    assert (rig.given_back, rig.waiting) == ([2, 3], 0)
    assert [context.job.id for context in rig.runs.contexts] == [1]
    await stop(rig)


@pytest.mark.parametrize(("which", "expected"), [("all", [2, 3, 4]), ("third", [3, 4])])
async def test_what_takes_one_back_takes_all_behind_it(rig: Keyed, which: str, expected: list[int]) -> None:
    rig.take(a_run(1, 2, 3, 4))
    if which == "all":
        rig.queues.give_back_waiting()
    else:
        rig.obey(Request(3, 3, "cancel", None))
    assert (rig.given_back, rig.waiting) == (expected, 3 - len(expected))
    await stop(rig)


async def test_what_a_breaker_holds_ends_the_run_when_the_claim_is_answered(rig: Keyed) -> None:
    rig.held.add("guarded")
    guarded = joined(
        Finished([a_claimed(id=1, token=1, type="wait", serialization_key="k")], [], [], gone=False, followers=[
            a_claimed(id=2, token=2, place=2, type="wait", serialization_key="k"),
            a_claimed(id=3, token=3, place=3, type="guarded", serialization_key="k"),
        ])
    ).claimed[0]  # fmt: skip
    rig.take(guarded)
    assert (rig.given_back, rig.waiting) == ([3], 1)
    await stop(rig)


async def test_run_that_is_cut_short_halves_what_is_asked_for_and_completions_let_it_grow(rig: Keyed) -> None:
    stock = rig.coordinator.stock
    assert stock.ahead == 10
    rig.take(a_run(1, 2))
    rig.attempts.all[0].cancel("cancel requested")
    await eventually(lambda: rig.running == [], description="it has ended")
    assert stock.ahead == 5
    rig.take(a_run(4))
    await rig.end(4)
    assert stock.ahead == 6
    await stop(rig)


def test_followers_tell_when_what_is_in_front_is_written() -> None:
    told: list[int] = []
    run = Followers([a_claimed(id=id, token=id) for id in (2, 3)])
    run.when_written(2, lambda: told.append(2))
    run.when_written(1, lambda: told.append(1))
    run.settled(completed=True)
    assert told == [1]
    run.settled(completed=True)
    assert told == [1, 2]
    broken = Followers([a_claimed(id=2, token=2)])
    broken.when_written(5, lambda: told.append(5))
    broken.settled(completed=False)
    assert (told, broken.is_broken) == ([1, 2, 5], True)


def test_outcome_that_is_set_aside_keeps_those_behind_it() -> None:
    from types import SimpleNamespace

    from tests.support.claims import an_ack

    events: Any = SimpleNamespace(emit=lambda _: None, wants=lambda _: False)
    nobody: Any = SimpleNamespace()
    ledger = Ledger(turnstile=nobody, probation=nobody, wakes=nobody, events=events, runner_id=lambda: 1)
    head = a_run(1, 2, 3)
    others = a_run(11, 12)
    for job in (head, *head.followers, others, *others.followers):
        ack = an_ack(job)
        ledger.unwritten[job.token] = type(ack)(ack.id, ack.token, ack.outcome, followers=job.followers, number=job.number)
    assert [ack.id for ack in ledger.ready(9)] == [1, 2, 3, 11, 12]
    ledger.set_aside(2, ValueError())
    assert [ack.id for ack in ledger.ready(9)] == [1, 11, 12]
    assert [ack.id for ack in ledger.ready(9, {11})] == [1]
