"""The end of `asyncjobs run` when its loop, or a thread that the interpreter waits for, does not let it end.

A stop keeps its time by the event loop. A handler that blocks the loop keeps the signal from being heard at all, and one that
called `asyncio.to_thread` leaves a thread that both `asyncio.run` and the interpreter's exit join: processes were seen to go on
for as long as such a call took. So a thread waits from the start on; the signal's handler, which Python runs even while the main
thread sleeps, tells it by a byte in a pipe. It takes no lock and logs nothing, since the thread that hangs may hold any lock.

When it is over the process is gone as if it had been killed: what it still ran is left to the rescue. Only C code that neither
returns nor lets go of the interpreter's lock stops this, too.
"""

import os
import select
import threading
import time
from typing import Final

#: Beyond the grace: a stop takes one second of it at most, and a machine that is busy may need the other.
AFTER_GRACE_SECONDS: Final = 2.0
CODE: Final = 1
_WORDS: Final = (
    b"asyncjobs: something did not let this process end in time: it ends now. What it still ran is left to the rescue.\n"
)


class Deadline:
    """Ends the process so long after the first `tell`; the second says that the grace is cut short. Never taken back."""

    def __init__(self, grace_seconds: float, *, quiet: bool = False) -> None:
        self._grace_seconds = grace_seconds
        self._words = b"" if quiet else _WORDS
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()

    def tell(self) -> None:
        """The process is told to end. Safe in a signal's handler."""
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            return  # 65,536 signals are enough

    def _watch(self) -> None:
        os.read(self._read, 1)
        ends_at = time.monotonic() + self._grace_seconds + AFTER_GRACE_SECONDS
        if self._is_signalled_again(ends_at):
            time.sleep(min(AFTER_GRACE_SECONDS, max(0, ends_at - time.monotonic())))
        if self._words:
            os.write(2, self._words)
        os._exit(CODE)

    def _is_signalled_again(self, ends_at: float) -> bool:
        return bool(select.select([self._read], [], [], max(0, ends_at - time.monotonic()))[0])
