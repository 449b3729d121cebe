"""What Kubernetes, Compose and Prometheus take, as far as our files use it. Unknown and misspelled fields are refused.

The names and types are those of the APIs apps/v1, batch/v1 and policy/v1, of the Compose specification, and of Prometheus' rules.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Labels = dict[str, str]
Duration = Annotated[str, msgspec.Meta(pattern=r"^(\d+(ms|s|m|h))+$")]
Quantity = Annotated[str, msgspec.Meta(pattern=r"^\d+(m|Mi|Gi)?$")]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A mapping that takes what it declares."""


class Meta(Strict):
    labels: Labels | UnsetType = UNSET
    annotations: Labels | UnsetType = UNSET
    name: str | UnsetType = UNSET


class Selector(Strict):
    match_labels: Labels


class SecretKey(Strict):
    name: str
    key: str


class ValueFrom(Strict):
    secret_key_ref: SecretKey


class Variable(Strict):
    name: str
    value_from: ValueFrom | UnsetType = UNSET
    value: str | UnsetType = UNSET


class NamedPort(Strict):
    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]{1,15}$")]
    container_port: Port


class HttpGet(Strict):
    path: Annotated[str, msgspec.Meta(pattern="^/")]
    port: str | Port


class Probe(Strict):
    http_get: HttpGet
    period_seconds: int = 10
    timeout_seconds: int = 1
    failure_threshold: int = 3


class Sleep(Strict):
    seconds: int


class JobDefinition(Strict):
    sleep: Sleep


class Lifecycle(Strict):
    pre_stop: JobDefinition


class Resources(Strict):
    requests: dict[Literal["cpu", "memory"], Quantity]
    limits: dict[Literal["cpu", "memory"], Quantity]


class Capabilities(Strict):
    drop: list[str]


class Security(Strict):
    allow_privilege_escalation: bool
    read_only_root_filesystem: bool
    run_as_non_root: bool
    capabilities: Capabilities


class Container(Strict):
    name: str
    image: Annotated[str, msgspec.Meta(pattern=r"^[\w./-]+:[\w.-]+$")]
    command: list[str]
    env: list[Variable]
    ports: list[NamedPort] | UnsetType = UNSET
    startup_probe: Probe | UnsetType = UNSET
    liveness_probe: Probe | UnsetType = UNSET
    readiness_probe: Probe | UnsetType = UNSET
    lifecycle: Lifecycle | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    security_context: Security | UnsetType = UNSET


class Pod(Strict):
    containers: list[Container]
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    termination_grace_period_seconds: int = 30


class Template(Strict):
    spec: Pod
    metadata: Meta


class Rolling(Strict):
    max_unavailable: int
    max_surge: int


class Strategy(Strict):
    rolling_update: Rolling
    type: Literal["RollingUpdate"] = "RollingUpdate"


class DeploymentSpec(Strict):
    replicas: int
    selector: Selector
    strategy: Strategy
    template: Template


class JobSpec(Strict):
    template: Template
    backoff_limit: int = 6
    ttl_seconds_after_finished: int | None = None


class BudgetSpec(Strict):
    min_available: int
    selector: Selector


class Deployment(Strict):
    api_version: Literal["apps/v1"]
    kind: Literal["Deployment"]
    metadata: Meta
    spec: DeploymentSpec


class Job(Strict):
    api_version: Literal["batch/v1"]
    kind: Literal["Job"]
    metadata: Meta
    spec: JobSpec


class Budget(Strict):
    api_version: Literal["policy/v1"]
    kind: Literal["PodDisruptionBudget"]
    metadata: Meta
    spec: BudgetSpec


class Rule(Strict):
    """An alert of Prometheus."""

    alert: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_]\w*$")]
    expr: str
    labels: Labels
    annotations: Labels
    for_: Duration | UnsetType = msgspec.field(default=UNSET, name="for")


class RuleGroup(Strict):
    name: str
    rules: list[Rule]
    interval: Duration | UnsetType = UNSET


class Rules(Strict):
    groups: list[RuleGroup]


class Healthcheck(Strict, rename=None):
    test: list[str]
    interval: Duration
    timeout: Duration
    retries: int = 3


class Service(Strict, rename=None):
    """A service of Compose."""

    image: str | UnsetType = UNSET
    build: dict[Literal["context", "dockerfile_inline"], str] | UnsetType = UNSET
    command: list[str] | UnsetType = UNSET
    environment: dict[str, str] = {}
    volumes: list[str] = []
    ports: list[str] = []
    configs: list[dict[Literal["source", "target"], str]] = []
    healthcheck: Healthcheck | UnsetType = UNSET
    depends_on: dict[str, dict[Literal["condition"], Literal["service_healthy", "service_completed_successfully"]]] = {}
    deploy: dict[Literal["replicas"], int] | UnsetType = UNSET
    stop_grace_period: Duration | UnsetType = UNSET
    restart: Literal["unless-stopped", "no", "always"] | UnsetType = UNSET


class Compose(Strict, rename=None):
    name: str
    services: dict[str, Service]
    configs: dict[str, dict[Literal["content"], str]]
    volumes: dict[str, dict[str, Any]]
    app: Any = msgspec.field(default=None, name="x-app")
