"""`dedup_by`: dedup keys that are made of the arguments."""

import pytest

from asyncjobs import AsyncJobs, ConfigurationError, InvalidHandler, InvalidPayload, JobRouter
from asyncjobs.testing import captured, run_until_idle


async def test_one_job_of_the_same_arguments_lives_at_a_time(dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.job("mail", dedup_by="{to}")
    async def mail(to: str, text: str = "") -> None: ...

    @jobs.job("reindex")
    async def reindex(shop: str, full: bool = False) -> None: ...  # noqa: FBT001, FBT002 - an argument of a job

    @reindex.dedup_by
    def one_unless_full(shop: str, full: bool = False) -> str | None:  # noqa: FBT001, FBT002
        return None if full else shop

    async with jobs:
        first = await mail.using(dedup_for=60).enqueue("ada", "one")
        again = await mail.enqueue("ada", "two")
        assert (again.id, again.created) == (first.id, False)
        assert (await mail.enqueue("bob")).created
        assert (await mail.using(dedup_key="another").enqueue("ada")).created
        other = await mail.using(dedup_key="another").enqueue("carl")
        assert not other.created  # the key that was given counts, not the arguments
        replaced = await mail.using(on_duplicate="replace").enqueue("ada", "three")
        row = await jobs.get(first.id)
        assert row is not None
        assert (replaced.id, row.dedup_key, row.payload) == (first.id, "ada", {"to": "ada", "text": "three"})
        many = await jobs.enqueue_many([reindex.new("x"), reindex.new("x"), reindex.new("x", full=True), reindex.new("y")])
        assert [one.created for one in many] == [True, False, True, True]
        await run_until_idle(jobs)
        assert not (await mail.enqueue("ada")).created  # dedup_for
        assert (await mail.enqueue("bob")).created
    with captured(jobs) as enqueued:
        await jobs.enqueue_many([mail.new("ada"), mail.new("ada")])
    assert [job.dedup_key for job in enqueued.jobs] == ["ada"]


async def test_a_stub_says_it_itself(dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.stub("elsewhere", dedup_by="{shop}")
    async def elsewhere(shop: str) -> None: ...

    async with jobs:
        assert [(await elsewhere.enqueue("x")).created, (await elsewhere.enqueue("x")).created] == [True, False]


def by_receiver(to: str, text: str | None = None) -> str | None:
    return f"{to} {text}"


def by_less(to: str) -> str | None:
    return to


def test_what_cannot_be_meant_is_refused() -> None:
    router = JobRouter()

    async def mail(to: str, text: str | None = None) -> None: ...

    with pytest.raises(InvalidHandler, match=r"dedup_by names \{too\}, but mail has to, text"):
        router.job("a", dedup_by="{too}")(mail)
    with pytest.raises(
        ConfigurationError, match=r'dedup_by is empty: leave it out, or name what is to be there once, as in "{to}"'
    ):
        router.job("b", dedup_by="")(mail)
    with pytest.raises(ConfigurationError, match="dedup_by=7 is an int: use a template"):
        router.job("c", dedup_by=7)(mail)  # type: ignore[arg-type]
    kept = router.job("d", dedup_by="{to}")(mail)
    with pytest.raises(InvalidHandler, match="dedup_by is given twice"):
        kept.dedup_by(by_receiver)
    free = router.job("e")(mail)
    with pytest.raises(InvalidHandler, match=r"dedup_by gets the handler's arguments by name \(to, text\)"):
        free.dedup_by(by_less)  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match=r"the dedup key .* has 300 characters, at most 255"):
        kept.new("x" * 300)
    with pytest.raises(InvalidPayload, match="dedup_by failed: ValueError: a value is None"):
        router.job("f", dedup_by="{text}")(mail).new("ada")
