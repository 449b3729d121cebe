import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncjobs.model.liveness import DeadRunner, Liveness

TIMEOUT = 30.0
GAP = 15.0


@pytest.fixture
def liveness() -> Liveness:
    return Liveness(timeout_seconds=TIMEOUT, longest_gap_seconds=GAP)


def look_every(
    liveness: Liveness, seconds: float, *, start: float, until: float, beats: dict[int, int]
) -> list[tuple[float, list[DeadRunner]]]:
    """Looks that take no time; returns when who was dead."""
    found: list[tuple[float, list[DeadRunner]]] = []
    at = start
    while at <= until:
        dead = liveness.look(beats, sent_at=at, answered_at=at)
        if dead:
            found.append((at, dead))
        at += seconds
    return found


def test_unchanged_beat_over_the_timeout_is_death(liveness: Liveness) -> None:
    found = look_every(liveness, 5.0, start=100.0, until=130.0, beats={1: 7})
    assert found == [(130.0, [DeadRunner(1, 7, 30.0)])]


def test_one_look_never_suffices(liveness: Liveness) -> None:
    assert liveness.look({1: 7}, sent_at=1_000_000.0, answered_at=1_000_000.0) == []


@pytest.mark.parametrize("beat", [8, 6])
def test_changed_beat_is_life_also_one_that_fell_back(liveness: Liveness, beat: int) -> None:
    look_every(liveness, 5.0, start=0.0, until=25.0, beats={1: 7})
    assert liveness.look({1: beat}, sent_at=30.0, answered_at=30.0) == []
    assert look_every(liveness, 5.0, start=35.0, until=59.0, beats={1: beat}) == []
    assert liveness.look({1: beat}, sent_at=60.0, answered_at=60.0) == [DeadRunner(1, beat, 30.0)]


def test_failed_look_starts_the_observation_anew(liveness: Liveness) -> None:
    look_every(liveness, 5.0, start=0.0, until=25.0, beats={1: 7})
    liveness.fail()
    assert look_every(liveness, 5.0, start=30.0, until=59.0, beats={1: 7}) == []
    assert liveness.look({1: 7}, sent_at=60.0, answered_at=60.0) == [DeadRunner(1, 7, 30.0)]


def test_late_look_starts_the_observation_anew(liveness: Liveness) -> None:
    """The machine of the observer, or all of them, slept: nobody could beat meanwhile."""
    look_every(liveness, 5.0, start=0.0, until=25.0, beats={1: 7})
    assert liveness.look({1: 7}, sent_at=3600.0, answered_at=3600.0) == []
    assert liveness.look({1: 7}, sent_at=3605.0, answered_at=3605.0) == []


def test_look_whose_answer_took_long_starts_the_observation_anew(liveness: Liveness) -> None:
    look_every(liveness, 5.0, start=0.0, until=25.0, beats={1: 7})
    assert liveness.look({1: 7}, sent_at=30.0, answered_at=45.0) == []
    assert liveness.look({1: 7}, sent_at=50.0, answered_at=50.0) == []


def test_time_counts_from_the_first_answer_to_the_last_question(liveness: Liveness) -> None:
    liveness.look({1: 7}, sent_at=0.0, answered_at=4.0)
    for at in (10.0, 20.0, 30.0, 33.0):
        assert liveness.look({1: 7}, sent_at=at, answered_at=at + 4.0) == []
    assert liveness.look({1: 7}, sent_at=34.0, answered_at=38.0) == [DeadRunner(1, 7, 30.0)]


def test_runners_are_observed_each_by_itself(liveness: Liveness) -> None:
    found: list[DeadRunner] = []
    for turn in range(7):
        at = 5.0 * turn
        beats = {1: 7, 2: turn} | ({3: 1} if turn >= 2 else {})
        found += liveness.look(beats, sent_at=at, answered_at=at)
    assert found == [DeadRunner(1, 7, 30.0)]


def test_runner_that_is_gone_is_forgotten(liveness: Liveness) -> None:
    look_every(liveness, 5.0, start=0.0, until=25.0, beats={1: 7})
    look_every(liveness, 5.0, start=30.0, until=30.0, beats={})
    assert look_every(liveness, 5.0, start=35.0, until=60.0, beats={1: 7}) == []


@given(st.lists(st.tuples(st.floats(0.01, 20.0), st.floats(0.0, 20.0), st.booleans(), st.integers(0, 3)), max_size=60))
def test_dead_is_only_who_was_seen_unchanged_for_the_timeout(looks: list[tuple[float, float, bool, int]]) -> None:
    """Against a model that keeps all looks: the last ones, without failure, gap or change, span the timeout."""
    liveness = Liveness(timeout_seconds=TIMEOUT, longest_gap_seconds=GAP)
    history: list[tuple[float, float, int]] = []
    now = 0.0
    for pause, took, failed, beat in looks:
        sent_at, answered_at = now + pause, now + pause + took
        now = answered_at
        if failed:
            liveness.fail()
            history.clear()
            continue
        if history and (answered_at - history[-1][1] >= GAP or history[-1][2] != beat):
            history.clear()
        history.append((sent_at, answered_at, beat))
        expected = sent_at - history[0][1] >= TIMEOUT
        assert bool(liveness.look({1: beat}, sent_at=sent_at, answered_at=answered_at)) == expected
