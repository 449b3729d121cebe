"""`asyncjobs dashboard`: the pages for operators, served alone. The only file that knows uvicorn.

Who may see them is decided before anything listens: by a token, or by saying that anybody on this machine may. The socket is
bound first, so that a port that is taken is one line, and no half-started server.
"""

import ipaddress
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from asyncjobs.cli.failures import BadInput
from asyncjobs.cli.kit import Asked, Group, Number, argument, option, verb
from asyncjobs.cli.logs import LOG_OPTIONS, log
from asyncjobs.open.signals import handled
from asyncjobs.telemetry.logs import Level, Style

VARIABLE: Final = "ASYNCJOBS_DASHBOARD_TOKEN"
_LIBRARIES: Final = ("jinja2", "starlette", "uvicorn")


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(
        program,
        "dashboard",
        argument("named", metavar="[MODULE:ATTR]", required=False),
        option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
        option("--port", type=Number(0, 65_535), default=8080, show_default=True, help="The port; 0: a free one."),
        option(
            "--token",
            envvar=VARIABLE,
            metavar="SECRET",
            help=f"What operators log in with, 16 characters or more.  [env: {VARIABLE}]",
        ),
        option("--allow-anonymous", is_flag=True, help="Let in whoever sits at this machine; for a loopback address only."),
        option("--read-only", is_flag=True, help="Show everything, change nothing."),
        *LOG_OPTIONS,
        opens=False,
    )(dashboard)


async def dashboard(
    asked: Asked,
    host: str,
    port: int,
    token: str | None,
    *,
    log_level: Level,
    log_format: Style | None,
    allow_anonymous: bool,
    read_only: bool,
) -> None:
    """Serve the dashboard until SIGTERM or SIGINT: queues, jobs, keys, dead letters, schedules, runners, breakers.

    Somebody has to be allowed in: give --token, better by the environment than in the list of processes, or --allow-anonymous.
    Who uses which verb is in the log, on standard error, and in the audit.

    Under a name of its own, with TLS, mount it in your app instead: see asyncjobs.dashboard.
    """
    if (token is None) != allow_anonymous:
        raise BadInput(f"who may see the dashboard? Say --token (or ${VARIABLE}), or --allow-anonymous; one of them.")
    if allow_anonymous and not _is_loopback(host):
        raise BadInput(f"--allow-anonymous is for this machine alone, and {host} is not: listen on 127.0.0.1, or say --token.")
    log(log_level, log_format)
    async with asked.jobs:  # its log is as was said from its first line on
        page = _page(asked, token, allow_anonymous=allow_anonymous, read_only=read_only)
        with _bound(host, port) as listener:
            shown = f"[{host}]" if ":" in host else host
            asked.note(f"the dashboard is at http://{shown}:{listener.getsockname()[1]}/; stop it with SIGTERM or Ctrl-C.")
            await _serve(page, listener)


def _page(asked: Asked, token: str | None, *, allow_anonymous: bool, read_only: bool) -> Any:
    try:
        from asyncjobs.dashboard import Dashboard
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return Dashboard(asked.jobs, auth=token, allow_anonymous=allow_anonymous, read_only=read_only)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def _bound(host: str, port: int) -> Generator[socket.socket]:
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=kind)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        raise BadInput(f"cannot listen on {host}, port {port}: {why}. Say another --port or --host.") from None
    with listener:
        yield listener


async def _serve(page: Any, listener: socket.socket) -> None:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise _missing(error) from None

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            """Signals are ours: uvicorn raises them once more at its end."""
            yield

    # A page that is told news keeps its connection: it is not waited for.
    config = uvicorn.Config(page, lifespan="off", proxy_headers=False, log_level="warning", timeout_graceful_shutdown=1)
    server = Server(config)

    def stop() -> None:
        server.force_exit = server.should_exit  # the second time at once
        server.should_exit = True

    with handled(stop):
        await server.serve(sockets=[listener])


def _missing(error: ModuleNotFoundError) -> BadInput:
    name = (error.name or "").partition(".")[0]
    if name not in _LIBRARIES:
        raise error
    return BadInput(f'the dashboard needs {name}, which is not installed: pip install "asyncjobs[cli,dashboard]".')
