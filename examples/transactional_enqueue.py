"""Enqueue in the caller's own transaction: the job is there if the order is, and never runs for an order that was rolled back.

Run it with `python examples/transactional_enqueue.py`.
"""

import asyncio

import asyncpg
from sqlalchemy import Column, Integer, MetaData, String, Table, insert
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from asyncjobs import AsyncJobs, embedded

jobs = AsyncJobs("embedded://")
orders = Table("example_orders", metadata := MetaData(), Column("id", Integer, primary_key=True), Column("customer", String))


@jobs.job("transactional.confirm")
async def confirm(order_id: int, customer: str) -> str:
    """Confirm an order; it is committed by the time this runs."""
    return f"order {order_id} confirmed to {customer}"


async def order_with_sqlalchemy(session: AsyncSession, customer: str, *, give_up: bool = False) -> int:
    """Insert an order and enqueue its confirmation; both are committed or neither is."""
    async with session.begin() as transaction:
        order_id = (await session.execute(insert(orders).values(customer=customer).returning(orders.c.id))).scalar_one()
        handle = await confirm.using(connection=session).enqueue(order_id, customer)
        if give_up:
            await transaction.rollback()
    return handle.id


async def order_with_asyncpg(connection: "asyncpg.Connection[asyncpg.Record]", customer: str) -> int:
    """The same without SQLAlchemy."""
    async with connection.transaction():
        order_id = await connection.fetchval("INSERT INTO example_orders (customer) VALUES ($1) RETURNING id", customer)
        handle = await confirm.using(connection=connection).enqueue(order_id, customer)
        assert await jobs.get(handle.id) is None  # nobody else sees it yet
    return handle.id


async def main() -> None:
    """Order three times, once in vain."""
    server = await embedded.start()  # the database of embedded://, for the app's own tables
    engine = create_async_engine(server.dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    async with jobs.runner():
        async with AsyncSession(engine) as session:
            print("SQLAlchemy:", await jobs.handle(await order_with_sqlalchemy(session, "Ada")).result(timeout=10))
            in_vain = await order_with_sqlalchemy(session, "Bob", give_up=True)
        lost_order = await jobs.get(in_vain)
        print("rolled back:", lost_order)
        assert lost_order is None
        plain = await asyncpg.connect(server.dsn)
        print("asyncpg:", await jobs.handle(await order_with_asyncpg(plain, "Eve")).result(timeout=10))
        await plain.close()
    await engine.dispose()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
