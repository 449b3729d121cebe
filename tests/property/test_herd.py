"""No wake-up is lost in a fleet that draws lots, whoever is killed or frozen: there is no poll here that would find it."""

import pytest

from asyncjobs.runtime.coordinator import Coordinator
from tests.support.fleet import Fleet

#: Of a job that a runner which is awake could run all the time: the last of those that see to it looks after 0.7 s.
LONGEST_SECONDS = 1.0


def played(monkeypatch: pytest.MonkeyPatch, seed: int, *, enqueues: int, runners: int = 8, slots: int = 3) -> Fleet:
    """So many enqueues, in bursts and one by one, while at most two runners at once are killed or frozen."""
    fleet = Fleet(seed, runners, slots, monkeypatch, durations=(0.0, 0.01, 0.1, 0.1, 3.0))
    fleet.watch(LONGEST_SECONDS)
    random = fleet.random
    fleet.run(1.0)
    pace, trouble_at, rest_until, made = 50.0, fleet.now, 0.0, 0
    while made < enqueues:
        if fleet.now >= rest_until:
            number = random.choice((1, 1, 1, 1, 1, 2, 5, 40))
            fleet.enqueue(number)
            made += number
            if random.random() < 0.02:
                pace = random.choice((0.5, 5.0, 50.0, 300.0))
        if fleet.now >= trouble_at:
            trouble_at = fleet.now + 10.0
            for runner in random.sample(fleet.runners, 2):
                if random.random() < 0.3:
                    runner.kill()
                    fleet.start()
                else:
                    runner.freeze(random.choice((0.02, 0.2, 1.0, 4.0)))
        fleet.run(random.expovariate(pace))
        if len(fleet.pending) > 20 * runners * slots:
            rest_until = fleet.now + 5.0
    for _ in range(60):
        fleet.run(5.0)
    assert fleet.late == []
    assert fleet.pending == {}
    return fleet


def test_no_wake_up_is_lost_in_two_thousand_enqueues(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, 1, enqueues=2000)


@pytest.mark.proof
@pytest.mark.parametrize(("runners", "slots"), [(8, 3), (4, 1), (12, 1), (3, 10)])
@pytest.mark.parametrize("seed", range(3))
def test_no_wake_up_is_lost_in_a_hundred_thousand_enqueues(
    monkeypatch: pytest.MonkeyPatch, seed: int, runners: int, slots: int
) -> None:
    played(monkeypatch, seed, enqueues=10_000, runners=runners, slots=slots)


def test_where_nobody_sees_to_it_jobs_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "_see_to", lambda *_: None)
    with pytest.raises(AssertionError, match="a job waits for"):
        played(monkeypatch, 1, enqueues=1500, runners=4, slots=1)


def test_one_job_costs_one_claim_and_a_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(3, 100, 10, monkeypatch)
    fleet.run(20.0)
    fleet.claims = fleet.looks = 0
    for _ in range(50):
        fleet.enqueue(1)
        fleet.run(2.0)
    assert (fleet.claims <= 60, fleet.looks <= 4 * 50, len(fleet.waits)) == (True, True, 50)


@pytest.mark.parametrize("seconds", [(0.0, 0.01, 0.1), (0.8,)])
def test_a_thousand_jobs_a_second_cost_little_more_claims_than_there_are_batches(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...]
) -> None:
    """A batch is what a notification tells of, when there are slots for it at one runner.

    Counted are claims that carry no outcomes: those that do are calls that are made anyway. Some of them find nothing, since a
    slot that another has freed has asked in the call that wrote its outcome, or since a look has found a job in the moment in
    which it was claimed. With `seconds` of 0.8 all slots but a fifth are taken, and every other runner is full.
    """
    fleet = Fleet(4, 100, 10, monkeypatch, durations=seconds)
    fleet.run(6.0)
    for _ in range(400):
        fleet.enqueue(2)
        fleet.run(0.002)
    fleet.told = fleet.alone = 0
    fleet.waits.clear()
    for _ in range(500):
        fleet.enqueue(fleet.random.choice((1, 2, 3)))
        fleet.run(0.002)
    assert fleet.alone <= 1.5 * 500
    assert fleet.told <= 2.5 * 500
    waits = sorted(fleet.waits)
    assert waits[len(waits) // 2] < 0.005
    assert waits[-len(waits) // 100] < 0.1


@pytest.mark.parametrize("seed", [4, 5])
def test_a_burst_of_jobs_that_do_nothing_costs_little_more_claims_than_runners_it_takes(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What the scan that carries their outcomes finds, behind a full one, is what is left: none from the front has to follow."""
    fleet = Fleet(seed, 100, 10, monkeypatch, durations=(0.0,))
    fleet.run(6.0)
    fleet.told = fleet.alone = 0
    for _ in range(200):
        fleet.enqueue(20)
        fleet.run(0.02)
    assert (fleet.alone <= 1.2 * 2 * 200, fleet.told <= 1.2 * 200, fleet.pending) == (True, True, {})
