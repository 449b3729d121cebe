"""Halves in Python of the mutants: each gives the patches that take one rule out, with what it replaces in mind."""

import asyncio
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import msgspec

from asyncjobs.model.lease import Leases, Try
from asyncjobs.model.liveness import Liveness
from asyncjobs.model.outcome import COMPLETED
from asyncjobs.model.scan import ScanStart
from asyncjobs.runtime import attempt as attempt_module
from asyncjobs.runtime import coordinator as coordinator_module
from asyncjobs.runtime import duties, service
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.doubt import Doubt
from asyncjobs.runtime.folder import Folder
from asyncjobs.runtime.herd import Herd
from asyncjobs.runtime.keys import KeyActors
from asyncjobs.runtime.leader import Leader
from asyncjobs.runtime.ledger import Ledger
from asyncjobs.runtime.listening import Listening
from asyncjobs.runtime.notifier import Notifier
from asyncjobs.runtime.parts import Part
from asyncjobs.runtime.promoter import Promoter
from asyncjobs.runtime.registration import Registration
from asyncjobs.runtime.rescuer import Rescuer
from asyncjobs.runtime.serializer import Serializer
from asyncjobs.runtime.service import Service
from asyncjobs.store import jobs, workflows
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.telemetry.events import Event, Events, JobsPromoted


def answered_late() -> list[Any]:
    """A scan has seen whatever happened until it was answered."""
    saw = Coordinator._saw

    def mutant(self: Any, scan: Any, found: Any, **options: Any) -> None:
        saw(self, scan, msgspec.structs.replace(found, call=max(found.call, self.lanes[scan.lane].reason + 1)), **options)

    return [patch.object(Coordinator, "_saw", mutant)]


def nobody_called() -> list[Any]:
    return [patch.object(Herd, "called", lambda _self, _lot: 0)]


def wake_first() -> list[Any]:
    connect = Listening._connect

    async def mutant(self: Any) -> None:
        self._wakes.missed()
        missed, self._wakes.missed = self._wakes.missed, lambda: None
        try:
            await connect(self)
        finally:
            self._wakes.missed = missed

    return [patch.object(Listening, "_connect", mutant)]


def never_expires() -> list[Any]:
    return [patch.object(module, "has_expired", lambda _job: False) for module in (attempt_module, coordinator_module)]


def promote_silently() -> list[Any]:
    def mutant(self: Any, promoted: Any) -> None:
        if promoted.count:
            self.events.emit(JobsPromoted(count=promoted.count))

    return [patch.object(Promoter, "_tell", mutant)]


def forget_marks() -> list[Any]:
    send = Notifier._send

    async def mutant(self: Any, payloads: list[str]) -> None:
        try:
            await send(self, payloads)
        except (*DATABASE_ERRORS, TimeoutError):
            self._link.abort()

    return [patch.object(Notifier, "_send", mutant)]


def no_doubt() -> list[Any]:
    async def mutant(self: Any) -> None:
        self.is_raised, self.due_at = False, float("inf")

    return [patch.object(Doubt, "resolve", mutant)]


def never_unconfirmed() -> list[Any]:
    return [patch.object(Registration, "unconfirmed", lambda _self, _id: None)]


def dead_at_a_glance() -> list[Any]:
    look = Liveness.look

    def mutant(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._timeout_seconds = 1.5
        return look(self, *args, **kwargs)

    return [patch.object(Liveness, "look", mutant)]


def enqueue_blindly() -> list[Any]:
    enqueue = jobs.enqueue

    async def mutant(link: Any, rows: Any, ids: Any, tokens: Any, *, again: bool = False, **kwargs: Any) -> Any:
        if again:
            ids = await jobs.reserve_ids(link, len(rows))
        return await enqueue(link, rows, ids, tokens, again=False, **kwargs)

    return [patch.object(jobs, "enqueue", mutant)]


def late_version() -> list[Any]:
    wait = Service._wait

    async def mutant(self: Any, at: float, seen: int) -> None:
        del seen
        self._wake_at = float("inf")
        await wait(self, at, self._version)

    return [patch.object(Service, "_wait", mutant)]


def no_orphans() -> list[Any]:
    async def mutant(self: Any) -> Any:
        return (await look(self))[0], False

    look = Rescuer._look
    return [patch.object(Rescuer, "_look", mutant)]


def no_hints() -> list[Any]:
    return [patch.object(Promoter, "hint", lambda _self, _seconds: None)]


def silent_heads() -> list[Any]:
    settle = CallLine._take_written

    async def mutant(self: Any, acks: Any, finished: Any) -> None:
        finished.heads.clear()
        await settle(self, acks, finished)

    return [patch.object(CallLine, "_take_written", mutant)]


def lost_acks() -> list[Any]:
    call = CallLine._call

    async def mutant(self: Any, acks: Any, send: Any) -> Any:
        try:
            return await call(self, acks, send)
        except DATABASE_ERRORS:
            for ack in acks:
                self._ledger.unwritten.pop(ack.token, None)
            raise

    return [patch.object(CallLine, "_call", mutant)]


def looks_once() -> list[Any]:
    async def mutant(self: Any) -> None:
        self._short.clear()
        self._is_look_due = self._is_look_planned = False

    return [patch.object(Coordinator, "_look_for_skipped", mutant)]


def trusted_for_ever() -> list[Any]:
    def mutant(self: Any, duty: str, token: int, _now: float) -> float:
        term = self._terms.get(duty)
        return 5.0 if term is not None and term.token == token else 0.0

    return [patch.object(Leases, "trusted_seconds", mutant)]


def taken_at_sight() -> list[Any]:
    def mutant(self: Any, _now: float) -> list[Try]:
        return [Try(seen.duty, seen.token, seen.renewals, is_long=True) for seen, _, _ in self._seen.values()]

    return [patch.object(Leases, "tries", mutant)]


def no_sweep() -> list[Any]:
    look = Serializer._look

    async def mutant(self: Any, *, sweeps: bool) -> float:
        del sweeps
        return await look(self, sweeps=False)

    return [patch.object(Serializer, "_look", mutant)]


def claims_beside_itself() -> list[Any]:
    """The line has no ledger of what is ours."""

    def mutant(self: Any, claimed: Any) -> frozenset[int]:
        for job in claimed:
            if job.losses:
                self._probation.claimed(job)
        return frozenset()

    return [patch.object(Ledger, "enter", mutant)]


def never_at_the_front() -> list[Any]:
    def mutant(self: Any, _now: float) -> tuple[int, int]:
        return self._start  # type: ignore[no-any-return]

    return [patch.object(ScanStart, "next", mutant)]


def parts_end() -> list[Any]:
    async def mutant(self: Any) -> None:
        await self._run()

    def ended(self: Any, _task: Any) -> None:
        self._done.set()
        for callback in self._when_done:
            callback()

    return [patch.object(Part, "_live", mutant), patch.object(Part, "_ended", ended)]


def uncommitted_counts() -> list[Any]:
    async def mutant(_self: Any, ending: object) -> object:
        return ending

    return [patch.object(Attempt, "_as_committed", mutant), patch.object(Attempt, "not_committed", lambda _self: COMPLETED)]


def begins_unconfirmed() -> list[Any]:
    return [patch.object(Attempt, "_see_whether_it_may_begin", lambda _self: None)]


def charged_for_ends() -> list[Any]:
    return [patch.object(Attempt, "_is_cancelled_from_outside", lambda _self, **_: False)]


def sinks_exit() -> list[Any]:
    def mutant(self: Events, event: Event) -> None:
        for sink in (*self._sinks.get(type(event), ()), *self._all):
            try:
                sink(event)
            except Exception as error:  # noqa: BLE001 - what it does not catch is the mutant
                self._report(sink, event, error)

    return [patch.object(Events, "emit", mutant)]


def leaks_end() -> list[Any]:
    """As it was when a duty that leaked a cancellation was never done again: its loop ends, and so does its part."""

    def is_meant(error: BaseException) -> bool:
        return isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))

    async def mutant(self: Any) -> None:
        with suppress(asyncio.CancelledError):
            await run(self)

    run = Service.run
    return [
        patch.object(service, "is_meant", is_meant),
        patch.object(duties, "is_meant", is_meant),
        patch.object(Service, "run", mutant),
    ]


def claims_too_much() -> list[Any]:
    """A claim of one more than there are slots."""
    scans = Coordinator._scans

    def mutant(self: Any, lanes: Any, taken: Any) -> Any:
        return [msgspec.structs.replace(scan, limit=scan.limit + 1) for scan in scans(self, lanes, taken)]

    return [patch.object(Coordinator, "_scans", mutant)]


def gives_back_twice() -> list[Any]:
    """An attempt that ends gives its slot back, and so does what it wakes."""
    ended = Coordinator._ended

    def mutant(self: Any, attempt: Any, ack: Any) -> None:
        ended(self, attempt, ack)
        self.lanes[attempt.lane].slots.give_back()

    return [patch.object(Coordinator, "_ended", mutant)]


def goes_around() -> list[Any]:
    """The outcome of a job with a key goes to the line, past its actor."""

    put = KeyActors.put

    def mutant(self: Any, attempt: Any, ack: Any) -> None:
        if attempt.completed_in_transaction:
            put(self, attempt, ack)
        else:
            self.actors[0]._line.put(ack)

    return [patch.object(KeyActors, "put", mutant)]


def two_at_a_time() -> list[Any]:
    """A call does not wait for the one before it."""
    turn = CallLine._turn

    async def mutant(self: Any) -> None:
        await asyncio.gather(turn(self), turn(self))

    return [patch.object(CallLine, "_turn", mutant)]


def folds_once() -> list[Any]:
    """A look at gates that others have locked is the last."""

    async def mutant(self: Any, link: Any) -> bool:
        await workflows.fold(link)
        return False

    return [patch.object(Folder, "fold", mutant)]


def trusted_in_silence() -> list[Any]:
    hear = Leader.hear

    def heard(self: Any, said: Any, heard: Any, *, call: Any, **more: Any) -> None:
        def tell(callback: Any, *args: Any) -> None:
            if callback != self.on_change or args == (["rescue"],):
                call(callback, *args)

        hear(self, said, heard, call=tell, **more)

    return [patch.object(Leader, "hear", heard)]


def runs_on() -> list[Any]:
    """The next of a run starts whatever the one in front of it ended in."""
    following = Coordinator._next_of_run

    def mutant(self: Any, attempt: Any, ack: Any) -> Any:
        return following(self, attempt, msgspec.structs.replace(ack, outcome=COMPLETED))

    return [patch.object(Coordinator, "_next_of_run", mutant)]
