"""What one runner serves, out of what the app has."""

from typing import Any

import pytest

from asyncjobs import AsyncJobs, ConfigurationError, Queue, UnknownQueue, UnknownType
from asyncjobs.open.run import served_handlers, served_queues


async def handler(to: str) -> None: ...


@pytest.fixture
def jobs() -> AsyncJobs:
    made = AsyncJobs(queues=[Queue("default"), Queue("mail", concurrency=8)])
    made.job("email", queue="mail", aliases=["mail"])(handler)
    made.job("letter")(handler)
    made.stub("elsewhere")(handler)
    return made


def test_all_queues_are_served_unless_some_are_named(jobs: AsyncJobs) -> None:
    assert [queue.name for queue in served_queues(jobs.queues, None)] == ["default", "mail"]
    assert [queue.concurrency for queue in served_queues(jobs.queues, ["mail"])] == [8]


def test_a_queue_that_is_given_replaces_its_namesake_or_is_one_more(jobs: AsyncJobs) -> None:
    served = served_queues(jobs.queues, [Queue("mail", concurrency=2), "default", Queue("own")])
    assert [(queue.name, queue.concurrency) for queue in served] == [("mail", 2), ("default", 10), ("own", 10)]


def test_all_types_with_a_handler_are_served_under_all_of_their_names(jobs: AsyncJobs) -> None:
    assert set(served_handlers(jobs.handlers, None)) == {"email", "mail", "letter"}
    assert set(served_handlers(jobs.handlers, ["mail"])) == {"email", "mail"}


@pytest.mark.parametrize(
    ("queues", "types", "kind", "message"),
    [
        (["mial"], None, UnknownQueue, r'queue "mial" is not in queues= \(default, mail\). Did you mean "mail"\?'),
        ("mail", None, ConfigurationError, r'queues="mail" is one text: write queues=\["mail"\]'),
        ([], None, ConfigurationError, "queues= is empty: leave it out to serve all queues"),
        (
            None,
            ["emial"],
            UnknownType,
            'no job "emial" in this app. Known: elsewhere, email, letter, mail. Did you mean "email"?',
        ),
        (None, "email", ConfigurationError, r'types="email" is one text: write types=\["email"\]'),
        (None, ["elsewhere"], ConfigurationError, 'job "elsewhere" is a stub: its handler runs in another service'),
    ],
)
def test_what_is_not_there_cannot_be_served(jobs: AsyncJobs, queues: Any, types: Any, kind: Any, message: str) -> None:
    def serve() -> None:
        served_queues(jobs.queues, queues)
        served_handlers(jobs.handlers, types)

    with pytest.raises(kind, match=message):
        serve()
