"""Child processes of the demo: each serves HTTP on a socket that the parent holds, and none outlives the parent.

The parent keeps the listening socket open, so a child that was killed can be started again on the same port: what connects
meanwhile waits, and what was connected is cut off, as with a real crash.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self


class Child:
    """`python -m module *args FD`, where FD is a socket listening on 127.0.0.1. Its output goes to `log`."""

    def __init__(self, module: str, *args: str, log: Path, environment: dict[str, str] | None = None) -> None:
        self._command = [sys.executable, "-m", module, *args]
        self._log = log
        self._environment = os.environ | (environment or {})
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def start(self) -> None:
        """Start the process. It ends by itself when its standard input, a pipe from this process, is closed."""
        fd = self._socket.fileno()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [*self._command, str(fd)], stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[fd], env=self._environment
            )

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End the process with SIGKILL: nothing in it gets to say good-bye."""
        if self._process is not None:
            self._process.kill()
            self._reap(self._process, timeout=10)

    def stop(self, *, timeout: float = 15) -> None:
        """End the process with SIGTERM, after `timeout` seconds with SIGKILL, and give the port back."""
        if self._process is not None:
            self._process.terminate()
            self._reap(self._process, timeout=timeout)
        self._socket.close()

    @staticmethod
    def _reap(process: subprocess.Popen[bytes], *, timeout: float) -> None:
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def listening_socket(fd: int | None = None) -> socket.socket:
    """The socket handed down by the parent; without one, a new one on 127.0.0.1 and any free port."""
    return socket.create_server(("127.0.0.1", 0)) if fd is None else socket.socket(fileno=fd)


def end_with_parent() -> None:
    """Have this process get SIGTERM when its standard input ends, which it does when the parent is gone."""

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin: its lock would be held at exit
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()
