"""The worlds: small states of the database, made by the product's own functions.

Left out: leases, schedules and breakers (each is one row, which its own calls lock, and which the calls here do not know of:
`tests/store/test_leases.py`, `test_schedules.py`, `test_breakers.py` play two at a time), several queues, and rates and limits.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.interleavings.calls import CLAIM, COMPLETE_IN_TRANSACTION, ack, end, here

_OVER = "UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s'"
_RETRY = "SELECT asyncjobs.retry_job({p}, 'ada')"
_REQUEUE = "SELECT asyncjobs.requeue_dead_letters(ARRAY(SELECT d.id FROM asyncjobs.dead_letter_jobs AS d), 'ada', false)"

#: Jobs with a dedup key and a time of its own for it, which came to life again, or whose row somebody deleted.
_DEDUP_LIVES = {
    "retried, dedup_for over": [end("p", "dead"), _RETRY, _OVER],
    "requeued, dedup_for over": [end("p", "dead"), _REQUEUE, _OVER],
    "deleted": ["DELETE FROM asyncjobs.jobs WHERE id = {p}"],
}


class World(NamedTuple):
    """Jobs to enqueue, by name, and what happens to the first of them then."""

    name: str
    jobs: Sequence[tuple[str, str]]
    steps: Sequence[str]


def worlds() -> list[World]:
    """All of them."""
    return [*_of_a_key(), *_without_a_key()]


def _of_a_key() -> Iterator[World]:
    """A head in each state with up to two jobs behind it, and a delayed job of the key."""
    complete, lose = COMPLETE_IN_TRANSACTION % ("h", "h"), "DELETE FROM asyncjobs.runners WHERE id = 2"
    pause = ["SELECT asyncjobs.pause('key', 'K', 'x', 'y')", "SELECT asyncjobs.hold_back_key('K')"]
    states = {
        "pending": [],
        "processing": [CLAIM % 1],
        "asked": [CLAIM % 1, end("h", "cancel")],
        "stale": [CLAIM % 2],
        "failed": [CLAIM % 1, ack("h", "failed", scan=False)],
        "snoozed": [CLAIM % 1, ack("h", "scheduled", scan=False)],
        "completed": [CLAIM % 1, complete],
        "halted": [CLAIM % 1, ack("h", "dead", scan=False)],
        "lost": [CLAIM % 2, lose],
        "paused": pause,
        "processing, paused": [CLAIM % 1, *pause],
        "lost completed": [CLAIM % 2, complete, lose],
    }
    for state, steps in states.items():
        on_dead = "halt" if state == "halted" else None
        for behind in ("", "w", "wv") if state == "processing" else ("w",):
            line = [(job, here(job, serialization_key="K", dedup_key="d" + job)) for job in behind]
            head = ("h", here("h", serialization_key="K", dedup_key="dh", on_dead=on_dead))
            yield World(f"head {state}, {len(behind)} behind", [head, *line], steps)
    yield from _delayed()


def _delayed() -> Iterator[World]:
    delayed = ("s", here("s", serialization_key="K", dedup_key="ds", delay_seconds=0.001))
    head = ("h", here("h", serialization_key="K", dedup_key="dh"))
    behind = ("w", here("w", serialization_key="K", dedup_key="dw"))
    yield World("no head, delayed due", [delayed], [])
    yield World("head pending, delayed due", [head, delayed], [])
    yield World("head processing, delayed due", [head, delayed], [CLAIM % 1])
    yield World("head processing, delayed due, 1 behind", [head, delayed, behind], [CLAIM % 1])


def _without_a_key() -> Iterator[World]:
    """A job with a dedup key in each state, and a pending one without."""
    pause = ["SELECT asyncjobs.pause('type', 'work', 'x', 'y')", "SELECT asyncjobs.converge_pauses(9, 9, '1 day')"]
    states = {
        "pending": [],
        "processing": [CLAIM % 1],
        "stale": [CLAIM % 2],
        "failed": [CLAIM % 1, ack("p", "failed", scan=False)],
        "completed here": [CLAIM % 1, COMPLETE_IN_TRANSACTION % ("p", "p")],
        "dead": [end("p", "dead")],
        "cancelled": [end("p", "cancel")],
        "done": [CLAIM % 1, ack("p", "completed", scan=False)],
        "type paused": pause,
    }
    other = ("q", here("q"))
    for state, steps in states.items():
        yield World(f"plain {state}", [("p", here("p", dedup_key="dp")), other], steps)
        if state in {"dead", "cancelled", "done"}:
            remembered = [("p", here("p", dedup_key="dp", dedup_for_seconds=3600.0)), other]
            yield World(f"plain {state}, dedup_for", remembered, steps)
            yield World(f"plain {state}, dedup_for over", remembered, [*steps, _OVER])
    for state, steps in _DEDUP_LIVES.items():
        yield World(f"plain {state}", [("p", here("p", dedup_key="dp", dedup_for_seconds=3600.0)), other], steps)
    for state, delay in (("delayed due", 0.001), ("delayed", 600.0)):
        yield World(f"plain {state}", [("p", here("p", dedup_key="dp", delay_seconds=delay)), other], [])
    older, newer = here("p", dedup_key="dp", lane="fast", version=1), here("q", lane="fast", version=2)
    yield World("plain pending, a lane and two versions", [("p", older), ("q", newer)], [])
