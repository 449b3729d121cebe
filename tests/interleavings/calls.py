"""The calls that are played: each function as the runtime, an application or an operator calls it.

Texts have {names}, which a world fills in: jobs (`h` the head of key K, `w` and `v` behind it, `s` a delayed one of the key, `p`
and `q` without a key), their claims' tokens (`t_h`), and what the world knows of (`dead_letters`, `all`). A world without a name
has no such call. A call in brackets is a part of another, and not played by itself.
"""

import json
import re
from typing import Any, Final, NamedTuple

TOKEN: Final = 1 << 32 | 1  # the first that is drawn
CLAIM: Final = "SELECT asyncjobs.claim(%d, 'default', NULL, 1, -1, -1, '{{work}}', false, 1, 0)"
#: With the one behind it, whose token is the next (`r_w`).
CLAIM_RUN: Final = "SELECT asyncjobs.claim(1, 'default', NULL, 3, -1, -1, '{{work}}', false, 1, 0, '{{}}', NULL, NULL, 1)"
COMPLETE_IN_TRANSACTION: Final = "SELECT asyncjobs.complete_in_transaction({%s}, {t_%s}, NULL, NULL)"
_SCAN: Final = ", 'default', 9, 9, -1, -1, ARRAY['work'], true, 4, 0) AS f"
_KEYED: Final = "hws"
_NAME: Final = re.compile(r"(?<!\{)\{(\w+)\}")


class Call(NamedTuple):
    """Transactions, one after the other, each of some statements."""

    transactions: tuple[tuple[str, ...], ...]
    begin: str = "BEGIN"
    passes_over: bool = False  # it leaves what others have locked, or claim meanwhile, to its next pass: it may do nothing
    less: str | None = None  # the call that does all that this one has to do when it is in somebody's way
    given_up: str | None = None  # the call that does what this one has done when it gives up

    def names(self) -> set[str]:
        """What a world must have for it."""
        return {name for statements in self.transactions for text in statements for name in _NAME.findall(text)}


def one(text: str, **fields: Any) -> Call:
    """A call of one statement."""
    return Call(((text,),), **fields)


def own(
    *payloads: str,
    keys: tuple[str, ...] = (),
    dedup: str | None = None,
    on: str | None = None,
    delay: float | None = None,
    dedup_for: float | None = None,
) -> str:
    """An enqueue on a connection of the library's own."""
    fields = {"dedup_key": dedup, "on_duplicate": on, "delay_seconds": delay, "dedup_for_seconds": dedup_for}
    rows = [
        {"type": "work", "queue": "default", "payload": f'"{payload}"', "serialization_key": key, **fields}
        for payload, key in zip(payloads, keys or [None] * len(payloads), strict=True)
    ]
    document = json.dumps(rows).replace("{", "{{").replace("}", "}}")  # calls are filled in
    return (
        f"SELECT e.ids, e.existing, e.refused FROM asyncjobs.enqueue_rows(NULL, array_fill(1::bigint, ARRAY[{len(payloads)}]),"
        f" asyncjobs.read_rows(ARRAY['{document}']), true, false, 0, '2s') AS e"
    )


def here(payload: str, **fields: object) -> str:
    """An enqueue in a caller's transaction."""
    given = {"enqueue_token": 1, "type": "work", "queue": "default", "payload": f'"{payload}"', **fields}
    row = ", ".join(f"'{name}', {value!r}" for name, value in given.items() if value is not None)
    rows = f"jsonb_build_array(jsonb_build_object({row}))::text"
    return f"SELECT e.ids, e.existing, e.refused FROM asyncjobs.enqueue_in_transaction({rows}, NULL) AS e"


def _finish(acks: str = "NULL, NULL, NULL, NULL", *, scan: bool = True, lane: str = "NULL") -> str:
    scans = (
        f"ARRAY['default'], ARRAY[{lane}::text], ARRAY[9], ARRAY[9], ARRAY[-1], ARRAY[-1]::bigint[]"
        if scan
        else "NULL, NULL, NULL, NULL, NULL, NULL"
    )
    rest = "ARRAY['work'], ARRAY[true], 3, 0, NULL"
    return f"SELECT f.kind, f.id FROM asyncjobs.finish(1, {acks}, 10, {scans}, {rest}) AS f"


def ack(job: str, status: str, *, scan: bool = True, refund: bool | None = None) -> str:
    """An outcome of an attempt of this job."""
    error = None if status in {"completed", "pending", "scheduled"} else {"message": "boom"}
    said = {"status": status, "refund": refund, "error": error}
    outcome = json.dumps({name: value for name, value in said.items() if value is not None}).replace("{", "{{").replace("}", "}}")
    acks = f"ARRAY[{{{job}}}]::bigint[], ARRAY[{{t_{job}}}]::bigint[], ARRAY['{outcome}'], NULL"
    return _finish(acks, scan=scan)


def end(job: str, request: str) -> str:
    """An operator's cancel, dead or fail."""
    return f"SELECT v.outcome, v.was FROM asyncjobs.end_job({{{job}}}, '{request}', 'by hand', 10) AS v"


def change(job: str, **changes: object) -> str:
    """An operator's change of a job that waits."""
    said = json.dumps(changes).replace("{", "{{").replace("}", "}}")
    return f"SELECT v.outcome, v.was FROM asyncjobs.change_job({{{job}}}, '{said}') AS v"


def _runtime(bury: str) -> dict[str, Call]:
    gone = bury.replace("$1::bigint[]", "ARRAY[2]::bigint[]").replace("$2::bigint[]", "ARRAY[0]::bigint[]")
    prune = "asyncjobs.prune(NULL, NULL, NULL, 9, '-1 s', '-1 s', '-1 s', '-1 s', '-1 s', NULL, NULL)"
    lean = f"SELECT f.kind, f.id FROM asyncjobs.finish_completed(1, NULL, NULL, NULL, NULL{_SCAN}"
    return {
        "claim": one(_finish(), passes_over=True),
        "claim lean": one(lean, passes_over=True),
        "claim lane": one(_finish(lane="'fast'"), passes_over=True),
        "give_back": one("SELECT g.id FROM asyncjobs.give_back(1, ARRAY[]::bigint[], 4294967396) AS g", passes_over=True),
        "promote": one("SELECT p.promoted, p.keys FROM asyncjobs.promote(9, NULL, NULL) AS p", passes_over=True),
        "promote_keyed": one("SELECT p.promoted FROM asyncjobs.promote_keyed(ARRAY[{K}], 9) AS p", passes_over=True),
        "rescue": one("SELECT r.rescued, r.dead, r.cancelled FROM asyncjobs.rescue(9, 10) AS r", passes_over=True),
        "bury 2": one(gone, passes_over=True),
        "leave 1": one("SELECT asyncjobs.leave_runner(1, ARRAY[]::text[], '30 s') IS NULL"),
        "converge": one("SELECT c.held, c.resumed FROM asyncjobs.converge_pauses(9, 9, '1 day') AS c", passes_over=True),
        "prune": one(f"SELECT p.jobs, p.dead_letters, p.dedup_keys FROM {prune} AS p", passes_over=True),
        "advance_keys": one("SELECT a.heads FROM asyncjobs.advance_keys(ARRAY[{K}], NULL) AS a", passes_over=True),
        "release_ended h": one("SELECT asyncjobs.release_ended({h}) IS NULL"),
    }


def _operators() -> dict[str, Call]:
    wait = ("SELECT asyncjobs.wait_for_claims()",)
    noted = ("SELECT asyncjobs.pause('key', {K}, '', '')",)
    return {
        "pause type": Call((("SELECT asyncjobs.pause('type', 'work', '', '')",), wait)),
        "pause queue": Call((("SELECT asyncjobs.pause('queue', 'default', '', '')",), wait)),
        "pause_key": Call((noted, ("SELECT asyncjobs.hold_back_key({K})",)), given_up="(pause noted)"),
        "(pause noted)": Call((noted,)),
        "resume_key": one("SELECT v.resumed FROM asyncjobs.resume_key({K}) AS v"),
        "resume type": one("DELETE FROM asyncjobs.pauses AS p WHERE p.kind = 'type' AND p.name = 'work' RETURNING p.name"),
        "purge_key": one("SELECT v.cancelled, v.head_id FROM asyncjobs.purge_key({K}, 'purged', 9) AS v"),
        "release_key": one("SELECT v.halted_id FROM asyncjobs.release_key({K}) AS v"),
        "end_jobs": one("SELECT v.id, v.outcome FROM asyncjobs.end_jobs({all}, 'cancel', 'all', 10) AS v ORDER BY v.id"),
        "requeue": one("SELECT r.outcome, r.new_id FROM asyncjobs.requeue_dead_letters({dead_letters}, 'ada', false) AS r"),
        "acknowledge": one("SELECT r.is_new FROM asyncjobs.acknowledge_dead_letters({dead_letters}, 'ada') AS r"),
    }


def _enqueuers() -> dict[str, Call]:
    later = here("e7", serialization_key="K", dedup_key="ds", on_duplicate="replace", delay_seconds=3600.0)
    replacing = here("e8", serialization_key="K", dedup_key="dw", on_duplicate="replace")
    return {
        "enqueue": one(own("e0")),
        "enqueue key": one(own("e1", keys=("K",))),
        "enqueue many": one(own("m1", "m2", "m3", keys=("L", "K", "L"))),
        "enqueue dedup_for": one(own("e3", dedup="dp", dedup_for=9e3)),
        "tx enqueue key": one(here("e2", serialization_key="K")),
        "rr enqueue key": one(here("e9", serialization_key="K"), begin="BEGIN ISOLATION LEVEL REPEATABLE READ"),
        "serializable enqueue key": one(here("ea", serialization_key="K"), begin="BEGIN ISOLATION LEVEL SERIALIZABLE"),
        "tx complete+enqueue h": Call(((COMPLETE_IN_TRANSACTION % ("h", "h"), here("e4", serialization_key="K")),)),
        "tx two keys": Call(((here("e5", serialization_key="L"), replacing.replace('"e8"', '"e6"')),)),
        "tx delay+enqueue": Call(((later, replacing),)),
    }


def _of_job(job: str) -> dict[str, Call]:
    mine, no_text = f"ARRAY[{{{job}}}]::bigint[], ARRAY[{{t_{job}}}]::bigint[]", "ARRAY[NULL::text], ARRAY[NULL::text]"
    by_hand = (
        f"UPDATE asyncjobs.jobs AS j SET started_at = NULL, status = 'pending' WHERE j.id = {{{job}}} AND j.status = 'processing'"
    )
    by_hand = by_hand.replace("'pending'", _BY_HAND)
    calls = {f"{request} {job}": one(end(job, request)) for request in ("cancel", "dead", "fail")}
    return calls | {
        f"retry {job}": one(f"SELECT v.outcome, v.was, v.other_id FROM asyncjobs.retry_job({{{job}}}, 'ada') AS v"),
        f"change {job}": one(change(job, priority=7)),
        f"change later {job}": one(change(job, delay=3600)),
        f"change now {job}": one(change(job, delay=0)),
        f"delete {job}": one(f"SELECT v.outcome, v.was FROM asyncjobs.delete_job({{{job}}}) AS v"),
        f"complete_in_transaction {job}": one(COMPLETE_IN_TRANSACTION % (job, job)),
        f"progress {job}": one(f"SELECT asyncjobs.set_progress({mine}, ARRAY['1'])"),
        f"settle {job}": one(f"SELECT s.completed FROM asyncjobs.verify_completed({{{job}}}, {{t_{job}}}) AS s"),
        f"finish_one {job}": one(
            "SELECT f.kind, f.id FROM asyncjobs.finish_one("
            f"1, {{{job}}}, {{t_{job}}}, NULL, NULL, 'default', ARRAY['work'], 77) AS f",
            less=f"quiet {job}",
        ),
        f"quiet {job}": one(
            f"SELECT f.kind, f.id FROM asyncjobs.finish_one(1, {{{job}}}, {{t_{job}}}, NULL, NULL, NULL, NULL, 0) AS f"
        ),
        f"finish_completed {job}": one(
            f"SELECT f.kind, f.id FROM asyncjobs.finish_completed(1, {mine}, {no_text}{_SCAN}", less=f"quiet {job}"
        ),
        f"ack completed {job}": one(ack(job, "completed"), less=f"quiet {job}"),
        f"ack dead {job}": one(ack(job, "dead"), less=f"quiet dead {job}"),
        f"ack failed {job}": one(ack(job, "failed", scan=False)),
        f"quiet dead {job}": one(ack(job, "dead", scan=False)),
        f"ack pending {job}": one(ack(job, "pending", scan=False, refund=True)),
        f"sql pending {job}": one(f"WITH t AS ({by_hand} RETURNING j.id) SELECT asyncjobs.wait_again(array_agg(t.id)) FROM t"),
    }


def _of_a_run() -> dict[str, Call]:
    """What a runner says of a head and its follower."""
    both = "ARRAY[{h}, {w}]::bigint[], ARRAY[{t_h}, {r_w}]::bigint[]"
    its = "ARRAY[{w}]::bigint[], ARRAY[{r_w}]::bigint[]"
    back = '{{"status": "pending", "refund": true, "unbegun": true}}'
    scan = ", 'default', %d, %d, -1, -1, ARRAY['work'], false, 4, 0, ARRAY[{w}]::bigint[], 2) AS f"
    nothing = "NULL, NULL, NULL, NULL, NULL, NULL, ARRAY['work'], ARRAY[true], 3, 0, NULL"
    wrote = "SELECT f.kind, f.id FROM asyncjobs.finish"
    text = "'{{' || {w} || '}}'"
    return {
        "run completed": one(f"{wrote}_completed(1, {both}, NULL, NULL{scan % (0, 0)}"),
        "run completed, scan": one(f"{wrote}_completed(1, {both}, NULL, NULL{scan % (9, 1)}", less="run completed"),
        "run back": one(f"{wrote}(1, {its}, ARRAY['{back}'], NULL, 10, {nothing}, {text}) AS f"),
        "run completed, back": one(f"{wrote}(1, {both}, ARRAY[NULL, '{back}'], NULL, 10, {nothing}, {text}) AS f"),
    }


def _of_rows() -> dict[str, Call]:
    """What is one row each: a lease, a schedule, a breaker. (Where there is none, a world does not know it by its name.)"""
    lease = "ARRAY[{lease}]::text[]"
    held = f"'1', {lease}, ARRAY[5]::bigint[]"
    ticks = "asyncjobs.tick_schedule({{schedule}}, %d, '2020-01-01', '2020-01-0%d', ARRAY['2020-01-0%d']::timestamptz[], false)"
    happens = (
        "SELECT h.formerly, h.state, h.failure_count, h.success_count, h.probe_tokens, h.version"
        " FROM asyncjobs.happen_to_breaker({breaker}, '%s', %d, 3600, 'by hand', 2, 1, 1, 60) AS h"
    )
    calls = {
        f"take {holder}": one(
            f"SELECT asyncjobs.take_leases('{holder}', '{{{{}}}}', {lease}, ARRAY[{10 + holder}]::bigint[], {lease},"
            " ARRAY[5]::bigint[], ARRAY[3]::bigint[], ARRAY[true], '1 min')",
            passes_over=True,
        )
        for holder in (2, 3)
    }
    for event, token in (("asked", 21), ("asked", 22), ("failed", 7), ("failed", 8), ("succeeded", 7), ("given back", 7)):
        calls[f"breaker {event} {token}"] = one(happens % (event, token))
    for runner, day in ((1, 2), (2, 2), (2, 3)):
        calls[f"tick {day} by {runner}"] = one(
            f"SELECT t.outcome FROM {ticks % (runner, day, day)} AS t".replace("{{", "{").replace("}}", "}"), passes_over=True
        )
    return calls | {
        "renew 1": one(f"SELECT r.renewed, r.lost FROM asyncjobs.renew_leases({held}, '{{{{}}}}') AS r", passes_over=True),
        "release 1": one(
            f"SELECT r.released FROM asyncjobs.release_leases(1, {lease}, ARRAY[5]::bigint[], '{{{{}}}}', '1 min') AS r"
        ),
        "pass 1": Call(((
            "SELECT asyncjobs.hold_lease({lease}, '1', 5, '5 s')",
            "INSERT INTO asyncjobs.pauses (kind, name) SELECT 'queue', l.job_name FROM asyncjobs.background_job_leases AS l"  # noqa: ISC004
            " WHERE l.job_name = {lease} AND l.token = 5 AND l.held_by_worker_id = '1'",
        ),)),
        "breaker reset": one(happens % ("reset", 0)),
        "breaker opened": one(happens % ("opened", 0)),
        "disable": one("SELECT d FROM asyncjobs.disable_schedule({schedule}, 'operator', 'x') AS d"),
        "enable": one("SELECT e FROM asyncjobs.enable_schedule({schedule}) AS e"),
        "run": one("SELECT r.created FROM asyncjobs.run_schedule({schedule}) AS r"),
        "declare 1": one(
            "SELECT d.added, d.changed, d.enabled, d.removed, d.differing"
            " FROM asyncjobs.declare_schedules(1, ARRAY[{schedule}]::text[], ARRAY[{definition}]::text[]) AS d"
        ),
        "declare nothing 2": one("SELECT d.removed FROM asyncjobs.declare_schedules(2, ARRAY[]::text[], ARRAY[]::text[]) AS d"),
    }  # fmt: skip


#: What the run book's statement makes of a job that it takes back.
_BY_HAND: Final = "CASE WHEN asyncjobs.is_paused(j.type, j.serialization_key) THEN 'paused' ELSE 'pending' END"


def _duplicates(job: str) -> dict[str, Call]:
    key, dedup = "K" if job in _KEYED else None, "d" + job
    mark = f" /*{{{job}}}*/"  # only in worlds that have it
    calls = {}
    for name, on, delay in (("replace", "replace", None), ("delay", "replace", 3600.0), ("again", None, None)):
        keys = (key,) if key else ()
        calls[f"{name} {job}"] = one(own(name, keys=keys, dedup=dedup, on=on, delay=delay) + mark)
        text = here(name, serialization_key=key, dedup_key=dedup, on_duplicate=on, delay_seconds=delay) + mark
        calls[f"tx {name} {job}"] = one(text)
    return calls


def all_calls(bury: str) -> dict[str, Call]:
    """By name. `bury`: the statement that deletes runners."""
    calls = _runtime(bury) | _operators() | _enqueuers() | _of_rows() | _of_a_run()
    for job in "hwvpqs":
        calls |= _of_job(job)
    for job in "hwsp":
        calls |= _duplicates(job)
    return calls
