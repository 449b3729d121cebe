"""Those tables of docs/reference.md that are made from the code: `python -m tests.support.reference` writes them there.

Each stands between two comments, `<!-- made: NAME -->` and `<!-- made end -->`. What is said by hand (settings, options,
statuses, environment variables) is held against the code by tests/documents/test_reference.py.
"""

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Final

import click
import msgspec
from prometheus_client import CollectorRegistry, Metric

from asyncjobs import AsyncJobs, Job, JobHandle
from asyncjobs import errors as errors_of
from asyncjobs.admin import Admin
from asyncjobs.cli.program import program
from asyncjobs.context import DutyContext, JobContext
from asyncjobs.integrations import prometheus
from asyncjobs.telemetry import events as e
from asyncjobs.telemetry import logs
from asyncjobs.workflow_handle import WorkflowHandle
from tests.support.pages import ROOT

PAGE: Final = ROOT / "docs" / "reference.md"

#: What programs and operators may read (and, where a page says so, write) by SQL; the rest may change with any version.
STABLE: Final[Mapping[str, str]] = {
    "jobs": "id type status queue lane priority payload result attempts max_attempts run_at scheduled_at started_at completed_at"
    " error_message last_error errors correlation_id parent_job_id created_by serialization_key tags created_at updated_at",
    "dead_letter_jobs": "id job_id original_job error_message died_at acknowledged acknowledged_by acknowledged_at requeued_as",
    "serialized_jobs": "id serialization_key place dispatched_at halted_at halt_reason",
    "pauses": "kind name reason",
    "schedules": "name",
    "circuit_breakers": "service_name state reason failure_count opened_at half_opens_at",
    "background_job_leases": "job_name held_by_worker_id lease_acquired_at heartbeat_at metadata",
    "runners": "id host pid version queues started_at",
    "job_metrics": "job_type status minute count",
    "audit": "at by via verb target why outcome",
}

#: Of `AsyncJobs`, what its own parts ask of it.
BETWEEN_PARTS: Final = {
    "breakers_in", "close_declarations", "declared_at", "enqueue_one", "handlers", "includes", "includes_breaker", "limits",
    "loop", "open_breakers", "opened_for", "opened_in", "redactions", "spawn_for", "variable", "wait_final", "wait_in_loop",
    "was_opened", "watch",
}  # fmt: skip


def first_sentence(thing: object) -> str:
    """What its docstring begins with: one sentence, on one line."""
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.!?])\s", paragraph)[0].replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) + "\n"


def errors() -> str:
    """Every error that users can import, under its parent."""
    every = [
        kind
        for _, kind in inspect.getmembers(errors_of, inspect.isclass)
        if issubclass(kind, errors_of.AsyncJobsError) and kind.__module__ == errors_of.__name__
    ]

    def parents(kind: type) -> str:
        return ", ".join(f"`{base.__name__}`" for base in kind.__bases__)

    ordered = sorted(every, key=lambda kind: inspect.getsourcelines(kind)[1])
    return table(("error", "is a", "when"), ((f"`{kind.__name__}`", parents(kind), first_sentence(kind)) for kind in ordered))


def event_kinds() -> list[type[e.Event]]:
    found = [kind for _, kind in inspect.getmembers(e, inspect.isclass) if issubclass(kind, e.Event) and kind is not e.Event]
    return sorted(found, key=lambda kind: inspect.getsourcelines(kind)[1])


def events() -> str:
    """Every event, with the line of the log that it is."""
    rows = []
    for kind in event_kinds():
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        if kind is e.AttemptEnded:
            line = "by its outcome: " + ", ".join(f"`{name}` ({level})" for level, name in logs._ATTEMPTS.values())
        else:
            level, name = logs._LINES[kind]
            line = f"`{name}` ({level})"
        doc = first_sentence(kind) if kind.__doc__ else ""
        rows.append((f"`{kind.__name__}`", line, f"{doc} {fields}".strip()))
    return table(("event", "line of the log", "what it says, and its fields"), rows)


def exported() -> list[Metric]:
    """Every metric, as a program that has done nothing exports it."""
    registry = CollectorRegistry()
    prometheus.setup(AsyncJobs("postgresql://nowhere/none"), registry=registry)
    return sorted(registry.collect(), key=lambda metric: metric.name)


def metrics() -> str:
    """Every metric with its labels."""
    labels = {f"asyncjobs_{count.name}": count.labels for count in prometheus._COUNTS}
    labels["asyncjobs_workflow_seconds"] = ("state",)
    gauges = re.findall(r'self\._gauge\(\s*"(\w+)",\s*"[^"]*"((?:,\s*"\w+")*)', inspect.getsource(prometheus))
    labels |= {f"asyncjobs_{name}": tuple(re.findall(r"\w+", more)) for name, more in gauges}

    def row(metric: Metric) -> tuple[str, ...]:
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        return f"`{name}`", metric.type, ", ".join(f"`{label}`" for label in labels.get(metric.name, ())), metric.documentation

    return table(("metric", "kind", "labels", "what"), map(row, exported()))


def _commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _commands(command.commands[name], (*words, name))
    else:
        said = first_sentence(command.callback).rstrip(".") if command.callback else ""
        yield " ".join(words), said or command.get_short_help_str(limit=200)


def commands() -> str:
    """Every command of the command line."""
    rows = ((f"`{words}`", said) for words, said in _commands(program, ("asyncjobs",)))
    return table(("command", "what it does"), rows)


def extras() -> str:
    """The extras and what they need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = (
        (f"`{name}`", ", ".join(f"`{one.partition(';')[0]}`" for one in needs) if name != "all" else "all of these")
        for name, needs in project["optional-dependencies"].items()
    )
    return table(("extra", "what it installs"), rows)


def members(kind: type, *, but: Iterable[str] = ()) -> str:
    """Its public attributes and methods, in the order of the source."""
    rows = []
    for name, value in inspect.getmembers_static(kind):
        if name.startswith("_") or name in but:
            continue
        plain = value.fget if isinstance(value, property) else inspect.unwrap(getattr(kind, name))
        if not isinstance(plain, FunctionType):
            continue
        how = "" if isinstance(value, property) else "(…)" if _takes_more(plain) else "()"
        where = plain.__module__, plain.__code__.co_firstlineno
        rows.append((where, f"`{name}{how}`", first_sentence(plain)))
    return table((f"`{kind.__name__}`", "what it does"), (row[1:] for row in sorted(rows)))


def _takes_more(function: Callable[..., object]) -> bool:
    return len(inspect.signature(function).parameters) > 1


def columns() -> dict[str, dict[str, str]]:
    """The tables of the schema, with the types of their columns, as its reviewed snapshot has them."""
    text = (ROOT / "tests" / "store" / "schema.sql").read_text(encoding="utf-8")
    made = re.findall(r"^CREATE TABLE asyncjobs\.(\w+) \(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL)
    kinds = r"^    (\w+) ((?:double precision|timestamp with time zone|[\w]+)(?:\[\])?)"
    return {name: dict(re.findall(kinds, body, re.MULTILINE)) for name, body in made}


def tables() -> str:
    """What is stable of the schema."""
    known = columns()
    rows = (
        (f"`{name}`", ", ".join(f"`{column}` {known[name][column]}" for column in wanted.split()))
        for name, wanted in STABLE.items()
    )
    return table(("table", "stable columns"), rows)


def job_fields() -> str:
    """The fields of a job as callers see it."""
    hints = {field.name: field for field in msgspec.structs.fields(Job)}
    source = inspect.getsource(Job)

    def row(name: str) -> tuple[str, ...]:
        (declared,) = re.findall(rf"^    {name}: ([^=#\n]+?)\s*(?:= [^#\n]*?)?\s*(?:# (.*))?$", source, re.MULTILINE)
        kind, said = declared
        return f"`{name}`", f"`{kind}`".replace("|", "\\|"), said

    return table(("`Job`", "type", "what it says"), map(row, hints))


MADE: Final[Mapping[str, Callable[[], str]]] = {
    "errors": errors,
    "events": events,
    "metrics": metrics,
    "commands": commands,
    "extras": extras,
    "tables": tables,
    "job": job_fields,
    "app": lambda: members(AsyncJobs, but=BETWEEN_PARTS),
    "handle": lambda: members(JobHandle),
    "workflow handle": lambda: members(WorkflowHandle),
    "context": lambda: members(JobContext),
    "duty context": lambda: members(DutyContext),
    "admin": lambda: members(Admin),
}


def with_tables(page: str) -> str:
    """The page with its made tables as the code has them now."""

    def made(found: re.Match[str]) -> str:
        return f"<!-- made: {found[1]} -->\n{MADE[found[1]]()}<!-- made end -->\n"

    return re.sub(r"<!-- made: ([\w ]+) -->\n.*?<!-- made end -->\n", made, page, flags=re.DOTALL)


def main() -> None:
    """Write them into the page."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
    sys.stderr.write(f"wrote {PAGE.relative_to(ROOT)}\n")
