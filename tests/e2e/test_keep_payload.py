"""`keep_payload=False`: the payload is gone with the commit that completes the job, and stays where the job ends otherwise."""

from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Cancel, ConfigurationError, Dead, InvalidOption, JobContext, JobRouter, Queue, Retry, Snooze
from asyncjobs.testing import assert_enqueued, perform, refute_enqueued, run_until_idle
from tests.support.memory_and_server import Opening
from tests.support.memory_and_server import make as make_app

SECRET = {"token": "s3cret"}


def make(dsn: str, **of_type: Any) -> tuple[AsyncJobs, Any]:
    jobs = AsyncJobs(dsn, queues=[Queue("default", concurrency=5)])

    @jobs.job("reset", keep_payload=False, **of_type)
    async def reset(ctx: JobContext, token: str, then: str = "") -> int | Snooze | Retry | Dead | Cancel:
        assert token == "s3cret"  # also in later attempts
        if ctx.attempt == 1:
            match then:
                case "retry":
                    return Retry(0)
                case "snooze" if not ctx.job.snoozes:
                    return Snooze(0)
                case "dead":
                    return Dead("no")
                case "cancel":
                    return Cancel("no")
                case "progress":
                    ctx.progress(0.5, "half")
                case _:
                    pass
        return 1

    @jobs.job("plain")
    async def plain(token: str) -> None: ...

    return jobs, reset


@pytest.mark.parametrize("then", ["", "progress", "retry", "snooze"])
async def test_the_payload_is_emptied_when_the_job_completes_and_not_before(dsn: str, then: str) -> None:
    jobs, reset = make(dsn)
    async with jobs:
        handle = await reset.enqueue(**SECRET, then=then)
        waiting = await jobs.get(handle.id)
        assert waiting
        assert waiting.payload == {**SECRET, **({"then": then} if then else {"then": ""})}
        await run_until_idle(jobs)
        done = await handle.wait(timeout=5)
        assert (done.status, done.payload, await handle.result()) == ("completed", {}, 1)


@pytest.mark.parametrize("options", [{}, {"serialization_key": "k"}, {"dedup_key": "d"}])
async def test_many_at_once_and_with_keys(dsn: str, options: dict[str, Any]) -> None:
    """Those of other types in the same call keep theirs."""
    jobs, reset = make(dsn)
    async with jobs:
        news = [
            one for n in range(20)
            for one in (reset.using(**{name: f"{key}{n % 3}" if name == "serialization_key" else f"{key}{n}"
                                       for name, key in options.items()}).new(**SECRET),)
        ]  # fmt: skip
        handles = await jobs.enqueue_many(news)
        plain = [await jobs.enqueue("plain", SECRET) for _ in range(5)]
        await run_until_idle(jobs)
        assert [(await one.wait(timeout=5)).payload for one in handles] == [{}] * 20
        assert [(await one.wait(timeout=5)).payload for one in plain] == [SECRET] * 5


@pytest.mark.parametrize("then", ["dead", "cancel"])
async def test_what_ended_otherwise_keeps_it_and_can_be_run_again(dsn: str, then: str) -> None:
    jobs, reset = make(dsn)
    async with jobs:
        handle = await reset.enqueue(**SECRET, then=then)
        await run_until_idle(jobs)
        ended = await handle.wait(timeout=5)
        assert ended.payload == {**SECRET, "then": then}
        if then == "dead":
            [letter] = (await jobs.admin.dead_letters()).dead_letters
            detail = await jobs.admin.dead_letter(letter.id)
            assert detail.job.payload == {**SECRET, "then": then}
            new_id = (await jobs.admin.requeue(letter.id, by="test")).new_id
            assert new_id
            requeued = await jobs.get(new_id)
            assert requeued
            assert requeued.payload == {**SECRET, "then": then}


async def test_ctx_complete_empties_it_in_the_handlers_transaction(dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.job("transfer", keep_payload=False)
    async def transfer(ctx: JobContext, token: str, *, commits: bool) -> None:
        connection = await asyncpg.connect(dsn)
        transaction = connection.transaction()
        await transaction.start()
        await ctx.complete(connection)
        await (transaction.commit() if commits else transaction.rollback())
        await connection.close()

    async with jobs:
        done = await transfer.using(max_attempts=1).enqueue(**SECRET, commits=True)
        lost = await transfer.using(max_attempts=1).enqueue(**SECRET, commits=False)
        await run_until_idle(jobs)
        assert (await done.wait(timeout=5)).payload == {}
        assert (await lost.wait(timeout=5)).payload == {**SECRET, "commits": False}


async def test_a_former_payload_is_not_found_any_more(dsn: str) -> None:
    jobs, reset = make(dsn)
    async with jobs:
        await reset.enqueue(**SECRET)
        await run_until_idle(jobs)
        connection = await asyncpg.connect(dsn)
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs AS j WHERE j::text LIKE '%s3cret%'") == 0
        await connection.close()


async def test_the_handler_decides_not_the_stub(dsn: str) -> None:
    elsewhere = JobRouter()

    @elsewhere.stub("reset")
    async def reset(token: str) -> None: ...

    client = AsyncJobs(dsn, routers=[elsewhere])
    jobs, _ = make(dsn)
    async with jobs:
        async with client:
            handle = await client.enqueue(reset.new(**SECRET))
        await run_until_idle(jobs)
        assert (job := await jobs.get(handle.id))
        assert job.payload == {}


@pytest.mark.parametrize(
    ("app", "router", "own", "kept"),
    [
        (False, None, None, False),
        (False, None, True, True),
        (False, True, None, True),
        (False, True, False, False),
        (True, None, None, True),
        (True, False, None, False),
        (True, False, True, True),
        (None, None, None, True),
    ],
)
async def test_a_type_beats_its_router_and_that_the_app(where: Opening, app: Any, router: Any, own: Any, kept: Any) -> None:
    declared = JobRouter(keep_payload=router)

    @declared.job("reset", keep_payload=own)
    async def reset(token: str) -> None: ...

    @declared.job("by hand", keep_payload=own)
    async def by_hand(ctx: JobContext, token: str) -> None:
        connection: Any = ctx.jobs.memory and object()
        if connection:
            await ctx.complete(connection)
            return
        connection = await asyncpg.connect(ctx.jobs.dsn)
        async with connection.transaction():
            await ctx.complete(connection)
        await connection.close()

    jobs = make_app(routers=[declared], **({} if app is None else {"keep_payload": app}))
    async with where(jobs):
        handles = [await reset.enqueue(**SECRET), await by_hand.enqueue(**SECRET)]
        ended = await run_until_idle(jobs)
        assert [job.payload for job in ended] == [SECRET if kept else {}] * 2
        assert [(await handle.wait(timeout=5)).status for handle in handles] == ["completed"] * 2


@pytest.mark.parametrize("of_type", [True, False, None])
@pytest.mark.parametrize("said", [True, False])
async def test_what_one_enqueue_says_beats_its_type(where: Opening, of_type: Any, said: Any) -> None:
    jobs = make_app(keep_payload=not said)

    @jobs.job("reset", keep_payload=of_type)
    async def reset(token: str) -> None: ...

    async with where(jobs):
        one = reset.using(keep_payload=said)
        await one.enqueue(**SECRET)
        await jobs.enqueue("reset", SECRET, keep_payload=said)
        await jobs.enqueue_many([one.new(**SECRET), one.using(priority=3).new(**SECRET)])
        await one.using(dedup_key="d", limit_key=None).enqueue(**SECRET)
        await one.using(keep_payload=None, delay=0).enqueue(**SECRET)  # as if it were not said again
        await assert_enqueued(jobs, one, SECRET)
        await refute_enqueued(jobs, reset.using(keep_payload=not said))
        assert [job.payload for job in await run_until_idle(jobs)] == [SECRET if said else {}] * 6


async def test_what_one_enqueue_says_goes_with_its_job(dsn: str) -> None:
    """Into a workflow, through a stub, with each tick, out of a dead letter; and by SQL, and into the handler's transaction."""
    elsewhere = JobRouter()

    @elsewhere.stub("reset")
    async def of_another(token: str) -> None: ...

    jobs, client = AsyncJobs(dsn), AsyncJobs(dsn, routers=[elsewhere])
    dies = [True]

    @jobs.job("reset", keep_payload=True, max_attempts=1)
    async def reset(ctx: JobContext, token: str) -> None:
        if ctx.job.tags == ["dies"] and dies:
            dies.clear()
            raise ValueError("no")
        if ctx.job.tags == ["commits"]:
            connection = await asyncpg.connect(dsn)
            async with connection.transaction():
                await ctx.complete(connection)
            await connection.close()

    discreet = reset.using(keep_payload=False)
    jobs.schedule("often", discreet.new(**SECRET), every=3600)
    async with jobs.runner(), client:
        async with jobs.workflow("two") as flow:
            flow.add(discreet.new(**SECRET))
        handles = [
            await client.enqueue(of_another.using(keep_payload=False).new(**SECRET)),
            reset.handle((await jobs.admin.run_schedule("often")).id),
            await discreet.using(tags=["commits"]).enqueue(**SECRET),
        ]
        connection = await asyncpg.connect(dsn)
        options = '{"keep_payload": false}'
        by_sql = await connection.fetchval("SELECT asyncjobs.enqueue('reset', $1, $2)", '{"token": "s3cret"}', options)
        await jobs.workflow_of(flow.id).wait(timeout=20)
        dead = await discreet.using(tags=["dies"]).enqueue(**SECRET)
        assert (await dead.wait(timeout=20)).payload == SECRET
        [letter] = (await jobs.admin.dead_letters()).dead_letters
        again = (await jobs.admin.requeue(letter.id)).new_id
        ended = [await one.wait(timeout=20) for one in (*handles, reset.handle(by_sql), reset.handle(again or 0))]
        members = [job for job in (await jobs.admin.find(type="reset", status="completed")).jobs if job.workflow_id]
        await connection.close()
    assert [(job.status, job.payload, job.keep_payload) for job in (*ended, *members)] == [("completed", {}, False)] * 6


async def test_in_memory_as_on_a_server_what_ended_otherwise_keeps_it(where: Opening) -> None:
    jobs = make_app(keep_payload=False)

    @jobs.job("reset")
    async def reset(token: str, then: str = "") -> Dead | Cancel | None:
        verdicts: dict[str, Dead | Cancel] = {"dead": Dead("no"), "cancel": Cancel("no")}
        return verdicts.get(then)

    async with where(jobs):
        for then in ("dead", "cancel"):
            await reset.enqueue(**SECRET, then=then)
        assert [job.payload for job in await run_until_idle(jobs)] == [{**SECRET, "then": then} for then in ("dead", "cancel")]


async def test_in_memory_nothing_is_emptied_early() -> None:
    jobs = AsyncJobs("embedded://")

    @jobs.job("reset", keep_payload=False)
    async def reset(token: str) -> str:
        return token

    assert await perform(reset.new(**SECRET)) == "s3cret"


async def no_job() -> None: ...


@pytest.mark.parametrize("value", [0, 1, "no"])
def test_what_is_no_flag_is_refused(value: Any) -> None:
    router = JobRouter()
    with pytest.raises(ConfigurationError, match=r'job "a": keep_payload=.* must be True or False'):
        router.job("a", keep_payload=value)(lambda: None)
    with pytest.raises(ConfigurationError, match=r"^JobRouter\(keep_payload\)=.* must be True or False"):
        JobRouter(keep_payload=value)
    with pytest.raises(ConfigurationError, match=r"^keep_payload=.* must be True or False"):
        AsyncJobs(keep_payload=value)
    with pytest.raises(InvalidOption, match=r"^keep_payload=.*: give True or False\.$"):
        router.job("b")(no_job).using(keep_payload=value)
