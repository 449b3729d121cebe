"""The slots of one kind on one runner: a semaphore whose slots are taken without waiting.

There is one for the general slots of a queue, and one for each lane that keeps some. A coordinator takes what is free, claims
that many jobs, and gives back what it has no use for; an attempt has one until its handler has ended.

Every step checks the sum (P13): none is free that there is not, and none is taken that is not free. (All at once, since a
runner of 250 slots that looks for one job takes and gives back 250: one by one that was 0.1 ms of each pickup.)
"""

import asyncio


class SlotsError(AssertionError):
    """The slots do not add up: a defect of asyncjobs, never of a job."""


class Slots(asyncio.Semaphore):
    """Room for attempts. Nothing of a runner waits in `acquire`: work comes to what is free."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    @property
    def free(self) -> int:
        """How many can be taken now."""
        return self._value

    @property
    def taken(self) -> int:
        """How many are in use."""
        return self.size - self._value

    def take_free(self) -> int:
        """Take all that are free, without waiting for any; how many these are."""
        return self.take(self._value)

    def take(self, most: int) -> int:
        """Take so many, or as many as are free, without waiting for any; how many these are."""
        count = min(most, self._value)
        self._value -= count
        return count

    def give_back(self, count: int = 1) -> None:
        """So many are not needed any more."""
        if not self._value <= (free := self._value + count) <= self.size:
            raise SlotsError(f"{count} slots are given back, and {self.taken} are taken of {self.size}")
        self._value = free
        if count and self._waiters:  # a stranger's: nothing of a runner waits
            self._value -= 1
            super().release()

    def release(self) -> None:
        """One is not needed any more."""
        self.give_back()
