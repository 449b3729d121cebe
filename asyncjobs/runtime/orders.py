"""What is asked of a call line: scans, and what they found.

Coordinators and actors hand in orders. The scans of one call are merged, one for each queue and lane, from the foremost start;
what such a scan claimed is shared out among its submitters in the order in which they came. An order is answered or refused
once, in a step of the line. What was claimed for one that is over by then is given back. Coordinators ask for looks, too:
whether a scan that came back short has skipped something.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from operator import attrgetter
from typing import Final, Protocol

import msgspec

from asyncjobs.model.claim import Ack, Claimed, Finished, Scan

#: In which order jobs are claimed and start.
order_of: Final = attrgetter("priority", "place")


def aged_order(ageing_seconds: float) -> Callable[[Claimed], tuple[float, int, int]]:
    """The same where the queue has ageing."""
    return lambda job: (job.run_epoch + job.priority * ageing_seconds, job.priority, job.place)


#: A queue, and one of its lanes or none.
LaneName = tuple[str, str | None]


class NoAnswer(Exception):
    """The call failed, or was not made: nothing was claimed, or what was will be given back."""


class Scanned(msgspec.Struct, frozen=True):
    """The answer to a scan: what it claimed for its submitter, and how far it got."""

    jobs: list[Claimed]
    start: tuple[int, int]
    is_full: bool  # else it saw everything
    last: tuple[int, int] | None
    call: int  # its number
    sent_at: float
    seconds: float


class Order(Protocol):
    """Scans that are to be made. It is answered or refused, once, in a step of the line, which must not fail."""

    @property
    def scans(self) -> Sequence[Scan]:
        """What is looked for."""
        ...

    @property
    def head_of(self) -> Ack | None:
        """Of a single scan for a slot that was taken for the next head of this one's key."""
        ...

    @property
    def is_over(self) -> bool:
        """It was answered or refused, or is not wanted any more."""
        ...

    def answered(self, found: list[Scanned]) -> None:
        """What its scans found, in their order."""

    def refused(self) -> None:
        """The call failed, or was not made."""


class _Look(msgspec.Struct, eq=False):
    """What a task waits for."""

    starts: Mapping[LaneName, tuple[int, int]]
    answer: "asyncio.Future[set[LaneName]]"

    @property
    def is_over(self) -> bool:
        return self.answer.done()

    def answered(self, found: set[LaneName]) -> None:
        self.answer.set_result(found)

    def refused(self) -> None:
        self.answer.set_exception(NoAnswer())
        self.answer.exception()  # its task may be gone: that it was never looked at is no news


class Looks:
    """Looks whether anything is left that scans which came back short would have taken. One statement makes all that wait."""

    def __init__(self) -> None:
        self._waiting: list[_Look] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def ask(self, starts: Mapping[LaneName, tuple[int, int]]) -> "asyncio.Future[set[LaneName]]":
        """Those of these queues and lanes that have something behind there."""
        look = _Look(starts, asyncio.get_running_loop().create_future())
        self._waiting.append(look)
        return look.answer

    def refuse(self) -> None:
        """No look is made now."""
        looks, self._waiting = self._waiting, []
        refuse(looks)

    async def make(self, skipped: Callable[[Mapping[LaneName, tuple[int, int]]], Awaitable[set[LaneName]]]) -> None:
        """Make those that wait, with this statement."""
        looks, self._waiting = self._waiting, []
        try:
            starts = looks[0].starts if len(looks) == 1 else _foremost(looks)
            found = await skipped(starts)
            for look in looks:
                if not look.is_over:
                    look.answered(found.intersection(look.starts))
        finally:
            refuse(looks)


def _foremost(looks: Sequence[_Look]) -> dict[LaneName, tuple[int, int]]:
    starts: dict[LaneName, tuple[int, int]] = {}
    for lane, start in (one for look in looks for one in look.starts.items()):
        starts[lane] = min(start, starts.get(lane, start))
    return starts


def refuse(waiting: Sequence[Order | _Look]) -> None:
    """Those that have no answer get none."""
    for one in waiting:
        if not one.is_over:
            one.refused()


def _joined(one: Scan, other: Scan) -> Scan:
    limit, start = one.limit + other.limit, min(one.start, other.start)
    slots, ahead = one.most_limited + other.most_limited, one.ahead + other.ahead
    return Scan(one.queue, one.lane, limit, start, slots, ahead, one.is_ahead and other.is_ahead)


def merged(orders: Sequence[Order]) -> list[Scan]:
    """One scan for each queue and lane, from the foremost start."""
    whole: dict[tuple[str, str | None], Scan] = {}
    for scan in (scan for order in orders for scan in order.scans):
        known = whole.get((scan.queue, scan.lane))
        whole[scan.queue, scan.lane] = scan if known is None else _joined(known, scan)
    return list(whole.values())


def found_by(
    scans: Sequence[Scan],
    finished: Finished,
    *,
    doubled: Collection[int],
    apart: Container[str],
    call: int,
    sent_at: float,
    seconds: float,
) -> list[Scanned]:
    """What the scans of a call found, without what is given back (`doubled`). Types `apart` were scanned for on their own."""
    found: list[Scanned] = []
    for number, (scan, claimed) in enumerate(zip(scans, finished.by_scan(len(scans)), strict=True), 1):
        is_full = len(claimed) >= scan.limit
        last = finished.past.get(number) or _last(claimed, apart)
        left = claimed if not doubled else [job for job in claimed if job.id not in doubled]
        found.append(Scanned(left, scan.start, is_full or bool(finished.expired), last, call, sent_at, seconds))
    return found


def hand_out(orders: Sequence[Order], scans: Sequence[Scan], found: list[Scanned]) -> list[Claimed]:
    """Answer the orders whose scans these were; the jobs that no submitter takes."""
    if len(orders) == 1:
        return _answer(orders[0], found)
    if not orders:
        return [job for one in found for job in one.jobs]
    whole = {(scan.queue, scan.lane): one for scan, one in zip(scans, found, strict=True)}
    return [job for order in orders for job in _answer(order, [_share(whole, scan) for scan in order.scans])]


def _answer(order: Order, found: list[Scanned]) -> list[Claimed]:
    if order.is_over:
        return [job for one in found for job in one.jobs]
    order.answered(found)
    return []


def _last(claimed: Sequence[Claimed], apart: Container[str]) -> tuple[int, int] | None:
    """The last that was claimed in the order of its scan. (Suspects, what has limits, and types `apart` have others.)"""
    behind = [job for job in claimed if not (job.suspicion or job.limit_key is not None or job.type in apart)]
    return max(map(order_of, behind), default=None)


def _share(whole: Mapping[tuple[str, str | None], Scanned], scan: Scan) -> Scanned:
    """What one of the submitters of a merged scan has of it: in the order in which they came."""
    found = whole[scan.queue, scan.lane]
    share = found.jobs[: scan.limit]
    del found.jobs[: scan.limit]
    return msgspec.structs.replace(found, jobs=share)
