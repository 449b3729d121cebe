"""`asyncjobs limits`: how many run at once and start in a time, and setting that by hand."""

from math import inf

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.kit import ACTS, Asked, Group, argument, found, group, option, verb
from asyncjobs.declare.limit import Rate
from asyncjobs.errors import UsageError
from asyncjobs.store.limits import LimitKind, LimitRow

_NAME = argument("name")
_QUEUE = option("--queue", "is_queue", is_flag=True, help="The total of the queue of that name.")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    limits = group("limits", "Look at limits and totals of queues; set and reset them.", parent=program)
    verb(limits, "list")(list_limits)
    verb(limits, "show", _NAME, _QUEUE)(show)
    verb(
        limits, "set", _NAME, _QUEUE,
        option("--total", metavar="N", help='So many at once, or "none".'),
        option("--each", metavar="N", help='So many at once of each key, or "none".'),
        option("--rate", metavar="COUNT/SECONDS", help='So many starts in so many seconds of each key, as in 600/60, or "none".'),
        option("--burst", type=int, metavar="N", help="With --rate: so many of them at once."),
        option("--weight", type=float, metavar="W", help="How much of a turn its keys get."),
        *ACTS,
    )(set_limit)  # fmt: skip
    verb(limits, "reset", _NAME, _QUEUE, *ACTS)(reset)
    verb(limits, "open", argument("key"), *ACTS)(open_key)


async def list_limits(asked: Asked) -> int | None:
    """List limits and totals of queues: what counts, and how they are used."""
    rows = await asked.admin.limits()
    columns = (
        "limit",
        "total",
        "each",
        "rate",
        "running",
        "waiting",
        "keys that wait",
        "full",
        "closed",
        "idle s",
        "set by",
        "differs",
    )
    table = [
        (
            _title(one), one.total, one.each, _rate(one), one.running, one.waiting, one.keys, one.full_keys, one.closed_keys,
            round(one.idle_seconds, 1), one.set_by, one.differing and f"{len(one.differing)} runners",
        )
        for one in rows
    ]  # fmt: skip
    return found(asked, "limit", rows, lambda: screen.table(columns, table), filtered=False)


async def show(asked: Asked, name: str, *, is_queue: bool) -> None:
    """Show a limit, and its keys that have something running or waiting."""
    row = await asked.admin.limit(name, kind=_kind(is_queue=is_queue))
    keys = [] if is_queue else await asked.admin.limit_keys(name)
    columns = ("key", "running", "waiting", "full", "closed until", "told by job", "oldest")
    table = [(one.key, one.running, one.waiting, one.is_full, one.opens_at, one.closed_by, one.oldest_at) for one in keys]
    said = {**msgspec.structs.asdict(row), "keys_that_wait": row.keys, "keys": keys}
    record = {name: value for name, value in said.items() if name != "keys"}
    asked.answer(said, lambda: screen.record(record) + ("\n\n" + screen.table(columns, table) if keys else ""))


async def set_limit(
    asked: Asked,
    name: str,
    *,
    total: str | None,
    each: str | None,
    rate: str | None,
    burst: int | None,
    weight: float | None,
    is_queue: bool,
) -> None:
    """Set what counts over what programs declare, until it is reset. What runs goes on."""
    row = await asked.admin.set_limit(
        name, total=_number("--total", total), each=_number("--each", each), rate=_rate_of(rate, burst), weight=weight,
        kind=_kind(is_queue=is_queue),
    )  # fmt: skip
    asked.answer(row, lambda: screen.record(msgspec.structs.asdict(row)))


async def reset(asked: Asked, name: str, *, is_queue: bool) -> None:
    """Let what programs declare count again."""
    row = await asked.admin.reset_limit(name, kind=_kind(is_queue=is_queue))
    asked.answer(row, lambda: screen.record(msgspec.structs.asdict(row)))


async def open_key(asked: Asked, key: str) -> None:
    """Open a key that a service, or its rate, has closed."""
    await asked.admin.open_limit_key(key)
    asked.answer({"opened": True}, lambda: f"{screen.text(key)} is open")


def _kind(*, is_queue: bool) -> LimitKind:
    return "queue" if is_queue else "limit"


def _title(row: LimitRow) -> str:
    return row.name if row.kind == "limit" else f"queue {row.name}"


def _rate(row: LimitRow) -> str | None:
    return None if row.every_seconds is None else f"{1 / row.every_seconds:g}/s, burst {row.burst}"


def _number(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    if text == "none":
        return inf
    if not text.isdecimal():
        raise UsageError(f'{name} {screen.text(text)}: give a whole number, or "none".')
    return int(text)


def _rate_of(text: str | None, burst: int | None) -> Rate | float | None:
    if text is None:
        if burst is not None:
            raise UsageError("--burst belongs to a --rate.")
        return None
    if text == "none":
        return inf
    count, _, seconds = text.partition("/")
    try:
        return Rate(int(count), per=float(seconds), burst=burst)
    except ValueError as error:
        raise UsageError(f"--rate {screen.text(text)}: give COUNT/SECONDS, as in 600/60 ({error}).") from None
