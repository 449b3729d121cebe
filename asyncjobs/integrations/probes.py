"""Probes over HTTP for processes that serve nothing else: `/live` and `/ready`, for Kubernetes and its like.

They are answered by threads of their own. So a handler that blocks the event loop does not fail the liveness probe before
`stall_limit`, when the runner has given itself up and nothing but a new process helps. A database that is away is no reason to
start processes anew either: it makes them unready, never dead. Readiness is asked in the event loop, and a loop that does not
answer within a second is not ready.

An app that serves HTTP answers from `jobs.health()` itself, in its own loop: `is_alive`, `is_ready`, `problems`.
"""

from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar, Final, cast

from asyncjobs.app import AsyncJobs

_ANSWER_SECONDS: Final = 1.0


@contextmanager
def serve_probes(jobs: AsyncJobs, /, *, host: str = "", port: int = 8080, runs: bool = True) -> Generator[int]:
    """Answer probes while the context lasts, on every interface unless a host is named; the port (0: a free one).

    Before `jobs` is open and after it is closed it is alive, and not ready; nor is it before a runner has started, unless
    `runs=False` says that the process only enqueues. OSError when the port is taken.
    """
    server = _Server((host, port), _Probe)
    server.jobs, server.runs = jobs, runs
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="asyncjobs probes", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that says nothing must not hold up the end
    jobs: AsyncJobs
    runs: bool


class _Probe(BaseHTTPRequestHandler):
    """One request."""

    timeout: ClassVar[float | None] = 5.0

    def do_GET(self) -> None:
        """Answer."""
        problems = {"/live": _why_dead, "/ready": _why_unready}.get(self.path.partition("?")[0])
        if problems is None:
            self._answer(HTTPStatus.NOT_FOUND, "there are /live and /ready")
        elif found := problems(cast("_Server", self.server)):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(found))
        else:
            self._answer(HTTPStatus.OK, "ok")

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A line for each probe would be noise."""


def _why_dead(server: _Server) -> list[str]:
    # Plain reads, from another thread on purpose: the loop may stand still.
    return [
        f"runner {runner.id}: the event loop has not turned for {beating.loop_stalled_seconds:.0f} s"
        for runner in list(server.jobs.runners)
        if (beating := runner.heartbeat).loop_stalled_seconds >= beating.stall_limit_seconds
    ]


def _why_unready(server: _Server) -> list[str]:
    answer: Future[list[str]] = Future()
    try:
        server.jobs.loop("a probe was answered").call_soon_threadsafe(
            lambda: answer.set_result(server.jobs.health(runs=server.runs).problems)
        )
        return answer.result(_ANSWER_SECONDS)
    except TimeoutError:
        return ["the event loop does not answer"]
    except RuntimeError:  # NotOpen is one; a loop that was closed meanwhile says no more
        return ["the app is not open"]
