"""Circuit breakers of one process: what it knows of them, who may call, and what calls report.

The row in the database is the truth; this process remembers it. What may happen, in which order:

1. A call of a service whose breaker is closed asks nothing, and its success tells nothing: no statement. Only after failures
   that this process knows of does the next success say so, once.
2. A failure is reported at once, in one statement, and awaited: failing calls are slow anyway. The answer says how the breaker
   is now. The success of a probe is awaited, too.
3. An open breaker refuses without asking, until the time that the server named is over. This process waits by its own monotonic
   clock from when the answer came, so it is never early, and then asks to be let through as a probe: one statement, one caller
   at a time. Of all who ask the server lets through as many as are free; the others know for how long they need not ask.
4. A changed state is notified to the other processes, which look at once. A notification that is lost costs at most an interval:
   a process that has used a breaker, or knows of one that is not closed, looks again each interval; and no call goes by what is
   older than two: it waits for a look. A process that neither calls nor waits asks nothing at all.
5. A call that is cancelled found nothing out: nothing is counted, and a probe is given back, in the background.

What a crash leaves behind: between a failed call and its report, a failure too few; a probe without a report, which lapses
as long after its start as the breaker stays open. A statement whose answer is lost is not repeated: it may have counted, and the
next look tells.

The database does not answer (within 1 s), or refuses: no call of a service fails for that, or waits for it again. The process
goes on by itself: the same rules, on its own copy of the state. A closed breaker lets through, and opens by what fails here; an
open one lets a probe of this process through when its time is over, and closes if that is good. With the first look that
succeeds the row is the truth again, and what was learned meanwhile is forgotten.

Clocks: all instants are the server's. When its clock is put back, an open breaker stays open that much longer, or is reset.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from asyncjobs.errors import CircuitOpen, UsageError
from asyncjobs.model.breaker import (
    Asked,
    Circuit,
    Event,
    Failed,
    GivenBack,
    Policy,
    State,
    Succeeded,
    decide,
    free_probes,
    lets_through,
    opens_up_at,
)
from asyncjobs.runtime.clock import TIMER_MARGIN_SECONDS
from asyncjobs.runtime.parts import Part, Start
from asyncjobs.runtime.service import Service
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import breakers as store
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import BreakerClosed, BreakerHalfOpened, BreakerOpened, DatabaseFailed, Events

#: Notified by all that change a state, and looked for after so long where no process listens.
_LOOK_SECONDS: Final = 5.0
_LOOK_SECONDS_WITHOUT_LISTEN: Final = 1.0
#: How long a call waits for the database before its process goes on by itself.
_ANSWER_SECONDS: Final = 1.0
#: Clocks and ways differ: a success less than this after another process's failure is not known to have come after it.
_ORDER_SECONDS: Final = 0.25

#: What a call ended in: the service was well, or not, or that was not found out.
How: TypeAlias = Literal["succeeded", "failed", "ended"]


class Call:
    """One call of a service, from being let through to its end."""

    __slots__ = ("service", "token")

    def __init__(self, service: str, token: int | None) -> None:
        self.service = service
        self.token = token  # of a probe


class _Known:
    """What this process knows of one breaker, in times of its monotonic clock."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.circuit = Circuit()
        self.version = 0
        self.answers = 0  # taken in so far
        self.seen_at = float("-inf")
        self.succeeded_at: float | None = None  # last, if no call has failed since
        self.used = True  # since the last look
        self.told: int | None = None  # free probes, when the watchers were told last
        self.turn = asyncio.Lock()  # of those who ask

    def is_closed(self) -> bool:
        """Whether calls go through. Asked anew after each wait."""
        return self.circuit.state == "closed"


class Breakers(Service):
    """All breakers that an open app declares. Without any, it is never run."""

    name: ClassVar[str] = "breakers"

    def __init__(
        self,
        pool: Pool,
        wakes: Wakes,
        policies: Sequence[Policy],
        *,
        events: Events,
        start: Start,
        look_seconds: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(events=events, interval_seconds=look_seconds or _LOOK_SECONDS, **options)
        self._pool = pool
        self._wakes = wakes
        self._known = {policy.service: _Known(policy) for policy in policies}
        self._start = start
        self._given_seconds = look_seconds
        self._wanted = True  # a look
        self._cut_off = False  # the database does not answer: this process goes by its own copy
        self._reports: set[Part] = set()
        self._watchers: list[tuple[Callable[[str], None], Callable[[], bool]]] = []
        wakes.watch_breakers(self.look_now)

    @property
    def services(self) -> Sequence[str]:
        """The services that the app declares breakers for."""
        return list(self._known)

    def watch(self, watcher: Callable[[str], None], *, hears: Callable[[], bool] = lambda: False) -> Callable[[], None]:
        """Call `watcher` with a service when what its breaker lets through has changed, until the returned function is called.

        `hears` says whether notifications arrive in this process: then it looks less often.
        """
        watching = (watcher, hears)
        self._watchers.append(watching)
        return lambda: self._watchers.remove(watching)

    def free_probes(self, service: str) -> int | None:
        """How many calls the breaker would let through now, as far as is known; None when it is closed."""
        known = self._known[service]
        return free_probes(known.circuit, known.policy, self._monotonic())

    def policy(self, service: str) -> Policy:
        """What was declared."""
        return self._known[service].policy

    # Knowing.

    def look_now(self) -> None:
        """Something may have changed: a notification, or none was heard for a while."""
        self._wanted = True
        self.wake()

    async def wait_looked(self) -> None:
        """Wait until something is known, or for a moment if the database does not answer."""
        await asyncio.gather(*(self._refreshed(known) for known in self._known.values()))

    @property
    def _seconds(self) -> float:
        if self._given_seconds is not None:
            return self._given_seconds
        return _LOOK_SECONDS if any(hears() for _, hears in self._watchers) else _LOOK_SECONDS_WITHOUT_LISTEN

    async def pass_(self) -> float | None:
        """Look, if anybody would miss it; tell those who wait for a time that is over."""
        if self._wanted or any(known.used or not known.is_closed() for known in self._known.values()):
            await self._look()
        for known in self._known.values():
            self._tell(known)
        now = self._monotonic()
        ups = [opens_up_at(known.circuit, known.policy, now) for known in self._known.values()]
        delays = [at - now + TIMER_MARGIN_SECONDS for at in ups if at is not None and at > now]
        return min([*delays, self._seconds * (0.9 + 0.2 * self._chance())])

    async def _look(self) -> None:
        self._wanted = False
        answers = {service: known.answers for service, known in self._known.items()}
        for known in self._known.values():
            known.used = False
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._pool.take() as link:
                seen = await store.look(link, self.services)
                missing = self._known.keys() - seen.keys()
                if missing:
                    await store.declare(link, sorted(missing))
        except BaseException:
            self._wanted = self._cut_off = True
            raise
        self._cut_off = False
        for service, known in self._known.items():
            self._take_in(known, seen.get(service, store.Seen(Circuit(), 0)), is_newest=known.answers == answers[service])

    async def _refreshed(self, known: _Known) -> None:
        """Wait for a look when what is known is too old."""
        known.used = True
        if not self._is_stale(known):
            return
        self.look_now()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                while self._is_stale(known):
                    await self.wait_passed()
        except TimeoutError:
            self._be_cut_off(TimeoutError(f"no answer within {_ANSWER_SECONDS:g} s"))

    def _is_stale(self, known: _Known) -> bool:
        return not self._cut_off and self._monotonic() - known.seen_at > 2 * self._seconds

    def _take_in(self, known: _Known, seen: store.Seen, *, is_newest: bool) -> None:
        """What the server answered. `is_newest`: nothing else was answered since the statement was sent."""
        known.answers += 1
        now = self._monotonic()
        if is_newest or seen.version >= known.version:
            known.circuit, known.version, known.seen_at = store.at(seen.circuit, now), seen.version, now
        self._tell(known)

    def _tell(self, known: _Known) -> None:
        free = free_probes(known.circuit, known.policy, self._monotonic())
        if free != known.told:
            known.told = free
            for watcher, _ in tuple(self._watchers):
                watcher(known.policy.service)

    def _be_cut_off(self, error: BaseException) -> None:
        if not self._cut_off:
            self.events.emit(DatabaseFailed(during="breakers", error=error))
        self._cut_off = True
        self.look_now()

    # Calling.

    async def enter(self, service: str) -> Call:
        """Let a call through, or CircuitOpen."""
        known = self._known[service]
        await self._refreshed(known)
        if known.is_closed():
            return Call(service, None)
        self._refuse(known)
        async with known.turn:
            return Call(service, await self._probe(known))

    async def _probe(self, known: _Known) -> int | None:
        """The token of a probe that may be made; None when the breaker is closed after all; else CircuitOpen."""
        if known.is_closed():
            return None
        self._refuse(known)
        token = secrets.randbits(62)
        await self._ask(known, token)
        if not lets_through(known.circuit, token):
            self._refuse(known)
            raise self._refusal(known, 0.0)  # another process has looked or asked meanwhile: what is known changed again
        return None if known.is_closed() else token

    def _refuse(self, known: _Known) -> None:
        now = self._monotonic()
        at = opens_up_at(known.circuit, known.policy, now)
        if at is None:
            raise self._refusal(known, None)
        if at > now:
            raise self._refusal(known, at - now)

    def _refusal(self, known: _Known, seconds: float | None) -> CircuitOpen:
        service, state = known.policy.service, known.circuit.state
        if seconds is None:
            until, retry_at = "until it is reset", None
        else:
            retry_at = datetime.now(UTC) + timedelta(seconds=seconds)
            until = (
                f"for {seconds:.3g} s" if state == "open" else f"and tries whether the service is back, for up to {seconds:.3g} s"
            )
        return CircuitOpen(
            f'circuit breaker "{service}" is {state} {until}.', service=service, retry_at=retry_at,
            retry_after=known.policy.open_seconds if seconds is None else seconds,
        )  # fmt: skip

    async def _ask(self, known: _Known, token: int) -> None:
        asking = self._report(known, Asked(token))
        try:
            await asking.wait_done()
        except asyncio.CancelledError:
            asking.when_done(lambda: self._give_back(known, token))
            raise

    def _give_back(self, known: _Known, token: int | None) -> None:
        if token is not None and lets_through(known.circuit, token):
            with suppress(UsageError):  # the app is closed: it lapses
                self._report(known, GivenBack(token))

    async def leave(self, call: Call, how: How) -> None:
        """Take note of how a call ended. Never raises but for a cancellation of the caller."""
        known = self._known[call.service]
        event: Event
        match how:
            case "succeeded":
                known.succeeded_at = self._monotonic()
                if call.token is None and not (known.is_closed() and known.circuit.failure_count):
                    return
                event = Succeeded(call.token)
                if call.token is None:  # those that succeed at the same time need not say it again
                    known.circuit = msgspec.structs.replace(known.circuit, failure_count=0)
            case "failed":
                event = Failed(call.token, self._success_age_seconds(known))
                known.succeeded_at = None  # whatever succeeded until now did so before this failure
            case "ended":
                self._give_back(known, call.token)
                return
        try:
            reporting = self._report(known, event)
        except UsageError:
            return  # the app is closed
        await reporting.wait_done()

    def _success_age_seconds(self, known: _Known) -> float | None:
        return None if known.succeeded_at is None else self._monotonic() - known.succeeded_at + _ORDER_SECONDS

    # Reporting.

    def _report(self, known: _Known, event: Event) -> Part:
        """A part of the app's: the task that waits for it may be cancelled, the report is made all the same."""
        part = self._start("breaker report", lambda: self._happen(known, event))
        self._reports.add(part)
        part.when_done(lambda: self._reports.discard(part))
        return part

    async def _happen(self, known: _Known, event: Event) -> None:
        formerly = known.circuit.state
        answers = known.answers
        if not self._cut_off:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS), self._pool.take() as link:
                    happened = await store.happen(link, event, known.policy)
            except Exception as error:  # noqa: BLE001 - what the database says must not become the service's answer
                self._be_cut_off(error)
            else:
                self._take_in(known, happened.seen, is_newest=known.answers == answers)
                self._announce(known, happened.formerly, happened.seen.circuit, alone=False)
                return
        known.circuit = decide(known.circuit, event, known.policy, self._monotonic())
        self._announce(known, formerly, known.circuit, alone=True)
        self._tell(known)

    def _announce(self, known: _Known, formerly: State, circuit: Circuit, *, alone: bool) -> None:
        """This process changed the state: tell the others, and the sinks."""
        if circuit.state == formerly:
            return
        service = known.policy.service
        match circuit.state:
            case "open":
                self.events.emit(
                    BreakerOpened(
                        service=service, formerly=formerly, failures=circuit.failure_count, seconds=known.policy.open_seconds,
                        alone=alone,
                    )
                )  # fmt: skip
            case "half-open":
                self.events.emit(BreakerHalfOpened(service=service, alone=alone))
            case "closed":
                self.events.emit(BreakerClosed(service=service, formerly=formerly, alone=alone))
        if not alone:
            self._wakes.breakers(others_only=True)
        self.wake()  # other times to wait for

    def moved(self, service: str, happened: store.Happened) -> None:
        """An operator moved a breaker here, perhaps one that this app does not declare: tell everybody."""
        if service in self._known:
            self._take_in(self._known[service], happened.seen, is_newest=False)
        self._wakes.breakers(others_only=True)
        self.wake()

    async def flush(self) -> None:
        """Wait until all that was reported is written."""
        while self._reports:
            await next(iter(self._reports)).wait_done()
