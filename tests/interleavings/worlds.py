"""The worlds: small states of the database, made by the product's own functions.

Left out: several queues, and rates and limits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.interleavings.calls import CLAIM, CLAIM_RUN, COMPLETE_IN_TRANSACTION, ack, end, here

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
    known: Mapping[str, str] = {}  # what else there is, as SQL


def worlds() -> list[World]:
    """All of them."""
    return [*_of_a_key(), *_without_a_key(), *_of_rows()]


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
    line = [(job, here(job, serialization_key="K", dedup_key="d" + job)) for job in "hwv"]
    yield World("head processing, 1 follows, 1 behind", line, [CLAIM_RUN])
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


def _of_rows() -> Iterator[World]:
    """A lease, a schedule and a breaker: one row each, which its own calls write."""
    lease = (
        "INSERT INTO asyncjobs.background_job_leases (job_name, held_by_worker_id, token, renewals) VALUES ('sweep', '%s', 5, 3)"
    )
    for holder in ("1", "none"):
        yield World(f"a lease of {holder}", [], [lease % holder], {"lease": "'sweep'"})
    breaker = "INSERT INTO asyncjobs.circuit_breakers (service_name, %s) VALUES ('bank', %s)"
    states = {
        "closed, a failure": ("failure_count, last_failure_at", "1, asyncjobs.clock()"),
        "open, due": ("state, half_opens_at", "'open', asyncjobs.clock() - interval '1 s'"),
        "half-open": ("state, probe_tokens, probes_lapse_at", "'half-open', '{{7}}', ARRAY[asyncjobs.clock() + interval '1 h']"),
    }
    for state, (columns, values) in states.items():
        yield World(f"a breaker that is {state}", [], [breaker % (columns, values)], {"breaker": "'bank'"})
    for overlap in ("allow", "skip"):
        definition = {
            "overlap": overlap,
            "job": {"type": "work", "queue": "default", "payload": "tick"},
            "timing": {"every": 86400},
        }
        text = "'" + json.dumps(definition) + "'"
        known = {"schedule": "'nightly'", "definition": text}
        declared = [
            f"SELECT asyncjobs.declare_schedules({runner}, ARRAY['nightly'], ARRAY[{text.replace('{', '{{').replace('}', '}}')}])"
            for runner in (1, 2)
        ]
        begun = "UPDATE asyncjobs.schedules SET last_tick = '2020-01-01', unbroken_since = '2020-01-01'"
        yield World(f"a schedule, overlap {overlap}", [], [*declared, begun], known)
        off = "SELECT asyncjobs.disable_schedule('nightly', 'operator', 'x')"
        yield World(f"a schedule that is disabled, overlap {overlap}", [], [*declared, begun, off], known)
