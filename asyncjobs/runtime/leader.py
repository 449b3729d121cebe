"""The holder's loop of leases: it rides on the heartbeat, which says and hears what is here. The rules are in `model/lease.py`.

The heartbeat's thread calls `say`, `hear` and `fail`; the main loop asks for terms, notes what its duties did, and resigns. What
both touch is behind a lock that is never held across a wait. What changed is told in the main loop.

A runner that holds something beats every `renew_seconds` instead of every heartbeat, and says everything in that one statement.
One that holds nothing says what it would take with its ordinary beats; if it is among the lowest ranked it beats once more at the
moment at which a silent holder's lease can be taken, and at least as often as the poll looks, but at most twice as often as a
holder renews: where notifications do not arrive, that is how soon it finds what was handed over.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from asyncjobs.model.lease import HURRYING, Leases, LeaseTimes
from asyncjobs.runtime.clock import boottime
from asyncjobs.store import leases
from asyncjobs.store.database import Link
from asyncjobs.store.leases import Fence, Heard, Report, Said
from asyncjobs.telemetry.events import Events, LeaseAcquired, LeaseEnded

#: A report that says nothing new is sent so often, so that a duty whose loop stands still shows.
_REPORT_SECONDS: Final = 60.0
#: An attempt that arrives a moment early would have to be made again.
_MARGIN_SECONDS: Final = 0.05

Call = Callable[..., None]


class Doings:
    """What a duty's loop has done, for the lease's row. The main loop writes it."""

    def __init__(self, now: float) -> None:
        self.in_pass_since: float | None = None
        self.passed_at: float | None = None
        self.items: int | None = None
        self.errors = 0
        self.failures = 0
        self.duration: float | None = None
        self.is_new = True
        self.said_at = now

    def report(self, now: float) -> Report:
        """As of now."""
        return Report(
            run_age=0.0 if self.in_pass_since is None else now - self.in_pass_since,
            pass_age=None if self.passed_at is None else now - self.passed_at,
            items=self.items,
            errors=self.errors,
            failures=self.failures,
            duration=self.duration,
        )


class Leader:
    """What a runner holds."""

    def __init__(
        self,
        duties: Iterable[str],
        times: LeaseTimes,
        *,
        events: Events,
        fresh_seconds: float,
        clock: Callable[[], float] = boottime,
        poll_seconds: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self.times = times
        self.duties = sorted(duties)
        self.rank: int | None = None
        self.other_runners = 0
        self._heard_at = float("-inf")
        self.on_change: Callable[[Sequence[str]], None] = _ignore
        self.fresh_seconds = fresh_seconds  # a runner that beat so lately lives, for ranks and successors
        self._events = events
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._leases = Leases(times)
        self._holder = 0
        self._doings: dict[str, Doings] = {}
        self._left_until: dict[str, float] = {}  # what was handed over is left to the successor for a while
        self._is_closed = False

    # What the heartbeat's thread calls.

    def say(self, runner_id: int, now: float, *, may_renew: bool) -> Said:
        """What goes with the beat that is sent now."""
        with self._lock:
            if runner_id != self._holder:
                self._leases = Leases(self.times)
                self._holder = runner_id
            if not may_renew or self._is_closed:
                return Said()
            held = {duty: term.token for duty, term in self._leases.held.items() if now >= self._left_until.get(duty, 0.0)}
            wanted = [one for one in self.duties if one not in self._leases.held and now >= self._left_until.get(one, 0.0)]
            return Said(
                held=held,
                reports=self._reports(held, now),
                served={duty: leases.new_token() for duty in wanted},
                may_take=True,
                tries=[one for one in self._leases.tries(now) if one.duty in wanted],
            )

    def hear(self, said: Said, heard: Heard, *, sent_at: float, answered_at: float, call: Call) -> None:
        """Take in the answer; `call` calls in the main loop."""
        ended = [(duty, said.held[duty]) for duty in heard.lost]
        acquired = [(duty, said.served[duty]) for duty in heard.acquired]
        with self._lock:
            was_only_runner, self.rank, self.other_runners = self.other_runners == 0, heard.rank, heard.runners - 1
            self._heard_at = sent_at
            now = self._clock()
            back = [duty for duty in heard.renewed if self._leases.trusted_seconds(duty, said.held[duty], now) <= 0]
            self._leases.confirmed([(duty, said.held[duty]) for duty in heard.renewed], sent_at=sent_at)
            mine = self._leases.ended(ended)
            if not self._is_closed:
                self._leases.acquired(acquired, sent_at=sent_at)
            if said.may_take:
                self._leases.looked(heard.others, sent_at=sent_at, answered_at=answered_at)
            holder = self._holder
        if acquired or mine:
            call(self._tell, holder, acquired, mine)
        if back:  # who asked meanwhile has no turn, and waits for one
            call(self.on_change, back)
        if was_only_runner != (self.other_runners == 0):
            call(self.on_change, ["rescue"])

    def fail(self) -> None:
        """A beat failed: what was seen before it does not count."""
        with self._lock:
            self._leases.failed()

    def forget(self, call: Call) -> None:
        """The runner was declared dead: nothing is held any more."""
        with self._lock:
            held, self._leases = list(self._leases.held), Leases(self.times)
            holder = self._holder
        if held:
            call(self._tell, holder, [], held)

    def pause_seconds(self, now: float) -> float | None:
        """Until the next beat has to be sent for the leases' sake; None: they can do with the ordinary ones."""
        renew_seconds = self.times.renew_seconds
        with self._lock:
            pauses = [renew_seconds] if self._leases.held and not self._is_closed else []
            if self.is_next() and len(self._leases.held) < len(self.duties):
                pauses.append(max(self._poll_seconds(), renew_seconds / 2))
                at = self._leases.next_try_at()
                if at is not None:
                    # One after the other; and one that could not be taken, because a pass holds it, not in a tight loop.
                    pauses.append(max(at + _MARGIN_SECONDS * (1 + (self.rank or 0)) - now, renew_seconds / 4))
        return min(pauses, default=None)

    def _reports(self, held: Iterable[str], now: float) -> dict[str, Report]:
        reports: dict[str, Report] = {}
        for duty in held:
            doings = self._doings.get(duty)
            if doings is not None and (doings.is_new or now - doings.said_at >= _REPORT_SECONDS):
                doings.is_new, doings.said_at = False, now
                reports[duty] = doings.report(now)
        return reports

    # What the main loop calls.

    def _tell(self, holder: int, acquired: Sequence[tuple[str, int]], ended: Sequence[str]) -> None:
        for duty, token in acquired:
            self._events.emit(LeaseAcquired(duty=duty, runner_id=holder, token=token))
        for duty in ended:
            self._events.emit(LeaseEnded(duty=duty, runner_id=holder, reason="lost"))
        self.on_change([*(duty for duty, _ in acquired), *ended])

    def is_next(self) -> bool:
        """Whether this runner is one of those that would take over."""
        return self.rank is None or self.rank < HURRYING

    def is_only_runner(self) -> bool:
        """Whether the last beat found no other runner, and that is not long ago."""
        return self.other_runners == 0 and self._clock() - self._heard_at < self.fresh_seconds

    def held(self) -> list[str]:
        """The duties whose terms this runner can trust at the moment."""
        return [duty for duty in self.duties if self.term(duty) is not None]

    def term(self, duty: str) -> Fence | None:
        """The term of this duty, if this runner has one that it can trust at the moment."""
        now = self._clock()
        with self._lock:
            term = self._leases.held.get(duty)
            if term is None or self._is_left(duty, now) or self._leases.trusted_seconds(duty, term.token, now) <= 0:
                return None
            return Fence(duty, self._holder, term.token)

    def trusted_seconds(self, fence: Fence) -> float:
        """For how long the term may still be relied on; 0 when it is over."""
        now = self._clock()
        with self._lock:
            if fence.holder != self._holder:
                return 0.0
            return self._leases.trusted_seconds(fence.duty, fence.token, now)

    def held_seconds(self, fence: Fence) -> float:
        """Since when the term lasts."""
        with self._lock:
            term = self._leases.held.get(fence.duty)
        return 0.0 if term is None or term.token != fence.token else self._clock() - term.began_at

    def began(self, duty: str) -> None:
        """A pass of the duty begins."""
        with self._lock:
            self._doings.setdefault(duty, Doings(self._clock())).in_pass_since = self._clock()

    def passed(self, duty: str, *, items: int | None, failed: bool, seconds: float) -> None:
        """A pass has ended."""
        with self._lock:
            doings = self._doings.setdefault(duty, Doings(self._clock()))
            doings.in_pass_since, doings.passed_at, doings.is_new = None, self._clock(), True
            doings.items, doings.duration = items, round(seconds, 6)
            doings.errors += failed
            doings.failures = doings.failures + 1 if failed else 0

    def close(self) -> None:
        """Renew and take nothing more: the runner stops."""
        with self._lock:
            self._is_closed = True

    async def resign(self, link: Link, duties: Sequence[str] | None = None, *, timeout: float | None = None) -> int | None:
        """Free these leases (all), whose passes have ended; returns the runner that is to take them.

        They are left to others for the time of an expiry: a free lease would be taken back with the next beat. When no other
        runner is there they are not; what was handed over before still is.
        """
        now = self._clock()
        with self._lock:
            held = {one: term.token for one, term in self._leases.held.items() if duties is None or one in duties}
            self._left_until.update(dict.fromkeys(held, now + self.times.expiry_seconds))
            holder, reports = self._holder, {one: self._doings[one].report(now) for one in held if one in self._doings}
        if not held:
            return None
        released, successor = await leases.release(
            link, holder, held, reports=reports, fresh_seconds=self.fresh_seconds, timeout=timeout
        )
        with self._lock:
            self._leases.ended(held.items())
            if successor is None:
                for duty in held:
                    self._left_until.pop(duty, None)
        for duty in released:
            self._events.emit(LeaseEnded(duty=duty, runner_id=holder, reason="released", successor=successor))
        return successor

    def left(self, kept: Sequence[str], successor: int | None) -> None:
        """The runner has left, and every lease but these is free."""
        with self._lock:
            held = {duty: term.token for duty, term in self._leases.held.items() if duty not in kept}
            self._leases.ended(held.items())
            holder = self._holder
        for duty in held:
            self._events.emit(LeaseEnded(duty=duty, runner_id=holder, reason="released", successor=successor))

    def _is_left(self, duty: str, now: float) -> bool:
        return now < self._left_until.get(duty, 0.0)


def _ignore(_: Sequence[str]) -> None:
    pass
