"""An app that exports its metrics, a story in which everything happens that they tell of, and what a scrape then says."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from asyncjobs import AsyncJobs, Backoff, Dead, Limit, Queue, Snooze
from asyncjobs.integrations import prometheus
from tests.support.eventually import eventually


class Scrape:
    """What the official client makes of the text that a scrape gets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = list(text_string_to_metric_families(generate_latest(registry).decode()))
        self.kinds: Mapping[str, str] = {family.name: family.type for family in families}
        self.samples: Sequence[Sample] = [sample for family in families for sample in family.samples]

    def names(self) -> set[str]:
        return {sample.name for sample in self.samples}

    def labels(self, name: str) -> set[str]:
        return {label for sample in self.samples if sample.name == name for label in sample.labels}

    def sum(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels; 0 when there is none."""
        return sum(one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items())


class Exporting:
    """The app."""

    def __init__(self, dsn: str, schema: str = "asyncjobs", **settings: Any) -> None:
        self.registry = CollectorRegistry()
        self.jobs = jobs = AsyncJobs(dsn, schema=schema, queues=[Queue("default", concurrency=4, lanes={"fast": 1})], **settings)
        self.breaker = jobs.circuit_breaker("mail", failure_threshold=1)
        self.holds, self.go = asyncio.Event(), asyncio.Event()
        prometheus.setup(jobs, registry=self.registry, sample_every=0.1)

        @jobs.job("work", max_attempts=2, backoff=Backoff(0.01))
        async def work(what: str) -> Any:
            if what == "hold":
                self.holds.set()
                await self.go.wait()
            if what == "raise":
                raise ValueError(what)
            return {"snooze": Snooze(3600), "die": Dead("no")}.get(what)

        @jobs.job("keyed", serialize_by="{key}", on_dead="halt")
        async def keyed(key: str) -> Any:
            return Dead("no")

        @jobs.job("later", lane="fast", limit=Limit("later", total=9))
        async def later() -> None: ...

        self.work, self.keyed, self.later = work, keyed, later

    def scrape(self) -> Scrape:
        return Scrape(self.registry)

    async def sampled(self, name: str, value: float, **labels: str) -> None:
        """Wait until a sample says so."""
        await eventually(
            lambda: name in (now := self.scrape()).names() and now.sum(name, **labels) == value,
            description=f"{name} {labels} is {value}",
            timeout=20.0,
        )

    async def fresh(self) -> Scrape:
        """A scrape with a sample that was begun after this call: the second pass that ends from now on."""

        def passes() -> float:
            return self.scrape().sum("asyncjobs_duty_passes_total", duty=prometheus.DUTY)

        wanted = passes() + 2
        await eventually(lambda: passes() >= wanted, description="two more passes have ended", timeout=20.0)
        return self.scrape()

    async def live(self) -> None:
        """What the tests look at: completed, failed, snoozed and dead jobs, a halted key, an open breaker, one that runs."""
        for what in ("fine", "fine", "snooze", "die"):
            await (await self.work.enqueue(what)).wait() if what != "snooze" else await self.work.enqueue(what)
        failing = await self.work.enqueue("raise")
        await self.later.using(delay=3600).enqueue()
        await (await self.keyed.enqueue("k")).wait()
        await self.keyed.enqueue("k")
        await self.jobs.admin.open_breaker("mail")
        await self.work.enqueue("hold")
        await asyncio.gather(failing.wait(), self.holds.wait())
