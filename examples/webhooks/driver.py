"""Posts events to the app as a careful client would: an event whose post got no answer is posted again, under the same id."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

POST_TIMEOUT_SECONDS = 5
REPEAT_AFTER_SECONDS = 0.1


class Driver:
    """Posts to `url`, at most `concurrency` at a time. `accepted` has the job id of each event that got its 202."""

    def __init__(self, url: str, *, concurrency: int = 16, on_accepted: Callable[[int], None]) -> None:
        self.accepted: dict[str, int] = {}
        self.repeated = 0
        self._url = url
        self._concurrency = concurrency
        self._on_accepted = on_accepted

    async def post_all(self, events: Iterable[dict[str, Any]]) -> None:
        """Post every event until it is answered with 202. Cancel it to give up."""
        rest = iter(events)
        connector = TCPConnector(limit=self._concurrency)
        timeout = ClientTimeout(total=POST_TIMEOUT_SECONDS)
        async with ClientSession(connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as posters:
            for _ in range(self._concurrency):
                posters.create_task(self._post_from(session, rest))

    async def _post_from(self, session: ClientSession, events: Iterator[dict[str, Any]]) -> None:
        for event in events:
            while (job_id := await self._post(session, event)) is None:
                self.repeated += 1
                await asyncio.sleep(REPEAT_AFTER_SECONDS)
            self.accepted[event["id"]] = job_id
            self._on_accepted(job_id)

    async def _post(self, session: ClientSession, event: dict[str, Any]) -> int | None:
        """The job's id, or None when the answer was not 202 or did not come: then the event may have been accepted or not."""
        try:
            async with session.post(self._url, json=event) as answer:
                return int((await answer.json())["job_id"]) if answer.status == 202 else None
        except (ClientError, TimeoutError, OSError):
            return None
