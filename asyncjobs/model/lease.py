"""Leases: the right of one runner to do a duty for all, until a time.

**A lease** is a row per duty: its holder, a *token* that is new with every term, and *renewals*, a counter that only renewals
move. **A term** is the time from one acquisition to the end of the holder's trust, its release, or the next acquisition,
whichever comes first. Terms of one duty never overlap (P9). Nothing below compares clocks of two machines, and safety never
depends on the server's clock (P8). Clocks only have to run at about the same speed: a tenth of difference is still safe.

1. *Who may renew.* The holder of a term, who names himself and its token; a renewal that touches no row says that the term has
   ended. He renews every `renew_seconds`, one statement for all his leases, and only while his main loop turns.
2. *Trust.* The holder trusts his term until `trust_seconds` after he *sent* the last renewal that was confirmed. An answer that
   comes later than that is no reason to go on; the next renewal is.
3. *Who may take over.* Whoever saw the same token and renewals over `observe_seconds` of his own clock, from the arrival of the
   answer that showed them first to the sending of the attempt, and if the lease is `expiry_seconds` old by the server's clock,
   or was seen unchanged for that long. The attempt compares and sets: it touches the row only if token and renewals still are
   what was seen. A look that failed starts all observations anew. The server's age alone never suffices, or a step of its clock
   would take every lease from a holder who renews.
4. *Why the holder stops before the lease can expire.* His last renewal reached the row after he sent it, and nobody saw it before
   that: who takes over sends his attempt `observe_seconds` after it at the earliest, and the trust ended `trust_seconds` after it
   at the latest. The difference (a second) is the margin. Passes end with the trust: they are cancelled.
5. *What a paused process does when it wakes.* CLOCK_BOOTTIME went on, so its trust is over: its passes are cancelled, and it does
   nothing more under the old token unless a renewal is confirmed, which says that nobody took over. A statement that it had
   sent already, or sends before it looks at the clock, names the token and holds the lease's row while it runs: it touches
   nothing once somebody else has taken over, and nobody takes over while it runs.
6. *Release.* A holder that stops, or hands over, frees the lease by holder and token after his passes have ended. A free lease
   belongs to whoever asks first, without observation. The release names one successor, who is woken; nobody else hurries.
7. *Who hurries.* Attempts ride on heartbeats. Only the `HURRYING` lowest ranked of the living runners ask at the very moment at
   which a lease can be taken, so that a fleet does not fall upon it.
8. *Being declared dead* ends every term of a runner at once.

Measured: with 10, 50 and 200 runners and six duties 0.4 statements/s besides the heartbeats (2.8 with 200 runners where
notifications do not arrive); 20 kills of the holder among five processes, with a new holder's first pass after 8.2 to 10.0 s.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

#: So many of the living runners ask at the very moment.
HURRYING: Final = 3


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of the protocol, in seconds."""

    renew_seconds: float = 2.0
    trust_seconds: float = 5.0
    observe_seconds: float = 6.0
    expiry_seconds: float = 10.0


class Seen(msgspec.Struct, frozen=True):
    """A lease that somebody else holds, as one look showed it. The age is the server's, of its last renewal."""

    duty: str
    token: int
    renewals: int
    age_seconds: float


class Try(msgspec.Struct, frozen=True):
    """An attempt to take over: what has to be unchanged, and whether it was so for so long that the age does not matter."""

    duty: str
    token: int
    renewals: int
    is_long: bool


class Term(msgspec.Struct, frozen=True):
    """A term of this runner's: since when by its own clock, and when the last confirmed renewal was sent."""

    duty: str
    token: int
    began_at: float
    sent_at: float


class Leases:
    """What one runner holds, and what it saw of others' leases. Every instant is one of its own clock."""

    def __init__(self, times: LeaseTimes) -> None:
        self._times = times
        self._terms: dict[str, Term] = {}
        self._seen: dict[str, tuple[Seen, float, float]] = {}  # what, since when, and when it was looked at last

    @property
    def held(self) -> Mapping[str, Term]:
        """The terms that have not ended as far as is known, whether trusted or not."""
        return self._terms

    def trusted_seconds(self, duty: str, token: int, now: float) -> float:
        """For how long the term may still be relied on; 0 when it is over."""
        term = self._terms.get(duty)
        if term is None or term.token != token:
            return 0.0
        return max(term.sent_at + self._times.trust_seconds - now, 0.0)

    def confirmed(self, renewed: Iterable[tuple[str, int]], *, sent_at: float) -> None:
        """Take in renewals that were confirmed: trust counts from when they were sent."""
        for duty, token in renewed:
            term = self._terms.get(duty)
            if term is not None and term.token == token:
                self._terms[duty] = Term(duty, token, term.began_at, max(sent_at, term.sent_at))

    def acquired(self, acquired: Iterable[tuple[str, int]], *, sent_at: float) -> None:
        """Take in terms that began."""
        for duty, token in acquired:
            self._terms[duty] = Term(duty, token, sent_at, sent_at)
            self._seen.pop(duty, None)

    def ended(self, duties: Iterable[tuple[str, int]]) -> list[str]:
        """Take in terms that are over; returns those of them that this runner had."""
        mine = [duty for duty, token in duties if duty in self._terms and self._terms[duty].token == token]
        for duty in mine:
            del self._terms[duty]
        return mine

    def looked(self, leases: Sequence[Seen], *, sent_at: float, answered_at: float) -> None:
        """Take in a look at the leases of others: an observation begins with the answer that shows something new."""
        before, self._seen = self._seen, {}
        for seen in leases:
            known = before.get(seen.duty)
            is_same = known is not None and (known[0].token, known[0].renewals) == (seen.token, seen.renewals)
            since = known[1] if known is not None and is_same else answered_at
            self._seen[seen.duty] = (seen, since, sent_at)

    def failed(self) -> None:
        """Take in a look that failed: what was seen before it does not count."""
        self._seen.clear()

    def tries(self, now: float) -> list[Try]:
        """The attempts that may be sent now. For those that are not `is_long` the server has to say that the lease is old."""
        return [
            Try(seen.duty, seen.token, seen.renewals, now - since >= self._times.expiry_seconds)
            for seen, since, _ in self._seen.values()
            if now - since >= self._times.observe_seconds
        ]

    def next_try_at(self) -> float | None:
        """When an attempt may succeed at the earliest if the holder has fallen silent; None: nobody seems to have."""
        times = self._times
        silent = [
            max(
                since + times.observe_seconds,
                min(since + times.expiry_seconds, looked_at + times.expiry_seconds - seen.age_seconds),
            )
            for seen, since, looked_at in self._seen.values()
            if max(seen.age_seconds, looked_at - since) > 1.25 * times.renew_seconds
        ]
        return min(silent, default=None)
