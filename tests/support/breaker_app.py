"""Apps with a circuit breaker, and calls of the service that it guards."""

from typing import Any

from asyncjobs import AsyncJobs, CircuitBreaker, CircuitOpen


class DownError(Exception):
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

    async def is_well(self) -> bool:
        """Call the service, which is up: whether that was let through."""
        return await self.call() == "well"

    async def open_up(self) -> None:
        """Let the breaker open."""
        while await self.call(DownError()) == "failed":
            pass


def fail(error: BaseException | None) -> None:
    if error is not None:
        raise error


async def enter(breaker: CircuitBreaker) -> None:
    """Call the service, which is up."""
    async with breaker:
        pass
