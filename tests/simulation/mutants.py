"""Protocols with one rule taken out, in SQL or in Python: what the simulation is for is to see each of them fail."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from asyncjobs.model.liveness import Liveness
from asyncjobs.runner import Runner
from asyncjobs.runtime.acker import Acker
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.listening import Listening
from asyncjobs.runtime.notifier import Notifier
from asyncjobs.runtime.promoter import Promoter
from asyncjobs.runtime.rescuer import Rescuer
from asyncjobs.runtime.service import Service
from asyncjobs.store import jobs
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.telemetry.events import JobsPromoted
from tests.simulation.server import Server


class Change(NamedTuple):
    """Of one function of the schema."""

    function: str
    old: str
    new: str


class Mutant(NamedTuple):
    """What is broken, and how."""

    name: str
    changes: tuple[Change, ...] = ()
    patches: Callable[[], list[Any]] = list


@contextmanager
def mutated(mutant: Mutant, server: Server) -> Generator[None]:
    """The protocol is broken in this way."""
    with ExitStack() as stack:
        for change in mutant.changes:
            stack.callback(server.run, server.change(*change))
        for one in mutant.patches():
            stack.enter_context(one)
        yield


# Python's halves of the mutants, each with what it replaces above it in mind.


def _answered_late() -> list[Any]:
    answered = Coordinator.answered

    def mutant(self: Coordinator, *args: Any, version: int, **kwargs: Any) -> None:
        answered(self, *args, version=max(version, self.version), **kwargs)

    return [patch.object(Coordinator, "answered", mutant)]


def _wake_first() -> list[Any]:
    connect = Listening._connect

    async def mutant(self: Any) -> None:
        self._wakes.missed()
        missed, self._wakes.missed = self._wakes.missed, lambda: None
        try:
            await connect(self)
        finally:
            self._wakes.missed = missed

    return [patch.object(Listening, "_connect", mutant)]


def _promote_silently() -> list[Any]:
    def mutant(self: Any, promoted: Any) -> None:
        if promoted.count:
            self.events.emit(JobsPromoted(count=promoted.count))

    return [patch.object(Promoter, "_tell", mutant)]


def _forget_marks() -> list[Any]:
    send = Notifier._send

    async def mutant(self: Any, payloads: list[str]) -> None:
        try:
            await send(self, payloads)
        except (*DATABASE_ERRORS, TimeoutError):
            self._link.abort()

    return [patch.object(Notifier, "_send", mutant)]


def _no_doubt() -> list[Any]:
    async def mutant(self: Any) -> None:
        self._in_doubt, self._reconcile_at = False, float("inf")

    return [patch.object(Acker, "_reconcile", mutant)]


def _never_unconfirmed() -> list[Any]:
    return [patch.object(Runner, "_on_unconfirmed", lambda _self, _id: None)]


def _dead_at_a_glance() -> list[Any]:
    look = Liveness.look

    def mutant(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._timeout_seconds = 1.5
        return look(self, *args, **kwargs)

    return [patch.object(Liveness, "look", mutant)]


def _enqueue_blindly() -> list[Any]:
    enqueue = jobs.enqueue

    async def mutant(link: Any, rows: Any, ids: Any, tokens: Any, *, again: bool = False, **kwargs: Any) -> Any:
        if again:
            ids = await jobs.reserve_ids(link, len(rows))
        return await enqueue(link, rows, ids, tokens, again=False, **kwargs)

    return [patch.object(jobs, "enqueue", mutant)]


def _late_version() -> list[Any]:
    wait = Service._wait

    async def mutant(self: Any, at: float, seen: int) -> None:
        del seen
        self._wake_at = float("inf")
        await wait(self, at, self._version)

    return [patch.object(Service, "_wait", mutant)]


def _no_orphans() -> list[Any]:
    async def mutant(self: Any) -> Any:
        return (await look(self))[0], False

    look = Rescuer._look
    return [patch.object(Rescuer, "_look", mutant)]


def _no_hints() -> list[Any]:
    return [patch.object(Promoter, "hint", lambda _self, _seconds: None)]


def _silent_heads() -> list[Any]:
    settle = Acker._settle

    async def mutant(self: Any, acks: Any, finished: Any) -> None:
        finished.heads.clear()
        await settle(self, acks, finished)

    return [patch.object(Acker, "_settle", mutant)]


def _lost_acks() -> list[Any]:
    call = Acker._call

    async def mutant(self: Any, acks: Any, send: Any) -> Any:
        try:
            return await call(self, acks, send)
        except DATABASE_ERRORS:
            for ack in acks:
                self._acks.pop((ack.id, ack.token), None)
            raise

    return [patch.object(Acker, "_call", mutant)]


_FENCE = "AND j.claim_token = {} AND j.status = 'processing'"

MUTANTS: tuple[Mutant, ...] = (
    Mutant("acks are not fenced", (
        Change("ack", _FENCE.format("o.token"), ""), Change("finish_one", _FENCE.format("_token"), ""),
        Change("finish_completed", _FENCE.format("o.token"), ""),
    )),
    Mutant("acks name no token", (
        Change("ack", "AND j.claim_token = o.token", ""), Change("finish_one", "AND j.claim_token = _token", ""),
        Change("finish_completed", "AND j.claim_token = o.token", ""),
    )),
    Mutant("the attempt is not counted at the claim", (Change("claim", "attempts = j.attempts + 1", "attempts = j.attempts"),)),
    Mutant("a lease is renewed by name", (
        Change("beat_with_leases", "WHERE l.held_by_worker_id = _holder AND l.token = h.token ORDER BY", "ORDER BY"),
    )),
    Mutant("the last of a key's line is dispatched", (
        Change("dispatch_keys", "ORDER BY s.place LIMIT 1", "ORDER BY s.place DESC LIMIT 1"),
    )),
    Mutant("a runner that is gone claims", (
        Change("finish", "IF NOT FOUND THEN\n            kind := 'gone'", "IF false THEN\n            kind := 'gone'"),
    )),
    Mutant("a snooze is an attempt", (
        Change("ack", "WHEN o.refund THEN greatest(j.attempts - 1, 0)", "WHEN o.refund THEN greatest(j.attempts - 2, 0)"),
    )),
    Mutant("the coordinator's flag is cleared after the fetch", patches=_answered_late),
    Mutant("everybody is woken before the LISTEN", patches=_wake_first),
    Mutant("promotion tells nobody", patches=_promote_silently),
    Mutant("a NOTIFY that failed is forgotten", patches=_forget_marks),
    Mutant("claims that were not answered are forgotten", patches=_no_doubt),
    Mutant("outcomes that were not answered are forgotten", patches=_lost_acks),
    Mutant("attempts go on without a confirmed beat", patches=_never_unconfirmed),
    Mutant("a runner is dead after one late beat", patches=_dead_at_a_glance),
    Mutant("an enqueue is repeated blindly", patches=_enqueue_blindly),
    Mutant("a wake-up during a pass is lost", patches=_late_version),
    Mutant("jobs of runners that left are nobody's", patches=_no_orphans),
    Mutant("nobody hints at what becomes due", patches=_no_hints),
    Mutant("the next head of a key is not told of", patches=_silent_heads),
)  # fmt: skip
