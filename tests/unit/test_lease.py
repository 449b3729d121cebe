"""One test per sentence of the theory, on one clock that the test moves. `Fleet` plays processes against a row."""

import random

import pytest

from asyncjobs.model.lease import Leases, LeaseTimes, Seen, Try

TIMES = LeaseTimes()


@pytest.fixture
def leases() -> Leases:
    return Leases(TIMES)


def seen(token: int = 7, renewals: int = 1, age: float = 0.0) -> Seen:
    return Seen("prune", token, renewals, age)


def look(leases: Leases, at: float, *shown: Seen, took: float = 0.0) -> None:
    leases.looked(shown, sent_at=at, answered_at=at + took)


# Trust.


def test_trust_counts_from_when_the_confirmed_renewal_was_sent(leases: Leases) -> None:
    leases.acquired([("prune", 7)], sent_at=100.0)
    assert leases.trusted_seconds("prune", 7, 101.0) == 4.0
    leases.confirmed([("prune", 7)], sent_at=102.0)
    assert leases.trusted_seconds("prune", 7, 103.0) == 4.0


def test_trust_ends_without_a_confirmed_renewal(leases: Leases) -> None:
    leases.acquired([("prune", 7)], sent_at=100.0)
    assert leases.trusted_seconds("prune", 7, 104.9) > 0
    assert leases.trusted_seconds("prune", 7, 105.0) == 0


def test_answer_that_comes_after_the_trust_is_no_reason_to_go_on(leases: Leases) -> None:
    leases.acquired([("prune", 7)], sent_at=100.0)
    leases.confirmed([("prune", 7)], sent_at=102.0)
    assert leases.trusted_seconds("prune", 7, 107.5) == 0
    leases.confirmed([("prune", 7)], sent_at=107.5)
    assert leases.trusted_seconds("prune", 7, 107.6) > 0


def test_answer_that_was_overtaken_by_a_later_one_shortens_nothing(leases: Leases) -> None:
    leases.acquired([("prune", 7)], sent_at=100.0)
    leases.confirmed([("prune", 7)], sent_at=104.0)
    leases.confirmed([("prune", 7)], sent_at=102.0)
    assert leases.trusted_seconds("prune", 7, 104.0) == 5.0


def test_another_token_is_another_term(leases: Leases) -> None:
    leases.acquired([("prune", 7)], sent_at=100.0)
    leases.confirmed([("prune", 6)], sent_at=103.0)
    assert leases.trusted_seconds("prune", 6, 100.0) == 0
    assert leases.trusted_seconds("prune", 7, 103.0) == 2.0


def test_term_that_is_over_is_not_held_and_ends_once(leases: Leases) -> None:
    leases.acquired([("prune", 7)], sent_at=100.0)
    assert leases.ended([("prune", 6)]) == []
    assert leases.ended([("prune", 7)]) == ["prune"]
    assert leases.ended([("prune", 7)]) == []
    assert leases.trusted_seconds("prune", 7, 100.0) == 0


# Taking over.


def test_lease_that_was_seen_unchanged_is_tried(leases: Leases) -> None:
    look(leases, 100.0, seen(age=8.0))
    assert leases.tries(105.9) == []
    assert leases.tries(106.0) == [Try("prune", 7, 1, is_long=False)]
    assert leases.tries(110.0) == [Try("prune", 7, 1, is_long=True)]


def test_observation_begins_with_the_arrival_of_the_answer(leases: Leases) -> None:
    look(leases, 100.0, seen(), took=3.0)
    assert leases.tries(108.9) == []
    assert len(leases.tries(109.0)) == 1


@pytest.mark.parametrize("changed", [seen(renewals=2), seen(token=8), seen(token=8, renewals=0)])
def test_any_change_starts_the_observation_anew(leases: Leases, changed: Seen) -> None:
    look(leases, 100.0, seen())
    look(leases, 105.0, changed)
    assert leases.tries(110.9) == []
    assert [one.token for one in leases.tries(111.0)] == [changed.token]


def test_further_looks_at_the_same_go_on_with_the_observation(leases: Leases) -> None:
    look(leases, 100.0, seen(age=0.0))
    look(leases, 105.0, seen(age=5.0))
    assert len(leases.tries(106.0)) == 1


def test_age_on_the_server_alone_is_no_reason_to_try(leases: Leases) -> None:
    look(leases, 100.0, seen(age=3600.0))
    assert leases.tries(100.0) == []


def test_look_that_failed_starts_all_observations_anew(leases: Leases) -> None:
    look(leases, 100.0, seen())
    leases.failed()
    look(leases, 105.0, seen())
    assert leases.tries(110.9) == []


def test_lease_that_is_free_or_ones_own_by_now_is_not_tried(leases: Leases) -> None:
    look(leases, 100.0, seen())
    look(leases, 105.0)
    assert leases.tries(120.0) == []
    look(leases, 120.0, seen())
    leases.acquired([("prune", 9)], sent_at=121.0)
    assert leases.tries(140.0) == []


# The moment at which it may succeed.


def test_holder_that_renews_is_nobody_to_hurry_for(leases: Leases) -> None:
    look(leases, 100.0, seen(age=1.9))
    assert leases.next_try_at() is None


@pytest.mark.parametrize(("age", "at"), [(3.0, 107.0), (5.0, 106.0), (60.0, 106.0), (-3600.0, None)])
def test_silent_holders_lease_can_be_taken_when_it_is_observed_and_old(leases: Leases, age: float, at: float | None) -> None:
    look(leases, 100.0, seen(age=age))
    assert leases.next_try_at() == at


def test_server_whose_clock_went_back_makes_it_ten_seconds_of_observation(leases: Leases) -> None:
    look(leases, 100.0, seen(age=-3600.0))
    look(leases, 105.0, seen(age=-3595.0))
    assert leases.next_try_at() == 110.0


# All together: no two terms are trusted at once, whatever answers do.


class Process:
    """Has a clock of its own: another zero, and up to a twentieth faster or slower."""

    def __init__(self, number: int, chance: random.Random, times: LeaseTimes) -> None:
        self.number = number
        self.leases = Leases(times)
        self.speed = chance.uniform(0.95, 1.05)
        self.zero = chance.uniform(0, 1e6)
        self.awake_at = 0.0

    def clock(self, real: float) -> float:
        return self.zero + real * self.speed


class Fleet:
    """Four processes and the row that they share, with random delays, losses, pauses, and steps of the server's clock."""

    def __init__(self, chance: random.Random, times: LeaseTimes) -> None:
        self.chance = chance
        self.times = times
        self.processes = [Process(number, chance, times) for number in range(4)]
        self.now = 0.0
        self.holder, self.token, self.renewals, self.written_at = 0, 0, 0, -100.0
        self.terms = 0

    def run(self) -> int:
        """Ten minutes; how many terms there were."""
        while self.now < 600.0:
            self.now += self.chance.uniform(0.05, 0.6)
            process = self.chance.choice(self.processes)
            if self.now >= process.awake_at:
                self.turn(process)
        return self.terms

    def turn(self, process: Process) -> None:
        """One statement of a process, which may be stopped before it is sent."""
        if self.chance.random() < 0.03:
            process.awake_at = self.now + self.chance.uniform(1.0, 20.0)
        sent_at = process.clock(self.now)
        held, tries = process.leases.held.get("prune"), process.leases.tries(sent_at)
        self.now += self.delay()
        is_lost = self.chance.random() < 0.1
        if held is not None:
            self.renew(process, held.token, sent_at, is_lost=is_lost)
        elif tries and self.take(process, tries[0], sent_at):
            return
        if is_lost:
            process.leases.failed()
        else:
            shown = Seen("prune", self.token, self.renewals, self.age())
            answered_at = process.clock(self.now + self.delay())
            process.leases.looked([shown], sent_at=sent_at, answered_at=answered_at)

    def renew(self, process: Process, token: int, sent_at: float, *, is_lost: bool) -> None:
        if (self.holder, self.token) != (process.number, token):
            process.leases.ended([("prune", token)])
            return
        self.renewals, self.written_at = self.renewals + 1, self.now
        if not is_lost:
            process.leases.confirmed([("prune", token)], sent_at=sent_at)

    def take(self, process: Process, one: Try, sent_at: float) -> bool:
        if (one.token, one.renewals) != (self.token, self.renewals):
            return False
        if not one.is_long and self.age() < self.times.expiry_seconds:
            return False
        others = (other for other in self.processes if other is not process)
        assert all(other.leases.trusted_seconds("prune", self.token, other.clock(self.now)) == 0 for other in others)
        self.terms += 1
        self.holder, self.token, self.renewals, self.written_at = process.number, self.terms, 0, self.now
        process.leases.acquired([("prune", self.token)], sent_at=sent_at)
        return True

    def age(self) -> float:
        return self.now - self.written_at + self.chance.choice([0.0, 0.0, 3600.0, -3600.0])

    def delay(self) -> float:
        return self.chance.uniform(0.0, 3.0 if self.chance.random() < 0.1 else 0.05)


def test_no_two_terms_are_trusted_at_once() -> None:
    chance = random.Random(7)
    assert sum(Fleet(chance, TIMES).run() for _ in range(60)) > 200


def test_without_the_margin_two_would_be() -> None:
    chance = random.Random(7)
    short = LeaseTimes(observe_seconds=4.0, expiry_seconds=4.0)
    with pytest.raises(AssertionError):
        sum(Fleet(chance, short).run() for _ in range(60))
