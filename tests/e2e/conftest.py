"""What tests of whole programs share: tables, connections, and the app of a worker that runs elsewhere."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.runtime import breakers
from asyncjobs.store.database import Connection
from tests.programs import worker
from tests.support.memory_and_server import Opening, SyncOpening, opening, placing


@pytest.fixture
async def effects(connection: Connection) -> None:
    await connection.execute("CREATE TABLE effects (job_id bigint)")


@pytest.fixture
async def held() -> AsyncGenerator[list[Any]]:
    """Connections that a handler leaves with a transaction open."""
    made: list[Any] = []
    yield made
    for connection in made:
        await connection.close()


@pytest.fixture
async def worker_app(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Any]:
    """The app of `tests.programs.worker` in this process, only to enqueue."""
    monkeypatch.setenv("ASYNCJOBS_DSN", dsn)
    async with worker.jobs as jobs:
        yield jobs


@pytest.fixture(params=["memory", "server"])
def where(request: pytest.FixtureRequest) -> Opening:
    """Opens an app in memory, or on a server."""
    return opening(None if request.param == "memory" else request.getfixturevalue("dsn"))


@pytest.fixture(params=["memory", "server"])
def placed(request: pytest.FixtureRequest) -> SyncOpening:
    """Has an app's jobs in memory, or on a server, in a plain test."""
    return placing(None if request.param == "memory" else request.getfixturevalue("dsn"))


@pytest.fixture
def patient_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still is no silent database: what fails while there is none would be forgotten with the next look."""
    monkeypatch.setattr(breakers, "_ANSWER_SECONDS", 60.0)
