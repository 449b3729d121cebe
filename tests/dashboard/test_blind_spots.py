"""What is asked at three in the morning, and answered by a page."""

import asyncio
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.admin import Admin
from asyncjobs.dashboard import Dashboard
from asyncjobs.store.database import Connection
from tests.dashboard.conftest import Served
from tests.support.browser import Browser
from tests.support.factories import insert

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_overview_says_what_the_doctor_finds_about_work(browser: Browser, rows: Connection, jobs: AsyncJobs) -> None:
    await insert(rows, "pauses", kind="queue", name="mail", paused_by="ada", reason="tax season")
    page = await browser.get("/")
    for one in await jobs.admin.worries():
        assert one.what in page.text
    assert 'queue "mail" since' in page.text
    assert page.having("a", href="/doctor")
    await rows.execute("DELETE FROM asyncjobs.pauses WHERE name = 'mail'")


async def test_viewers_of_the_doctor_share_his_visit(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0
    doctor = Admin.doctor

    async def counted(self: Any) -> Any:
        nonlocal visits
        visits += 1
        return await doctor(self)

    monkeypatch.setattr(Admin, "doctor", counted)
    async with Browser(served.site()) as browser:
        await asyncio.gather(*(browser.get("/doctor") for _ in range(20)))
    assert visits == 1


async def test_dashboard_without_an_app_knows_what_is_behind_a_breaker(shop_dsn: str, rows: Connection) -> None:
    await rows.execute(
        "INSERT INTO asyncjobs.types (digest, version, priority, max_attempts, max_depth, max_payload_bytes, name, type, queue, "
        "breaker, on_dead, tags, redact, schema, sieve, queues) VALUES (77, 1, 100, 3, 9, 9, 'fax', 'fax', 'default', "
        "'fax-service', 'advance', '{}', '{}', '{}', '$', '{}')"
    )
    await insert(rows, "circuit_breakers", service_name="fax-service", state="open")
    async with AsyncJobs(shop_dsn) as stranger, Browser(Dashboard(stranger, auth=lambda _: "ada")) as browser:
        page = await browser.get("/breakers")
        assert "fax-service" in page.text
        assert "behind it: fax" in page.text
