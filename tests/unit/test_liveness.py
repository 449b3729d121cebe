import pytest
from hypothesis import given, settings
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


def test_failed_look_starts_the_observation_anew(liveness: Liveness) -> None:
    look_every(liveness, 5.0, start=0.0, until=25.0, beats={1: 7})
    liveness.fail()
    assert look_every(liveness, 5.0, start=30.0, until=59.0, beats={1: 7}) == []
    assert liveness.look({1: 7}, sent_at=60.0, answered_at=60.0) == [DeadRunner(1, 7, 30.0)]


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


#: The pause before a look, how long its answer took, whether it failed, and how far the beat has moved, or fallen back.
LOOKS = st.tuples(
    st.sampled_from([0.5, 4.0, 5.0, 9.0, 14.5, 20.0]),
    st.sampled_from([0.0, 0.0, 0.5, 4.0, 9.0, 16.0]),
    st.sampled_from([False] * 12 + [True]),
    st.sampled_from([0] * 12 + [1, -1]),
)


@settings(max_examples=300)
@given(st.lists(LOOKS, min_size=5, max_size=60))
def test_dead_is_only_who_was_seen_unchanged_for_the_timeout(looks: list[tuple[float, float, bool, int]]) -> None:
    """Against a model that keeps all looks: the last ones, without failure, gap or change, span the timeout."""
    liveness = Liveness(timeout_seconds=TIMEOUT, longest_gap_seconds=GAP)
    history: list[tuple[float, float, int]] = []
    now, beat = 0.0, 7
    for pause, took, failed, moved in looks:
        beat += moved
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
