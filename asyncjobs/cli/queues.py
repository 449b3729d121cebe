"""`asyncjobs queues`, `runners`, `pause`, `resume`, `drain`: who does what, and holding it back."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.cli import screen
from asyncjobs.cli.failures import NOT_DONE, BadInput
from asyncjobs.cli.kit import ACTS, Asked, Group, found, option, verb
from asyncjobs.model.status import in_words
from asyncjobs.store.overview import Stats

_WHAT = (
    option("--queue", metavar="NAME", help="This queue."),
    option("--type", metavar="NAME", help="The jobs of this type."),
    option("--key", metavar="KEY", help="This serialization key."),
    option("--all", "everything", is_flag=True, help="Everything: all queues."),
)
_STATUSES = ("pending", "processing", "scheduled", "failed", "waiting", "paused", "blocked")


class QueueState(msgspec.Struct, frozen=True):
    """A queue in a row of `queues`."""

    queue: str
    jobs: dict[str, int]  # unfinished, by status
    slots: int  # of all runners
    in_use: int
    paused: str | None


def add_to(program: Group) -> None:
    """Declare the verbs."""
    verb(program, "queues")(queues)
    verb(program, "runners", option("--former", type=int, default=0, metavar="N", help="Also the last N that ended."))(runners)
    verb(program, "pause", *_WHAT, *ACTS)(pause)
    verb(program, "resume", *_WHAT, *ACTS)(resume)
    verb(program, "pauses")(pauses)
    timeout = option("--timeout", type=float, metavar="SECONDS", help="Wait no longer.")
    verb(program, "drain", *_WHAT, timeout, *ACTS)(drain)


async def queues(asked: Asked) -> int | None:
    """Show queues: the unfinished jobs, the slots of all runners, and whether they are paused."""
    admin = asked.admin
    states = await queue_states(admin, await admin.stats())
    return found(asked, "queue", states, lambda: queue_table(states), filtered=False)


async def queue_states(admin: Admin, stats: Stats) -> list[QueueState]:
    """Every queue that has jobs, slots or a pause, by name."""
    held = {one.name: one.reason or "yes" for one in await admin.pauses() if one.kind == "queue"}
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for one in stats.counts:
        counts[one.queue][one.status] = counts[one.queue].get(one.status, 0) + one.count
    slots: Counter[str] = Counter()
    in_use: Counter[str] = Counter()
    for lane in stats.lanes:
        slots[lane.queue] += lane.slots
        in_use[lane.queue] += lane.in_use
    names = sorted({*counts, *slots, *held})
    return [QueueState(name, counts[name], slots[name], in_use[name], held.get(name)) for name in names]


def queue_table(states: Sequence[QueueState], *, chosen: str | None = None) -> str:
    """The queues, with a mark at the one that is chosen."""
    rows = [
        (f"> {one.queue}" if one.queue == chosen else one.queue, *(one.jobs.get(status, 0) for status in _STATUSES), one.slots,
         one.in_use, one.paused)
        for one in states
    ]  # fmt: skip
    return screen.table(("queue", *map(in_words, _STATUSES), "slots", "in use", "held"), rows)


async def runners(asked: Asked, former: int) -> int | None:
    """Show who runs jobs: where, which queues, types and versions of payloads, since when."""
    rows = await asked.admin.runners(former=former)
    columns = (
        "runner",
        "name",
        "host",
        "pid",
        "version",
        "queues",
        "types",
        "started",
        "beat",
        "stopped",
        "ended",
        "died",
        "cut off",
    )
    return found(
        asked, "runner", rows, lambda: screen.table(
            columns,
            [(one.id, one.name, one.host, one.pid, one.version, one.queues, one.can_run(), one.started_at, one.beat_at,
              one.stopped_at, one.ended_at, one.died_at, "yes" if one.is_cut_off else None)
             for one in rows]), filtered=False,
    )  # fmt: skip


async def pause(asked: Asked, queue: str | None, type: str | None, key: str | None, *, everything: bool) -> None:
    """Claim no more of a queue, a type, a key or of all until it is resumed: in no process, also after restarts. What runs goes
    on.
    """
    admin, name = asked.admin, _one(queue, type, key, everything=everything)
    if everything:
        paused = await admin.pause_all()
    else:
        paused = await admin.pause(queue=queue, type=type, key=key)
    if not paused.served and not everything:
        asked.note(f"no runner that lives serves {screen.text(name)}: is it spelled right?")
    asked.answer(paused, lambda: f"{screen.text(name)} {'is paused' if paused.is_new else 'was paused before'}")


async def resume(asked: Asked, queue: str | None, type: str | None, key: str | None, *, everything: bool) -> None:
    """Let a paused queue, type or key go on, or all: what is paused by itself stays so."""
    admin, name = asked.admin, _one(queue, type, key, everything=everything)
    resumed = await admin.resume_all() if everything else await admin.resume(queue=queue, type=type, key=key)
    asked.answer({"resumed": resumed}, lambda: f"{screen.text(name)} {'goes on' if resumed else 'was not paused'}")


async def pauses(asked: Asked) -> int | None:
    """Show what is paused, since when, by whom and why."""
    rows = await asked.admin.pauses()
    columns = ("what", "name", "since", "by", "reason")
    table = [(one.kind, one.name, one.paused_at, one.paused_by, one.reason) for one in rows]
    return found(asked, "pause", rows, lambda: screen.table(columns, table), filtered=False)


async def drain(
    asked: Asked,
    queue: str | None,
    type: str | None,
    key: str | None,
    *,
    everything: bool,
    timeout: float | None,
) -> int | None:
    """Pause a queue, a type, a key or all, and wait until nothing of it runs any more; it stays paused until it is resumed.

    Ends with 1 when the time is up and some still run.
    """
    admin, name = asked.admin, _one(queue, type, key, everything=everything)
    with screen.progress(f"draining {screen.text(name)}"):
        if everything:
            running = await admin.drain_all(timeout=timeout)
        else:
            running = await admin.drain(queue=queue, type=type, key=key, timeout=timeout)
    after = f" after {timedelta(seconds=timeout)}" if timeout is not None else ""
    asked.answer(
        {"running": running},
        lambda: f"{screen.text(name)}: {running} still run{after}" if running else f"{screen.text(name)}: nothing runs any more",
    )
    if running:
        asked.note("it stays paused; `asyncjobs jobs running` says which, and `asyncjobs resume` lets it go on.")
    return NOT_DONE if running else None


def _one(*names: str | None, everything: bool) -> str:
    given = [name for name in (*names, "everything" if everything else None) if name is not None]
    if len(given) != 1:
        raise BadInput("say what: one of --queue, --type, --key and --all.")
    return given[0]
