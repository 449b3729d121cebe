"""The pages: what each reads, and the template that shows it."""

from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.views import audit, dead_letters, held, job, jobs, keys, machines, overview, queues, workflows
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

__all__ = ["PAGES"]

#: Paths of pages that move, and what they show.
_TOPICS: list[tuple[str, Topic]] = [
    *overview.TOPICS, *jobs.TOPICS, *job.TOPICS, *keys.TOPICS, *queues.TOPICS, *machines.TOPICS, *held.TOPICS,
    *workflows.TOPICS,
]  # fmt: skip


def _page(topic: Topic) -> Page:
    async def page(visit: Visit) -> Response:
        return visit.page(f"{topic.name}.html", topic=topic.name, **await topic.look(visit))

    return page


def _stream(topic: Topic) -> Page:
    async def stream(visit: Visit) -> Response:
        return await topic.stream(visit)

    return stream


#: Every path, and what answers it.
PAGES: list[tuple[str, Page]] = [
    *((path, _page(topic)) for path, topic in _TOPICS),
    *((f"/live/{topic.name}", _stream(topic)) for _, topic in _TOPICS),
    *jobs.PAGES, *job.PAGES, *dead_letters.PAGES, *machines.PAGES, *audit.PAGES,
]  # fmt: skip
