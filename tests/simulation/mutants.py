"""Protocols with one rule taken out, in SQL or in Python: what the simulation is for is to see each of them fail."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from tests.simulation import broken
from tests.simulation.app import LEASE_EXPIRY, RUNNER_TIMEOUT
from tests.simulation.course import Course
from tests.simulation.server import Server
from tests.support.mutants import (
    ACK_NAMES_NO_TOKEN,
    FINISH_COMPLETED_NAMES_NO_TOKEN,
    FINISH_ONE_NAMES_NO_TOKEN,
    KEYS_ARE_NOT_LOCKED,
    NO_SECOND_LOOK,
    PERMITS_OF_A_COUNTER,
    RESCUE_LEAVES_THE_TOKEN,
    Change,
    Mutant,
)


def _any(_course: Course) -> bool:
    return True


def _calm(course: Course) -> bool:
    return course.is_calm


def _calm_here(course: Course) -> bool:
    return course.is_calm and "here" in course.ways


def _frozen(course: Course) -> bool:
    """Processes are frozen for so long that others take their jobs and duties."""
    is_struck = course.strike_odds > 0.0 and any(one.startswith("freeze") for one in course.strikes)
    return max(course.freezes) > RUNNER_TIMEOUT and is_struck


def _dozes(course: Course) -> bool:
    """Processes are frozen for so long that others take over their leases; not for so long that they must be declared dead."""
    return any(1.5 * LEASE_EXPIRY < one < 1.5 * RUNNER_TIMEOUT for one in course.freezes) and (
        "freeze" in course.faults or (course.strike_odds > 0.0 and "freeze" in course.strikes)
    )


def _lossy(course: Course) -> bool:
    """Answers are lost."""
    return course.break_odds > 0.004 or (course.strike_odds > 0.004 and "lose the answer" in course.strikes)


def _gated(course: Course) -> bool:
    """Calls wait between their statements, while others go on with the same keys."""
    return course.is_calm and course.gate_odds > 0.0 and course.keys == "a" and course.jobs > 30


def _crowded(course: Course) -> bool:
    """Enqueues and acks of the same keys meet in their middle."""
    return _gated(course) or (course.quarrels and bool({"keyed", "many", "press"} & set(course.ways)))


def _late(course: Course) -> bool:
    """Answers are late where nothing fails: what happens between a statement and its answer is seen to be missed."""
    return course.is_calm and bool(course.late_answers)


def _fragile(course: Course) -> bool:
    return bool(course.fragile)


def _parted(course: Course) -> bool:
    """Runners are cut off, and their attempts last for longer than it takes to be declared dead."""
    return "part" in course.faults and max(course.durations) > RUNNER_TIMEOUT


def _stubborn(course: Course) -> bool:
    """Attempts outlive their runner, or its claims."""
    return ("stubborn", "ok") in course.plans and bool({"stop", "part", "freeze"} & set(course.faults))


def _quarrels(*ways: str) -> Callable[[Course], bool]:
    """Calls wait for others in their middle."""
    return lambda course: course.quarrels and bool(set(ways) & set(course.ways))


def _expires_ahead(course: Course) -> bool:
    return "expiring" in course.ways and course.prefetch > 0 and "clock" not in course.faults


def _unruly(course: Course) -> bool:
    return course.is_unruly


def _has(*ways: str) -> Callable[[Course], bool]:
    return lambda course: bool(set(ways) & set(course.ways))


def _ticks(course: Course) -> bool:
    return course.has_schedule and (_dozes(course) or _frozen(course))


def _retries(course: Course) -> bool:
    return bool({"keyed", "many"} & set(course.ways)) and len(course.keys) < 3


def _scene(*names: str) -> Callable[[Course], bool]:
    """Worlds that are about this."""
    return lambda course: course.scene in names


def _flows(course: Course) -> bool:
    """Workflows, and operators that steer them."""
    return {"flow", "steered"} <= set(course.ways)


def _limited(course: Course) -> bool:
    return bool(course.each)


class Simulated(Mutant, frozen=True):
    """One that a seed is to notice."""

    needs: Callable[[Course], bool] = _any  # other worlds cannot show it, or hardly, and are passed over


@contextmanager
def mutated(mutant: Mutant, server: Server) -> Generator[None]:
    """The protocol is broken in this way."""
    with ExitStack() as stack:
        for change in mutant.changes:
            stack.callback(server.change_back, server.change(change))
        for one in mutant.patches():
            stack.enter_context(one)
        yield


_ENDED = "a.key IS NOT NULL AND a.is_final"
_GATES_ARE_WAITED_FOR = Change(
    "try_lock_gates", "pg_try_advisory_xact_lock(hashtext('asyncjobs.gate'), (g.id & 2147483647)::integer)",
    "pg_advisory_xact_lock(hashtext('asyncjobs.gate'), (g.id & 2147483647)::integer) IS NOT NULL",
)  # fmt: skip
_FENCE = "AND j.claim_token = {} AND j.status = 'processing'"

MUTANTS: tuple[Simulated, ...] = (
    Simulated("acks are not fenced", (
        Change("ack", _FENCE.format("o.token"), ""), Change("finish_one", _FENCE.format("_token"), ""),
        Change("finish_completed", _FENCE.format("_tokens[width_bucket(j.claim_token, _tokens)]"), ""),
    ), needs=_frozen),
    # A frozen process's outcome arrives when its job runs elsewhere, under another token: it is completed there and then.
    Simulated("acks name no token", (
        ACK_NAMES_NO_TOKEN, FINISH_ONE_NAMES_NO_TOKEN, FINISH_COMPLETED_NAMES_NO_TOKEN,
    ), needs=_scene("late outcomes")),
    Simulated("the attempt is not counted at the claim", (
        Change("claim", "least(j.attempts, 2147483646) + 1", "j.attempts"),
        Change("finish_completed", "least(j.attempts, 2147483646) + 1", "j.attempts"),
    )),
    Simulated("a lease is renewed by name", (
        Change("renew_leases", "WHERE l.held_by_worker_id = _holder AND l.token = h.token ORDER BY", "ORDER BY"),
    ), needs=_dozes),
    Simulated("the last of a key's line is dispatched", (
        Change("dispatch_keys", "ORDER BY s.place LIMIT 1", "ORDER BY s.place DESC LIMIT 1"),
    )),
    # A frozen process's claim arrives when its runner has been declared dead and something is pending: that is nobody's then.
    Simulated("a runner that is gone claims", (
        Change("finish", "IF FOUND THEN\n            RETURN QUERY", "IF true THEN\n            RETURN QUERY"),
        Change("finish_completed", "ELSIF _is_special IS NULL THEN", "ELSIF false THEN"),
    ), needs=_scene("late claims")),
    Simulated("a snooze is an attempt", (Change("ack", "WHEN s.refund THEN", "WHEN s.refund AND s.snooze IS NOT TRUE THEN"),)),
    Simulated("a rescue leaves the token", (RESCUE_LEAVES_THE_TOKEN,), needs=_frozen),
    # A giving back hangs for longer than its runner waits for it; the runner claims over another connection; then it is
    # carried out, and takes these claims away.
    Simulated("giving back names no last token", (
        Change("give_back", "AND ((_last_token - coalesce(j.claim_token, _last_token)) & 4294967295) < 2147483648", ""),
    ), needs=_scene("late give-backs")),
    Simulated("keys are not locked", (KEYS_ARE_NOT_LOCKED,), needs=_crowded),
    Simulated("an ack does not look again", (NO_SECOND_LOOK,), needs=_crowded),
    # An ack has dispatched the next of one key and waits for the lock of another; an enqueue of both has that lock, and waits
    # for the row of what was dispatched.
    Simulated("busy keys are filtered after the lock", (
        Change("dispatch_keys", "WHERE NOT EXISTS (SELECT FROM asyncjobs.serialized_jobs AS d WHERE "
            "d.serialization_key = ANY (ARRAY[k.key]) AND d.dispatched_at IS NOT NULL)\n          AND NOT (", "WHERE NOT ("),
        Change("dispatch_keys", "WHERE s.id = ANY (ARRAY[head.id])", "WHERE s.id = ANY (ARRAY[head.id]) AND NOT EXISTS ("
            "SELECT FROM asyncjobs.serialized_jobs AS d "
            "WHERE d.serialization_key = s.serialization_key AND d.dispatched_at IS NOT NULL)"),
    ), needs=_scene("crossed")),
    Simulated("a retry loses its place", (
        Change("ack", _ENDED, _ENDED.replace("a.is_final", "(a.is_final OR a.status = 'failed')")),
    ), needs=_retries),
    Simulated("a snooze loses its place", (
        Change("ack", _ENDED, _ENDED.replace("a.is_final", "(a.is_final OR a.status = 'scheduled')")),
    ), needs=_retries),
    Simulated("a dedup key is not freed", (
        Change("ack", "IF _dedup IS NOT NULL THEN", "IF false THEN"),
    ), needs=_has("dedup")),
    Simulated("a claim does not look at start_before", (
        Change("claim", " AND asyncjobs.may_start(j.start_before)", ""),
        Change("finish_completed", " AND asyncjobs.may_start(j.start_before)", ""),
        Change("finish_one", " AND asyncjobs.may_start(j.start_before)", ""),
    ), needs=_has("expiring")),
    Simulated("what was claimed ahead does not expire", patches=broken.never_expires, needs=_expires_ahead),
    Simulated("a dedup key is freed after the claim", (
        Change("dedup_at_start", "PERFORM asyncjobs.end_dedup(ARRAY[_id]);", ""),
    ), needs=_has("starting")),
    Simulated("a claim does not see pauses", (
        Change("claim_scans", "_any_paused := EXISTS (SELECT FROM asyncjobs.pauses);", "_any_paused := false;"),
    ), needs=_has("pause")),
    Simulated("a paused key is dispatched", (
        Change("dispatch_keys", "_any_paused boolean := EXISTS (SELECT FROM asyncjobs.pauses)", "_any_paused boolean := false"),
    ), needs=_has("pause")),
    Simulated("a dead head does not halt its key", (Change("let_keys_go", "j.on_dead = 'halt'", "false"),), needs=_has("halt")),
    Simulated("a schedule ticks from any tick", (Change("tick_schedule", "s.last_tick = _previous AND ", ""),), needs=_ticks),
    Simulated("a commit tells nobody of what it enqueued", (
        Change("announce", "AND coalesce(r.notify, true) AND", "AND false AND"),
    ), needs=_calm_here),
    Simulated("a taken lease is not compared again", (
        Change("take_leases", "AND l.token = t.token AND l.renewals = t.renewals\n", "\n"),
        Change("take_leases", "WHERE t.duty = l.job_name AND t.token = l.token AND t.renewals = l.renewals",
            "WHERE t.duty = l.job_name"),
    ), needs=_dozes),
    Simulated("the coordinator's flag is cleared after the fetch", patches=broken.answered_late, needs=_late),
    Simulated("a lot calls nobody", patches=broken.nobody_called, needs=_calm),
    Simulated("everybody is woken before the LISTEN", patches=broken.wake_first, needs=_calm),
    Simulated("promotion tells nobody", patches=broken.promote_silently, needs=_calm),
    Simulated("a NOTIFY that failed is forgotten", patches=broken.forget_marks, needs=_fragile),
    Simulated("claims that were not answered are forgotten", patches=broken.no_doubt, needs=_lossy),
    Simulated("outcomes that were not answered are forgotten", patches=broken.lost_acks, needs=_lossy),
    Simulated("attempts go on without a confirmed beat", patches=broken.never_unconfirmed, needs=_parted),
    Simulated("a runner is dead after one late beat", patches=broken.dead_at_a_glance),
    Simulated("an enqueue is repeated blindly", patches=broken.enqueue_blindly, needs=_lossy),
    # A job is hinted at while the answer of a promotion is under way that did not see it: nobody looks for an interval.
    Simulated("a wake-up during a pass is lost", patches=broken.late_version, needs=_scene("chased")),
    # Who declared a runner dead is cut off before it takes the jobs back: at the next look nobody is dead, and the jobs name a
    # runner that is gone.
    Simulated("jobs of runners that left are nobody's", patches=broken.no_orphans, needs=_scene("lost rescues")),
    Simulated("nobody hints at what becomes due", patches=broken.no_hints, needs=_calm),
    Simulated("the next head of a key is not told of", patches=broken.silent_heads, needs=_calm),
    # A verb has the row locked of a job that it leaves as it is, and the scan that was woken for this job skips it.
    Simulated("a short claim does not look once more", patches=broken.looks_once, needs=_scene("touched")),
    Simulated("scans never return to the front", patches=broken.never_at_the_front, needs=_calm),
    # A holder sleeps for longer than its lease lasts, and begins a pass when it wakes, before a beat is answered: beside one of
    # whoever took over.
    Simulated("a lease is trusted for ever", patches=broken.trusted_for_ever, needs=_scene("naps")),
    Simulated("a lease is taken at sight", patches=broken.taken_at_sight),
    Simulated("a job is started beside itself", patches=broken.claims_beside_itself, needs=_stubborn),
    # Somebody's hand deletes the job at the head of a key: its place holds the key, and no outcome is ever going to let it go.
    # (When a runner dies between a completion in a handler's transaction and the end of the attempt, the rescue does that, too.)
    Simulated("keys are not swept", patches=broken.no_sweep, needs=_scene("hands")),
    # A pause has the row of a key's head; the head's outcome waits for that row, and then starts the next by what it saw before.
    Simulated("a statement that waited decides by the pauses of before", (
        Change("finish_one", "(SELECT EXISTS (SELECT FROM asyncjobs.limits) FROM asyncjobs.runners",
            "(SELECT NOT EXISTS (SELECT FROM asyncjobs.pauses) FROM asyncjobs.runners"),
        Change("finish_one", "IF _is_there IS NULL THEN\n        _heads", "IF _is_there IS NOT TRUE THEN\n        _heads"),
        Change("finish_one", " AND NOT EXISTS (SELECT FROM asyncjobs.pauses)", ""),
        # (A pause of a key that is committed first is seen by whoever has to wait for its locks.)
        Change("pause", "    INSERT INTO asyncjobs.pauses",
            "    IF _kind = 'key' THEN RETURN true; END IF;\n    INSERT INTO asyncjobs.pauses"),
        Change("hold_back_key", "PERFORM asyncjobs.hold_key(_key);",
            "PERFORM asyncjobs.hold_key(_key);\n    INSERT INTO asyncjobs.pauses (kind, name) VALUES ('key', _key) "
            "ON CONFLICT DO NOTHING;"),
    ), needs=_scene("pressed")),
    Simulated("a pause waits for no claim", (
        Change("wait_for_claims", "WHILE _claims && asyncjobs.claims_under_way() LOOP", "WHILE false LOOP"),
        Change("hold_back_key", "PERFORM asyncjobs.hold_key(_key);", "PERFORM asyncjobs.lock_keys(ARRAY[_key]);"),
    ), needs=_quarrels("pause", "press")),
    # Whoever replaces a job waits for its row, and keeps it although the job has come to wait in its key's line meanwhile; an
    # outcome that dispatches it has its place in the line, and waits for the row.
    Simulated("locks of what has moved on are kept", (
        Change("lock_in_order", "RAISE EXCEPTION 'a job moved on' USING ERRCODE = 'AJ001';",
            "PERFORM asyncjobs.lock_keys(_keys); RETURN;"),
    ), needs=_scene("moved")),
    Simulated("a job that is brought back to life does not have its dedup key again", (
        Change("take_dedup_key", "ELSE _by_hand OR d.expires_at <= _now END",
            "ELSE (_by_hand AND d.job_id <> _id) OR d.expires_at <= _now END"),
    ), needs=_quarrels("revive")),
    # A process is frozen with jobs that were claimed ahead; when it wakes an attempt ends, and its slot is free before a beat has
    # said that others have these jobs.
    Simulated("who was frozen begins what it had claimed", patches=broken.begins_unconfirmed, needs=_scene("frozen stock")),
    Simulated("a completion that was not committed counts", patches=broken.uncommitted_counts, needs=_unruly),
    Simulated("a part that is cancelled is not started again", patches=broken.parts_end, needs=_unruly),
    Simulated("attempts pay for the end of their program", patches=broken.charged_for_ends, needs=_unruly),
    Simulated("what exits in a sink ends its program", patches=broken.sinks_exit, needs=_unruly),
    Simulated("what a duty leaks ends it", patches=broken.leaks_end, needs=_unruly),
    Simulated("nobody tells a duty that its term is trusted again", patches=broken.trusted_in_silence, needs=_unruly),
    Simulated("a run goes on whatever its jobs end in", patches=broken.runs_on, needs=_scene("runs", "long lines")),
    # Those behind it are pending beside the head of their key.
    Simulated("a follower that is given back is pending", (
        Change("wait_again", "IF cardinality(_behind) = 0 THEN", "IF true THEN"),
    ), needs=_scene("runs", "pressed runs")),
    # A head's outcome is lost with its claim, and the outcomes of its followers, in the same call, are not.
    Simulated("outcomes of a run are written in any order", (
        Change("keep_order", "IF cardinality(_keys) = 0 THEN", "IF true THEN"),
    ), needs=_scene("runs", "late runs")),
    Simulated("followers are dispatched with their head", (
        Change("claim_followers", "    RETURN QUERY\n    UPDATE", "    UPDATE asyncjobs.jobs AS j SET status = 'pending' "
            "WHERE j.ctid = ANY (_picked);\n    RETURN;\n    RETURN QUERY\n    UPDATE"),
    ), needs=_scene("runs", "long lines")),
    Simulated("a claim is of more than there are slots", patches=broken.claims_too_much),
    Simulated("a slot is given back twice", patches=broken.gives_back_twice),
    Simulated("the outcome of a key goes around its actor", patches=broken.goes_around, needs=_has("keyed", "many")),
    Simulated("two calls of a line are under way", patches=broken.two_at_a_time),
    # Two members of two gates end at once, and each transaction has the one gate and waits for the other.
    Simulated("gates are waited for, in any order", (
        _GATES_ARE_WAITED_FOR,
        Change("try_lock_gates", "FROM unnest(_gates) AS g(id)",
            "FROM (SELECT u.id FROM unnest(_gates) AS u(id)"
            " ORDER BY u.id * (1 - 2 * ((SELECT nextval('asyncjobs.place_seq')) % 2))) AS g"),
    ), needs=_scene("folds")),
    # Claims wait for a fold with the acks of their call: soon over, but for what the fold waits for.
    Simulated("a fold is waited for", (_GATES_ARE_WAITED_FOR,), needs=_scene("met")),
    Simulated("arrivals at a gate that is locked are forgotten", (
        Change("fold_gates", "PERFORM asyncjobs.leave_arrivals(", "PERFORM array_length("),
        Change("fold_gates", "a.gate_id <> ALL (_ours)))", "a.gate_id <> ALL (_ours)), 1)"),
    ), needs=_scene("folds")),
    Simulated("a folder that finds a gate locked looks no more", patches=broken.folds_once, needs=_scene("met")),
    Simulated("who is passed over by a release is forgotten", (
        Change("tell_dependents", "AND coalesce(cardinality(_found) = cardinality(ids), _found IS NULL)", ""),
    ), needs=_scene("folds")),
    Simulated("a release ends with its batch", (
        Change("tell_dependents", "coalesce(cardinality(_found), 0) < 500 AND", ""),
    ), needs=_flows),
    # (That other gates are looked at under the dependent's lock, and that arrivals which are left are told of, no seed misses
    # within reason: tests/store/test_gate_races.py.)
    # Who was frozen ends a job that another runs, and its gate counts it.
    Simulated("an outcome arrives without its token", (
        Change("finish_one", "        _row.kind := 'lost';",
            "        PERFORM asyncjobs.arrive(ARRAY[_id]);\n        _row.kind := 'lost';"),
        Change("finish_completed", "CASE WHEN _members IS NOT NULL THEN asyncjobs.arrive_completed(_members) END",
            "asyncjobs.arrive_completed(_ids)"),
        Change("mark_arrived", " AND s.status = ANY ('{completed,dead,cancelled,gone}'::text[])", ""),
    ), needs=_scene("late members")),
    Simulated("what a cascade ends does not arrive", (
        Change("break_dependents", "asyncjobs.leave_arrivals(asyncjobs.mark_arrived(_ids))", "asyncjobs.mark_arrived(_ids)"),
    ), needs=_flows),
    Simulated("a retry does not un-arrive", (
        Change("take_back", "PERFORM asyncjobs.fold_gates(asyncjobs.unmark_arrived(ARRAY[_id]));", ""),
    ), needs=_flows),
    Simulated("a retry brings nobody back", (
        Change("count_arrivals", "PERFORM asyncjobs.take_dependents_back(_closed);", ""),
        Change("go_on_releasing", "PERFORM asyncjobs.take_dependents_back(_closed);", ""),  # (it would, a folder's look later)
    ), needs=_flows),
    Simulated("a gate releases although its workflow is cancelled", (
        Change("release_dependents", "AND w.cancel_requested_at IS NOT NULL)\n    INTO", "AND false)\n    INTO"),
    ), needs=_flows),
    Simulated("a second attempt spawns anew", (
        Change("spawn_members", "WHERE m.spawned_by = _job", "WHERE m.spawned_by = -_job"),
    ), needs=_flows),
    # Runners are killed, and nobody counts down for them.
    Simulated("permits are counted by a counter", PERMITS_OF_A_COUNTER, needs=_limited),
)  # fmt: skip
