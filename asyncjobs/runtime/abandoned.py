"""Handlers that ignore their cancellation must not keep a process from ending (P10).

`asyncio.run` waits for every task there is. And when the interpreter takes an unfinished coroutine apart it throws GeneratorExit
into it, which `except BaseException: pass` in a loop ignores as well: the process would spin for ever. So no stop waits for an
abandoned task, and its coroutine is never taken apart: a thread that waits for nothing holds it beyond the interpreter's end.
"""

import asyncio
import threading
from typing import Final

_kept: Final[set[asyncio.Task[None]]] = set()
_keeper: list[threading.Thread] = []


def hide(task: "asyncio.Task[None]") -> None:
    """Keep the task from code that ends all tasks. The caller sees to it that the loop goes on until it is done."""
    asyncio.tasks._unregister_task(task)  # noqa: SLF001 - documented, for those who write tasks of their own


def abandon(task: "asyncio.Task[None]") -> None:
    """Let the task run on if its loop does, and let the loop and the process end without it."""
    hide(task)
    _kept.add(task)
    task.add_done_callback(_kept.discard)
    if not _keeper:
        _keeper.append(threading.Thread(target=_keep, args=(_kept,), name="abandoned handlers", daemon=True))
        _keeper[0].start()


def _keep(tasks: "set[asyncio.Task[None]]") -> None:
    threading.Event().wait()
    tasks.clear()
