"""procrastinate: its defaults, with as many jobs at a time as there are slots. A key is a `lock`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import main


class Procrastinate(Contender):
    """Its worker fetches one job a statement."""

    version = version("procrastinate")
    LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded' AND scheduled_at IS NULL"
    FINISH = "UPDATE procrastinate_jobs SET status = 'succeeded', attempts = 1"

    def _app(self, connections: int) -> App:
        app = App(connector=PsycopgConnector(conninfo=self.dsn, min_size=connections, max_size=connections))

        @app.task(name="note")
        async def note(number: int, at: float, key: str) -> None:
            await self.handled(number, at, key)

        self.note = note
        return app

    async def prepare(self) -> None:
        async with self._app(1).open_async() as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:
        async with self._app(connections).open_async():
            yield

    async def enqueue(self, job: Payload) -> None:
        await self.note.configure(lock=job.key or None).defer_async(**job._asdict())

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        when: dict[str, Any] = {"schedule_at": datetime.now(UTC) + timedelta(seconds=delay)} if delay else {}
        # A deferrer has one lock: a call for each key.
        for key in {job.key for job in jobs}:
            of_key = [job._asdict() for job in jobs if job.key == key]
            await self.note.configure(lock=key or None, **when).batch_defer_async(*of_key)

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        async with self._app(10).open_async() as app:
            worker = asyncio.create_task(app.run_worker_async(concurrency=concurrency, install_signal_handlers=False))
            yield
            worker.cancel()
            await asyncio.wait([worker])


if __name__ == "__main__":
    main(Procrastinate)
