"""Pages that renew themselves, by server-sent events. Without JavaScript they are as they were when they were loaded.

A stream sends `event: fragment` with the part of the page that moves, as HTML that was rendered once for all who see the same,
whenever it differs from what was sent last; `event: trouble` with a sentence when reading fails; else a comment, so that proxies
keep the stream. It ends after `STREAM_SECONDS` and the browser comes back: a server that stops waits for open streams, a viewer
whose session ended must not go on seeing.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any, Final

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.news import News, Reading
from asyncjobs.dashboard.problems import answer_to
from asyncjobs.dashboard.templating import render
from asyncjobs.dashboard.visit import Visit
from asyncjobs.dashboard.web import EventStream, Response
from asyncjobs.store.failures import DATABASE_ERRORS

STREAM_SECONDS: Final = 10.0
_RETRY_MILLISECONDS: Final = 1_000


class Topic(msgspec.Struct, frozen=True):
    """A page that moves: its name, the fields of its query string, and how it is read. Its template is `live/<name>.html`."""

    name: str
    fields: tuple[str, ...]
    read: Callable[[Admin, News, Fields], Awaitable[dict[str, Any]]]

    def key(self, visit: Visit, query: Fields) -> Hashable:
        """What distinguishes this page from others of its kind."""
        return (self.name, visit.sees_payloads, *sorted(query.pairs))

    async def look(self, visit: Visit) -> dict[str, Any]:
        """The page's data; BadInput."""
        query = visit.query.known(self.fields)
        return await visit.site.news.look(self.key(visit, query), lambda: self.read(visit.admin, visit.site.news, query))

    async def stream(self, visit: Visit) -> Response:
        """The page's news as a stream of events; BadInput, and what is not there. A database that is away is news."""
        query = visit.query.known(self.fields)
        with suppress(*DATABASE_ERRORS):
            await self.look(visit)
        events = _events(self, visit, query)
        return EventStream(events)


async def _events(topic: Topic, visit: Visit, query: Fields) -> AsyncGenerator[str]:
    yield f"retry: {_RETRY_MILLISECONDS}\n\n"
    news = visit.site.news
    readings = news.follow(topic.key(visit, query), lambda: topic.read(visit.admin, news, query))
    sent, ends_at = "", time.monotonic() + STREAM_SECONDS
    try:
        async for reading in readings:
            event = _event(topic, visit, reading)
            yield event if event != sent else ": nothing new\n\n"
            sent = event
            if time.monotonic() >= ends_at:
                break
    finally:
        await readings.aclose()


def _event(topic: Topic, visit: Visit, reading: Reading) -> str:
    if reading.data is None:
        return _framed("trouble", answer_to(reading.trouble or RuntimeError())[1])
    data = reading.data

    def rendered() -> str:
        # Nothing of the viewer's own: forms stand outside, and buttons name the form that they send.
        return render(f"live/{topic.name}.html", {**visit.frame(), "csrf": "", "here": "", **data})

    key = (topic.name, visit.request.url.query, visit.root, visit.may_act, visit.sees_payloads)
    return _framed("fragment", visit.site.fragments.of(key, reading, rendered))


def _framed(event: str, text: str) -> str:
    lines = "\n".join(f"data: {line}" for line in text.splitlines())
    return f"event: {event}\n{lines}\n\n"
