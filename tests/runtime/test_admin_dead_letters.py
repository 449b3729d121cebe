"""Dead letters through `jobs.admin`: verbs that say what they did, errors that say what to do, and bulk forms with a dry run."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from asyncjobs import AsyncJobs, JobType, Queue
from asyncjobs.errors import DeadLetterNotFound, StateError
from asyncjobs.store.database import Connection
from tests.support.eventually import patience


class Post:
    """An app whose dead letters cannot be delivered until they can."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue("default", concurrency=3)])
        self.failing = True
        self.delivered: list[int] = []

        @self.app.job("deliver", max_attempts=1, timeout=120)
        async def deliver(number: int, street: str | None = None) -> None:
            if self.failing:
                raise ConnectionError(f"no road to {number}")
            self.delivered.append(number)

        @deliver.serialize_by
        def street_of(number: int, street: str | None = None) -> str | None:
            return street

        self.deliver: JobType[..., None] = deliver


@pytest.fixture
async def post(dsn: str) -> AsyncGenerator[Post]:
    made = Post(dsn)
    async with made.app.runner():
        yield made


async def dead(post: Post, count: int, street: str | None = None) -> list[int]:
    handles = [await post.deliver.enqueue(number, street) for number in range(count)]
    for handle in handles:
        assert (await handle.wait(timeout=20)).status == "dead"
    return [handle.id for handle in handles]


async def test_dead_letter_is_listed_shown_and_requeued(post: Post) -> None:
    [job_id] = await dead(post, 1)
    [dead_letter] = (await post.app.admin.dead_letters(acknowledged=False, type="deliver", error="no road")).dead_letters
    assert (dead_letter.job_id, dead_letter.error_message, dead_letter.attempts) == (job_id, "ConnectionError: no road to 0", 1)
    shown = await post.app.admin.dead_letter(dead_letter.id)
    assert shown.dead_letter == dead_letter
    assert (shown.job.payload, shown.job.timeout) == ({"number": 0, "street": None}, timedelta(seconds=120))
    assert "raise ConnectionError" in shown.job.errors[0]["traceback"]
    post.failing = False
    done = await post.app.admin.requeue(dead_letter.id, by="me")
    assert done.new_id is not None
    await post.app.handle(done.new_id).result(timeout=20)
    assert post.delivered == [0]
    requeued = await post.app.admin.get(done.new_id)
    assert requeued is not None
    assert requeued.requeued_from == job_id


async def test_second_requeue_is_refused_with_a_word_unless_forced(post: Post) -> None:
    await dead(post, 1)
    [dead_letter] = (await post.app.admin.dead_letters()).dead_letters
    post.failing = False
    first = await post.app.admin.requeue(dead_letter.id, by="me")
    assert first.new_id is not None
    await post.app.handle(first.new_id).result(timeout=20)
    with pytest.raises(StateError) as error:
        await post.app.admin.requeue(dead_letter.id, by="me")
    assert str(error.value) == (
        f"dead letter {dead_letter.id} (job {dead_letter.job_id}) was requeued before, as job {first.new_id}, completed now. "
        "`force` makes another job of it."
    )
    assert (await post.app.admin.requeue(dead_letter.id, by="me", force=True)).outcome == "requeued"


async def test_dead_letter_whose_dedup_key_a_live_job_has_is_not_requeued_and_says_whose(post: Post) -> None:
    for _ in range(3):
        await (await post.deliver.using(dedup_key="d").enqueue(7)).wait(timeout=20)
    [third, second, _] = (await post.app.admin.dead_letters()).dead_letters
    await post.app.admin.pause(type="deliver")
    done = await post.app.admin.requeue(second.id, by="me")
    with pytest.raises(StateError) as error:
        await post.app.admin.requeue(third.id, by="me", force=True)
    assert str(error.value) == (
        f"dead letter {third.id} (job {third.job_id}) was not requeued: job {done.new_id} lives and has its dedup key."
    )
    assert (await post.app.admin.retry(third.job_id)).outcome == "duplicate"
    assert (await post.app.admin.requeue_all(by="me", type="deliver")).outcomes == {"duplicate": 2}
    assert (await post.app.admin.retry_all(type="deliver", status="dead")).outcomes == {"duplicate": 3}
    post.failing = False
    await post.app.admin.resume(type="deliver")
    await post.app.handle(done.new_id or 0).result(timeout=20)
    assert (await post.app.admin.requeue_all(by="me", type="deliver")).outcomes == {"requeued": 1, "duplicate": 1}
    await _idle(post, 2)


async def test_dead_letters_that_nobody_knows(post: Post) -> None:
    with pytest.raises(DeadLetterNotFound, match="there is no dead letter 999"):
        await post.app.admin.requeue(999, by="me")
    with pytest.raises(DeadLetterNotFound):
        await post.app.admin.acknowledge(999, by="me")
    with pytest.raises(DeadLetterNotFound):
        await post.app.admin.dead_letter(999)


async def test_acknowledged_dead_letter_leaves_the_list_of_those_that_are_not(post: Post) -> None:
    await dead(post, 2)
    newest, oldest = (await post.app.admin.dead_letters(acknowledged=False)).dead_letters
    assert (await post.app.admin.acknowledge(newest.id, by="me")).outcome == "acknowledged"
    again = await post.app.admin.acknowledge(newest.id, by="you")
    assert (again.outcome, again.by) == ("acknowledged before", "me")
    assert (await post.app.admin.dead_letters(acknowledged=False)).dead_letters == [oldest]


async def test_dry_run_says_what_would_be_done_and_does_nothing(post: Post) -> None:
    await dead(post, 3)
    planned = await post.app.admin.requeue_all(by="me", type="deliver", dry_run=True)
    assert (planned.outcomes, planned.changed, planned.dry_run) == ({"requeued": 3}, 3, True)
    assert (await post.app.admin.acknowledge_all(by="me", dry_run=True)).outcomes == {"acknowledged": 3}
    assert len((await post.app.admin.dead_letters(acknowledged=False)).dead_letters) == 3


async def test_all_that_fit_are_requeued_once_in_their_order(post: Post) -> None:
    await dead(post, 5, "main street")
    await dead(post, 1)
    post.failing = False
    done = await post.app.admin.requeue_all(by="me", key="main street")
    assert (done.outcomes, done.changed) == ({"requeued": 5}, 5)
    await _idle(post, 5)
    assert post.delivered == [0, 1, 2, 3, 4]
    assert (await post.app.admin.requeue_all(by="me", key="main street")).outcomes == {}
    again = await post.app.admin.requeue_all(by="me", acknowledged=None)
    assert again.outcomes == {"requeued": 1, "requeued before": 5}
    await _idle(post, 6)


async def test_poison_is_requeued_once_however_fast_it_dies_again(post: Post) -> None:
    await dead(post, 3)
    done = await post.app.admin.requeue_all(by="me")
    assert done.outcomes == {"requeued": 3}


async def test_dead_letter_that_a_transaction_holds_does_not_keep_the_others(post: Post, connection: Connection) -> None:
    await dead(post, 3)
    [newest, *_] = (await post.app.admin.dead_letters()).dead_letters
    await connection.execute("ALTER ROUTINE asyncjobs.acknowledge_dead_letters SET lock_timeout = '0.1s'")  # which is tried again
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.dead_letter_jobs WHERE id = $1 FOR UPDATE", newest.id)
        done = await post.app.admin.acknowledge_all(by="me")
    assert done.outcomes == {"acknowledged": 2, "busy": 1}


async def _idle(post: Post, count: int) -> None:
    async with patience(20):
        while len(post.delivered) < count:
            await asyncio.sleep(0.01)
