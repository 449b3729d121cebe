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
    defaults: dict[str, Any] = {"type": "t", "queue": "q", "number": 1, "runner_id": 1, "serialization_key": "k"}
    token: dict[str, Any] = {"token": next(_tokens)}
    return Attempt(job_id=job_id, started_at=start, ended_at=end, outcome=outcome, **(defaults | token | fields))


def line(*job_ids: int, halts: bool = False) -> list[Joined]:
    return [Joined("k", job_id, place, halts) for place, job_id in enumerate(job_ids)]


def found(history: History) -> list[tuple[str, int | None]]:
    return [(violation.promise, violation.job_id) for violation in history.violations()]


#: Beside the head, and before it was done.
BESIDE = [("P3", 2), ("P3", 2)]

#: Attempts, and which violations are found in them when jobs 1, 2 and 3 joined the line of their key in this order.
IN_LINE: dict[str, tuple[list[Attempt], list[tuple[str, int]]]] = {
    "one after the other": ([ran(1, 0, 1), ran(2, 1, 2), ran(3, 2, 3)], []),
    "two at the same time": ([ran(1, 0, 2), ran(2, 1, 3)], BESIDE),
    "beside a long one": ([ran(1, 0, 10), ran(2, 1, 2, claim_lost=True), ran(3, 3, 4)], [("P3", 2), ("P3", 3)] * 2),
    "beside one that lost its claim": ([ran(1, 0, 9, "retry", claim_lost=True), ran(1, 1, 2, number=2), ran(2, 3, 4)], []),
    "beside one that never ended": ([ran(1, 0, None, None), ran(2, 5, 6)], BESIDE),
    "two attempts of one job": ([ran(1, 0, 2, "retry"), ran(1, 1, 3, number=2)], [("P2", 1)]),
    "a token of two claims": ([ran(1, 0, 1, token=-5), ran(2, 2, 3, token=-5, serialization_key=None)], [("P2", 2)]),
    "overtook": ([ran(2, 0, 1), ran(1, 2, 3)], [("P3", 2)]),
    "between two attempts of the head": ([ran(1, 0, 1, "retry"), ran(2, 2, 3), ran(1, 4, 5, number=2)], [("P3", 2)]),
    "while the head waited for its retry": ([ran(1, 0, 1, "retry"), ran(2, 2, 3)], [("P3", 2)]),
    "while the head snoozed": ([ran(1, 0, 1, "snooze"), ran(2, 2, 3)], [("P3", 2)]),
    "while the head was given back": ([ran(1, 0, 1, "interrupted"), ran(2, 2, 3)], [("P3", 2)]),
    "although one in front never did": ([ran(2, 0, 1)], [("P3", 2)]),
    "after a death": ([ran(1, 0, 1, "dead"), ran(2, 2, 3)], []),
    "an end that was not written": ([ran(1, 0, 1, claim_lost=True), ran(2, 2, 3), ran(1, 4, 5, number=2)], [("P3", 2)]),
    "lost its claim and settles nothing": ([ran(1, 0, 1), ran(2, 2, 3), ran(1, 4, 5, claim_lost=True), ran(3, 6, 7)], []),
    "without its claim, when the next had started": (
        [ran(1, 0, 1, number=2), ran(2, 3, 5), ran(1, 4, 6, "interrupted", claim_lost=True)], [("P2", 1)],
    ),
    "after it had died, with no retry": (
        [ran(1, 0, 1, "dead", number=3), ran(1, 4, 5, "retry", claim_lost=True)], [("P2", 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("attempts", "violations"), IN_LINE.values(), ids=IN_LINE)
def test_what_ran_in_a_line_is_judged(attempts: list[Attempt], violations: list[tuple[str, int]]) -> None:
    job_ids = sorted({1, *(attempt.job_id for attempt in attempts)})
    assert found(History(attempts=attempts, joins=line(*job_ids))) == violations


def test_jobs_of_different_keys_may_run_at_the_same_time_and_in_any_order() -> None:
    attempts = [ran(2, 0, 9, serialization_key="a"), ran(1, 1, 2, serialization_key="b"), ran(3, 1, 2, serialization_key=None)]
    assert found(History(attempts=attempts, joins=[Joined("a", 2, 2), Joined("b", 1, 1)])) == []


AGAIN = Joined("k", 1, 9)
RETRY = Applied("retry", 1, 1.5, 1.6)
DIED, NEXT = ran(1, 0, 1, "dead"), ran(2, 2, 3)

#: What an operator did about job 1, in front of job 2, and what is found then.
VERBS: dict[str, tuple[list[Attempt], list[Joined], list[Applied], list[tuple[str, int]]]] = {
    "a dead job halts its key": ([DIED, NEXT], line(1, 2, halts=True), [], [("P3", 2)]),
    "a release lets the next run": ([DIED, NEXT], line(1, 2, halts=True), [Applied("release", 1, 1.5, 1.6)], []),
    "a halted head is retried": ([DIED, ran(1, 2, 3, number=2), ran(2, 4, 5)], line(1, 2, halts=True), [RETRY], []),
    "before a halted head is retried": ([DIED, NEXT, ran(1, 4, 5, number=2)], line(1, 2, halts=True), [RETRY], [("P3", 2)]),
    "a dead job joins again": ([DIED, NEXT, ran(1, 4, 5)], [*line(1, 2), AGAIN], [RETRY], []),
    "a dead job is retried before its turn": ([DIED, ran(1, 2, 3), ran(2, 4, 5)], [*line(1, 2), AGAIN], [RETRY], [("P3", 1)]),
    "a retry that loses its claim": (
        [ran(1, 0, 1, "dead", number=3), ran(1, 4, 5, "retry", claim_lost=True), ran(1, 6, 7, number=2)], line(1), [RETRY], [],
    ),
    "a cancelled job holds up none": ([NEXT], line(1, 2), [Applied("cancel", 1, 0, 2.5)], []),
    "before one in front was cancelled": ([ran(2, 0, 1)], line(1, 2), [Applied("cancel", 1, 2, 3)], [("P3", 2)]),
    "after it was cancelled": ([ran(1, 2, 3)], line(1), [Applied("cancel", 1, 0, 1)], [("P3", 1)]),
    "cancelled and then retried": (
        [ran(1, 4, 5)], [*line(1), AGAIN], [Applied("cancel", 1, 0, 1), Applied("retry", 1, 2, 3)], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("attempts", "joins", "verbs", "violations"), VERBS.values(), ids=VERBS)
def test_verbs_change_what_may_run(
    attempts: list[Attempt], joins: list[Joined], verbs: list[Applied], violations: list[tuple[str, int]]
) -> None:
    assert found(History(attempts=attempts, joins=joins, verbs=verbs)) == violations


def test_a_job_that_a_rescue_ended_holds_up_none() -> None:
    attempts = [ran(1, 0, None, None, claim_lost=True), ran(2, 5, 6)]
    assert found(History(attempts=attempts, joins=line(1, 2))) == [("P3", 2)]
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 4.5})) == []
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 5.5})) == [("P3", 2)]
    assert found(History(attempts=attempts[1:], joins=line(1, 2), ended={1: 4.5})) == []  # claimed, and never seen to start


def test_an_attempt_that_started_without_its_claim_is_found_and_not_held_against_others() -> None:
    late = ran(1, 4, 6, "interrupted", claim_lost=True)
    attempts = [ran(2, 3, 5), late]
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 2.0})) == [("P2", 1)]  # a rescue had ended its job
    late.fenced_at = 3.5  # its runner had been declared dead
    assert found(History(attempts=attempts)) == [("P2", 1)]
    late.fenced_at = None
    assert found(History(attempts=attempts)) == [("P3", 1)]


def test_an_attempt_that_was_frozen_in_its_middle_may_go_on() -> None:
    frozen = ran(1, 0, 9, "interrupted", claim_lost=True, fenced_at=4.0)
    attempts = [frozen, ran(1, 5, 6, number=2), ran(2, 7, 8)]
    assert found(History(attempts=attempts, joins=line(1, 2), ended={1: 6.0})) == []


@pytest.mark.parametrize(
    ("writes", "violations"),
    [
        ([Written(1, 7, 1.0, accepted=True), Written(1, 7, 2.0, accepted=True)], [("P2", 1)]),
        ([Written(1, 7, 1.0, accepted=True, fenced_at=1.5), Written(2, 8, 2.0, accepted=False, fenced_at=1.5)], []),
        ([Written(1, 7, 2.0, accepted=True, fenced_at=1.5)], [("P2", 1)]),
    ],
    ids=["twice", "before the claim was taken away, and refused after it", "after the claim was taken away"],
)
def test_an_outcome_is_accepted_once_and_under_its_claim(writes: list[Written], violations: list[tuple[str, int]]) -> None:
    assert found(History(attempts=[], writes=writes)) == violations


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


FIRST, LOST = free(1, 0, 1, "retry", delay_seconds=3.0), free(1, 0, 1, "retry", claim_lost=True)
NOW_AND_THEN = [free(number, start, start + 1) for number, start in enumerate([0, 1.9, 3.8, 5.7], 10)]
HELD = [Held("type", "t", answered_at=0.5, resumed_at=4.0)]

#: What ran, when which jobs could run, what else was so, and which jobs are late.
LATE: dict[str, tuple[list[Attempt], dict[int, float], dict[str, Any], list[int]]] = {
    "at once": ([free(1, 5, 6)], {1: 4.5}, {}, []),
    "beside a free slot": ([free(1, 5, 6)], {1: 3.5}, {}, [1]),
    "never started": ([], {1: 3.5}, {}, [1]),
    "while all slots are taken": ([free(1, 0, 5), free(2, 5.1, 6)], {2: 0.5}, {}, []),
    "while one of two is taken": ([free(1, 0, 5), free(2, 5.1, 6)], {2: 0.5}, {"slots": 2}, [2]),
    "slots that are free now and then": ([*NOW_AND_THEN, free(1, 6.7, 7)], {1: 0.0}, {}, []),
    "no runner any more": ([free(1, 5, 6)], {1: 0.0}, {"until": 0.9}, []),
    "a queue that is not served": ([free(1, 5, 6, queue="other")], {1: 0.0}, {"until": 0.9}, []),
    "a retry in its time": ([FIRST, free(1, 4.5, 5, number=2)], {1: 0.0}, {}, []),
    "a retry after its time": ([FIRST, free(1, 5.5, 6, number=2)], {1: 0.0}, {}, [1]),
    "a retry that never comes": ([FIRST], {1: 0.0}, {"until": 5.5}, [1]),
    "a retry that a rescue brings back": ([LOST, free(1, 9, 10, number=2)], {1: 0.0}, {}, []),
    "behind the head of its key": ([ran(1, 0, 5), ran(2, 5.5, 6)], {1: 0.0, 2: 0.0}, {"joins": line(1, 2), "slots": 2}, []),
    "when the head has ended": ([ran(1, 0, 5), ran(2, 6.5, 7)], {1: 0.0, 2: 0.0}, {"joins": line(1, 2), "slots": 2}, [2]),
    "while it is paused": ([free(1, 4.5, 5)], {1: 1.0}, {"pauses": HELD}, []),
    "after its pause": ([free(1, 5.5, 6)], {1: 1.0}, {"pauses": HELD}, [1]),
    "cancelled": ([], {1: 0.0}, {"verbs": [Applied("cancel", 1, 0.5, 0.6)]}, []),
    "ended by a rescue": ([], {1: 0.0}, {"ended": {1: 0.5}}, []),
}


@pytest.mark.parametrize(("attempts", "ready", "more", "expected"), LATE.values(), ids=LATE)
def test_a_job_is_late_when_it_could_run_and_did_not(
    attempts: list[Attempt], ready: dict[int, float], more: dict[str, Any], expected: list[int]
) -> None:
    assert late(attempts, *ready.items(), **more) == expected


def test_slots_of_two_runners_that_are_free_after_each_other_are_one_that_is_free() -> None:
    busy = [free(10, 0, 1, runner_id=1), free(11, 1.0, 3, runner_id=2), free(1, 2.5, 3, runner_id=1)]
    serving = [Serving(1, "q", 1, 0.0, 2.0), Serving(2, "q", 1, 0.0)]
    history = History(attempts=busy, ready=[Ready(1, 0.5, "q")], serving=serving, prompt_seconds=1.2)
    assert found(history) == [("P4", 1)]
    assert found(msgspec.structs.replace(history, serving=serving[:1])) == []
