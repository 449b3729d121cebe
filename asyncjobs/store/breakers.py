"""Circuit breakers: how they are, what happens to them, and what operators see of them."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from asyncjobs.model.breaker import Asked, Circuit, Event, Failed, GivenBack, Opened, Policy, Reset, State, Succeeded
from asyncjobs.store.database import Link, Record


class Seen(msgspec.Struct, frozen=True):
    """A breaker as the server answered. Times are seconds from the answer; `version` counts its changes."""

    circuit: Circuit
    version: int


class Happened(msgspec.Struct, frozen=True):
    """What an event made of a breaker."""

    formerly: State
    seen: Seen


class BreakerState(msgspec.Struct, frozen=True, kw_only=True):
    """One circuit breaker as it is now."""

    service: str
    state: State
    reason: str | None  # why it is not closed
    failure_count: int  # in a row
    success_count: int  # of probes, while it is half-open
    last_failure_at: datetime | None
    opened_at: datetime | None
    half_opens_at: datetime | None  # open: from when on a probe is let through; None: when it is reset
    half_opened_at: datetime | None
    probes: int  # under way
    updated_at: datetime
    declared: bool  # in this app, or by a type that a runner has
    types: list[str]  # of which runners have said that their jobs are behind it


_NAMES: dict[type[Event], str] = {
    Asked: "asked",
    Failed: "failed",
    Succeeded: "succeeded",
    GivenBack: "given back",
    Reset: "reset",
    Opened: "opened",
}


async def declare(link: Link, services: Sequence[str]) -> None:
    """Make the rows that are not there yet. A role that may only enqueue leaves that to runners."""
    if link.database.by_door:
        return
    await link.fetch("declare_breakers", services)


async def look(link: Link, services: Sequence[str]) -> dict[str, Seen]:
    """How these breakers are, by service. One that is missing has no row: it is closed."""
    return {row["service_name"]: _seen(row) for row in await link.fetch("look_at_breakers", services)}


async def happen(link: Link, event: Event, policy: Policy, *, reason: str | None = None) -> Happened:
    """Let the event happen to the breaker of the policy's service."""
    row = await link.fetch_row(
        "happen_to_breaker", policy.service, _NAMES[type(event)], getattr(event, "token", None), _seconds(event), reason,
        policy.failure_threshold, policy.success_threshold, policy.probes, policy.open_seconds,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - the function returns exactly one row
    return Happened(row["formerly"], _seen(row))


def _seconds(event: Event) -> float | None:
    match event:
        case Failed(success_age_seconds=seconds) | Opened(seconds=seconds):
            return seconds
        case _:
            return None


def _seen(row: Record) -> Seen:
    circuit = Circuit(
        state=row["state"],
        failure_count=row["failure_count"],
        success_count=row["success_count"],
        last_failure_at=row["last_failure_in"],
        half_opens_at=row["half_opens_in"],
        probes=tuple(zip(row["probe_tokens"], row["probes_lapse_in"], strict=True)),
    )
    return Seen(circuit, row["version"])


def at(circuit: Circuit, now: float) -> Circuit:
    """The circuit with times of the caller's clock, which says `now`, in place of seconds from the answer."""
    return msgspec.structs.replace(
        circuit,
        last_failure_at=None if circuit.last_failure_at is None else now + circuit.last_failure_at,
        half_opens_at=None if circuit.half_opens_at is None else now + circuit.half_opens_at,
        probes=tuple((token, now + seconds) for token, seconds in circuit.probes),
    )


async def listed(link: Link, service: str | None = None, *, declared: Sequence[str] = ()) -> list[BreakerState]:
    """All breakers by service, or that of one."""
    rows = await link.fetch("list_breakers", service)
    return [BreakerState(**dict(row), declared=row["service"] in declared or bool(row["types"])) for row in rows]
