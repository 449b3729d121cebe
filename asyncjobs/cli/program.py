"""The program: all nouns and verbs together."""

from collections.abc import Sequence

from asyncjobs.cli import (
    audit,
    breakers,
    dashboard,
    dead,
    demo,
    doctor,
    jobs,
    keys,
    leases,
    limits,
    migrating,
    prune,
    queues,
    running,
    schedules,
    stats,
    top,
    workflows,
)
from asyncjobs.cli.kit import SHELLS, Asked, Choice, argument, completion, group, run_program, verb, version

program = group(
    "asyncjobs",
    """Background jobs on PostgreSQL: run them, look at them, hold them back.

    Where the jobs are is said by --app, --dsn or the environment ($ASYNCJOBS_APP, $ASYNCJOBS_DSN).

    Exit codes: 0 done; 1 not done (a state, a time-out); 2 bad input; 3 nothing found; 4 database or schema; 5 the doctor
    warns, 6 it is alarmed; 130 interrupted.
    """,
    headings={
        "Run": ("run", "migrate", "dashboard", "demo"),
        "Look": ("stats", "top", "queues", "runners", "leases", "doctor", "audit"),
        "Jobs, and what makes or stops them": ("jobs", "workflows", "dead", "keys", "schedules", "breakers", "limits"),
        "Hold back": ("pause", "resume", "pauses", "drain"),
        "Other": ("prune", "completion"),
    },
)

version(program)
for part in (
    running,
    migrating,
    stats,
    jobs,
    workflows,
    dead,
    keys,
    queues,
    schedules,
    leases,
    breakers,
    limits,
    prune,
    doctor,
    top,
    audit,
    dashboard,
    demo,
):
    part.add_to(program)


@verb(program, "completion", argument("shell", type=Choice(SHELLS)), opens=False)
async def completed(asked: Asked, shell: str) -> None:
    """Print the script that lets a shell complete words: eval "$(asyncjobs completion bash)"."""
    asked.say(completion(program, shell))


def run(words: Sequence[str]) -> int:
    """Run the program on these words; the exit code."""
    return run_program(program, words)
