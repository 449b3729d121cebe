"""A call line that answers when the test says so."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from asyncjobs.model.claim import Ack, Claimed, Scan
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.orders import NoAnswer, Order, Scanned


class _Awaited(msgspec.Struct, eq=False):
    """An order that a test waits for."""

    scans: Sequence[Scan]
    answer: "asyncio.Future[list[Scanned]]"
    head_of: None = None

    @property
    def is_over(self) -> bool:
        return self.answer.done()

    def answered(self, found: list[Scanned]) -> None:
        self.answer.set_result(found)

    def refused(self) -> None:
        self.answer.set_exception(NoAnswer())


async def found_by_line(line: CallLine, scans: Sequence[Scan]) -> list[Scanned]:
    """What these scans find, made with the next call of a line; NoAnswer."""
    order = _Awaited(scans, asyncio.get_running_loop().create_future())
    line.hand_in(order)
    return await order.answer


class Line:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.open = asyncio.Event()
        self.open.set()
        self.asked: list[tuple[list[Scan], asyncio.Future[list[Scanned]]]] = []
        self.looks: list[tuple[list[tuple[str, str | None]], asyncio.Future[Any]]] = []
        self.looked_from: list[tuple[int, int]] = []  # the start of the first lane of each
        self.orders: list[Order] = []  # likewise
        self.at_once: list[bool] = []  # likewise: whether it goes without waiting for others
        self.heads: list[Ack | None] = []  # by call that was asked for: whose next head it is for
        self.put_: list[Ack] = []
        self.on_ask: Callable[[], None] = lambda: None
        self.given_back: list[int] = []

    def hand_in(self, order: Order, *, at_once: bool = False) -> None:
        self.on_ask()
        self.heads.append(order.head_of)
        self.at_once.append(at_once)
        self.orders.append(order)
        answer: asyncio.Future[list[Scanned]] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: order.refused() if answer.exception() else order.answered(answer.result()))
        self.asked.append(([*order.scans], answer))

    def refuse(self) -> None:
        """No call is made any more."""
        for order, (_, answer) in zip(self.orders, self.asked, strict=True):
            if not (answer.done() or order.is_over):
                answer.set_exception(NoAnswer())

    async def look(self, starts: Mapping[tuple[str, str | None], tuple[int, int]]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.looks.append(([*starts], answer))
        self.looked_from.append(next(iter(starts.values())))
        return await answer

    async def wait_open(self) -> None:
        await self.open.wait()

    @property
    def is_open(self) -> bool:
        return self.open.is_set()

    def put(self, ack: Ack) -> None:
        self.put_.append(ack)

    def give_back(self, claimed: Sequence[Claimed], **_: Any) -> None:
        self.given_back += [job.id for job in claimed]
