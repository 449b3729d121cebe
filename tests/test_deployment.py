"""What operators copy agrees with what there is: alerts and dashboard with the exporter, manifests with worker and defaults."""

import ast
import asyncio
import json
import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from asyncjobs import AsyncJobs, Settings
from asyncjobs.open.run import GRACE_SECONDS_IN_RUN
from tests.support.eventually import eventually
from tests.support.manifests import Budget, Compose, Deployment, Job, Rules
from tests.support.metrics_app import Exporting, Scrape
from tests.support.program import Program

EXAMPLES = Path(__file__).parents[1] / "examples"
ALERTS = yaml.safe_load((EXAMPLES / "monitoring" / "alerts.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((EXAMPLES / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((EXAMPLES / "docker-compose.yml").read_text(encoding="utf-8"))
WORKER = (EXAMPLES / "worker.py").read_text(encoding="utf-8")

#: What has no sample until it goes wrong: the metric is there, its labels come with the first one.
QUIET = {
    "asyncjobs_database_errors_total", "asyncjobs_service_errors_total", "asyncjobs_notifications_heard_total",
    "asyncjobs_claims_lost_total", "asyncjobs_breaker_trips_total", "asyncjobs_part_restarts_total",
}  # fmt: skip


def manifest(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / "kubernetes" / name).read_text(encoding="utf-8"))


def rules() -> dict[str, Any]:
    return {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules().values())
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    yield from (one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query")


async def test_every_metric_and_label_that_alerts_and_dashboard_name_is_exported(dsn: str) -> None:
    app = Exporting(dsn)
    async with app.jobs.runner():
        await app.live()
        scrape = await app.fresh()
        app.go.set()
    named = {name for text in expressions() for name in re.findall(r"\basyncjobs_\w+", text)}
    assert named
    assert named - scrape.names() <= QUIET
    assert {name.removesuffix("_total") for name in named & QUIET} <= scrape.kinds.keys()
    for text in expressions():
        for metric, selector in re.findall(r"\b(asyncjobs_\w+)\{([^}]*)\}", text):
            check_labels(scrape, metric, re.findall(r"(\w+)\s*[=!]", selector), text)
        for grouping, metric in re.findall(r"\bby \(([^)]*)\) \((?:rate\(|increase\()?(asyncjobs_\w+)", text):
            check_labels(scrape, metric, [label for label in grouping.split(", ") if label != "instance"], text)


def check_labels(scrape: Scrape, metric: str, labels: list[str], text: str) -> None:
    if metric not in QUIET:
        assert set(labels) <= scrape.labels(metric), text


def test_alerts_are_those_that_operators_need_with_their_bounds() -> None:
    told = {name: (rule["expr"].split()[-2:], rule.get("for")) for name, rule in rules().items()}
    assert told == {
        "AsyncjobsManyPending": ([">", "500"], "5m"),
        "AsyncjobsErrorRate": ([">", "0.1"], "5m"),
        "AsyncjobsLaneBusy": ([">", "0.9"], "2m"),
        "AsyncjobsOldestPending": ([">", "3600"], None),
        "AsyncjobsBreakerOpen": ([">", "0"], None),
        "AsyncjobsKeyHalted": ([">", "0"], None),
        "AsyncjobsDutyWithoutHolder": (["==", "0"], "1m"),
        "AsyncjobsNotSampled": (["or", "absent(asyncjobs_sampled_at_seconds)"], "2m"),
        "AsyncjobsScheduleFails": ([">", "0"], None),
        "AsyncjobsPartRestarts": ([">", "3"], None),
        "AsyncjobsServiceErrors": ([">", "10"], "5m"),
        "AsyncjobsDeadLetters": ([">", "0"], "1h"),
        "AsyncjobsDutyFails": ([">", "3"], None),
        "AsyncjobsRunnersDied": ([">", "0"], None),
        "AsyncjobsListenerLost": ([">", "2"], None),
        "AsyncjobsLoopStalls": ([">", "0"], None),
        "AsyncjobsClaimsLost": ([">", "0"], None),
        "AsyncjobsLimitFull": ([">", "0)"], "5m"),
        "AsyncjobsPermitsIdle": ([">", "120"], "2m"),
        "AsyncjobsLimitDiffers": ([">", "0"], "30m"),
        "AsyncjobsKeysThrottled": ([">", "0"], "15m"),
    }
    assert all({"summary", "description"} == rule["annotations"].keys() for rule in rules().values())


@pytest.mark.parametrize(
    ("name", "kind"), [("worker.yaml", Deployment), ("migrate.yaml", Job), ("disruption-budget.yaml", Budget)]
)
def test_kubernetes_would_take_every_field(name: str, kind: Any) -> None:
    assert msgspec.convert(manifest(name), kind).metadata.name.startswith("asyncjobs-")


def test_prometheus_and_compose_would_take_every_field() -> None:
    assert all(group.rules for group in msgspec.convert(ALERTS, Rules).groups)
    composed = msgspec.convert(COMPOSE, Compose)
    for service in composed.services.values():
        assert bool(service.image) != bool(service.build)
        assert service.depends_on.keys() <= composed.services.keys()
        assert {one["source"] for one in service.configs} <= composed.configs.keys()
        named = {volume.partition(":")[0] for volume in service.volumes if not volume.startswith(".")}
        assert named <= composed.volumes.keys()


def test_a_misspelled_field_would_be_refused() -> None:
    wrong = manifest("worker.yaml")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(msgspec.ValidationError, match="unknown field `readynessProbe`"):
        msgspec.convert(wrong, Deployment)


PAIRS = (("(", ")"), ("{", "}"), ("[", "]"))


def test_expressions_are_balanced_and_call_functions_that_there_are() -> None:
    known = {
        "sum", "max", "min", "rate", "increase", "absent", "histogram_quantile", "clamp_min", "label_values", "time", "count",
    }  # fmt: skip
    words = {"by", "without", "on", "ignoring", "and", "or", "unless", "group_left"}
    called = {name for text in expressions() for name in re.findall(r"\b([a-z_]+)\s*\(", text)}
    assert called - words <= known
    assert [text for text in expressions() if text.count('"') % 2 or any(text.count(a) != text.count(b) for a, b in PAIRS)] == []


def test_panels_are_drawn_from_the_chosen_source() -> None:
    kinds = {"timeseries", "stat", "table", "bargauge", "row", "heatmap"}
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    for panel in DASHBOARD["panels"]:
        assert panel["type"] in kinds
        assert panel["title"]
        dead_letters = [target["refId"] for target in panel["targets"]]
        assert len(dead_letters) == len(set(dead_letters)) > 0
        for target in panel["targets"]:
            used = set(re.findall(r"\$(?!__)\{?(\w+)", target["expr"]))
            assert used <= variables, panel["title"]
    assert DASHBOARD["schemaVersion"] >= 39
    assert DASHBOARD["uid"]


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_pod_has_the_time_that_a_runner_takes_to_stop() -> None:
    pod = manifest("worker.yaml")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= waits + GRACE_SECONDS_IN_RUN + 10
    assert int(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s")) >= GRACE_SECONDS_IN_RUN + 10


def test_worker_waits_for_a_database_that_comes_later() -> None:
    [app] = [node for node in ast.walk(ast.parse(WORKER)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "AsyncJobs"]
    assert "connect_timeout=None" in map(ast.unparse, app.keywords)


def test_probes_ask_what_the_worker_answers() -> None:
    [container] = manifest("worker.yaml")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {name.lower(): int(port) for name, port in re.findall(r'get\("(PROBES|METRICS)_PORT", "(\d+)"\)', WORKER)}
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: one["path"] for name, one in asked.items()} == {
        "startupProbe": "/live",
        "livenessProbe": "/live",
        "readinessProbe": "/ready",
    }
    assert {one["port"] for one in asked.values()} == {"probes"}
    start = container["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 10 * Settings().reach_seconds
    annotations = manifest("worker.yaml")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])
    assert f"stall_limit ({Settings().stall_limit:g} s)" in (EXAMPLES / "kubernetes" / "worker.yaml").read_text(encoding="utf-8")


def test_disruption_budget_is_about_the_workers_and_lets_one_go() -> None:
    deployment, budget = manifest("worker.yaml")["spec"], manifest("disruption-budget.yaml")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert 0 < budget["minAvailable"] < deployment["replicas"]
    assert (
        not budget["selector"]["matchLabels"].items()
        <= manifest("migrate.yaml")["spec"]["template"]["metadata"]["labels"].items()
    )


def test_manifests_and_compose_start_the_worker() -> None:
    pods = [manifest(name)["spec"]["template"]["spec"]["containers"][0] for name in ("worker.yaml", "migrate.yaml")]
    services = [COMPOSE["services"][name] for name in ("worker", "migrate")]
    assert [one["command"] for one in pods] == [one["command"] for one in services]
    assert services[0]["command"] == ["python", "worker.py"]
    assert all(one["env"][0]["name"] == "ASYNCJOBS_DSN" for one in pods)
    assert all("ASYNCJOBS_DSN" in one["environment"] for one in services)


def test_files_that_compose_mounts_are_there() -> None:
    sources = [volume.split(":")[0] for service in COMPOSE["services"].values() for volume in service.get("volumes", [])]
    assert [source for source in sources if source.startswith(".") and not (EXAMPLES / source).exists()] == []
    copied = re.findall(r"^COPY (.+) \S+$", COMPOSE["services"]["worker"]["build"]["dockerfile_inline"], re.MULTILINE)
    assert all((EXAMPLES.parent / name).exists() for line in copied for name in line.split())
    for one in COMPOSE["configs"].values():
        assert yaml.safe_load(one["content"])["apiVersion"] == 1
    scrapes = yaml.safe_load((EXAMPLES / "monitoring" / "prometheus.yml").read_text(encoding="utf-8"))
    [found] = scrapes["scrape_configs"][0]["dns_sd_configs"]
    assert (found["names"], found["port"], scrapes["rule_files"]) == (["worker"], 9000, ["alerts.yml"])


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


async def test_worker_migrates_answers_probes_serves_metrics_and_ends_when_told(empty_dsn: str) -> None:
    probes, metrics = free_port(), free_port()
    env = {"ASYNCJOBS_DSN": empty_dsn, "PROBES_PORT": str(probes), "METRICS_PORT": str(metrics)}
    async with Program.python("-m", *COMPOSE["services"]["migrate"]["command"], env=env) as migration:
        assert await migration.wait() == 0
    async with Program.python(str(EXAMPLES / "worker.py"), env=env) as worker, AsyncJobs(empty_dsn) as jobs:

        async def is_ready() -> bool:
            try:
                return await asyncio.to_thread(get, probes, "/ready") == "ok\n"
            except OSError:
                return False

        await eventually(is_ready, description="it is ready", timeout=60.0)
        assert await asyncio.to_thread(get, probes, "/live") == "ok\n"
        [runner] = [one for one in await jobs.admin.runners() if one.ended_at is None]
        assert runner.types == ["worker.greet"]
        assert "asyncjobs_slots_taken" in await asyncio.to_thread(get, metrics, "/metrics")
        worker.process.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
        lines = [json.loads(line) for line in worker.output]
    assert {"asyncjobs.runner.started", "asyncjobs.runner.stopped"} <= {line["event"] for line in lines}
