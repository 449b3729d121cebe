"""What can be meant by a limit: bad ones are refused where they are declared."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Limit, Queue, Rate
from asyncjobs.errors import ConfigurationError, InvalidHandler, InvalidName, InvalidOption, InvalidPayload


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limit("api"), "limits nothing"),
        (lambda: Limit("api", total=0), "out of range"),
        (lambda: Limit("api", total=-1), "out of range"),
        (lambda: Limit("api", total=2**31), "out of range"),
        (lambda: Limit("api", total=True), "whole number"),
        (lambda: Limit("api", each=2), "give by="),
        (lambda: Limit("a:b", total=2), "colon"),
        (lambda: Limit("api", each=2, by=7), "by=7"),  # type: ignore[arg-type]
        (lambda: Limit("api", rate=600), "Rate"),  # type: ignore[arg-type]
        (lambda: Limit("api", total=1, weight=0), "weight"),
        (lambda: Rate(600), "no time"),
        (lambda: Rate(0, per=60), "out of range"),
        (lambda: Rate(10, per=0), "per"),
        (lambda: Rate(10, per=1, burst=0), "burst"),
        (lambda: Rate(10**7, per=1), "100,000 starts a second"),
        (lambda: Rate(1, per=86_400 * 365, burst=2**31 - 1), "100 years for its burst"),
        (lambda: Queue("mail", total=0), "total"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        make()


def test_a_name_is_one() -> None:
    with pytest.raises(InvalidName):
        Limit("", total=1)


def test_a_burst_is_a_tenth_of_the_rate_and_at_least_two() -> None:
    assert [Rate(count, per=60).burst for count in (1, 20, 600)] == [2, 2, 60]


def test_by_names_parameters_of_the_handler() -> None:
    jobs = AsyncJobs("postgresql://nowhere")
    with pytest.raises(InvalidHandler, match=r"by names \{tenant\}"):

        @jobs.job("work", limit=Limit("api", each=1, by="{tenant}"))
        async def work(user: str) -> None: ...


def test_by_answers_a_text() -> None:
    jobs = AsyncJobs("postgresql://nowhere")
    answers: list[Any] = [7, "", None, "a"]

    @jobs.job("work", limit=Limit("api", each=1, by=lambda user: answers[0]))
    async def work(user: str) -> None: ...

    for _ in range(2):
        with pytest.raises(InvalidPayload, match="limit key"):
            work.new("ann")
        answers.pop(0)
    assert work.new("ann").row.limit_key == "api"
    answers.pop(0)
    assert work.new("ann").row.limit_key == "api:a"


def test_a_limit_key_needs_a_limit_with_keys() -> None:
    jobs = AsyncJobs("postgresql://nowhere")

    @jobs.job("free")
    async def free() -> None: ...

    @jobs.job("one", limit=Limit("one", total=1))
    async def one() -> None: ...

    for job_type in (free, one):
        with pytest.raises(InvalidOption, match="limit_key"):
            job_type.using(limit_key="k").new()
    assert one.new().row.limit_key == "one"


def test_two_limits_of_one_name_that_differ_are_refused() -> None:
    jobs = AsyncJobs("postgresql://nowhere")

    @jobs.job("one", limit=Limit("api", total=1))
    async def one() -> None: ...

    @jobs.job("other", limit=Limit("api", total=2))
    async def other() -> None: ...

    with pytest.raises(ConfigurationError, match='two limits are called "api"'):
        _ = jobs.handlers


def test_a_limit_is_a_limit() -> None:
    jobs = AsyncJobs("postgresql://nowhere")
    with pytest.raises(ConfigurationError, match="write limit=Limit"):

        @jobs.job("work", limit=7)  # type: ignore[arg-type]
        async def work() -> None: ...
