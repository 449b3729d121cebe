"""Single keys of a person at a terminal, as they are pressed.

The terminal echoes nothing and waits for no Enter meanwhile; Ctrl-C stays a signal. It is put back whatever ends the block. A
stopped and continued process (Ctrl-Z, fg) gets its terminal as the shell left it, so the mode is set anew then.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

_ARROWS: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}


def is_there() -> bool:
    """Whether somebody can press keys here."""
    return sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def keys() -> Generator["asyncio.Queue[str]"]:
    """The keys that are pressed while the block runs: characters, `up` and `down`. Needs `is_there`, and a running loop."""
    import termios
    import tty

    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    pressed: asyncio.Queue[str] = asyncio.Queue()
    before: list[Any] = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, _read, terminal, pressed, loop)
    loop.add_signal_handler(signal.SIGCONT, tty.setcbreak, terminal)
    try:
        yield pressed
    finally:
        loop.remove_signal_handler(signal.SIGCONT)
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(terminal: int, pressed: "asyncio.Queue[str]", loop: asyncio.AbstractEventLoop) -> None:
    raw = os.read(terminal, 1024)
    if not raw:  # the terminal is gone
        loop.remove_reader(terminal)
        pressed.put_nowait("q")
    for key in named(raw.decode(errors="replace")):
        pressed.put_nowait(key)


def named(text: str) -> list[str]:
    """The keys in what a terminal sent: an arrow is three characters."""
    found: list[str] = []
    while text:
        arrow = _ARROWS.get(text[:3])
        found.append(arrow or text[0])
        text = text[3:] if arrow else text[1:]
    return found
