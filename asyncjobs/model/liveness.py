"""When a runner counts as dead: its beat was seen unchanged for long enough, by one observer, on the observer's own clock.

No age is computed from instants of the server or of other machines: a step of the server's clock by 60 s, or an outage during
which nobody could beat, would declare every living runner dead (P8). The rules:

1. A beat is a number that only its runner changes. Any change, up or down (a standby that took over may be behind), is life.
2. Observation starts when the first answer with this number *arrived*, and reaches to when the last look was *sent*: the
   number was read somewhere between sending and arrival, so the true time is never shorter than the one that counts.
3. Dead is who stayed unchanged for `timeout_seconds` over at least two looks.
4. A look that failed, or that came `longest_gap_seconds` or more after the one before, starts all observations anew.
   Observer, server and runners may have been stopped together, and none of them is dead.
5. The clock goes on while the machine is suspended (CLOCK_BOOTTIME), so that rule 4 notices it.
6. Sooner dead, at the first look, is a runner whose process the observer's own kernel does not have, and whose last beat came by
   a session that the server does not have any more. It registered from the same boot of the same machine and the same namespace
   of process numbers, and no process has its number: a living runner's process has it there for as long as it lives. (Another
   may have got the number: then the beat decides.) The session is asked for since machines that were started from one memory
   image call themselves the same boot, and a living runner on the other one beats by a session of its own.

The end of a runner's sessions is no proof, however soon it comes: a living runner loses them with a restarted server or pooler,
a `pg_terminate_backend`, a reset in between, and may not get new ones for a while. Until it has been unconfirmed for 5/6 of the
timeout its attempts go on (`runtime/heartbeat.py`, rule 3), so whoever declared it dead sooner would let its jobs run twice; and
to let it stop sooner, each time, would interrupt every attempt at each fail-over of a server. So it is a hint that people are
told within seconds (`is_cut_off`: the doctor, pages, the command line), and declares nobody dead.
"""

from collections.abc import Mapping

import msgspec


class DeadRunner(msgspec.Struct, frozen=True):
    """A runner that counts as dead, the beat at which it stopped, and for how long that was observed."""

    id: int
    beat: int
    unchanged_seconds: float


class Liveness:
    """What one observer has seen of the runners' beats."""

    def __init__(self, *, timeout_seconds: float, longest_gap_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._longest_gap_seconds = longest_gap_seconds
        self._answered_at: float | None = None
        self._seen: dict[int, tuple[int, float]] = {}  # runner -> its beat, and since when it is known to be that

    def look(self, beats: Mapping[int, int], *, sent_at: float, answered_at: float) -> list[DeadRunner]:
        """Take in a successful look; returns who counts as dead now. Both instants are the observer's own."""
        if self._answered_at is None or answered_at - self._answered_at >= self._longest_gap_seconds:
            self._seen.clear()
        self._answered_at = answered_at
        before, self._seen = self._seen, {}
        dead: list[DeadRunner] = []
        for id, beat in beats.items():
            known = before.get(id)
            since = known[1] if known is not None and known[0] == beat else answered_at
            self._seen[id] = (beat, since)
            if sent_at - since >= self._timeout_seconds:
                dead.append(DeadRunner(id, beat, sent_at - since))
        return dead

    def fail(self) -> None:
        """Take in a look that failed: nothing that was seen before it counts."""
        self._answered_at = None
        self._seen.clear()
