"""Routers, what an app makes of them, and what it holds against each other when it opens."""

import gc
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from asyncjobs import (
    AlreadyOpen,
    AsyncJobs,
    ConfigurationError,
    DuplicateName,
    InvalidHandler,
    InvalidSchedule,
    JobRouter,
    Lane,
    Queue,
    UnknownLane,
    UnknownQueue,
    UnknownType,
)
from asyncjobs.declare.new_job import admit


async def first(to: str) -> None: ...
async def second(to: str) -> None: ...


def place(function: Any) -> str:
    return f"tests/unit/test_declarations.py:{function.__code__.co_firstlineno}"


def test_a_name_declared_twice_names_both_places() -> None:
    router = JobRouter()
    router.job("email")(first)
    with pytest.raises(DuplicateName) as caught:
        router.job("email")(second)
    assert str(caught.value) == f'job "email" is declared twice: {place(first)} and {place(second)}.'
    assert (caught.value.name, caught.value.first, caught.value.second) == ("email", place(first), place(second))


def test_an_alias_is_a_name_like_any_other() -> None:
    router = JobRouter()
    router.job("email", aliases=["mail"])(first)
    for name, aliases in (("mail", []), ("dead_letter", ["email"]), ("dead_letter", ["dead_letter"])):
        with pytest.raises(DuplicateName):
            router.job(name, aliases=aliases)(second)


def test_two_routers_with_one_name_meet_at_the_app_whichever_came_first() -> None:
    left, right = JobRouter(), JobRouter()
    left.job("email")(first)
    jobs = AsyncJobs(routers=[left, right])
    with pytest.raises(DuplicateName, match="declared twice"):
        right.job("email")(second)
    other = JobRouter()
    other.job("email")(second)
    with pytest.raises(DuplicateName, match="declared twice"):
        jobs.include_router(other)


def test_a_router_may_be_included_twice_and_in_two_apps() -> None:
    router = JobRouter()
    email = router.job("email")(first)
    outer = JobRouter()
    outer.include_router(router)
    jobs, other = AsyncJobs(routers=[router, outer, router]), AsyncJobs(routers=[outer])
    assert jobs.includes(email.declaration)
    assert other.includes(email.declaration)


def test_a_router_does_not_include_itself_nor_an_app() -> None:
    outer, inner = JobRouter(), JobRouter()
    outer.include_router(inner)
    for router in (outer, inner):
        with pytest.raises(ConfigurationError, match="cannot include itself"):
            inner.include_router(router)
    with pytest.raises(ConfigurationError, match="an AsyncJobs cannot be included"):
        outer.include_router(AsyncJobs())


def test_options_beat_the_type_the_type_its_router_and_the_router_the_defaults() -> None:
    router = JobRouter(queue="mail", timeout=60, max_attempts=7)
    plain = router.job("plain")(first).new("a").row
    own = router.job("own", queue="bulk", max_attempts=2)(second)
    assert (plain.queue, plain.timeout_seconds, plain.max_attempts, plain.priority) == ("mail", 60, 7, 100)
    row = own.using(max_attempts=1, queue=None, priority=5).new("a").row
    assert (row.queue, row.timeout_seconds, row.max_attempts, row.priority) == ("bulk", 60, 1, 5)


def test_a_queue_that_the_app_lacks_is_found_out_when_it_opens() -> None:
    jobs = AsyncJobs(queues=[Queue("default"), Queue("mail")])
    jobs.job("email", queue="mial")(first)
    with pytest.raises(UnknownQueue) as caught:
        jobs.close_declarations()
    assert str(caught.value) == (
        f'job "email" ({place(first)}): queue "mial" is not in queues= (default, mail). Did you mean "mail"?'
    )


def test_a_lane_that_the_queue_lacks_is_found_out_when_it_opens() -> None:
    jobs = AsyncJobs(queues=[Queue("default", lanes={"fast": 1})])
    jobs.job("email", lane="fsat")(first)
    with pytest.raises(UnknownLane) as caught:
        jobs.close_declarations()
    assert str(caught.value) == (
        f'job "email" ({place(first)}): lane "fsat" is not a lane of queue "default" (fast). Did you mean "fast"?'
    )


def test_a_stubs_queue_is_another_services() -> None:
    jobs = AsyncJobs()
    email = jobs.stub("email", queue="elsewhere", lane="fast", serialize_by="inbox_{to}")(first)
    jobs.close_declarations()
    row = admit(email.new("a").row, email.declaration, jobs.queues, jobs.settings)
    assert (row.queue, row.lane, row.serialization_key) == ("elsewhere", "fast", "inbox_a")


def test_an_unknown_queue_or_lane_in_the_options_is_refused_by_the_enqueue() -> None:
    jobs = AsyncJobs(queues=[Queue("default"), Queue("mail", lanes={"fast": Lane(1, timeout=5)})])
    email = jobs.job("email", queue="mail", lane="fast")(first)

    def row(**options: Any) -> Any:
        return admit(email.using(**options).new("a").row, email.declaration, jobs.queues, jobs.settings)

    assert (row().lane, row().timeout_seconds, row(timeout=9).timeout_seconds) == ("fast", 5, 9)
    assert row(queue="default").lane is None  # the lane belongs to the type's own queue
    with pytest.raises(UnknownQueue, match=r'^email: queue "mial" is not in queues= \(default, mail\)'):
        row(queue="mial")
    with pytest.raises(UnknownLane, match=r'^email: lane "slow" is not a lane of queue "mail" \(fast\)'):
        row(lane="slow")


async def test_a_name_that_the_app_does_not_know_is_refused_with_those_it_knows() -> None:
    jobs = AsyncJobs()
    jobs.job("email")(first)
    jobs.job("email.log")(second)
    with pytest.raises(UnknownType) as caught:
        await jobs.enqueue("emial", {"to": "a"})
    assert str(caught.value) == (
        'no job "emial" in this app. Known: email, email.log. Did you mean "email"? '
        'For another service\'s type declare @router.stub("emial").'
    )


async def late_annotation(to: "DefinedBelow") -> None: ...


async def lost_annotation(to: "Nowhere") -> None: ...  # type: ignore[name-defined]  # pyright: ignore[reportUndefinedVariable]  # noqa: F821


def test_an_annotation_may_name_what_comes_later_but_not_what_never_comes() -> None:
    jobs = AsyncJobs()
    late = jobs.job("late")(late_annotation)
    jobs.job("lost")(lost_annotation)
    assert late.new(DefinedBelow.A).row.payload == '{"to":"a"}'
    with pytest.raises(InvalidHandler, match=r'job "lost": an annotation cannot be resolved: name \'Nowhere\' is not defined'):
        jobs.close_declarations()


def test_a_types_circuit_breaker_has_to_be_declared_in_the_app() -> None:
    jobs, other = AsyncJobs(), JobRouter()
    jobs.circuit_breaker("mail-service")
    jobs.job("email", breaker="mial-service")(first)
    with pytest.raises(
        ConfigurationError,
        match=r'^job "email" \(.*\): breaker="mial-service" is no circuit breaker of this app \(mail-service\)\. '
        r'Did you mean "mail-service"\? Declare it: router\.circuit_breaker\("mial-service"\)\.$',
    ):
        jobs.close_declarations()
    other.circuit_breaker("mial-service")  # declared, and perhaps later than the job
    jobs.include_router(other)
    jobs.close_declarations()
    assert sorted(jobs.breakers) == ["mail-service", "mial-service"]


def test_a_circuit_breaker_is_declared_once_in_an_app() -> None:
    jobs, other = AsyncJobs(), JobRouter()
    jobs.circuit_breaker("mail-service")
    other.circuit_breaker("mail-service")
    with pytest.raises(DuplicateName, match=r'^circuit breaker "mail-service" is declared twice'):
        jobs.include_router(other)
    jobs.close_declarations()
    with pytest.raises(AlreadyOpen, match=r'^circuit breaker "late" declared after AsyncJobs was opened'):
        jobs.circuit_breaker("late")


async def _no_arguments() -> None: ...


class DefinedBelow(Enum):
    A = "a"


# Schedules.


def test_a_schedule_makes_the_job_as_the_app_would_enqueue_it() -> None:
    jobs = AsyncJobs(queues=[Queue("default"), Queue("mail", lanes={"fast": Lane(1, timeout=5)})])
    email = jobs.job("email", queue="mail", lane="fast")(first)
    jobs.schedule("morning", email.using(priority=5, dedup_key="d").new("a"), cron="@daily", overlap="queue")
    jobs.cron("nightly", "0 3 * * *", timezone="Europe/Helsinki", queue="mail", misfire="all")(_no_arguments)
    jobs.close_declarations()
    morning, nightly = jobs.schedules
    row = morning.row
    assert (row.type, row.payload, row.lane, row.timeout_seconds) == ("email", '{"to":"a"}', "fast", 5)
    assert (row.priority, row.dedup_key, row.serialization_key) == (5, "d", "schedule morning")
    assert (nightly.name, nightly.row.type, nightly.row.queue, nightly.row.payload) == ("nightly", "nightly", "mail", "{}")
    assert (nightly.timing.cron, nightly.timing.timezone, nightly.misfire) == ("0 3 * * *", "Europe/Helsinki", "all")


def test_equal_declarations_have_equal_definitions_and_others_have_others() -> None:
    def definition(**options: Any) -> str:
        jobs = AsyncJobs()
        email = jobs.job("email")(first)
        timing: dict[str, Any] = {"every": 60} if "cron" not in options else {}
        jobs.schedule("s", email.using(**options.pop("using", {})).new(options.pop("to", "a")), **timing, **options)
        jobs.close_declarations()
        return jobs.schedules[0].definition

    changes: list[dict[str, Any]] = [
        {}, {"to": "b"}, {"using": {"priority": 5}}, {"misfire": "all"}, {"overlap": "skip"}, {"timezone": "Europe/Paris"},
        {"cron": "* * * * *"},
    ]  # fmt: skip
    assert definition() == definition()
    assert len({definition(**change) for change in changes}) == len(changes)


def test_a_schedules_name_is_its_own_across_routers() -> None:
    jobs, router = AsyncJobs(), JobRouter()
    email = jobs.job("email")(first)
    jobs.schedule("s", email.new("a"), every=5)
    with pytest.raises(DuplicateName, match=r'^schedule "s" is declared twice: .*test_declarations.py:\d+ and .*:\d+\.$'):
        jobs.schedule("s", email.new("a"), every=6)
    router.schedule("s", email.new("a"), every=7)
    with pytest.raises(DuplicateName, match=r'^schedule "s" is declared twice'):
        jobs.include_router(router)


def test_a_job_that_could_not_be_enqueued_is_found_out_when_the_app_opens() -> None:
    elsewhere = JobRouter().job("lost")(first)
    jobs = AsyncJobs()
    jobs.schedule("s", elsewhere.new("a"), every=5)
    with pytest.raises(InvalidSchedule, match=r'^schedule "s": .* job "lost" is not in this app: include the router'):
        jobs.close_declarations()


@pytest.mark.parametrize(
    ("options", "to", "problem"),
    [
        ({"queue": "mial"}, "a", 'queue "mial" is not in queues='),
        ({"lane": "fsat"}, "a", 'lane "fsat"'),
        ({}, "a" * 99, "at most 100"),
    ],
)
def test_a_job_that_does_not_fit_the_app_is_found_out_when_it_opens(options: Any, to: str, problem: str) -> None:
    jobs, router = AsyncJobs(max_payload_bytes=100), JobRouter()
    router.schedule("s", router.job("email")(first).using(**options).new(to), every=5)
    jobs.include_router(router)
    with pytest.raises(InvalidSchedule, match=rf'^schedule "s": \(.*\) its job cannot be enqueued: .*{problem}'):
        jobs.close_declarations()


def test_a_ticks_job_says_neither_when_it_runs_nor_in_which_transaction() -> None:
    jobs = AsyncJobs()
    email = jobs.job("email")(first)
    with pytest.raises(InvalidSchedule, match=r"its job has delay=5.0: a tick decides that"):
        jobs.schedule("s", email.using(delay=5).new("a"), every=5)
    with pytest.raises(InvalidSchedule, match=r"its job has run_at="):
        jobs.schedule("s", email.using(run_at=datetime.now(UTC)).new("a"), every=5)


def typed(router: JobRouter, name: str, *aliases: str) -> None:
    @router.job(name, aliases=aliases)
    async def handler() -> None: ...


def test_aliases_do_not_go_in_a_circle() -> None:
    router = JobRouter()
    typed(router, "new", "old")
    with pytest.raises(DuplicateName, match=r'"new" and "old" are aliases of each other: an alias is a former name'):
        typed(router, "old", "new")
    with pytest.raises(DuplicateName, match=r'job "itself" is declared twice: .* It is among its own aliases, itself'):
        typed(router, "itself", "itself")


def test_aliases_do_not_go_in_a_circle_of_routers() -> None:
    one, two = JobRouter(), JobRouter()
    typed(one, "new", "old")
    typed(two, "old", "new")
    with pytest.raises(DuplicateName, match="aliases of each other"):
        AsyncJobs(routers=[one, two])


def test_a_name_that_is_an_alias_elsewhere_says_of_what() -> None:
    router = JobRouter()
    typed(router, "b", "a")
    with pytest.raises(DuplicateName, match=r'job "a" is declared twice: .*\. "a" is an alias of "b" \(.*:\d+\)\.$'):
        typed(router, "a")
    with pytest.raises(DuplicateName, match=r'job "b" is declared twice: .*\. "b" is an alias of "c" \(.*:\d+\)\.$'):
        typed(router, "c", "b")


@pytest.mark.direct("compares settings with those that nobody has touched", only="poll")
def test_limits_are_those_of_the_apps_that_include_the_type_now() -> None:
    router = JobRouter()
    assert router.limits() == AsyncJobs().settings
    small, large = AsyncJobs(max_payload_bytes=2_000), AsyncJobs(max_payload_bytes=3_000)
    small.include_router(router)
    assert router.limits() is small.settings
    large.include_router(router)
    assert router.limits() is large.settings
    large.settings = AsyncJobs(max_payload_bytes=1_500).settings
    assert router.limits() is small.settings
    small.settings = AsyncJobs(max_payload_bytes=1_000).settings
    assert router.limits() is large.settings
    del large
    gc.collect()
    assert router.limits() is small.settings
    small.settings = AsyncJobs(max_payload_bytes=1_200).settings
    assert router.limits() is small.settings
