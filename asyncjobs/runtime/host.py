"""What an acker needs of its runner, and the tokens of its claims."""

from collections.abc import Collection
from typing import Protocol

from asyncjobs.model.claim import Claimed, Scan


class Host(Protocol):
    """What the acker needs of its runner."""

    @property
    def runner_id(self) -> int:
        """Under which the runner is registered now."""
        ...

    @property
    def other_runners(self) -> int:
        """How many other runners are alive, as far as is known."""
        ...

    @property
    def is_confirmed(self) -> bool:
        """Whether nobody can have declared this runner dead yet."""
        ...

    def running_ids(self) -> Collection[int]:
        """The jobs whose handlers run here, or whose completion inside a transaction is not settled yet."""
        ...

    def may_take_suspect(self, scan: Scan) -> bool:
        """Whether a suspect may be claimed with this scan: none is on probation here, and there is a slot for it now."""
        ...

    def start_attempt(self, job: Claimed, scan: Scan) -> None:
        """Run a claimed job, in a slot of the scan that found it."""

    def declared_dead(self) -> None:
        """The runner's own row is gone."""


class Tokens:
    """Claim tokens: a random base of this runner and a number for each claim, handed out once even if the call was lost."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._next = 0

    def take(self, count: int) -> int:
        """Numbers for `count` rows: the one before the first."""
        first = self._next
        self._next = (self._next + count) % 2**32
        return first

    @property
    def last(self) -> int:
        """The last token that was drawn."""
        return (self.base << 32) | self._next

    def next(self) -> int:
        """A token."""
        return (self.base << 32) | (self.take(1) + 1) % 2**32
