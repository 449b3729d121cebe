"""`asyncjobs top`: how things are, again and again; at a terminal with keys that hold queues back and let them go."""

import asyncio
import getpass
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

from asyncjobs.admin import Admin
from asyncjobs.cli import keyboard, screen
from asyncjobs.cli.kit import Asked, Group, Number, option, verb
from asyncjobs.cli.queues import QueueState, queue_states, queue_table
from asyncjobs.cli.stats import counts_table
from asyncjobs.store.overview import Stats

_HOME: Final = "\x1b[H\x1b[2J"  # the cursor goes to the corner, and the screen is empty
_WINDOW: Final = 300.0
_MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1}
_KEYS: Final = "up/down choose a queue   p pause   r resume   space look now   q end"


def add_to(program: Group) -> None:
    """Declare the verb."""
    every = option("--every", type=float, default=2.0, show_default=True, metavar="SECONDS", help="Look so often.")
    times = option("--times", type=Number(min=1), metavar="N", help="Look so many times.  [default: until q or Ctrl-C]")
    verb(program, "top", every, times)(top)


async def top(asked: Asked, every: float, times: int | None) -> None:
    """Watch queues, slots, rates and who leads, until Ctrl-C; at a terminal the arrows choose a queue, p pauses and r resumes it.

    With --json: the depths of queues, a document for each look.
    """
    view = _View(asked.admin.acting(getpass.getuser()))
    with ExitStack() as stack:
        pressed = stack.enter_context(keyboard.keys()) if keyboard.is_there() and not asked.as_json else None
        looks = 0
        while True:
            if asked.as_json:
                asked.answer(await asked.admin.sample(), str)
            else:
                text = await view.look(has_keys=pressed is not None)
                asked.say(f"{_HOME}{text}" if screen.is_terminal() else text)
            looks += 1
            if times is not None and looks >= times:
                return
            if pressed is None:
                await asyncio.sleep(every)
            elif not await view.obey(pressed, every):
                return


class _View:
    """What is looked at, and the queue that is chosen."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._queues: list[QueueState] = []
        self._chosen: str | None = None
        self._message = ""

    async def obey(self, pressed: "asyncio.Queue[str]", seconds: float) -> bool:
        """Do what the next key says, if one is pressed in time; False: it was the one to end."""
        try:
            async with asyncio.timeout(seconds):
                key = await pressed.get()
        except TimeoutError:
            return True
        if key in _MOVES:
            self._move(_MOVES[key])
        elif key in "pr":
            await self._hold(key)
        return key != "q"

    def _move(self, by: int) -> None:
        names = [one.queue for one in self._queues]
        if self._chosen in names:
            self._chosen = names[max(0, min(names.index(self._chosen) + by, len(names) - 1))]

    async def _hold(self, key: str) -> None:
        queue = self._chosen
        if queue is None:
            self._message = "there is no queue"
        elif key == "p":
            made = await self._admin.pause(queue=queue, reason="paused in top")
            self._message = f"{screen.text(queue)} {'is paused' if made.is_new else 'was paused before'}"
        else:
            resumed = await self._admin.resume(queue=queue)
            self._message = f"{screen.text(queue)} {'goes on' if resumed else 'was not paused'}"

    async def look(self, *, has_keys: bool) -> str:
        """The screen."""
        stats = await self._admin.glance()
        self._queues = await queue_states(self._admin, stats)
        names = [one.queue for one in self._queues]
        if has_keys and self._chosen not in names:
            self._chosen = names[0] if names else None
        parts = [_head(stats)]
        if names:
            parts.append(queue_table(self._queues, chosen=self._chosen))
        parts += await self._tables(stats)
        if has_keys:
            parts.append("   ".join(filter(None, (_KEYS, self._message))))
        return "\n\n".join(parts)

    async def _tables(self, stats: Stats) -> list[str]:
        admin = self._admin
        lanes = [(one.queue, one.lane or "(general)", one.runner_id, one.slots, one.in_use) for one in stats.lanes]
        rates = [
            (one.type, one.attempts, one.attempts / _WINDOW, f"{one.error_rate:.1%}", one.run_time.p95)
            for one in await admin.metrics(window=_WINDOW)
        ]
        leaders = [(one.duty, one.runner_id, one.host, one.pid, one.last_pass_at) for one in await admin.leases()]
        tables = (
            (("queue", "lane", "runner", "slots", "in use"), lanes),
            (("type", "attempts in 5 min", "a second", "errors", "run p95"), rates),
            (("duty", "runner", "host", "pid", "last pass"), leaders),
        )
        counts = [counts_table(stats.counts)] if stats.counts else []
        return counts + [screen.table(columns, rows) for columns, rows in tables if rows]


def _head(stats: Stats) -> str:
    return (
        f"{screen.text(datetime.now(UTC))}  pending {stats.pending:,} (oldest {screen.text(stats.oldest_pending_age)})  "
        f"processing {stats.processing:,}  to be retried {stats.failed:,}  dead letters {stats.dead_letters:,}"
    )
