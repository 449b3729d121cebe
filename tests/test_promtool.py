"""What Prometheus's own program says of the alert rules and of the dashboard's expressions, and when each alert would be sent."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_deployment import DASHBOARD, EXAMPLES

pytestmark = pytest.mark.system

ALERTS = EXAMPLES / "monitoring" / "alerts.yml"

#: What Grafana puts in before it asks.
VARIABLES = {"$__rate_interval": "5m", "$queue": "default|mail", "$__range": "1h"}

_PENDING = 'asyncjobs_jobs{queue="mail", type="email", status="pending", instance="%s"}'
_OLDEST = 'asyncjobs_oldest_age_seconds{queue="mail", type="email", status="%s"}'
_ATTEMPTS = 'asyncjobs_attempts_total{queue="mail", type="email", outcome="%s"}'
_SLOTS = 'asyncjobs_%s{queue="mail", lane="fast", instance="%s"}'
_STATE = 'asyncjobs_breaker_state{service="mail-service", state="%s"}'
_LIMIT = 'asyncjobs_limit_%s{limit="%s", queue=""}'
_HELD = 'asyncjobs_lease_held{duty="promote", instance="%s"}'

#: Alert -> when it is looked at, series that keep it silent until then or for good, and series that it is sent for.
CASES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "AsyncjobsManyPending": ("10m", {_PENDING % "a": "500x20"}, {_PENDING % "a": "501x20"}),
    "AsyncjobsErrorRate": (
        "20m",
        {_ATTEMPTS % "completed": "0+90x40", _ATTEMPTS % "retry": "0+10x40", _ATTEMPTS % "snooze": "0+900x40"},
        {_ATTEMPTS % "completed": "0+88x40", _ATTEMPTS % "retry": "0+10x40", _ATTEMPTS % "dead": "0+2x40"},
    ),
    "AsyncjobsLaneBusy": (
        "5m",
        {_SLOTS % ("slots", "a"): "5x20", _SLOTS % ("slots_taken", "a"): "5x20", _SLOTS % ("slots", "b"): "5x20",
         _SLOTS % ("slots_taken", "b"): "4x20"},
        {_SLOTS % ("slots", "a"): "5x20", _SLOTS % ("slots_taken", "a"): "5x20"},
    ),
    "AsyncjobsOldestPending": (
        "1m", {_OLDEST % "pending": "3600x9", _OLDEST % "scheduled": "9000x9"}, {_OLDEST % "pending": "3601x9"},
    ),
    "AsyncjobsBreakerOpen": (
        "1m", {_STATE % "open": "0x9", _STATE % "closed": "1x9"}, {_STATE % "open": "1x9", _STATE % "closed": "0x9"},
    ),
    "AsyncjobsKeyHalted": ("1m", {"asyncjobs_keys_halted": "0x9"}, {"asyncjobs_keys_halted": "1x9"}),
    "AsyncjobsDutyWithoutHolder": (
        "3m", {_HELD % "a": "0x9", _HELD % "b": "1x9"}, {_HELD % "a": "0x9", _HELD % "b": "0x9"},
    ),
    "AsyncjobsNotSampled": (
        "9m", {"asyncjobs_sampled_at_seconds": "0+60x20"}, {"asyncjobs_sampled_at_seconds": "0+60x2 120x20"},
    ),
    "AsyncjobsDeadLetters": ("70m", {"asyncjobs_dead_letters": "1x30 0x60"}, {"asyncjobs_dead_letters": "1x90"}),
    "AsyncjobsScheduleFails": ("1m", {"asyncjobs_schedules_failed": "0x9"}, {"asyncjobs_schedules_failed": "1x9"}),
    "AsyncjobsPartRestarts": (
        "20m", {'asyncjobs_part_restarts_total{part="call line"}': "0 2x40"},
        {'asyncjobs_part_restarts_total{part="call line"}': "0+1x40"},
    ),
    "AsyncjobsServiceErrors": (
        "30m", {'asyncjobs_service_errors_total{service="notifier"}': "0 8x40"},
        {'asyncjobs_service_errors_total{service="notifier"}': "0+2x40"},
    ),
    "AsyncjobsDutyFails": (
        "30m", {'asyncjobs_duty_errors_total{duty="report"}': "0 2x40"}, {'asyncjobs_duty_errors_total{duty="report"}': "0+1x40"},
    ),
    "AsyncjobsRunnersDied": (
        "30m", {"asyncjobs_runners_died_total": "4x40"}, {"asyncjobs_runners_died_total": "0x20 1x20"},
    ),
    "AsyncjobsListenerLost": (
        "30m", {"asyncjobs_listener_losses_total": "0x20 1x20"}, {"asyncjobs_listener_losses_total": "0+1x40"},
    ),
    "AsyncjobsLoopStalls": (
        "30m", {'asyncjobs_loop_stalls_total{instance="a"}': "7x40"}, {'asyncjobs_loop_stalls_total{instance="a"}': "0x20 2x20"},
    ),
    "AsyncjobsClaimsLost": (
        "30m", {'asyncjobs_claims_lost_total{during="ack"}': "3x40"}, {'asyncjobs_claims_lost_total{during="ack"}': "0x20 1x20"},
    ),
    # Full and nobody waits for long; and old jobs where one more may run, beside another limit that is full.
    "AsyncjobsLimitFull": (
        "20m",
        {_LIMIT % ("running", "a"): "5x40", _LIMIT % ("total", "a"): "5x40", _LIMIT % ("oldest_age_seconds", "a"): "900x40",
         _LIMIT % ("running", "b"): "4x40", _LIMIT % ("total", "b"): "5x40", _LIMIT % ("oldest_age_seconds", "b"): "901x40"},
        {_LIMIT % ("keys_full", "a"): "1x40", _LIMIT % ("running", "a"): "4x40", _LIMIT % ("total", "a"): "Inf+0x40",
         _LIMIT % ("oldest_age_seconds", "a"): "901x40"},
    ),
    "AsyncjobsPermitsIdle": (
        "5m", {_LIMIT % ("idle_seconds", "a"): "120x40"}, {_LIMIT % ("idle_seconds", "a"): "121x40"},
    ),
    "AsyncjobsLimitDiffers": (
        "40m", {_LIMIT % ("differing", "a"): "1x20 0x20"}, {_LIMIT % ("differing", "a"): "1x40"},
    ),
    "AsyncjobsKeysThrottled": (
        "20m", {_LIMIT % ("keys_throttled", "a"): "1x10 0x30", _LIMIT % ("keys_closed", "a"): "9x40"},
        {_LIMIT % ("keys_throttled", "a"): "1x40"},
    ),
}  # fmt: skip


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What it says."""
    program = shutil.which("promtool")
    assert program is not None, "python -m tests.support.debian installs it"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)


def told(tmp_path: Path, name: str, at: str, series: dict[str, str], *, sent: bool) -> subprocess.CompletedProcess[str]:
    """The verdict on one alert: whether it is sent at that time when these are the series."""
    expected = [{"eval_time": at, "alertname": name, "exp_alerts": []}]
    group = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "alert_rule_test": expected,
    }
    file = tmp_path / f"{name}-{sent}.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [group]}))
    return promtool("test", "rules", str(file))


def test_prometheus_takes_the_alert_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "21 rules found" in done.stdout


def test_prometheus_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = []
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            rules.append({"record": f"panel_{panel['id']}:{target['refId']}", "expr": text})
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_an_expression_that_is_wrong_would_be_refused(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "wrong", "rules": [{"record": "a", "expr": "sum by (rate(b[5m])"}]}]}))
    assert promtool("check", "rules", str(file)).returncode == 1


def test_there_is_a_case_for_each_alert() -> None:
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_alert_is_sent_for_what_it_is_about_and_for_nothing_below_its_bound(name: str, tmp_path: Path) -> None:
    at, silent, loud = CASES[name]
    quiet = told(tmp_path, name, at, silent, sent=False)
    assert quiet.returncode == 0, quiet.stdout + quiet.stderr
    sent = told(tmp_path, name, at, loud, sent=True)
    assert sent.returncode == 1, f"{name} is silent"
    assert re.search(rf'got:\[\s+0:\s+Labels:{{alertname="{name}"', sent.stdout + sent.stderr), sent.stdout + sent.stderr


def test_alerts_wait_for_as_long_as_they_say(tmp_path: Path) -> None:
    for name, early in (
        ("AsyncjobsManyPending", "4m"),
        ("AsyncjobsLaneBusy", "1m"),
        ("AsyncjobsDeadLetters", "59m"),
        ("AsyncjobsKeysThrottled", "14m"),
    ):
        done = told(tmp_path, name, early, CASES[name][2], sent=False)
        assert done.returncode == 0, done.stdout + done.stderr
