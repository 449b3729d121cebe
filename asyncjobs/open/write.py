"""Jobs that an app enqueues, on their way to where they are written: by asyncjobs itself, on a connection of the caller's, or in
a test into memory.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Protocol

from asyncjobs.connections import Connection, check_given
from asyncjobs.declare.definition import NewJob
from asyncjobs.declare.new_job import admit_all, in_slices, one_connection
from asyncjobs.handles import JobHandle
from asyncjobs.model.new_row import NewRow
from asyncjobs.open.current_app import ENQUEUE_SYNC, keeper_of
from asyncjobs.open.lifecycle import Lifecycle, OpeningApp
from asyncjobs.runtime import callers
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.settings import Queue


class WritingApp(OpeningApp, Protocol):
    """The app whose jobs they are."""

    @property
    def queues(self) -> dict[str, Queue]:
        """Its queues by name."""
        ...

    @property
    def lifecycle(self) -> Lifecycle:
        """How it is opened."""
        ...


async def write(
    app: WritingApp,
    news: list[NewJob[Any]],
    connection: Connection | None,
    *,
    blocks: bool,
    opened_for: Callable[[str, str], OpenApp],
    itself: Callable[[], WritingApp],
) -> list[JobHandle[Any]]:
    """The handles of these, when they are written. `blocks`: on a connection that is not awaited; then nothing else is, either.

    `opened_for` gives the open app, or raises in words that begin with its first argument; `itself` is what handles keep.
    """
    rows: list[NewRow] = []
    async for some in in_slices(news):
        rows += admit_all(some, app.queues, app.settings)
    on = one_connection(news, connection)
    if on is not None:
        check_given(on, blocks=blocks)
    keeper = keeper_of(app)
    if keeper is not None:
        enqueued = keeper.keep(rows)
    elif blocks and on is not None:
        enqueued = callers.enqueue_sync(on, app.lifecycle.texts(), rows)
        callers.tell(app.events, rows, enqueued, on)
    else:
        opened = opened_for(f'"{news[0].type}" was enqueued' if news else "enqueue_many was called", ENQUEUE_SYNC)
        enqueued = await opened.enqueue(rows, connection=on, many=len(rows) != 1)
    # One decoder for each type: what is made for each job, the garbage collector walks.
    decoders = {handler: handler.decode_result for handler in {new.handler for new in news}}
    handles: list[JobHandle[Any]] = []
    pairs = zip(enqueued, news, strict=True)
    async for some in in_slices(news):
        handles += [JobHandle(one.id, itself, decoders[new.handler], one.did) for one, new in islice(pairs, len(some))]
    return handles
