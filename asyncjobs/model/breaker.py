"""The rules of a circuit breaker, as one pure function. The database applies the same rules to the row that all processes share.

    closed ── so many failures in a row ──→ open ── its time is over, and somebody asks ──→ half-open
      ↑                                      ↑                                                 │  │
      │                                      └──────────────── a probe failed ─────────────────┘  │
      └──────────────────────── so many probes succeeded, or an operator reset it ────────────────┘

* Closed: calls go through and ask nobody. A failure is counted; a success ends the row of failures. Whoever reports a failure
  also tells how long ago its own last success was: one that came after the last counted failure ended that row, though it was
  not worth a statement at the time.
* Open: calls are refused. What calls report that were let through before changes nothing.
* Half-open: so many probes at a time are let through, the others are refused. Each has a token, and a time at which it lapses: as
  long after its start as the breaker stays open. A probe whose process died so keeps the others out for that long, and no longer.
  What a lapsed probe reports still counts while the breaker is half-open, else a service that is slower than that would never be
  found well. Without a probe's token nothing changes a half-open breaker: such a call began before it opened.
* Whoever decides uses its own policy: the thresholds of the process that reports, the time of the one that opens. An operator may
  open it for a while, or (`half_opens_at` None) until it is reset.

Times are seconds of the caller's clock, wherever that begins.
"""

from typing import Final, Literal, TypeAlias

import msgspec

State: TypeAlias = Literal["closed", "open", "half-open"]

#: Lapsed probes are remembered until the state changes, but no more than this many.
MOST_PROBES: Final = 100

#: How much later than at the half-open time jobs come back, at most: as a share of the time until then.
_JITTER: Final = 0.1


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What was declared of a breaker."""

    service: str
    failure_threshold: int = 5
    success_threshold: int = 1
    probes: int = 1
    open_seconds: float = 60.0


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """What a breaker is in at one time."""

    state: State = "closed"
    failure_count: int = 0  # in a row, while closed; those that opened it, until it is closed
    success_count: int = 0  # of probes, while half-open
    last_failure_at: float | None = None
    half_opens_at: float | None = None  # open: from when on probes are let through; None: when an operator resets it
    probes: tuple[tuple[int, float], ...] = ()  # half-open: the token of each, and when it lapses


class Asked(msgspec.Struct, frozen=True):
    """Somebody wants to call the service, as a probe with this token if need be."""

    token: int


class Failed(msgspec.Struct, frozen=True):
    """A call failed. `token`: that of a probe. `success_age_seconds`: since the last success that this process saw."""

    token: int | None = None
    success_age_seconds: float | None = None


class Succeeded(msgspec.Struct, frozen=True):
    """A call succeeded."""

    token: int | None = None


class GivenBack(msgspec.Struct, frozen=True):
    """A probe ended without having found out anything: it was cancelled."""

    token: int


class Reset(msgspec.Struct, frozen=True):
    """An operator closes it."""


class Opened(msgspec.Struct, frozen=True):
    """An operator opens it: for so many seconds, or until it is reset."""

    seconds: float | None = None


Event: TypeAlias = Asked | Failed | Succeeded | GivenBack | Reset | Opened


def decide(circuit: Circuit, event: Event, policy: Policy, now: float) -> Circuit:
    """What becomes of the breaker."""
    match event:
        case Asked(token):
            return _asked(circuit, token, policy, now)
        case Failed():
            return _failed(circuit, event, policy, now)
        case Succeeded(token):
            return _succeeded(circuit, token, policy)
        case GivenBack(token):
            return msgspec.structs.replace(circuit, probes=_without(circuit, token))
        case Reset():
            return Circuit(last_failure_at=circuit.last_failure_at)
        case Opened(seconds):
            return _open(circuit, None if seconds is None else now + seconds)


def _asked(circuit: Circuit, token: int, policy: Policy, now: float) -> Circuit:
    if circuit.state == "open" and circuit.half_opens_at is not None and circuit.half_opens_at <= now:
        circuit = msgspec.structs.replace(circuit, state="half-open", success_count=0, half_opens_at=None, probes=())
    if circuit.state != "half-open" or not free_probes(circuit, policy, now):
        return circuit
    probes = (*circuit.probes, (token, now + policy.open_seconds))
    return msgspec.structs.replace(circuit, probes=probes[-MOST_PROBES:])


def _failed(circuit: Circuit, event: Failed, policy: Policy, now: float) -> Circuit:
    former, last = circuit, circuit.last_failure_at
    circuit = msgspec.structs.replace(circuit, last_failure_at=now if last is None else max(now, last))
    if former.state == "half-open" and _is_probe(former, event.token):
        return _open(circuit, now + policy.open_seconds)
    if former.state != "closed":
        return circuit
    age = event.success_age_seconds
    ended = age is not None and last is not None and last < now - age
    count = 1 if ended else former.failure_count + 1
    circuit = msgspec.structs.replace(circuit, failure_count=count)
    return _open(circuit, now + policy.open_seconds) if count >= policy.failure_threshold else circuit


def _succeeded(circuit: Circuit, token: int | None, policy: Policy) -> Circuit:
    if circuit.state == "closed":
        return msgspec.structs.replace(circuit, failure_count=0)
    if circuit.state == "open" or not _is_probe(circuit, token):
        return circuit
    count = circuit.success_count + 1
    if count >= policy.success_threshold:
        return Circuit(last_failure_at=circuit.last_failure_at)
    return msgspec.structs.replace(circuit, success_count=count, probes=_without(circuit, token))


def _open(circuit: Circuit, half_opens_at: float | None) -> Circuit:
    return msgspec.structs.replace(circuit, state="open", success_count=0, half_opens_at=half_opens_at, probes=())


def _is_probe(circuit: Circuit, token: int | None) -> bool:
    return any(token == other for other, _ in circuit.probes)


def _without(circuit: Circuit, token: int | None) -> tuple[tuple[int, float], ...]:
    return tuple(probe for probe in circuit.probes if probe[0] != token)


def free_probes(circuit: Circuit, policy: Policy, now: float) -> int | None:
    """How many more calls it would let through now; None when it is closed, and lets all of them through."""
    match circuit.state:
        case "closed":
            return None
        case "open":
            return policy.probes if circuit.half_opens_at is not None and circuit.half_opens_at <= now else 0
        case "half-open":
            return max(policy.probes - sum(lapses_at > now for _, lapses_at in circuit.probes), 0)


def lets_through(circuit: Circuit, token: int) -> bool:
    """Whether whoever asked with this token may call the service."""
    return circuit.state == "closed" or _is_probe(circuit, token)


def opens_up_at(circuit: Circuit, policy: Policy, now: float) -> float | None:
    """When it lets a probe through next (`now` when it would at once), as far as is known; None: when an operator resets it."""
    if free_probes(circuit, policy, now) != 0:
        return now
    if circuit.state == "open":
        return circuit.half_opens_at
    living = sorted(lapses_at for _, lapses_at in circuit.probes if lapses_at > now)
    return living[len(living) - policy.probes]


def come_back_seconds(seconds: float, chance: float) -> float:
    """When a job comes back that was refused `seconds` before the next probe; `chance` (0…1) spreads those that were together."""
    return seconds * (1.0 + _JITTER * chance)
