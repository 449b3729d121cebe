"""Fixtures of every test: a server, a database of the test's own, a recorder, and the auditor at the end.

A test marked `matrix("loop", "notify", "schema")` runs once as it is and once more for each axis it names. `--loop`, `--notify`
and `--schema` choose the variant for a whole run, `--odd` a database with unusual settings, and `--pooler` goes through one,
without the tests marked `direct(why)`.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import nullcontext
from typing import Any, Literal, TypeVar

import asyncpg
import hypothesis
import pytest
import structlog
import uvloop

from asyncjobs.runtime import stopping
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.known_types import Knowing
from asyncjobs.telemetry.events import Event, Events
from asyncjobs.testing import Auditor, Databases, Proxy, Recorder, databases
from tests.support.eventually import patience
from tests.support.oddities import ODDITIES, SEQUENCES, make_odd
from tests.support.pooled import pooled
from tests.support.server import running_server

pytest_plugins = ["tests.support.collecting", "tests.support.longest", "tests.support.resume"]

# A shared machine makes any deadline a coin's toss; CI tries the same examples each time, so that a change answers for itself.
hypothesis.settings.register_profile("asyncjobs", deadline=None, print_blob=True, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("asyncjobs")

E = TypeVar("E", bound=Event)

ANOTHER_SCHEMA = 'jobs "ä" x'
LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("asyncjobs")
    group.addoption("--loop", choices=list(LOOPS), default="asyncio", help="the event loop of tests that do not run on both")
    group.addoption("--notify", choices=["auto", "listen", "poll"], default="auto", help="how runners learn of jobs")
    group.addoption("--schema", default="asyncjobs", help="the name of the schema")
    group.addoption("--pooler", choices=["poll", "around"], help="go through PgBouncer, and poll or listen around it")
    group.addoption("--odd", choices=[*ODDITIES, SEQUENCES, "all"], help="make every test's database odd in this way")


def pytest_configure() -> None:
    """A shell's background jobs ignore SIGINT, and so would every program that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def interrupts() -> Generator[None]:
    """Each test leaves the handler of SIGINT that it found: behind one of a run that is over, an interrupt would be lost."""
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) in (before, signal.default_int_handler)


def _axes(item: Any) -> frozenset[str]:
    return frozenset(axis for mark in item.iter_markers("matrix") for axis in mark.args)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    chosen = str(config.getoption("--loop"))
    return LOOPS if "loop" in _axes(item) else {chosen: LOOPS[chosen]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    others = sorted({"notify", "schema"} & _axes(metafunc.definition))
    if others:
        metafunc.fixturenames.append("variant")
        metafunc.parametrize("variant", ["plain", *others], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One axis at a time: uvloop goes with the plain variant only. What a pooler cannot carry is not sent through one."""
    how = config.getoption("--pooler")
    extra = [item for item in items if _is_two_axes(item) or (how and _is_direct(item, how))]
    config.hook.pytest_deselected(items=extra)
    items[:] = [item for item in items if item not in extra]


def _is_direct(item: pytest.Item, how: str) -> bool:
    """Marked `direct("why")`, or with `only="poll"` or `only="around"` for one of both."""
    return any(mark.kwargs.get("only", how) == how for mark in item.iter_markers("direct"))


def _is_two_axes(item: pytest.Item) -> bool:
    params: Mapping[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("variant", "plain") != "plain" and LOOPS["uvloop"] in params.values()


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> str:
    """The axis of the matrix that this run is about; `plain` for none."""
    return str(getattr(request, "param", "plain"))


@pytest.fixture
def schema(request: pytest.FixtureRequest, variant: str) -> str:
    """The schema's name."""
    return ANOTHER_SCHEMA if variant == "schema" else str(request.config.getoption("--schema"))


@pytest.fixture
def notify(request: pytest.FixtureRequest, variant: str) -> Literal["auto", "listen", "poll"]:
    """How runners are to learn of jobs: for `notify=`."""
    option: Any = request.config.getoption("--notify")
    return "poll" if variant == "notify" else option


@pytest.fixture(scope="session")
def server_dsn(request: pytest.FixtureRequest) -> Generator[str]:
    """A superuser's DSN of the tests' server. It is shared: make databases with `database` or `empty_dsn`."""
    how = request.config.getoption("--pooler")
    with running_server() as dsn, pooled(dsn, how) if how else nullcontext():
        yield dsn


@pytest.fixture(scope="session")
def _databases(server_dsn: str) -> Generator[Databases]:
    with databases(server_dsn) as made:
        yield made


@pytest.fixture
def dsn(request: pytest.FixtureRequest, _databases: Databases, schema: str) -> Generator[str]:
    """The DSN of the test's own database, in which `schema` is migrated."""
    made = _databases.create(schema)
    odd = request.config.getoption("--odd")
    if odd is not None:
        make_odd(made, str(odd))
    yield made
    _databases.drop(made)


@pytest.fixture
def jobs_dsn(dsn: str) -> str:
    """The same."""
    return dsn


@pytest.fixture
def empty_dsn(_databases: Databases) -> Generator[str]:
    """The DSN of a database of the test's own with nothing in it."""
    made = _databases.create(None)
    yield made
    _databases.drop(made)


@pytest.fixture
def database(dsn: str, schema: str) -> Database:
    """The test's own database, migrated."""
    return Database(dsn, schema=schema)


@pytest.fixture
async def connection(dsn: str) -> AsyncGenerator[Connection]:
    """A connection of the test's, which the auditor does not take for one of asyncjobs."""
    named = {"application_name": "test"}
    made = await asyncpg.connect(dsn, timeout=10, command_timeout=30, server_settings=named, connection_class=Knowing)
    yield made
    if not made.is_closed():
        await made.close(timeout=5)


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    """A way to the test's database that can be cut, delayed and silenced."""
    async with Proxy(dsn) as made:
        yield made


class PatientRecorder(Recorder):
    """One whose patience is not used up while the machine stands still."""

    async def wait_for(self, kind: type[E], where: Callable[[E], bool] | None = None, *, timeout: float = 5.0) -> E:
        async with patience(timeout):
            return await super().wait_for(kind, where, timeout=3600.0)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What happened in the test's process so far: it watches every app that is made from now on."""
    made = PatientRecorder()
    original = Events.__init__

    def init(self: Events) -> None:
        original(self)
        made.watch(self)

    monkeypatch.setattr(Events, "__init__", init)
    return made


@pytest.fixture
async def auditor(database: Database, recorder: Recorder) -> Auditor:
    """Audits the test's database. It does so by itself when the test is over."""
    return Auditor(database, recorder)


@pytest.fixture
async def _audited(auditor: Auditor) -> AsyncGenerator[None]:
    yield
    await auditor.check()


@pytest.fixture(autouse=True)
def _unhurried_stops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of a second is enough to leave, but not where the machine stands still: what a stop leaves behind is looked at.

    Tests marked `hurried` are about how long it takes.
    """
    if request.node.get_closest_marker("hurried") is None:
        monkeypatch.setattr(stopping, "_LEAVE_SECONDS", 5.0)
        monkeypatch.setattr(stopping, "_AFTER_GRACE_SECONDS", 5.55)


@pytest.fixture(autouse=True)
def _structlog_unconfigured() -> Generator[None]:
    """`structlog.testing.capture_logs` leaves structlog configured: every later test would print a line for each of its jobs."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _audit(request: pytest.FixtureRequest) -> None:
    """Every test that has a database is audited when all that it started has been closed."""
    if {"database", "dsn"} & set(request.fixturenames) and request.node.get_closest_marker("unaudited") is None:
        request.getfixturevalue("_audited")
