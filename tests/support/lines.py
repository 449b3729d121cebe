"""A call line that answers when the test says so."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from asyncjobs.model.claim import Ack, Claimed, Scan
from asyncjobs.runtime.orders import Order, Scanned


class Line:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.open = asyncio.Event()
        self.open.set()
        self.asked: list[tuple[list[Scan], asyncio.Future[list[Scanned]]]] = []
        self.looks: list[tuple[list[tuple[str, str | None]], asyncio.Future[Any]]] = []
        self.heads: list[Ack | None] = []  # by call that was asked for: whose next head it is for
        self.put_: list[Ack] = []
        self.on_ask: Callable[[], None] = lambda: None
        self.given_back: list[int] = []

    async def submit(self, acks: Sequence[Ack], scans: Sequence[Scan]) -> list[Scanned]:
        return await self._ask(acks, scans, None)

    def hand_in(self, order: Order) -> None:
        self._ask((), order.scans, order.head_of).add_done_callback(
            lambda answer: order.refused() if answer.exception() else order.answered(answer.result())
        )

    def _ask(self, acks: Sequence[Ack], scans: Sequence[Scan], head_of: Ack | None) -> "asyncio.Future[list[Scanned]]":
        self.put_ += acks
        self.on_ask()
        self.heads.append(head_of)
        answer: asyncio.Future[list[Scanned]] = asyncio.get_running_loop().create_future()
        self.asked.append(([*scans], answer))
        return answer

    async def linger(self) -> None:
        await asyncio.sleep(0)

    async def look(self, lanes: Sequence[tuple[str, str | None]]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.looks.append(([*lanes], answer))
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
