"""What duties do when the database refuses one row of a statement of many: a stranger's trigger, a row that no index holds.

1. A statement of many rows is tried as a whole. Where it is refused, which row it was is found by halves, down to single ones: a
   refusal may come with the commit, and need not name its row. What passes by itself (a conflict, a lost connection) is no
   refusal, and ends the pass.
2. A row that is refused alone is **set aside**: the statements of the others are made without it. It is tried by itself after
   0.1 s, then after twice as long each time, up to 30 s, until it is written. Each refusal is told (`RowRefused`), and `health`
   counts them.
3. One search makes at most 60 statements, and so many that were set aside are tried in a pass: what is left over is left to the
   next.
4. It is this process's memory, of 1,000 rows at most: the oldest go back among the others. Another runner finds out for itself.

Acks have their own (`runtime/ledger.py`, 5): there the row is this runner's.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.store.failures import is_refused
from asyncjobs.telemetry.events import Events, RowRefused

K = TypeVar("K", bound=int | str)
T = TypeVar("T")

_LONGEST_SECONDS: Final = 30.0
_MOST_STATEMENTS: Final = 60
_MOST_ROWS: Final = 1_000


class _Refusals(msgspec.Struct):
    """How often it was refused, and when it is tried again."""

    count: int = 0
    due_at: float = 0.0


class SetAside(Generic[K]):
    """The rows that the database refuses to one duty. `kind`: what they are, in a word."""

    def __init__(self, during: str, kind: str, events: Events) -> None:
        self._during = during
        self._kind = kind
        self._events = events
        self._rows: dict[K, _Refusals] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> list[K]:
        """Those that the statements of others leave out."""
        return list(self._rows)

    @property
    def due_seconds(self) -> float:
        """Until one of them is to be tried again."""
        return max(min((one.due_at for one in self._rows.values()), default=float("inf")) - time.monotonic(), 0.0)

    async def unless_refused(
        self, statement: Awaitable[T], rows: Callable[[], Awaitable[list[K]]], do: Callable[[list[K]], Awaitable[None]]
    ) -> T | None:
        """The answer of a statement that finds its rows itself. None: it was refused; they were found, and done as in `whole`."""
        try:
            return await statement
        except Exception as error:
            if not is_refused(error) or not (found := await rows()):
                raise
            await self.whole(found, do)
            return None

    async def whole(self, rows: Sequence[K], do: Callable[[list[K]], Awaitable[None]]) -> list[K]:
        """Do it to all of these, as many at once as the database takes; returns those to which it was not done."""
        left: list[K] = []
        waiting = [[*rows]] if rows else []
        for _ in range(_MOST_STATEMENTS):
            if not waiting:
                break
            part = waiting.pop()
            try:
                await do(part)
            except Exception as error:
                if not is_refused(error):
                    raise
                if len(part) == 1:
                    self._refuse(part[0], error)
                    left += part
                else:
                    waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                continue
            for row in part:
                self._rows.pop(row, None)
        return left + [row for part in waiting for row in part]

    async def due(self, do: Callable[[list[K]], Awaitable[None]]) -> None:
        """Try those again whose time has come, each by itself."""
        now = time.monotonic()
        for row in [row for row, one in self._rows.items() if one.due_at <= now][:_MOST_STATEMENTS]:
            await self.whole([row], do)

    def _refuse(self, row: K, error: Exception) -> None:
        refusals = self._rows.setdefault(row, _Refusals())
        refusals.count += 1
        seconds = backoff_seconds(refusals.count, _LONGEST_SECONDS, 0.0)
        refusals.due_at = time.monotonic() + seconds
        if len(self._rows) > _MOST_ROWS:
            del self._rows[next(iter(self._rows))]
        named = f'{self._kind} "{row}"' if isinstance(row, str) else f"{self._kind} {row}"
        self._events.emit(
            RowRefused(during=self._during, row=named, error=error, refusals=refusals.count, again_in_seconds=seconds)
        )
