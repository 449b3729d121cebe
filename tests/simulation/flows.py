"""What clients do with workflows: graphs from a generator, and operators that steer them."""

import asyncio
from random import Random
from typing import Any

from asyncjobs import AsyncJobs
from asyncjobs.declare.new_job import named
from tests.simulation.course import Course


class Flows:
    """A part of a client."""

    jobs: AsyncJobs
    random: Random
    course: Course
    told: Any

    def new(self, *, seconds: float | None = None, **options: Any) -> Any:
        """A number, a type, a payload and options."""
        raise NotImplementedError

    def key(self) -> str:
        """One of the world's keys."""
        raise NotImplementedError

    async def _flow(self) -> None:
        await self._build()

    async def _build(self, *, hangs: bool = False) -> tuple[int, list[int]]:
        """A workflow of a few jobs that wait for some of those before them; its id, and theirs. `hangs`: the others wait for the
        first, which takes long.
        """
        random, numbers = self.random, list[int]()
        async with self.jobs.workflow("flow") as flow:
            nodes: list[Any] = []
            for _ in range(random.choice([3, 5, 8])):
                number, type, payload, options = self.new(seconds=2.0 if hangs and not nodes else None)
                if random.random() < 0.2 and not self.course.is_calm:
                    options |= random.choice([{"serialization_key": self.key()}, {"delay": 0.5}, {"expires": 1.0}])
                after = random.sample(nodes, min(len(nodes), random.choice([0, 1, 1, 2, 3]))) or (nodes[:1] if hangs else [])
                job = named(type, payload, options, self.jobs.handlers, self.jobs.settings)
                nodes.append(flow.add(job, after=after, when=random.choice(["completed", "ended"]) if after else None))
                numbers.append(number)
        for number, node in zip(numbers, nodes, strict=True):
            self.told.accepted.setdefault(number, []).append(node.id)
        return flow.id, flow.ids

    async def _steered(self) -> None:
        """A workflow, and an operator who cancels it, or ends some of it, and then retries it."""
        random = self.random
        hangs = random.random() < 0.4
        flow_id, ids = await self._build(hangs=hangs)
        if hangs:
            await self.jobs.admin.kill(ids[0])
            await asyncio.sleep(random.choice([0.0, 0.5, 3.0]))
            self.told.steered.add(flow_id)
            self.told.retried.update(ids)
            await self.jobs.admin.retry(ids[0])
            return
        await asyncio.sleep(random.choice([0.0, 0.05, 0.5]))
        if random.random() < 0.4:
            await self.jobs.admin.cancel_workflow(flow_id, "not wanted")
        else:
            await asyncio.gather(*(
                random.choice([self.jobs.admin.cancel, self.jobs.admin.kill])(job_id) for job_id in random.sample(ids, 2)
            ), return_exceptions=True)  # fmt: skip
        if random.random() < 0.6:
            await asyncio.sleep(random.choice([0.0, 0.05, 2.0]))
            self.told.steered.add(flow_id)
            self.told.retried.update(ids)
            await self.jobs.admin.retry_workflow(flow_id)
