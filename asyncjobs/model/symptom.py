"""What a doctor makes of what it sees (`model/signs.py`): findings with severity, evidence and remedy."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, Literal, TypeAlias

import msgspec

from asyncjobs.model.signs import BlockedBy, Signs

Severity: TypeAlias = Literal["info", "warning", "critical"]

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")

#: Seconds, and shares.
LONG_TRANSACTION: Final = 300.0
VERY_LONG_TRANSACTION: Final = 3_600.0
LONG_BLOCKED: Final = 3_600.0
LONG_CANCEL: Final = 600.0
#: For which a service has closed a limit key.
LONG_CLOSED: Final = 600.0
RECENT: Final = timedelta(hours=1)
_AGES: Final = 1e10
_SKEW: Final = 2.0
_SILENT: Final = 60.0
_HINT: Final = 3.0  # a living runner has connected anew, and beaten, within that
_HUNG: Final = 300.0
_FULL: Final = 0.8
_MANY_DEAD: Final = 10_000
#: A job that has been due for so long although somebody would take it; passes in a row; attempts of a type.
OLD_PENDING: Final = 600.0
_MANY_FAILURES: Final = 3
FAILING_ATTEMPTS: Final = 5
FAILING_SECONDS: Final = 3_600.0
#: That a process with a runner opens at most: `pool_size`, which is 2, three lines of enqueues and the notifier; and the call
#: line, the duties, the heartbeat and the listener.
_CONNECTIONS: Final = 10


class Symptom(msgspec.Struct, frozen=True):
    """One finding."""

    severity: Severity
    what: str
    evidence: str
    remedy: str


def diagnose(signs: Signs, *, silent_after: float = _SILENT) -> list[Symptom]:
    """The findings, the worst first; empty when nothing is wrong."""
    rules: tuple[Callable[[Signs], Iterator[Symptom]], ...] = (
        _schema, _cut_off, _vacuum, _transactions, _leases, _waiting, _own_children, _held_by_hand, _keys, _schedules, _workflows,
        _stopping, _deaths, _parts, _server, _failing_duties, _broken, _paused, _old, _failing, _dead_letters, _limits,
    )  # fmt: skip
    found = [symptom for rule in rules for symptom in rule(signs)]
    found += _silent(signs, silent_after)
    return sorted(found, key=lambda symptom: -SEVERITIES.index(symptom.severity))


def _span(seconds: float) -> timedelta:
    """A duration for eyes. A stranger's instant may be farther off than one can be."""
    return timedelta(seconds=round(min(max(seconds, -_AGES), _AGES)))


def _silent(signs: Signs, silent_after: float) -> Iterator[Symptom]:
    for id, host, pid, age in signs.silent_runners:
        if age > silent_after:
            evidence = f"runner {id} ({host}, pid {pid}) last beat {age:.0f} s ago"
            remedy = "is its process alive? Another runner rescues its jobs; start one if there is none (asyncjobs run)"
            yield Symptom("warning", "a runner is silent", evidence, remedy)


def _cut_off(signs: Signs) -> Iterator[Symptom]:
    for id, host, pid, age in signs.cut_off:
        if age > _HINT:
            evidence = f"runner {id} ({host}, pid {pid}): its sessions have ended, and it last beat {age:.0f} s ago"
            remedy = (
                "was its process killed? Its jobs are taken back at once by a runner on the same machine, else when its beat has "
                "been silent for runner_timeout"
            )
            yield Symptom("warning", "a runner may be gone", evidence, remedy)


def _schema(signs: Signs) -> Iterator[Symptom]:
    schema = signs.schema
    if schema is not None and schema.renamed_from is not None:
        evidence = f'schema "{schema.name}": its functions work on the tables of "{schema.renamed_from}"'
        yield Symptom("critical", "the schema was renamed or copied", evidence, "rename it back (ALTER SCHEMA … RENAME TO …)")
    elif schema is not None and schema.forgotten:
        evidence = f'schema "{schema.name}" has {", ".join(schema.forgotten[-1:])}'
        remedy = "let its jobs end there, and give this program another schema, or drop that one"
        yield Symptom("critical", "the schema is of before the first release", evidence, remedy)
    elif schema is not None and schema.unknown_breaking:
        evidence = f'schema "{schema.name}" has {", ".join(schema.unknown_breaking)}'
        yield Symptom("critical", "the schema is newer than this program", evidence, "update asyncjobs here; runners, too")
    elif schema is not None and schema.pending and not schema.applied:
        evidence = f'schema "{schema.name}" has no tables of asyncjobs'
        yield Symptom("critical", "there is no schema", evidence, "make it: asyncjobs migrate; or is --schema or --dsn another?")
    elif schema is not None and schema.pending:
        evidence = (
            f"schema {_number(schema.applied)}, wants {_number([*schema.applied, *schema.pending])}: "
            f"without {', '.join(schema.pending)}"
        )
        yield Symptom("critical", "the schema is outdated", evidence, "run asyncjobs migrate, then the doctor again")
    for name in signs.missing_indexes:
        yield Symptom("critical", "an index is missing", name, f"make it anew, as in `asyncjobs migrate --sql`: {name}")
    for name in signs.invalid_indexes:
        yield Symptom("critical", "an index is invalid", name, f"REINDEX INDEX CONCURRENTLY {name}")
    for name, last, reached in signs.sequences:
        evidence = f"{name} is at {last}, its rows at {reached}: as after a switch-over, which copies no sequences"
        remedy = "move it on: SELECT * FROM asyncjobs.move_sequences()"
        yield Symptom("critical", "a sequence is behind its rows", evidence, remedy)


def _number(migrations: Sequence[str]) -> int:
    """The highest of the migrations' numbers, which begin their names. (Functions and views are pending without a number.)"""
    return max(int(number) for name in migrations if (number := name.partition("_")[0]).isdigit())


def _vacuum(signs: Signs) -> Iterator[Symptom]:
    if not signs.autovacuum:
        yield Symptom("critical", "autovacuum is off", "setting autovacuum", "turn it on: queues make many dead rows")
    for table in signs.tables:
        if table.left_out:
            yield Symptom(
                "critical", "autovacuum leaves a table out", table.name, "reset its storage parameter autovacuum_enabled"
            )
        if table.dead > max(_MANY_DEAD, 2 * table.live):
            evidence = f"{table.name}: {table.dead:,} dead rows, {table.live:,} live ones"
            yield Symptom("warning", "a table is bloated", evidence, f"end long transactions, then VACUUM {table.name}")


def _transactions(signs: Signs) -> Iterator[Symptom]:
    for one in signs.transactions:
        since = f", query since {one.query_start:%Y-%m-%d %H:%M:%S}" if one.query_start else ""
        held = "" if one.held is None else f", vacuum stands back {one.held:,} transactions for it"
        who = f"pid {one.pid} ({one.application or 'no name'}, {one.state})"
        severity: Severity = "critical" if one.age_seconds > VERY_LONG_TRANSACTION else "warning"
        if one.unread:
            evidence = f"{who}: for {one.age_seconds:.0f} s or less its client has not read what it is sent{held}"
            remedy = f"its process stands still, or blocks its event loop: see to it, or SELECT pg_terminate_backend({one.pid})"
            yield Symptom(severity, "a session is not read from", evidence, remedy)
            continue
        evidence = f"{who}: open for {one.age_seconds:.0f} s{since}{held}"
        remedy = f"it keeps vacuum from removing dead rows: end it, or SELECT pg_terminate_backend({one.pid})"
        yield Symptom(severity, "a transaction is open for long", evidence, remedy)


def _leases(signs: Signs) -> Iterator[Symptom]:
    for lease in signs.leases:
        if lease.runner_id is None or lease.renewed is None or lease.renewed > _SILENT:
            if signs.live_runners:
                held = "nobody holds it" if lease.runner_id is None else f"runner {lease.runner_id} has not renewed it"
                remedy = "a runner takes it within seconds; if this stays, look at the runners' logs"
                yield Symptom("warning", "a duty is not done", f"{lease.duty}: {held}", remedy)
        elif lease.last_run is not None and lease.last_run > _HUNG:
            evidence = f"{lease.duty}: runner {lease.runner_id} renews, but last turned {lease.last_run:.0f} s ago"
            yield Symptom(
                "critical", "a duty hangs", evidence, "end that runner's process (asyncjobs leases): another takes over"
            )


def _waiting(signs: Signs) -> Iterator[Symptom]:
    if signs.unserved and not signs.live_runners:
        count = sum(jobs for _, _, jobs in signs.unserved)
        yield Symptom("critical", "no runner lives", f"{count:,} jobs wait", "start one: asyncjobs run package.module:jobs")
    elif signs.unserved:
        for queue, type, count in signs.unserved:
            if type in signs.undeclared:
                since = signs.undeclared[type]
                ever = "no runner ever did" if since is None else f"one did last at {since:%Y-%m-%d %H:%M:%S}"
                evidence = f"{count:,} of {type} in {queue}; {ever}"
                remedy = "start the program that has its handler (with aliases= if it was renamed); or is it a slip? Cancel them"
                yield Symptom("warning", "jobs of a type that nobody declares wait", evidence, remedy)
                continue
            remedy = (
                "start a runner that serves this queue and has a handler for this type and its payloads' version, or cancel them"
            )
            yield Symptom("warning", "jobs that nobody would run wait", f"{count:,} of {type} in {queue}", remedy)


def _own_children(signs: Signs) -> Iterator[Symptom]:
    for queue, parents, slots in signs.waits:
        evidence = f"{queue}: {parents} jobs hold its {slots} slots, and children of theirs wait for one"
        remedy = (
            "if their handlers wait for these, none goes on: cancel some, and give the children a queue or a lane of their own"
        )
        yield Symptom("critical", "a queue waits for itself", evidence, remedy)


def _held_by_hand(signs: Signs) -> Iterator[Symptom]:
    for type, count in signs.held_by_hand:
        remedy = f"is it still meant? asyncjobs resume --type {type}, or an UPDATE to pending, lets them go"
        yield Symptom("info", "jobs are paused by hand", f"{count:,} of {type}", remedy)


_BLOCKED: Final[Mapping[BlockedBy, tuple[str, str]]] = {
    "dead": (
        "keys are halted by dead jobs",
        "repair the cause and retry the job (asyncjobs jobs retry), or asyncjobs keys release",
    ),
    "later": ("keys wait for a job that is to run later", "run it now (asyncjobs jobs retry), or cancel it: the line goes on"),
    "paused": ("keys are paused for long", "is it still meant? asyncjobs pauses says by whom and why; asyncjobs resume"),
    "owner": ("keys are held by a runner that is gone", "a living runner takes the job back within seconds: start one"),
}


def _keys(signs: Signs) -> Iterator[Symptom]:
    for one in signs.blocked_keys:
        what, remedy = _BLOCKED[one.by]
        head = "" if one.head_id is None else f" by job {one.head_id}"
        evidence = f"{one.count:,}; longest {one.key}{head}, for {_span(one.age_seconds)}"
        yield Symptom("critical" if one.by == "owner" else "warning", what, evidence, remedy)


def _failing_duties(signs: Signs) -> Iterator[Symptom]:
    for lease in signs.leases:
        if lease.failures >= _MANY_FAILURES:
            evidence = f"{lease.duty}: its last {lease.failures:,} passes failed, on runner {lease.runner_id}"
            yield Symptom(
                "critical", "a duty fails", evidence, "the log of that runner has the error (asyncjobs.service.pass_failed)"
            )


def _broken(signs: Signs) -> Iterator[Symptom]:
    for one in signs.breakers:
        until = "until it is reset" if one.until is None else f"a probe at {one.until:%H:%M:%S}"
        since = "" if one.since is None else f" since {one.since:%Y-%m-%d %H:%M:%S}"
        evidence = f"{one.what}{since}, {until}: {one.jobs:,} jobs wait{f'; {one.note}' if one.note else ''}"
        remedy = (
            "is the service back? asyncjobs breakers reset; else it lets a probe through by itself, unless an operator opened it"
        )
        yield Symptom("warning" if one.jobs else "info", "a circuit breaker is open", evidence, remedy)


def _paused(signs: Signs) -> Iterator[Symptom]:
    for one in signs.pauses:
        since = "" if one.since is None else f" since {one.since:%Y-%m-%d %H:%M:%S}"
        evidence = f"{one.what}{since}: {one.jobs:,} jobs wait{f'; {one.note}' if one.note else ''}"
        remedy = "is it still meant? asyncjobs resume lets them go"
        yield Symptom("warning" if one.jobs else "info", "it is paused", evidence, remedy)


def _old(signs: Signs) -> Iterator[Symptom]:
    if signs.oldest_pending is not None and signs.oldest_pending[2] > OLD_PENDING:
        queue, type, age = signs.oldest_pending
        evidence = f"one of {type} in {queue} has been due for {_span(age)}"
        remedy = "asyncjobs jobs explain says why; if more is enqueued than runners do: more slots, more runners, or faster jobs"
        yield Symptom("warning", "jobs wait for long", evidence, remedy)


def _failing(signs: Signs) -> Iterator[Symptom]:
    for type, attempts in signs.failing:
        evidence = f"{type}: {attempts:,} attempts within an hour, and none succeeded"
        remedy = (
            f"asyncjobs jobs list --status failed --status dead --type {shlex.quote(type)} says why; "
            "pause the type (asyncjobs pause --type) until it is mended"
        )
        yield Symptom("critical", "a type fails each time", evidence, remedy)


def _dead_letters(signs: Signs) -> Iterator[Symptom]:
    if signs.dead_letters:
        since = "" if signs.first_death_at is None else f", the first of {signs.first_death_at:%Y-%m-%d %H:%M:%S}"
        remedy = "asyncjobs dead errors says of what; then dead requeue --error-kind, or dead ack"
        yield Symptom("warning", "dead letters wait for somebody", f"{signs.dead_letters:,}{since}", remedy)


def _limits(signs: Signs) -> Iterator[Symptom]:
    for one in signs.limits:
        if one.why == "closed":
            evidence = f"{one.count:,}; longest {one.name}, until {one.until:%Y-%m-%d %H:%M:%S}, as job {one.job_id} was told"
            remedy = f"is that what the service wants? It opens by itself, or: asyncjobs limits open {one.name}"
            yield Symptom("warning", "limit keys are closed for long", evidence, remedy)
        elif one.why == "full":
            evidence = (
                f"{one.count:,}; {one.name} has {one.running} of {one.most or 'any number'} running, and job {one.job_id} waits"
            )
            remedy = "a runner opens it within sweep_interval: start one; asyncjobs limits open of a key does, too"
            yield Symptom("critical", "a limit is taken for full, and is not", evidence, remedy)
        else:
            evidence = f"{one.most:,}, as {one.name}; by {one.count:,} runners, as {one.job_id}"
            remedy = "what was declared last counts: give all programs the same, or set it by hand (asyncjobs limits set)"
            yield Symptom("warning", "programs declare limits differently", evidence, remedy)


def _schedules(signs: Signs) -> Iterator[Symptom]:
    for name, reason in signs.failed_schedules:
        remedy = "repair the cause: it is tried again at each look; or asyncjobs schedules disable"
        yield Symptom("critical", "a schedule makes no jobs", f"{name}: {reason}", remedy)


def _workflows(signs: Signs) -> Iterator[Symptom]:
    for id, name, age, left in signs.cancelling:
        evidence = f"workflow {id} ({name}) was cancelled {age:.0f} s ago, and {left:,} of its jobs have not ended"
        remedy = f"their handlers go on, or no runner serves them: asyncjobs workflows show {id}"
        yield Symptom("warning", "a workflow does not end although it was cancelled", evidence, remedy)
    for id, name, count in signs.broken:
        evidence = f"{count:,} in the last hour, the last one workflow {id} ({name})"
        remedy = f"see what died in it, and retry it: asyncjobs workflows show {id}, asyncjobs workflows retry {id}"
        yield Symptom("info", "workflows broke", evidence, remedy)


def _stopping(signs: Signs) -> Iterator[Symptom]:
    for id, host, pid, age in signs.stopping:
        if age > _SILENT:
            evidence = f"runner {id} ({host}, pid {pid}) was told to stop {age:.0f} s ago, and handlers go on there"
            yield Symptom(
                "warning", "a runner does not end", evidence, "end its process: what it runs is given back, with the attempts"
            )


def _deaths(signs: Signs) -> Iterator[Symptom]:
    if signs.deaths:
        last = signs.deaths[0]
        evidence = (
            f"{len(signs.deaths)} within an hour; the last: runner {last.runner_id} ({last.host}, pid {last.pid}) "
            f"at {last.died_at:%Y-%m-%d %H:%M:%S}"
        )
        remedy = "what ended it? See its host's log (memory, a kill without SIGTERM, a loop that stood still)"
        yield Symptom("warning", "runners died", evidence, remedy)


def _parts(signs: Signs) -> Iterator[Symptom]:
    for runner_id, trouble in signs.troubles:
        remedy = "it goes on by itself; if it stays, the log of that process has the traceback"
        yield Symptom("warning", "a part of a runner was started again", f"runner {runner_id}: {trouble}", remedy)


def _server(signs: Signs) -> Iterator[Symptom]:
    if abs(signs.skew_seconds) > _SKEW:
        evidence = f"this host is {signs.skew_seconds:+.1f} s off the database's clock"
        yield Symptom("warning", "clocks differ", evidence, "run NTP on both: what is due goes by the database's clock")
    if signs.isolation != "read committed":
        evidence = f"sessions begin as {signs.isolation}, and connect_kwargs says nothing of it"
        remedy = "give the role the right one: ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        yield Symptom("critical", "the default isolation level is another", evidence, remedy)
    if signs.pooled:
        evidence = "the server's process is not the one that was reached, and a notification did not arrive"
        remedy = "give runners listen_dsn= that goes around it; until then they poll each second"
        yield Symptom("warning", "a pooler is in the way of LISTEN", evidence, remedy)
    if signs.connections > _FULL * signs.max_connections:
        evidence = f"{signs.connections} of {signs.max_connections} connections are in use"
        remedy = f"a runner needs up to {_CONNECTIONS}: raise max_connections, or run fewer"
        yield Symptom("warning", "connections run out", evidence, remedy)
    elif _CONNECTIONS * signs.live_runners > signs.max_connections:
        need = _CONNECTIONS * signs.live_runners
        evidence = f"{signs.live_runners} runners may need {need}, max_connections is {signs.max_connections}"
        remedy = "raise max_connections, or run fewer runners with more slots"
        yield Symptom("warning", "connections may run out", evidence, remedy)
