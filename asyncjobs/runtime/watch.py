"""Many jobs of one app, watched until they have ended.

However many they are, a look is one statement, and there is no task. What ends in this process is told (`runtime/wakes.py`), and
looked at by its id; everything else is found by looking at all that is missing, `BATCH` ids at a time, in turns. Whether a job
is there at all is asked once of each, and again when a look has found nothing.

When to look (`Pace`): the cheaper a look, the sooner. Looks are at first 20 ms apart, or a fifth of a millisecond for each job
that is missing, then half as long again each time, up to a third of a second: three a second. When the last of what is missing
was told there is nothing to wait for: one look more. The caller is woken for the first that is told and for the last (woken for
each, it took half as long again as 10,000 jobs that do nothing).

Where nothing is told, since the jobs run in other processes, looks are up to half a second apart. One that saw some end lets the
next ones come in equal steps up to when the last will have ended, at this pace. (At fixed steps the caller knew of the last of
10,000 jobs that took 0.54 s half a second late; now 0.1 s.) Such a look is made within a third of a second of the one before if
there were fewer than three a second until then.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from math import ceil
from typing import Final

from asyncjobs.model.ending import Ending
from asyncjobs.runtime.open_app import OpenApp

#: Ids of one statement.
BATCH: Final = 10_000
_FIRST_SECONDS: Final = 0.02
_FOR_EACH_SECONDS: Final = 0.0002
_APART_SECONDS: Final = 1 / 3
_FIRST_POLL_SECONDS: Final = 0.2
_POLL_SECONDS: Final = 0.5
_SLOWER: Final = 1.5
#: The last of many may take longer than those before.
_SLACK: Final = 1.05
#: Of half a second, by which a last step may be longer.
_OVER: Final = 0.1


class Watch:
    """The jobs of one open app that a caller waits for. `missing` are those that have not been seen to end."""

    def __init__(self, opened: OpenApp, ids: Iterable[int], told: Callable[[], None]) -> None:
        self.missing: dict[int, None] = dict.fromkeys(ids)  # those that a look has seen longest ago come first
        self._opened = opened
        self._told: dict[int, None] = {}
        self._unasked = len(self.missing)  # of which no look has asked whether they are there
        self._found = True
        self._tell = told
        self._forget = opened.wakes.wait_for(tuple(self.missing), self._ended)

    def close(self) -> None:
        """Watch no longer."""
        self._forget()

    @property
    def has_news(self) -> bool:
        """Whether some of what is missing ended in this process."""
        return bool(self._told)

    @property
    def has_all(self) -> bool:
        """Whether all of it did, or nothing is missing."""
        return len(self._told) == len(self.missing)

    def _ended(self, job_id: int) -> None:
        told = self._told
        if job_id in self.missing:
            told[job_id] = None
            if len(told) == 1 or len(told) == len(
                self.missing
            ):  # in between there is nothing new to be done: each would be a turn
                self._tell()

    async def look(self, *, everywhere: bool) -> list[Ending]:
        """Those that have ended, or are not there: among those that were told, and with `everywhere` also among others."""
        ids = list(islice(self._told, BATCH))
        if everywhere:
            others = (job_id for job_id in self.missing if job_id not in self._told)
            ids += islice(others, BATCH - len(ids))
        if not ids:
            return []
        for job_id in ids:  # what is told from here on may be too late for this look
            self._told.pop(job_id, None)
        gone = everywhere and (self._unasked > 0 or not self._found)
        ended = await self._opened.ended_among(ids, gone=gone)
        if everywhere:
            self._unasked -= len(ids)
            self._found = bool(ended)
        for one in ended:
            del self.missing[one.id]
            self._told.pop(one.id, None)
        if len(self.missing) > BATCH:
            self._last(ids)
        return ended

    def _last(self, ids: Iterable[int]) -> None:
        """Those of them that are missing are to be looked at last."""
        for job_id in ids:
            if job_id in self.missing:
                del self.missing[job_id]
                self.missing[job_id] = None


class Pace:
    """When to look next. Instants are those of the loop's clock."""

    def __init__(self, missing: int, now: float) -> None:
        self._apart = min(max(missing * _FOR_EACH_SECONDS, _FIRST_SECONDS), _APART_SECONDS)
        self._poll = min(self._apart, _FIRST_POLL_SECONDS)
        self._began_at = self._poll_at = now
        self._looked_at = self._polled_at = now - _POLL_SECONDS
        self._looks = 0
        self._has_polled = False
        self._missing = missing

    def next_at(self, *, has_news: bool) -> float:
        """When the next look is due."""
        if has_news:
            return self._looked_at + self._apart
        saved = self._began_at + (self._looks - 1) * _APART_SECONDS - self._looked_at  # three a second, and one more
        return max(self._poll_at, self._looked_at + max(min(self._apart, saved), _FIRST_SECONDS))

    def is_poll_due(self, now: float) -> bool:
        """Whether a look now is one at everything."""
        return now >= self._poll_at

    def looked(self, now: float, *, began_at: float, everywhere: bool, missing: int) -> None:
        """Take note of a look: it saw how things were when it began, and after it so many are missing."""
        self._looked_at = now
        self._looks += 1
        self._apart = min(self._apart * _SLOWER, _APART_SECONDS)
        if everywhere:
            self._poll_at = began_at + self._step(began_at, missing)
            self._poll = min(self._poll * _SLOWER, _POLL_SECONDS)
            self._polled_at, self._missing, self._has_polled = began_at, missing, True

    def _step(self, now: float, missing: int) -> float:
        """Seconds to the next look at everything."""
        ended = self._missing - missing
        if ended <= 0 or not self._has_polled:
            return self._poll
        left = (now - self._polled_at) * missing / ended * _SLACK + _FIRST_SECONDS
        return left / max(ceil(left / _POLL_SECONDS - _OVER), 1)
