"""What the shop does in the background."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import func, select

from asyncjobs import AsyncJobs, Dead, JobContext, Queue, resource

from .database import Order, session_of

jobs = AsyncJobs(
    os.environ.get("ASYNCJOBS_DSN", "embedded://"),
    queues=[Queue("default"), Queue("mail", concurrency=20)],
    connect_timeout=None,  # a database that is late is waited for
)


class CardRefused(Exception):
    """The customer's bank said no."""


class Payments:
    """Stands for the client of a payment provider. Charging twice with one key charges once."""

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}

    async def charge(self, card: str, cents: int, *, key: str) -> None:
        if card.endswith("0002"):
            raise CardRefused
        self.charged[key] = cents


@resource
@asynccontextmanager
async def payments() -> AsyncGenerator[Payments]:
    """One client for all attempts of a process."""
    yield Payments()


@jobs.job("charge", serialize_by="customer_{customer}", max_attempts=5, timeout=30, redact=("card",))
async def charge(ctx: JobContext, order_id: int, customer: str, card: str) -> str | Dead:
    """Charge an order: the orders of one customer one after another."""
    session = await ctx.use(session_of)
    order = await session.get_one(Order, order_id)
    provider = await ctx.use(payments)
    try:
        await provider.charge(card, order.cents, key=f"order {order_id}")
    except CardRefused:
        order.status = "refused"
        await session.commit()
        return Dead("the card was refused")  # another attempt would not help
    order.status = "paid"
    await send_mail.using(connection=session).enqueue(customer, f"Thank you for order {order_id}")
    await ctx.complete(session, "paid")  # with the order's new status and the mail: all of it, or nothing
    await session.commit()
    return "paid"


@jobs.job("mail", queue="mail")
async def send_mail(to: str, subject: str) -> str:
    """Stands for a mail server's client, which raises when it could not send."""
    return f"{subject!r} sent to {to}"


@jobs.cron("daily report", "0 7 * * *", timezone="Europe/Berlin")
async def report(ctx: JobContext) -> int:
    """How many orders are paid."""
    session = await ctx.use(session_of)
    return (await session.execute(select(func.count()).where(Order.status == "paid"))).scalar_one()
