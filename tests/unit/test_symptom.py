"""The doctor's rules: one sign, one finding, with evidence and remedy."""

from datetime import UTC, datetime
from typing import Any

import pytest

from asyncjobs.model.signs import BlockedKeys, Death, Held, LeaseAge, SchemaState, Signs, TableUse, Transaction
from asyncjobs.model.symptom import Severity, diagnose

CASES: list[tuple[dict[str, Any], Severity, str, str]] = [
    ({"schema": SchemaState("a", ["0001_x.sql"], ["0002_y.sql"])}, "critical", "the schema is outdated", "schema 1, wants 2"),
    ({"schema": SchemaState("a", [], ["0001_x.sql"])}, "critical", "there is no schema", 'schema "a"'),
    (
        {"schema": SchemaState("a", ["0001_x.sql"], [], ["0009_z.sql"])},
        "critical",
        "the schema is newer than this program",
        "0009_z.sql",
    ),
    ({"missing_indexes": ["jobs_claim"]}, "critical", "an index is missing", "jobs_claim"),
    ({"invalid_indexes": ["jobs_due"]}, "critical", "an index is invalid", "jobs_due"),
    ({"autovacuum": False}, "critical", "autovacuum is off", "autovacuum"),
    ({"tables": [TableUse("jobs", 10, 0, left_out=True)]}, "critical", "autovacuum leaves a table out", "jobs"),
    ({"tables": [TableUse("jobs", 10, 20_000, left_out=False)]}, "warning", "a table is bloated", "20,000 dead"),
    ({"transactions": [Transaction(7, "psql", "idle", 400.0, None)]}, "warning", "a transaction is open for long", "pid 7 (psql"),
    ({"transactions": [Transaction(7, "", "idle", 4_000.0, None)]}, "critical", "a transaction is open for long", "no name"),
    (
        {"transactions": [Transaction(7, "a", "idle in transaction", 400.0, None, 5000)]},
        "warning",
        "a transaction is open for long",
        "5,000",
    ),
    (
        {"transactions": [Transaction(7, "a", "idle", 4e3, None, 9, unread=True)]},
        "critical",
        "a session is not read from",
        "pid 7",
    ),
    ({"leases": [LeaseAge("rescue", None, None, None)], "live_runners": 1}, "warning", "a duty is not done", "nobody"),
    ({"leases": [LeaseAge("rescue", 3, 900.0, 1.0)], "live_runners": 1}, "warning", "a duty is not done", "runner 3"),
    ({"leases": [LeaseAge("rescue", 3, 1.0, 600.0)], "live_runners": 1}, "critical", "a duty hangs", "600 s ago"),
    ({"unserved": [("default", "email", 5)]}, "critical", "no runner lives", "5 jobs"),
    (
        {"unserved": [("default", "email", 5)], "live_runners": 1},
        "warning",
        "jobs that nobody would run wait",
        "email in default",
    ),
    ({"blocked_keys": [BlockedKeys("dead", 2, "k", 7, 60.0)]}, "warning", "keys are halted by dead jobs", "2; longest k by"),
    ({"blocked_keys": [BlockedKeys("later", 1, "k", 7, 60.0)]}, "warning", "keys wait for a job that is to run later", "0:01:00"),
    ({"blocked_keys": [BlockedKeys("paused", 1, "k", None, 60.0)]}, "warning", "keys are paused for long", "longest k, for"),
    ({"blocked_keys": [BlockedKeys("owner", 1, "k", 7, 60.0)]}, "critical", "keys are held by a runner that is gone", "k by"),
    ({"deaths": [Death(4, "web1", 22, datetime(2027, 1, 1, tzinfo=UTC))]}, "warning", "runners died", "runner 4 (web1, pid 22)"),
    ({"failed_schedules": [("nightly", "no")]}, "critical", "a schedule makes no jobs", "nightly: no"),
    (
        {"cancelling": [(5, "import", 900.0, 2)]},
        "warning",
        "a workflow does not end although it was cancelled",
        "workflow 5 (import) was cancelled 900 s ago, and 2 of its jobs",
    ),
    ({"broken": [(5, "import", 2)]}, "info", "workflows broke", "2 in the last hour, the last one workflow 5 (import)"),
    ({"stopping": [(4, "web1", 22, 90.0)]}, "warning", "a runner does not end", "was told to stop 90 s ago"),
    ({"live_runners": 12}, "warning", "connections may run out", "12 runners may need 120"),
    ({"skew_seconds": -5.0}, "warning", "clocks differ", "-5.0 s"),
    ({"pooled": True}, "warning", "a pooler is in the way of LISTEN", "not the one"),
    ({"connections": 95}, "warning", "connections run out", "95 of 100"),
    ({"leases": [LeaseAge("report", 3, 1.0, 1.0, 30)]}, "critical", "a duty fails", "last 30 passes"),
    ({"breakers": [Held('breaker "smtp"', None, None, "", 3)]}, "warning", "a circuit breaker is open", "3 jobs wait"),
    ({"breakers": [Held('breaker "smtp"', None, None, "", 0)]}, "info", "a circuit breaker is open", "until it is reset"),
    ({"pauses": [Held('queue "mail"', None, None, "by ada", 15_000)]}, "warning", "it is paused", "15,000 jobs wait; by ada"),
    ({"dead_letters": 70}, "warning", "dead letters wait for somebody", "70"),
    ({"oldest_pending": ("mail", "email", 1_560.0)}, "warning", "jobs wait for long", "email in mail has been due for 0:26:00"),
    ({"failing": [("email", 9)]}, "critical", "a type fails each time", "email: 9 attempts"),
    ({"cut_off": [(4, "web1", 22, 6.0)]}, "warning", "a runner may be gone", "runner 4 (web1, pid 22): its sessions have ended"),
    ({"silent_runners": [(4, "web1", 22, 90.0)]}, "warning", "a runner is silent", "runner 4 (web1, pid 22)"),
]


@pytest.mark.parametrize(("signs", "severity", "what", "evidence"), CASES)
def test_a_sign_is_found_with_evidence_and_remedy(signs: dict[str, Any], severity: Severity, what: str, evidence: str) -> None:
    (symptom,) = diagnose(Signs(**signs))
    assert (symptom.severity, symptom.what) == (severity, what)
    assert evidence in symptom.evidence
    assert symptom.remedy


def test_where_nothing_is_wrong_nothing_is_found() -> None:
    healthy = Signs(
        tables=[TableUse("jobs", 10, 9_000, left_out=False)],
        leases=[LeaseAge("rescue", 3, 1.0, 1.0)],
        live_runners=1,
        silent_runners=[(3, "web1", 22, 5.0)],
        connections=80,
        skew_seconds=1.0,
    )
    assert diagnose(healthy) == []


def test_without_runners_leases_are_nobodys_on_purpose() -> None:
    assert diagnose(Signs(leases=[LeaseAge("rescue", None, None, None)])) == []


def test_the_worst_comes_first() -> None:
    found = diagnose(Signs(pooled=True, autovacuum=False))
    assert [one.severity for one in found] == ["critical", "warning"]
