"""Ends that fit no serial order, and why they may be so."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_CLAIMS: Final = r"^(claim|claim lean|finish_completed \w|ack completed \w|ack dead \w)$"
_COMPLETES: Final = r"complete_in_transaction \w|^tx complete"
_SEVERAL: Final = r"^tx (.*\+|two)"
_DELAYS: Final = "^tx delay"


class Known(NamedTuple):
    """Findings of this kind, in plays with such a call, in such worlds."""

    kind: str
    call: str
    world: str
    reason: str
    is_split: bool = False  # only when the first is held between two of its statements
    beside: str = ""  # and with such a call


KNOWN: Final = (
    Known(r"^(STATE|ANSWERS)", _CLAIMS, r"^plain", "a claim leaves out single rows that are locked, and takes the others"),
    Known(r"^(STATE|ANSWERS)", r"^prune$", r"^plain", "a pass leaves out single rows that are locked, for its next one"),
    Known(r"^(STATE|ANSWERS)", r"^give_back$", "follows", "it leaves out single rows that are locked, for its next call"),
    Known(
        "^STATE",
        "^tx two",
        "follows",
        "its rows join their lines at its commit, behind what was dispatched",
        beside="^run completed",
    ),
    Known("still holds dedup key", _COMPLETES, "", "its runner lets the key go when the handler has ended"),
    Known("and owned by runner", r"^sql pending", "", "its runner, or whoever rescues it, takes the name off"),
    Known(r"^(STATE|ANSWERS)", _SEVERAL, "", "a caller's statements see what was committed between them", is_split=True),
    Known(
        "^ANSWERS",
        _DELAYS,
        "",
        "it is ended with the new payload; what it was is told as of the call",
        beside=r"^(cancel|dead) [hws]",
    ),
    Known("^STATE", _DELAYS, "", "it stood in line when the purge came: cancelled with the new payload", beside="^purge_key"),
)


def is_known(what: str, names: Sequence[str], world: str, *, is_split: bool) -> bool:
    """Whether it is on the list."""
    return any(
        re.search(known.kind, what)
        and re.search(known.world, world)
        and all(any(re.search(call, name) for name in names) for call in (known.call, known.beside))
        and is_split >= known.is_split
        for known in KNOWN
    )
