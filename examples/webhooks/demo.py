"""One run of the demo: post the events, follow their jobs to the end. The processes it talks to are started by `__main__`."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from aiohttp import ClientSession, ClientTimeout
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from asyncjobs import AsyncJobs, Job
from examples.webhooks.children import Child
from examples.webhooks.driver import Driver

START_TIMEOUT_SECONDS = 30
WATCHERS = 16


class Demo:
    """Sends `events` to the app in `web` and follows their jobs through a connection of its own to the same database."""

    def __init__(self, events: Sequence[dict[str, Any]], web: Child, dsn: str, *, console: Console) -> None:
        self._events = events
        self._web = web
        self._jobs = AsyncJobs(dsn)
        self._console = console
        columns = TextColumn("{task.description:>9}"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn()
        self._progress = Progress(*columns, console=console)
        self._accepted_bar = self._progress.add_task("accepted", total=len(events))
        self._ended_bar = self._progress.add_task("ended", total=len(events))
        self._accepted: asyncio.Queue[int | None] = asyncio.Queue()  # ids of jobs to follow; None: there are no more
        self._ended: dict[int, Job] = {}
        self._steps_to_crash = 0  # 0: no crash to come
        self._crash_now = asyncio.Event()

    def crash_once(self, seed: int) -> None:
        """Have the web process killed and restarted at a random moment of the run."""
        self._steps_to_crash = Random(seed).randint(1, len(self._events) * 19 // 10)

    async def run(self, timeout: float) -> dict[str, Job]:
        """The job of each event that got a 202: as it ended, or as it is after `timeout` seconds."""
        driver = Driver(f"{self._web.url}/events", on_accepted=self._on_accepted)
        await self._wait_until_ready()
        async with self._jobs:
            with self._progress:
                try:
                    async with asyncio.timeout(timeout):
                        await self._follow(driver)
                except TimeoutError:
                    self._console.print(f"Time is up after {timeout:g} s.")
            return {event_id: await self._job(job_id) for event_id, job_id in driver.accepted.items()}

    async def _wait_until_ready(self) -> None:
        timeout = ClientTimeout(total=START_TIMEOUT_SECONDS)
        async with ClientSession(timeout=timeout) as session, session.get(f"{self._web.url}/health") as answer:
            answer.raise_for_status()

    async def _follow(self, driver: Driver) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._post(driver))
            if self._steps_to_crash:
                tasks.create_task(self._crash())
            for _ in range(WATCHERS):
                tasks.create_task(self._watch())

    async def _post(self, driver: Driver) -> None:
        await driver.post_all(self._events)
        for _ in range(WATCHERS):
            self._accepted.put_nowait(None)

    async def _watch(self) -> None:
        while (job_id := await self._accepted.get()) is not None:
            self._ended[job_id] = await self._jobs.handle(job_id).wait()
            self._progress.advance(self._ended_bar)
            self._step()

    async def _crash(self) -> None:
        await self._crash_now.wait()
        await asyncio.to_thread(self._web.kill)
        accepted, ended = (int(task.completed) for task in self._progress.tasks)
        self._console.print(f"Killed the web process after {accepted} events were accepted and {ended} jobs ended.")
        await asyncio.to_thread(self._web.start)

    def _on_accepted(self, job_id: int) -> None:
        self._accepted.put_nowait(job_id)
        self._progress.advance(self._accepted_bar)
        self._step()

    def _step(self) -> None:
        self._steps_to_crash -= 1
        if not self._steps_to_crash:
            self._crash_now.set()

    async def _job(self, job_id: int) -> Job:
        job = self._ended.get(job_id) or await self._jobs.get(job_id)
        assert job is not None, f"job {job_id} was accepted and is gone"
        return job
