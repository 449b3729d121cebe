"""The checker of histories, seen to be silent on good ones and to speak up on each kind of bad one."""

from itertools import count
from typing import Any

import msgspec
import pytest

from asyncjobs.testing.attempts import Attempt, Violation
from asyncjobs.testing.history import Applied, Held, History, Joined, Written
from asyncjobs.testing.late import Ready, Serving

_tokens = count(1)


def ran(job_id: int, start: float, end: float | None, outcome: str | None = "completed", **fields: Any) -> Attempt:
    defaults: dict[str, Any] = {
        "type": "t",
        "queue": "q",
        "number": 1,
        "token": next(_tokens),
        "runner_id": 1,
        "serialization_key": "k",
    }
    return Attempt(job_id=job_id, started_at=start, ended_at=end, outcome=outcome, **(defaults | fields))


def line(*job_ids: int, halts: bool = False) -> list[Joined]:
    return [Joined("k", job_id, place, halts) for place, job_id in enumerate(job_ids)]


def found(history: History) -> list[tuple[str, int | None]]:
    return [(violation.promise, violation.job_id) for violation in history.violations()]


def test_jobs_one_after_the_other_in_the_lines_order_are_fine() -> None:
    assert found(History(attempts=[ran(2, 0, 1), ran(1, 1, 2), ran(3, 2, 3)], joins=line(2, 1, 3))) == []


def test_jobs_of_different_keys_may_run_at_the_same_time_and_in_any_order() -> None:
    attempts = [ran(2, 0, 9, serialization_key="a"), ran(1, 1, 2, serialization_key="b"), ran(3, 1, 2, serialization_key=None)]
    assert found(History(attempts=attempts, joins=[Joined("a", 2, 2), Joined("b", 1, 1)])) == []


def test_two_jobs_of_a_key_at_the_same_time_are_found() -> None:
    assert found(History(attempts=[ran(1, 0, 2), ran(2, 1, 3)])) == [("P3", 2)]


def test_a_job_beside_a_long_one_is_found_also_behind_a_short_one() -> None:
    attempts = [ran(1, 0, 10), ran(2, 1, 2, claim_lost=True), ran(3, 3, 4)]
    assert found(History(attempts=attempts)) == [("P3", 2), ("P3", 3)]


def test_a_job_may_run_beside_one_that_lost_its_claim() -> None:
    attempts = [ran(1, 0, 9, "retry", claim_lost=True), ran(1, 1, 2, number=2), ran(2, 3, 4)]
    assert found(History(attempts=attempts, joins=line(1, 2))) == []


def test_a_job_beside_one_that_never_ended_is_found() -> None:
    assert found(History(attempts=[ran(1, 0, None, None), ran(2, 5, 6)])) == [("P3", 2)]


def test_two_attempts_of_one_job_at_the_same_time_are_found() -> None:
    assert found(History(attempts=[ran(1, 0, 2, "retry"), ran(1, 1, 3, number=2)])) == [("P2", 1)]


def test_a_token_of_two_claims_is_found() -> None:
    assert found(History(attempts=[ran(1, 0, 1, token=-5), ran(2, 2, 3, token=-5, serialization_key=None)])) == [("P2", 2)]


def test_a_job_that_overtook_is_found() -> None:
    assert found(History(attempts=[ran(2, 0, 1), ran(1, 2, 3)], joins=line(1, 2))) == [("P3", 2)]


def test_a_job_that_ran_between_two_attempts_of_the_head_is_found() -> None:
    attempts = [ran(1, 0, 1, "retry"), ran(2, 2, 3), ran(1, 4, 5, number=2)]
    assert found(History(attempts=attempts, joins=line(1, 2))) == [("P3", 2)]


@pytest.mark.parametrize("outcome", ["retry", "snooze", "interrupted"])
def test_a_job_that_ran_while_the_head_waited_for_its_retry_is_found(outcome: str) -> None:
    assert found(History(attempts=[ran(1, 0, 1, outcome), ran(2, 2, 3)], joins=line(1, 2))) == [("P3", 2)]


def test_a_job_that_ran_although_one_in_front_never_did_is_found() -> None:
    assert found(History(attempts=[ran(2, 0, 1)], joins=line(1, 2))) == [("P3", 2)]


def test_a_death_lets_the_next_job_run() -> None:
    assert found(History(attempts=[ran(1, 0, 1, "dead"), ran(2, 2, 3)], joins=line(1, 2))) == []


def test_a_job_that_ran_on_a_halted_key_is_found() -> None:
    assert found(History(attempts=[ran(1, 0, 1, "dead"), ran(2, 2, 3)], joins=line(1, 2, halts=True))) == [("P3", 2)]


def test_a_release_lets_the_next_job_run() -> None:
    attempts = [ran(1, 0, 1, "dead"), ran(2, 2, 3)]
    assert found(History(attempts=attempts, joins=line(1, 2, halts=True), verbs=[Applied("release", 1, 1.5, 1.6)])) == []


def test_a_halted_head_that_is_retried_keeps_its_place() -> None:
    retry = Applied("retry", 1, 1.5, 1.6)
    good = [ran(1, 0, 1, "dead"), ran(1, 2, 3, number=2), ran(2, 4, 5)]
    assert found(History(attempts=good, joins=line(1, 2, halts=True), verbs=[retry])) == []
    bad = [ran(1, 0, 1, "dead"), ran(2, 2, 3), ran(1, 4, 5, number=2)]
    assert found(History(attempts=bad, joins=line(1, 2, halts=True), verbs=[retry])) == [("P3", 2)]


def test_a_dead_job_that_is_retried_stands_where_it_joined_again() -> None:
    joins = [*line(1, 2), Joined("k", 1, 9)]
    retry = Applied("retry", 1, 1.2, 1.3)
    good = [ran(1, 0, 1, "dead"), ran(2, 2, 3), ran(1, 4, 5)]
    assert found(History(attempts=good, joins=joins, verbs=[retry])) == []
    bad = [ran(1, 0, 1, "dead"), ran(1, 2, 3), ran(2, 4, 5)]
    assert found(History(attempts=bad, joins=joins, verbs=[retry])) == [("P3", 1)]


def test_a_cancelled_job_holds_nobody_up() -> None:
    assert found(History(attempts=[ran(2, 2, 3)], joins=line(1, 2), verbs=[Applied("cancel", 1, 0, 2.5)])) == []


def test_a_job_that_ran_before_one_in_front_was_cancelled_is_found() -> None:
    assert found(History(attempts=[ran(2, 0, 1)], joins=line(1, 2), verbs=[Applied("cancel", 1, 2, 3)])) == [("P3", 2)]


def test_a_job_that_ran_after_it_was_cancelled_is_found() -> None:
    assert ("P3", 1) in found(History(attempts=[ran(1, 2, 3)], joins=line(1), verbs=[Applied("cancel", 1, 0, 1)]))


def test_a_job_that_was_cancelled_and_then_retried_may_run() -> None:
    joins = [*line(1), Joined("k", 1, 9)]
    verbs = [Applied("cancel", 1, 0, 1), Applied("retry", 1, 2, 3)]
    assert found(History(attempts=[ran(1, 4, 5)], joins=joins, verbs=verbs)) == []


def test_a_job_that_a_rescue_ended_holds_nobody_up() -> None:
    attempts = [ran(1, 0, None, None, claim_lost=True), ran(2, 5, 6)]
    assert found(History(attempts=attempts, joins=line(1, 2))) == [("P3", 2)]
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 4.5})) == []
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 5.5})) == [("P3", 2)]
    assert found(History(attempts=attempts[1:], joins=line(1, 2), ended={1: 4.5})) == []  # claimed, and never seen to start


def test_an_end_that_nobody_took_note_of_lets_no_other_job_run() -> None:
    attempts = [ran(1, 0, 1, claim_lost=True), ran(2, 2, 3), ran(1, 4, 5, number=2)]
    assert found(History(attempts=attempts, joins=line(1, 2))) == [("P3", 2)]


def test_an_attempt_that_lost_its_claim_and_settles_nothing_concerns_nobody() -> None:
    attempts = [ran(1, 0, 1), ran(2, 2, 3), ran(1, 4, 5, claim_lost=True), ran(3, 6, 7)]
    assert found(History(attempts=attempts, joins=line(1, 2, 3))) == []


def test_an_attempt_that_started_without_its_claim_is_found_and_not_held_against_others() -> None:
    late = ran(1, 4, 6, "interrupted", claim_lost=True)
    attempts = [ran(1, 0, 1, number=2), ran(2, 3, 5), late]
    assert found(History(attempts=attempts, joins=line(1, 2))) == [("P2", 1)]  # a later attempt of its job had started
    assert found(History(attempts=attempts[1:], joins=line(1, 2), ended={1: 2.0})) == [("P2", 1)]  # a rescue had ended its job
    late.fenced_at = 3.5  # its runner had been declared dead
    assert found(History(attempts=attempts[1:])) == [("P2", 1)]
    late.fenced_at = None
    assert found(History(attempts=attempts[1:])) == [("P3", 1)]


def test_an_attempt_that_was_frozen_in_its_middle_may_go_on() -> None:
    frozen = ran(1, 0, 9, "interrupted", claim_lost=True, fenced_at=4.0)
    attempts = [frozen, ran(1, 5, 6, number=2), ran(2, 7, 8)]
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 6.0})) == []


def test_a_first_attempt_after_a_retry_that_loses_its_claim_is_not_late() -> None:
    attempts = [ran(1, 0, 1, "dead", number=3), ran(1, 4, 5, "retry", claim_lost=True), ran(1, 6, 7, number=2)]
    assert found(History(attempts=attempts, joins=line(1), verbs=[Applied("retry", 1, 2, 3)])) == []
    assert found(History(attempts=attempts[:2], joins=line(1))) == [("P2", 1)]


def test_an_outcome_that_was_accepted_twice_is_found() -> None:
    writes = [Written(1, 7, 1.0, accepted=True), Written(1, 7, 2.0, accepted=True)]
    assert found(History(attempts=[], writes=writes)) == [("P2", 1)]


def test_an_outcome_that_was_accepted_after_the_claim_was_taken_away_is_found() -> None:
    good = [Written(1, 7, 1.0, accepted=True, fenced_at=1.5), Written(2, 8, 2.0, accepted=False, fenced_at=1.5)]
    assert found(History(attempts=[], writes=good)) == []
    assert found(History(attempts=[], writes=[Written(1, 7, 2.0, accepted=True, fenced_at=1.5)])) == [("P2", 1)]


def test_a_violation_says_what_was_wrong() -> None:
    [violation] = History(attempts=[ran(1, 0, 2), ran(2, 1, 3)]).violations()
    assert violation == Violation("P3", 2, "ran beside job 1 on key k")


@pytest.mark.parametrize(("kind", "name"), [("key", "k"), ("type", "t"), ("queue", "q")])
def test_a_start_after_the_answer_to_a_pause_is_found(kind: Any, name: str) -> None:
    attempts = [ran(1, 0, 1), ran(2, 3, 4), ran(3, 6, 7)]
    assert found(History(attempts=attempts, pauses=[Held(kind, name, answered_at=2, resumed_at=5)])) == [("P3", 2)]


def test_what_had_been_claimed_when_the_pause_was_answered_may_start_after_it() -> None:
    attempt = ran(1, 3, 4)
    assert found(History(attempts=[attempt], pauses=[Held("key", "k", 2, claimed=[attempt.token])])) == []


def test_what_is_not_paused_starts_beside_a_pause() -> None:
    attempts = [ran(1, 3, 4, serialization_key=None), ran(2, 3, 4, serialization_key="other")]
    assert found(History(attempts=attempts, pauses=[Held("key", "k", 2), Held("type", "u", 2)])) == []


@pytest.mark.parametrize(
    ("times", "completed", "promises"),
    [(1, True, []), (0, False, []), (0, True, ["P1"]), (1, False, ["P2"]), (2, True, ["P2"])],
)
def test_what_a_handler_wrote_with_its_jobs_completion_is_there_when_that_is_and_once(
    times: int, *, completed: bool, promises: list[str]
) -> None:
    history = History(attempts=[], effects={1: times}, completed=[1] if completed else [])
    assert [promise for promise, _ in found(history)] == promises


def test_an_answer_by_a_deadlock_is_found() -> None:
    assert found(History(attempts=[], deadlocks=["cancel_all was answered by a deadlock"])) == [("locks", None)]


def late(
    attempts: list[Attempt], *ready: tuple[int, float], slots: int = 1, until: float = 100.0, **more: Any
) -> list[int | None]:
    """Jobs that are late when a runner serves them with so many slots."""
    history = History(
        attempts=attempts, ready=[Ready(*one, "q") for one in ready], serving=[Serving(1, "q", slots, 0.0, until)],
        prompt_seconds=1.0, **more,
    )  # fmt: skip
    assert {violation.promise for violation in history.violations()} <= {"P4"}
    return [violation.job_id for violation in history.violations()]


def free(job_id: int, start: float, end: float | None, outcome: str | None = "completed", **fields: Any) -> Attempt:
    return ran(job_id, start, end, outcome, serialization_key=None, **fields)


def test_a_job_that_waited_beside_a_free_slot_is_found() -> None:
    assert late([free(1, 5, 6)], (1, 4.5)) == []
    assert late([free(1, 5, 6)], (1, 3.5)) == [1]
    assert late([], (1, 3.5)) == [1]  # it never started


def test_a_job_may_wait_while_all_slots_are_taken() -> None:
    attempts = [free(1, 0, 5), free(2, 5.1, 6)]
    assert late(attempts, (2, 0.5)) == []
    assert late(attempts, (2, 0.5), slots=2) == [2]


def test_slots_that_are_free_now_and_then_are_no_reason() -> None:
    attempts = [free(number, start, start + 1) for number, start in enumerate([0, 1.9, 3.8, 5.7], 10)]
    assert late([*attempts, free(1, 6.7, 7)], (1, 0.0)) == []


def test_slots_of_two_runners_that_are_free_after_each_other_are_one_that_is_free() -> None:
    busy = [free(10, 0, 1, runner_id=1), free(11, 1.0, 3, runner_id=2), free(1, 2.5, 3, runner_id=1)]
    serving = [Serving(1, "q", 1, 0.0, 2.0), Serving(2, "q", 1, 0.0)]
    history = History(attempts=busy, ready=[Ready(1, 0.5, "q")], serving=serving, prompt_seconds=1.2)
    assert found(history) == [("P4", 1)]
    assert found(msgspec.structs.replace(history, serving=serving[:1])) == []


def test_nobody_is_late_where_no_runner_serves_its_queue_or_could_claim() -> None:
    assert late([free(1, 5, 6)], (1, 0.0), until=0.9) == []
    assert late([free(1, 5, 6, queue="other")], (1, 0.0), until=0.9) == []


def test_a_retry_is_late_by_what_its_attempt_said() -> None:
    first = free(1, 0, 1, "retry", delay_seconds=3.0)
    assert late([first, free(1, 4.5, 5, number=2)], (1, 0.0)) == []
    assert late([first, free(1, 5.5, 6, number=2)], (1, 0.0)) == [1]
    assert late([first], (1, 0.0), until=5.5) == [1]
    lost = free(1, 0, 1, "retry", claim_lost=True)
    assert late([lost, free(1, 9, 10, number=2)], (1, 0.0)) == []  # a rescue brings it back


def test_a_job_of_a_key_may_wait_for_what_stands_in_front_of_it_and_no_longer() -> None:
    assert late([ran(1, 0, 5), ran(2, 5.5, 6)], (1, 0.0), (2, 0.0), joins=line(1, 2), slots=2) == []
    assert late([ran(1, 0, 5), ran(2, 6.5, 7)], (1, 0.0), (2, 0.0), joins=line(1, 2), slots=2) == [2]


def test_a_job_may_wait_until_its_pause_is_over() -> None:
    held = [Held("type", "t", answered_at=0.5, resumed_at=4.0)]
    assert late([free(1, 4.5, 5)], (1, 1.0), pauses=held) == []
    assert late([free(1, 5.5, 6)], (1, 1.0), pauses=held) == [1]


def test_a_job_that_was_cancelled_is_not_waited_for() -> None:
    assert late([], (1, 0.0), verbs=[Applied("cancel", 1, 0.5, 0.6)]) == []
    assert late([], (1, 0.0), ended={1: 0.5}) == []
