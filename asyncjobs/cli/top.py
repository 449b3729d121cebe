"""`asyncjobs top`: how things are, again and again."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from asyncjobs.cli import screen
from asyncjobs.cli.kit import Asked, Group, Number, option, verb

_HOME: Final = "\x1b[H\x1b[2J"  # the cursor goes to the corner, and the screen is empty


def add_to(program: Group) -> None:
    """Declare the verb."""
    every = option("--every", type=float, default=2.0, show_default=True, metavar="SECONDS", help="Look so often.")
    times = option("--times", type=Number(min=1), metavar="N", help="Look so many times.  [default: until Ctrl-C]")
    verb(program, "top", every, times)(top)


async def top(asked: Asked, every: float, times: int | None) -> None:
    """Watch queues, slots, rates and who leads, until Ctrl-C. With --json: the depths of queues, a document for each look."""
    looks = 0
    while True:
        if asked.as_json:
            asked.answer(await asked.jobs.admin.sample(), str)
        else:
            text = await _look(asked)
            asked.say(f"{_HOME}{text}" if screen.is_terminal() else text)
        looks += 1
        if times is not None and looks >= times:
            return
        await asyncio.sleep(every)


async def _look(asked: Asked) -> str:
    admin = asked.jobs.admin
    summary = await admin.summary()
    counts = [(one.queue, one.type, one.status, one.count, one.oldest_at, one.served) for one in await admin.stats()]
    lanes = [(one.queue, one.lane or "(general)", one.runner_id, one.slots, one.in_use) for one in summary.lanes]
    rates = [(one.type, one.attempts, f"{one.error_rate:.1%}", one.run_time.p95) for one in await admin.metrics(window=300)]
    leaders = [(one.duty, one.runner_id, one.host, one.pid, one.last_pass_at) for one in await admin.leases()]
    head = (
        f"{screen.text(datetime.now(UTC))}  pending {summary.pending:,} (oldest {screen.text(summary.oldest_pending_age)})  "
        f"processing {summary.processing:,}  failed {summary.failed:,}  dead letters {summary.dead_letters:,}"
    )
    tables = (
        (("queue", "type", "status", "jobs", "oldest", "served"), counts),
        (("queue", "lane", "runner", "slots", "in use"), lanes),
        (("type", "attempts in 5 min", "errors", "run p95"), rates),
        (("duty", "runner", "host", "pid", "last pass"), leaders),
    )
    return "\n\n".join([head, *(screen.table(columns, rows) for columns, rows in tables if rows)])
