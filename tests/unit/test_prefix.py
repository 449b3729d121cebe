"""A router's prefix stands before the names of what is declared on it."""

from typing import Any

import pytest

from asyncjobs import AsyncJobs, DuplicateName, InvalidName, JobRouter
from asyncjobs.context import DutyContext


def test_types_stubs_schedules_and_duties_get_it_aliases_and_breakers_do_not() -> None:
    router = JobRouter(prefix="billing.")

    @router.job("charge", aliases=["charge", "bill"], breaker="bank")
    async def charge(cents: int) -> None: ...

    @router.stub("refund")
    async def refund(cents: int) -> None: ...

    @router.cron("nightly", "@daily")
    async def nightly() -> None: ...

    @router.duty("sweep up", every=60)
    async def sweep(ctx: DutyContext) -> None: ...

    router.circuit_breaker("bank")
    router.schedule("hourly", charge.new(1), every=3600)
    assert [one.name for one in (charge, refund, nightly)] == ["billing.charge", "billing.refund", "billing.nightly"]
    assert charge.new(1).type == "billing.charge"
    jobs = AsyncJobs("embedded://", routers=[router])
    assert sorted(jobs.handlers) == ["bill", "billing.charge", "billing.nightly", "billing.refund", "charge"]
    assert {(one.what, one.name) for one in jobs.declarations.all_planned()} == {
        ("schedule", "billing.nightly"), ("schedule", "billing.hourly"), ("duty", "billing.sweep up"),
        ("circuit breaker", "bank"),
    }  # fmt: skip
    jobs.close_declarations()
    assert {one.name: one.row.type for one in jobs.schedules} == {
        "billing.nightly": "billing.nightly", "billing.hourly": "billing.charge",
    }  # fmt: skip


def test_two_routers_with_prefixes_may_use_the_same_names_and_without_may_not() -> None:
    def declare(prefix: str) -> JobRouter:
        router = JobRouter(prefix=prefix)
        router.job("send")(_send)
        return router

    AsyncJobs("embedded://", routers=[declare("a."), declare("b."), declare("")])
    with pytest.raises(DuplicateName, match=r'"a\.send"'):
        AsyncJobs("embedded://", routers=[declare("a."), declare("a.")])


async def _send() -> None: ...


@pytest.mark.parametrize("prefix", [None, 7, " a", "a\n", "asyncjobs.", "x" * 201])
def test_what_cannot_be_a_prefix_is_refused(prefix: Any) -> None:
    with pytest.raises(InvalidName, match="prefix name"):
        JobRouter(prefix=prefix)


@pytest.mark.parametrize("name", ["", 7, "x" * 196])
def test_a_name_is_checked_with_its_prefix(name: Any) -> None:
    with pytest.raises(InvalidName):
        JobRouter(prefix="long.").job(name)(_send)
