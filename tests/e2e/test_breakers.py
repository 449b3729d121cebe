"""Circuit breakers in apps: who is let through, what counts, what becomes of jobs. Several apps stand for several processes."""

from typing import Any

import pytest

from asyncjobs import AsyncJobs, CircuitOpen


class Down(Exception):
    """The service is down."""


class App:
    """An app with a breaker, and calls of its service."""

    def __init__(self, dsn: str, schema: str = "asyncjobs", *, settings: dict[str, Any] | None = None, **options: Any) -> None:
        more: Any = settings or {}
        self.jobs = AsyncJobs(dsn, schema=schema, **more)
        given: dict[str, Any] = {"failure_threshold": 2, "open_for": 30, **options}
        self.breaker = self.jobs.circuit_breaker("mail", **given)

    async def call(self, error: BaseException | None = None) -> str:
        """Call the service: "well", "failed", or "refused"."""
        try:
            async with self.breaker:
                fail(error)
        except CircuitOpen:
            return "refused"
        except BaseException as raised:
            if raised is not error:
                raise
            return "failed"
        return "well"


def fail(error: BaseException | None) -> None:
    if error is not None:
        raise error


@pytest.fixture
def app(dsn: str, schema: str) -> App:
    return App(dsn, schema)


async def test_it_opens_after_so_many_failures_in_a_row_and_refuses_at_once(app: App) -> None:
    async with app.jobs:
        assert [await app.call(Down()), await app.call(), await app.call(Down())] == ["failed", "well", "failed"]
        assert [await app.call(Down()), await app.call()] == ["failed", "refused"]
        [state] = await app.jobs.admin.breakers()
        assert (state.service, state.state, state.reason, state.declared) == ("mail", "open", "2 failures in a row", True)
