"""Each safeguard of the key protocol, taken out, is missed by a scenario: so none is there for nothing, and each is tested."""

from collections.abc import Sequence

import asyncpg
import pytest

from asyncjobs.store.database import Connection, Database
from tests.support.mutants import (
    ACK_NAMES_NO_TOKEN,
    FINISH_COMPLETED_NAMES_NO_TOKEN,
    FINISH_ONE_NAMES_NO_TOKEN,
    KEYS_ARE_NOT_LOCKED,
    NO_SECOND_LOOK,
    RESCUE_LEAVES_THE_TOKEN,
    Change,
    Mutant,
    mutate,
)
from tests.support.peers import Call, peers
from tests.support.scenarios import SCENARIOS


class Raced(Mutant, frozen=True):
    """One that scenarios miss, each of them."""

    caught_by: Sequence[str] = ()
    call: Call = "finish"  # the scenarios' acks of completions


_DISPATCHED = "AND d.dispatched_at IS NOT NULL)"
_OTHER_HEADS = "SELECT array_agg(d.id) INTO _heads FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d;"
_ALL_HEADS = "|| ARRAY(SELECT d.id FROM asyncjobs.dispatch_keys(ARRAY[_key]) AS d)"
_ITS_HEAD = _OTHER_HEADS.replace("_key]", "_job.serialization_key]")

MUTANTS: tuple[Raced, ...] = (
    Raced(
        "no unique index of heads",
        statement="DROP INDEX asyncjobs.serialized_jobs_head",
        caught_by=["a_dispatch_under_an_old_snapshot_makes_no_second_head"],
    ),
    Raced("no fence", (ACK_NAMES_NO_TOKEN,), caught_by=["a_late_ack_touches_nothing"]),
    Raced(
        "no lock of the key",
        (KEYS_ARE_NOT_LOCKED,),
        caught_by=[
            "enqueue_races_with_the_ack_of_the_last_job",
            "ack_of_the_last_job_races_with_an_enqueue",
            "join_at_a_commit_races_with_the_ack_of_the_last_job",
            "two_enqueues_race_for_an_idle_key",
        ],
    ),
    Raced("no second look of the ack", (NO_SECOND_LOOK,), caught_by=["enqueue_races_with_the_ack_of_the_last_job"]),
    Raced(
        "second look of the ack without the lock",
        (Change("look_again", "PERFORM asyncjobs.lock_keys_shortly(_keys);", ""),),
        caught_by=["enqueue_races_with_the_ack_of_the_last_job", "ack_of_the_last_job_races_with_an_enqueue"],
    ),
    Raced(
        "no sweep of stalled keys",
        (
            Change(
                "look_at_keys",
                "SELECT k.key FROM unnest(_keys) AS k(key)\n        WHERE",
                "SELECT k.key FROM unnest(_keys) AS k(key)\n        WHERE false AND",
            ),
        ),
        caught_by=["a_request_is_carried_out_by_the_sweep_when_nobody_did"],
    ),
    Raced(
        "no sweep of keys whose job is gone",
        (Change("look_at_keys", "WHERE j.id IS NULL OR", "WHERE"),),
        caught_by=["a_key_whose_head_is_gone_goes_on_with_the_sweep"],
    ),
    Raced(
        "no sweep of jobs in no line",
        (Change("rejoin", "j.status || '' = 'waiting'", "false"),),
        caught_by=["a_job_that_was_taken_out_of_its_line_joins_it_again_with_the_sweep"],
    ),
    Raced(
        "places drawn at the insert",
        (Change("join_keys", "nextval('asyncjobs.place_seq') AS place", "o.id AS place"),),
        caught_by=["jobs_run_in_the_order_of_the_commits"],
    ),
    Raced(
        "no fresh place of a promoted job",
        (Change("make_pending", "place = placed.place,", ""),),
        caught_by=["a_job_that_became_pending_again_stands_behind_others"],
    ),
    Raced("no new head after a release", (Change("release_key", _OTHER_HEADS, ""),), caught_by=["a_released_key_has_a_head"]),
    Raced("no new head after a resume", (Change("resume_key", _ALL_HEADS, ""),), caught_by=["a_resumed_key_has_a_head"]),
    Raced(
        "no new head after a cancel",
        (
            Change(
                "end_idle", "_heads := asyncjobs.let_keys_go(_keyed, CASE WHEN _status = 'dead' THEN _keyed ELSE '{}' END);", ""
            ),
        ),
        caught_by=["a_key_whose_head_was_cancelled_has_another"],
    ),
    Raced(
        "no new head after a retry", (Change("retry_job", _ITS_HEAD, ""),), caught_by=["a_retried_job_of_an_idle_key_is_its_head"]
    ),
    Raced(
        "dispatch without the filter of idle keys",
        (Change("dispatch_keys", _DISPATCHED, "AND d.id < 0)"),),
        caught_by=["a_dispatch_of_a_busy_key_does_nothing", "a_dispatch_does_not_wait_for_the_ack_of_the_head"],
    ),
    Raced("rescue keeps the token", (RESCUE_LEAVES_THE_TOKEN,), caught_by=["a_late_ack_is_read_back_as_lost"]),
    Raced(
        "a key that a stranger holds is forgotten",
        (
            Change(
                "look_again",
                "PERFORM asyncjobs.request_dispatch(ARRAY(SELECT k.key FROM unnest(_keys) AS k(key) "
                "WHERE k.key <> ALL (_locked)));",
                "",
            ),
        ),
        caught_by=["a_key_goes_on_when_a_stranger_held_its_lock"],
    ),
    Raced("no fence of the lean ack", (FINISH_ONE_NAMES_NO_TOKEN,), caught_by=["a_late_ack_touches_nothing"], call="finish_one"),
    Raced(
        "no second look of the lean ack",
        (Change("finish_one", "_heads := asyncjobs.look_again(ARRAY[_key]);", ""),),
        caught_by=["enqueue_races_with_the_ack_of_the_last_job", "a_key_goes_on_when_a_stranger_held_its_lock"],
        call="finish_one",
    ),
    Raced(
        "lean ack keeps the key",
        (Change("finish_one", "s.id = _id AND s.dispatched_at IS NOT NULL", "s.id = _id AND s.dispatched_at IS NULL"),),
        caught_by=["a_dispatch_does_not_wait_for_the_ack_of_the_head"],
        call="finish_one",
    ),
    Raced(
        "no fence of completions",
        (FINISH_COMPLETED_NAMES_NO_TOKEN,),
        caught_by=["a_late_ack_touches_nothing"],
        call="finish_completed",
    ),
    Raced(
        "completions keep the key",
        (Change("finish_completed", "_heads := asyncjobs.let_keys_go(_keyed, '{}');", ""),),
        caught_by=["enqueue_races_with_the_ack_of_the_last_job"],
        call="finish_completed",
    ),
)

_CASES = [pytest.param(mutant, name, id=f"{mutant.name}: {name}") for mutant in MUTANTS for name in mutant.caught_by]


@pytest.mark.unaudited("its protocol is broken")
@pytest.mark.parametrize(("mutant", "name"), _CASES)
async def test_mutant_is_caught(
    mutant: Raced, name: str, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.peers.LOCK_PATIENCE_SECONDS", 0.3)  # a lock that is not there is not waited for long
    await mutate(connection, database, mutant)
    with pytest.raises((AssertionError, asyncpg.PostgresError)):
        await _run(name, database, call=mutant.call)


async def _run(name: str, database: Database, *, call: Call) -> None:
    async with peers(database, call=call) as pair:
        await SCENARIOS[name](pair)
        await pair.promises_hold()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_names_scenarios_that_exist(mutant: Raced) -> None:
    assert set(mutant.caught_by) <= set(SCENARIOS)
