"""What every verb answers with `--json`: the words that ask each of them, and the names of fields in what they say."""

from collections.abc import Iterator
from typing import Any

import click

#: Every verb that answers, with words that find something in `filled`; those that change something last.
WORDS = (
    "jobs running", "dead errors",
    "stats", "top --times 1", "jobs list", "jobs show 12", "jobs explain 15", "jobs largest", "jobs trace checkout-7",
    "workflows list", "workflows show 900",
    "dead list", "dead show 1", "keys list", "keys show 'customer 7'", "queues", "runners", "schedules list",
    "schedules show nightly", "leases", "breakers list", "breakers show email-service", "limits list",
    "limits show api", "limits set api --total 3", "limits reset api", "limits open api:a", "doctor", "migrate --status",
    "migrate --plan", "migrate", "prune --dry-run", "pause --queue mail", "pauses", "resume --queue mail",
    "drain --queue mail --timeout 0", "keys pause k", "keys resume k", "keys release 'customer 7' --yes",
    "keys purge 'customer 7' --yes", "schedules run nightly", "schedules disable nightly", "schedules enable nightly",
    "breakers reset email-service", "breakers open email-service", "jobs enqueue email '{\"to\": \"ada\"}'",
    "jobs cancel --status pending --dry-run", "jobs retry 12", "jobs cancel 15", "jobs fail 11",
    "jobs change 11 --to-priority 3", "jobs delete 11",
    "jobs kill --type email --yes", "dead requeue 1 --by ada", "dead ack --all --dry-run", "dead ack 2 --by ada",
    "workflows retry 900", "workflows cancel 900 --yes", "prune --yes", "audit",
)  # fmt: skip

#: Verbs that answer with no document, or are about a process of their own.
OTHERS = {"run", "completion", "demo", "dashboard"}


def shape(data: Any) -> str:
    """The names of the fields; of lists, those of the first; of mappings by number, those of any."""
    if isinstance(data, dict):
        if data and all(str(key).isdigit() for key in data):
            return f"{{number: {shape(next(iter(data.values())))}}}"
        return "{" + ", ".join(f"{key}{inner(shape(value))}" for key, value in sorted(data.items())) + "}"
    if isinstance(data, list):
        return f"[{shape(data[0]) if data else ''}]"
    return ""


def inner(text: str) -> str:
    return f": {text}" if text else ""


def verbs(command: click.Command, before: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of every verb."""
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from verbs(command.commands[name], (*before, name))
    else:
        yield " ".join(before)
