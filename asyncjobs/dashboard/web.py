"""What the dashboard takes from Starlette: the only file that knows it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

__all__ = [
    "ClientDisconnect",
    "EventStream",
    "HTMLResponse",
    "HTTPException",
    "RedirectResponse",
    "Request",
    "Response",
    "application",
    "routed",
]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class EventStream(StreamingResponse):
    """Server-sent events; the generator is closed when the client has gone, wherever it was."""

    def __init__(self, events: AsyncGenerator[str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


def routed(path: str, endpoint: Endpoint, *, method: str) -> Route:
    """A path and what answers it."""
    return Route(path, endpoint, methods=[method])


def application(
    routes: list[Route], failed: Callable[[Request, Exception], Awaitable[Response]], kinds: tuple[type[Exception], ...]
) -> Starlette:
    """An application whose failures of these kinds are answered by `failed`; of other kinds, too, but those are raised on."""
    handlers: Mapping[Any, Any] = dict.fromkeys((*kinds, HTTPException, Exception), failed)
    return Starlette(routes=routes, exception_handlers=handlers)
