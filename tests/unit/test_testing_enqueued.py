"""`captured`, `assert_enqueued` and `refute_enqueued`, without a database."""

from datetime import UTC, datetime, timedelta

import pytest

from asyncjobs import AsyncJobs, DuplicateJob, InvalidOption, InvalidPayload, JobRouter, Queue, UnknownType
from asyncjobs.testing import Captured, assert_enqueued, captured, refute_enqueued

jobs = AsyncJobs(queues=[Queue("default"), Queue("mail", lanes={"fast": 1})])


@jobs.job("email", serialize_by="inbox_{to}", aliases=("mail.send",))
async def send_email(to: str, template: str = "welcome", tags: tuple[str, ...] = ()) -> None: ...


@jobs.job("count")
async def count_words(text: str) -> int:
    return len(text.split())


async def sent(*, to: str = "ada@example.com") -> Captured:
    with captured(jobs) as enqueued:
        await send_email.using(queue="mail", lane="fast", priority=1, delay=60).enqueue(to, tags=("a", "b"))
        await count_words.enqueue("to be")
    return enqueued


async def test_finds_by_type_fields_and_options() -> None:
    enqueued = await sent()
    job = await assert_enqueued(enqueued, send_email)
    assert job is enqueued.jobs[0]
    assert await assert_enqueued(enqueued, "count", {"text": "to be"}) is enqueued.jobs[1]
    await assert_enqueued(enqueued, send_email, {"to": "ada@example.com"}, queue="mail", lane="fast", priority=1)
    await assert_enqueued(
        enqueued, send_email.using(priority=1), delay=timedelta(minutes=1), serialization_key="inbox_ada@example.com"
    )


async def test_fields_are_compared_as_they_are_stored_and_defaults_count() -> None:
    enqueued = await sent()
    await assert_enqueued(enqueued, send_email, {"tags": ("a", "b")})
    await assert_enqueued(enqueued, send_email, {"template": "welcome"})
    await refute_enqueued(enqueued, send_email, {"template": "bye"})


async def test_run_at_is_the_instant_that_was_given() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    with captured(jobs) as enqueued:
        await count_words.using(run_at=at).enqueue("later")
    await assert_enqueued(enqueued, count_words, run_at=at)
    assert enqueued.jobs[0].status == "scheduled"


async def test_what_differs_is_shown_for_each_job_of_the_type() -> None:
    enqueued = await sent()
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(enqueued, send_email, {"to": "eve@example.com"}, priority=2)
    first, email, count = str(caught.value).splitlines()
    assert first == 'enqueued: no job "email" with to="eve@example.com", priority=2. These were:'
    assert 'email(to="ada@example.com", tags=["a","b"]) scheduled' in email
    assert email.endswith("<- to, priority")
    assert 'count(text="to be") pending queue="default"' in count


async def test_says_that_nothing_was_enqueued() -> None:
    with captured(jobs) as enqueued:
        pass
    with pytest.raises(AssertionError, match=r'enqueued: no job "email"\. Nothing was enqueued\.'):
        await assert_enqueued(enqueued, send_email)


async def test_count_is_exact() -> None:
    with captured(jobs) as enqueued:
        await jobs.enqueue_many([count_words.new(text) for text in "abc"])
    await assert_enqueued(enqueued, count_words, count=3)
    with pytest.raises(AssertionError, match='enqueued: 3 instead of 2 job "count"'):
        await assert_enqueued(enqueued, count_words, count=2)
    with pytest.raises(ValueError, match=r"count=0: give at least 1, or write refute_enqueued"):
        await assert_enqueued(enqueued, send_email, count=0)


async def test_refute_lists_what_was_enqueued() -> None:
    enqueued = await sent()
    await refute_enqueued(enqueued, count_words, {"text": "not to be"})
    with pytest.raises(AssertionError, match=r'and should not be: job "count"[^$]*count\(text="to be"\)'):
        await refute_enqueued(enqueued, count_words)


async def test_long_lists_are_cut() -> None:
    with captured(jobs) as enqueued:
        await jobs.enqueue_many([count_words.new(str(number)) for number in range(30)])
    with pytest.raises(AssertionError, match="… and 10 more"):
        await assert_enqueued(enqueued, send_email)


async def test_what_cannot_be_there_is_refused() -> None:
    enqueued = await sent()
    with pytest.raises(InvalidPayload, match=r'has no field "templat"\. Did you mean "template"\?'):
        await refute_enqueued(enqueued, send_email, {"templat": "x"})
    with pytest.raises(InvalidOption, match="notify= leaves no trace"):
        await refute_enqueued(enqueued, send_email, notify=False)
    with pytest.raises(UnknownType, match="emial"):
        await refute_enqueued(enqueued, "emial")
    other = JobRouter()

    @other.job("email")
    async def another() -> None: ...

    with pytest.raises(UnknownType):
        await refute_enqueued(enqueued, another)


async def test_jobs_stored_under_a_former_name_are_found() -> None:
    enqueued = await sent()
    await assert_enqueued(enqueued, "mail.send", {"to": "ada@example.com"})


async def test_dedup_keys_are_heeded_among_what_was_captured() -> None:
    once = count_words.using(dedup_key="k")
    with captured(jobs) as enqueued:
        first = await once.enqueue("a")
        again = await once.enqueue("b")
        assert (first.created, again.created, again.id == first.id) == (True, False, True)
        await once.using(on_duplicate="replace").enqueue("c")
        assert [job.payload for job in enqueued.jobs] == [{"text": "c"}]
        with pytest.raises(DuplicateJob):
            await jobs.enqueue_many([count_words.new("d"), once.using(on_duplicate="raise").new("e")])
        assert len(enqueued.jobs) == 1


async def test_another_apps_jobs_are_not_captured() -> None:
    other = AsyncJobs()

    @other.job("elsewhere")
    async def elsewhere() -> None: ...

    with captured(jobs), captured(other) as enqueued:
        await elsewhere.enqueue()
    assert [job.type for job in enqueued.jobs] == ["elsewhere"]
