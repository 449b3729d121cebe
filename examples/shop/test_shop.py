"""The shop's tests."""

import httpx
from fastapi.testclient import TestClient

from asyncjobs import Dead
from asyncjobs.testing import assert_enqueued_sync, perform, run_until_idle, run_until_idle_sync

from .conftest import Rows
from .database import Order
from .jobs import charge, jobs, send_mail
from .web import app

GOOD = {"customer": "ada@example.com", "cents": 1990, "card": "4242-4242"}
BAD = GOOD | {"card": "4000-0002"}


async def test_a_mail() -> None:
    assert await perform(send_mail.new("ada@example.com", "Hello")) == "'Hello' sent to ada@example.com"


def test_an_order_in_memory(shop_in_memory: Rows) -> None:
    with TestClient(app) as client:
        assert client.post("/orders", json=GOOD).json()["order"] == 1
        assert_enqueued_sync(jobs, charge, {"order_id": 1}, dedup_key="order 1")
        charged, mail = run_until_idle_sync(jobs)
        assert (charged.result, mail.result) == ("paid", "'Thank you for order 1' sent to ada@example.com")
        assert client.get("/orders/1").json() == {"order": 1, "status": "paid"}


async def test_a_refused_card(shop_in_memory: Rows) -> None:
    shop_in_memory.add(order := Order(customer="ada@example.com", cents=5))
    assert await perform(charge.new(order.id, "ada@example.com", "4000-0002")) == Dead("the card was refused")
    assert order.status == "refused"


async def test_orders_on_a_server(client: httpx.AsyncClient) -> None:
    placed = [(await client.post("/orders", json=order)).json()["order"] for order in (GOOD, BAD, GOOD)]
    ran = await run_until_idle(jobs)
    assert sorted((job.type, job.status) for job in ran) == [
        ("charge", "completed"),
        ("charge", "completed"),
        ("charge", "dead"),
        ("mail", "completed"),
        ("mail", "completed"),
    ]
    statuses = [(await client.get(f"/orders/{order_id}")).json()["status"] for order_id in placed]
    assert statuses == ["paid", "refused", "paid"]


async def test_an_order_that_is_not_committed_is_not_charged(client: httpx.AsyncClient) -> None:
    refused = await client.post("/orders", json=GOOD | {"cents": "a lot"})
    assert refused.status_code == 422
    assert await run_until_idle(jobs) == []
