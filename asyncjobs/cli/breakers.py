"""`asyncjobs breakers`: circuit breakers, and moving them by hand."""

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.kit import ACTS, Asked, Group, argument, found, group, option, verb

_SERVICE = argument("service")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    breakers = group("breakers", "Look at circuit breakers; reset or open them.", parent=program)
    verb(breakers, "list")(list_breakers)
    verb(breakers, "show", _SERVICE)(show)
    verb(breakers, "reset", _SERVICE, *ACTS)(reset)
    verb(
        breakers, "open", _SERVICE,
        option("--for", "for_", type=float, metavar="SECONDS", help="For so long; otherwise until it is reset."),
        *ACTS,
    )(force_open)  # fmt: skip


async def list_breakers(asked: Asked) -> int | None:
    """List circuit breakers: open or closed, since when, and why."""
    rows = await asked.admin.breakers()
    columns = ("service", "state", "failures", "last failure", "opened", "half-opens", "reason", "types")
    table = [
        (one.service, one.state, one.failure_count, one.last_failure_at, one.opened_at, one.half_opens_at, one.reason, one.types)
        for one in rows
    ]
    return found(asked, "circuit breaker", rows, lambda: screen.table(columns, table), filtered=False)


async def show(asked: Asked, service: str) -> None:
    """Show a circuit breaker."""
    state = await asked.admin.breaker(service)
    asked.answer(state, lambda: screen.record(msgspec.structs.asdict(state)))


async def reset(asked: Asked, service: str) -> None:
    """Close a circuit breaker, whatever opened it: jobs that need the service run again."""
    changed = await asked.admin.reset_breaker(service)
    asked.answer({"changed": changed}, lambda: f"{screen.text(service)} {'is closed' if changed else 'was closed'}")


async def force_open(asked: Asked, service: str, for_: float | None) -> None:
    """Open a circuit breaker: jobs that need the service wait, without spending attempts."""
    changed = await asked.admin.open_breaker(service, for_=for_)
    until = "until it is reset" if for_ is None else f"for {for_:g} s"
    asked.answer({"changed": changed}, lambda: f"{screen.text(service)} {'is' if changed else 'was'} open, now {until}")
