"""The command line as process 1 of a container: what an init does, so that none has to be put in front of it.

1. The program itself runs in a child. A signal that would end a program by default is not delivered to process 1, so one that
   comes before the runner minds it would be lost, and the orchestrator would wait until it kills.
2. What others send is handed on. What the terminal sends (Ctrl-C) the child gets by itself: twice would cut the grace short.
3. Every process that ends is reaped, also those whose parents ended before them: nobody else does, and each keeps its place in
   the table of processes.
4. The exit code is the child's; 128 + n if signal n ended it. Whatever still runs then is ended by the kernel.
"""

import os
import signal
from typing import Final

_HANDED_ON: Final = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGCONT,
    }
    if os.name == "posix"
    else ()
)


def leave_process_one() -> None:
    """As process 1: return in a child, and stay behind as its init. Any other process just goes on."""
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDED_ON | {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os._exit(_as_init(child))


def _as_init(child: int) -> int:
    """Hand on and reap until the child has ended; its exit code."""
    while True:
        told = signal.sigwaitinfo(_HANDED_ON | {signal.SIGCHLD})
        if told.si_signo != signal.SIGCHLD:
            if told.si_code <= 0:  # above are those that the kernel sends, to all that sit at the terminal
                os.kill(child, told.si_signo)
        elif (status := _reaped(child)) is not None:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _reaped(child: int) -> int | None:
    """Reap all that have ended; the status of the child if it is one of them. One signal may stand for many."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid == 0:
            return None
