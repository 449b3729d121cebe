"""Mutants of the key protocol: the schema with one of its safeguards taken out, to see which scenario misses it."""

from collections.abc import Sequence
from typing import NamedTuple

from asyncjobs.store import routines
from asyncjobs.store.database import Connection, Database, in_schema
from tests.support.peers import Call


class Mutant(NamedTuple):
    """A change of one function of the schema, or a statement."""

    name: str
    function: str
    old: str
    new: str
    caught_by: Sequence[str]  # scenarios
    call: Call = "finish"  # the scenarios' acks of completions


def mutated(database: Database, mutant: Mutant) -> str:
    """The statement that makes the schema this mutant."""
    if not mutant.function:
        return mutant.new
    text = in_schema(routines.of(mutant.function).made_anew(), database.schema)
    old = mutant.old.replace("asyncjobs.", f'"{database.schema}".')
    assert old in text, f"{mutant.name}: {mutant.function} has changed: say again what is to be taken out"
    new = mutant.new.replace("asyncjobs.", f'"{database.schema}".')
    return text.replace(old, new)


async def mutate(connection: Connection, database: Database, mutant: Mutant) -> None:
    await connection.execute(mutated(database, mutant))


_SLOTS = "FROM unnest(asyncjobs.key_slots(_keys)) AS slots(slot);"
_DISPATCHED = "AND d.dispatched_at IS NOT NULL)"
_OTHER_HEADS = "SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;"
_ALL_HEADS = "|| ARRAY(SELECT d.id FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d)"
_ITS_HEAD = _OTHER_HEADS.replace("_key]", "_job.serialization_key]")

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no unique index of heads", "", "", "DROP INDEX asyncjobs.serialized_jobs_head",
        ["a_dispatch_under_an_old_snapshot_makes_no_second_head"],
    ),
    Mutant(
        "no fence", "ack", "AND j.claim_token = o.token AND j.status = 'processing'", "AND j.status = 'processing'",
        ["a_late_ack_touches_nothing"],
    ),
    Mutant(
        "no lock of the key", "lock_keys", _SLOTS, _SLOTS[:-1] + " WHERE false;",
        [
            "enqueue_races_with_the_ack_of_the_last_job",
            "ack_of_the_last_job_races_with_an_enqueue",
            "join_at_a_commit_races_with_the_ack_of_the_last_job",
            "two_enqueues_race_for_an_idle_key",
        ],
    ),
    Mutant(
        "no second look of the ack", "look_again",
        "RETURN (SELECT array_agg(d.id) FROM asyncjobs.dispatch_keys(_keys) AS d);", "RETURN NULL;",
        ["enqueue_races_with_the_ack_of_the_last_job"],
    ),
    Mutant(
        "second look of the ack without the lock", "look_again", "PERFORM asyncjobs.lock_keys_shortly(_keys);", "",
        ["enqueue_races_with_the_ack_of_the_last_job", "ack_of_the_last_job_races_with_an_enqueue"],
    ),
    Mutant(
        "no sweep of stalled keys", "look_at_keys", "SELECT k.key FROM unnest(_keys) AS k(key)\n        WHERE",
        "SELECT k.key FROM unnest(_keys) AS k(key)\n        WHERE false AND",
        ["a_request_is_carried_out_by_the_sweep_when_nobody_did"],
    ),
    Mutant(
        "no sweep of keys whose job is gone", "look_at_keys", "WHERE j.id IS NULL OR", "WHERE",
        ["a_key_whose_head_is_gone_goes_on_with_the_sweep"],
    ),
    Mutant(
        "no sweep of jobs in no line", "rejoin", "j.status || '' = 'waiting'", "false",
        ["a_job_that_was_taken_out_of_its_line_joins_it_again_with_the_sweep"],
    ),
    Mutant(
        "places drawn at the insert", "join_keys", "nextval('asyncjobs.place_seq') AS place", "o.id AS place",
        ["jobs_run_in_the_order_of_the_commits"],
    ),
    Mutant(
        "no fresh place of a promoted job", "promote", "place = placed.place,", "",
        ["a_job_that_became_pending_again_stands_behind_others"],
    ),
    Mutant("no new head after a release", "release_key", _OTHER_HEADS, "", ["a_released_key_has_a_head"]),
    Mutant("no new head after a resume", "resume_key", _ALL_HEADS, "",
           ["a_resumed_key_has_a_head"]),
    Mutant("no new head after a cancel", "end_job", "_heads := asyncjobs.release_keys(ARRAY[_id]);", "",
           ["a_key_whose_head_was_cancelled_has_another"]),
    Mutant("no new head after a retry", "retry_job", _ITS_HEAD, "",
           ["a_retried_job_of_an_idle_key_is_its_head"]),
    Mutant(
        "dispatch without the filter of idle keys", "dispatch_keys", _DISPATCHED, "AND d.id < 0)",
        ["a_dispatch_of_a_busy_key_does_nothing", "a_dispatch_does_not_wait_for_the_ack_of_the_head"],
    ),
    Mutant("rescue keeps the token", "fail_lost", "claim_token = NULL,", "", ["a_late_ack_is_read_back_as_lost"]),
    Mutant(
        "a key that a stranger holds is forgotten", "look_again",
        "PERFORM asyncjobs.request_dispatch(ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) WHERE k.key <> ALL (_locked)));", "",
        ["a_key_goes_on_when_a_stranger_held_its_lock"],
    ),
    Mutant(
        "no fence of the lean ack", "finish_one", "AND j.claim_token = _token AND j.status = 'processing'",
        "AND j.status = 'processing'", ["a_late_ack_touches_nothing"], call="finish_one",
    ),
    Mutant(
        "no second look of the lean ack", "finish_one", "_heads := asyncjobs.look_again(ARRAY[_key]);", "",
        ["enqueue_races_with_the_ack_of_the_last_job", "a_key_goes_on_when_a_stranger_held_its_lock"], call="finish_one",
    ),
    Mutant(
        "lean ack keeps the key", "finish_one", "s.id = _id AND s.dispatched_at IS NOT NULL",
        "s.id = _id AND s.dispatched_at IS NULL",
        ["a_dispatch_does_not_wait_for_the_ack_of_the_head"], call="finish_one",
    ),
    Mutant(
        "no fence of completions", "finish_completed", "AND j.claim_token = ANY (_tokens) AND j.status = 'processing'",
        "AND j.status = 'processing'", ["a_late_ack_touches_nothing"], call="finish_completed",
    ),
    Mutant(
        "completions keep the key", "finish_completed", "_heads := asyncjobs.release_keys(_keyed, '{}');", "",
        ["enqueue_races_with_the_ack_of_the_last_job"], call="finish_completed",
    ),
)  # fmt: skip
