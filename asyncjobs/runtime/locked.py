"""Outcomes whose rows another transaction holds: they are set aside, so that all others of the runner go on.

A caller's transaction may be open for as long as its owner likes, with an operator's verb in it, or an enqueue with the dedup key
of a job that runs. The calls of a runner carry the outcomes and the claims of all its jobs (P4). So:

1. A call gives up waiting for a lock after a moment (`lock_timeout` of the functions in `routines/finish`). Nothing was written
   then, and nothing claimed.
2. One statement looks which of its jobs are locked. These are set aside, and the others go with the next call, at once.
3. If none is, the lock is of something else that an outcome needs, or was let go meanwhile: the outcomes are sent in halves,
   without scans, until the one that waits is alone. It is set aside, too.
4. What was set aside is looked at every quarter of a second, since nothing tells when a stranger's transaction ends. A job that
   is locked no more goes with the next call. Those of rule 3 are sent alone, one after the other, until one waits again.
5. What was set aside is unwritten like any other outcome: its claim is ours, and a stop waits for it.
"""

import time
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from asyncjobs.model.claim import Ack
from asyncjobs.runtime.ledger import Ledger
from asyncjobs.store import jobs
from asyncjobs.store.database import Link

_PAUSE_SECONDS: Final = 0.25


class Locked:
    """What is set aside of the unwritten outcomes of one call line."""

    def __init__(self, link: Link, ledger: Ledger) -> None:
        self._link = link
        self._ledger = ledger
        self._aside: dict[int, bool] = {}  # by token: whether it is to be sent alone
        self.due_at = inf  # when they are to be looked at

    def __contains__(self, ack: Ack) -> bool:
        return ack.token in self._aside

    def has_others(self) -> bool:
        """Whether any outcome is to be written now."""
        return bool(self.others(1)) if self._aside else self._ledger.has_ready

    def others(self, limit: int) -> list[Ack]:
        """Outcomes that are to be written now: neither locked nor refused."""
        if not self._aside:
            return self._ledger.ready(limit)
        return self._ledger.ready(limit, self._aside)

    def in_turn(self, acks: Sequence[Ack]) -> Sequence[Ack]:
        """Those of these that have nothing in front of them in their run that is set aside."""
        if not self._aside and not self._ledger.aside:
            return acks
        kept: dict[int, int] = {}  # by run, by identity
        for token, ack in self._ledger.unwritten.items():
            if ack.followers is not None and (token in self._aside or self._ledger.is_aside(ack)):
                kept[id(ack.followers)] = min(ack.number, kept.get(id(ack.followers), ack.number))
        return [ack for ack in acks if ack.number <= kept.get(id(ack.followers), ack.number)]

    async def find(self, acks: Sequence[Ack]) -> bool:
        """Set those aside whose jobs are locked, of a call that waited; whether any is."""
        locked = await jobs.locked(self._link, acks)
        for ack in acks:
            if ack.id in locked:
                self._set_aside(ack, alone=False)
        return bool(locked)

    def add(self, ack: Ack) -> None:
        """This one waits, for whatever lock."""
        self._set_aside(ack, alone=True)

    def _set_aside(self, ack: Ack, *, alone: bool) -> None:
        self._aside[ack.token] = alone
        self.due_at = min(self.due_at, time.monotonic() + _PAUSE_SECONDS)

    async def look(self) -> None:
        """Let those go that are locked no more."""
        self.due_at = inf
        unwritten = self._ledger.unwritten
        was = [(unwritten[token], alone) for token, alone in self._aside.items() if token in unwritten]
        self._aside.clear()
        for ack, alone in was:  # whatever becomes of the look
            self._set_aside(ack, alone=alone)
        whole = [ack for ack, alone in was if not alone]
        locked = await jobs.locked(self._link, whole) if whole else ()
        for ack in whole:
            if ack.id not in locked:
                del self._aside[ack.token]

    def alone(self) -> Iterator[Ack]:
        """Those that are to be sent alone, which are set aside no more."""
        for token in [token for token, alone in self._aside.items() if alone]:
            del self._aside[token]
            if token in self._ledger.unwritten:
                yield self._ledger.unwritten[token]
