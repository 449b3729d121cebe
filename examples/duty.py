"""Work that is to be done once for all runners, again and again: a duty. Who does it is its strategy.

Run it with `python examples/duty.py`.
"""

import asyncio

import asyncpg

from asyncjobs import AsyncJobs, DutyContext, embedded

jobs = AsyncJobs("embedded://")
expired, refreshed, archived = asyncio.Event(), asyncio.Event(), asyncio.Event()
carts: "asyncpg.Pool[asyncpg.Record]"  # the application's own


@jobs.duty("duty.expire_carts", every=0.1)  # strategy="lease": one runner does it, another takes over when that one is gone
async def expire_carts(ctx: DutyContext) -> int:
    """Deletes carts, once however many runners there are. What it returns is shown by `jobs.admin.leases()`."""
    async with carts.acquire() as connection, connection.transaction():
        # A process that was frozen may wake here when another has taken over long ago: then this raises LeaseLost.
        await ctx.hold(connection)
        done = await connection.execute("DELETE FROM example_carts WHERE expires_at < now()")
    count = int(done.removeprefix("DELETE "))
    if count:
        ctx.log.debug("carts expired", count=count)
        expired.set()
    return count


@jobs.duty("duty.refresh_cache", every=0.1, strategy="everyone")
async def refresh_cache() -> None:
    """Is done by each runner for itself: what it fills is in this process."""
    refreshed.set()


@jobs.duty("duty.archive", every=0.1, strategy="share")
async def archive() -> int:
    """Is done by all runners together, each now and then: passes may overlap, and take different rows."""
    async with carts.acquire() as connection:
        done = await connection.execute(
            "DELETE FROM example_carts WHERE id IN (SELECT id FROM example_carts WHERE paid LIMIT 100 FOR UPDATE SKIP LOCKED)"
        )
    archived.set()
    return int(done.removeprefix("DELETE "))


async def main() -> None:
    """Let the duties see to three carts: one has expired, one is paid, one stays. Then look who did it."""
    global carts
    server = await embedded.start()  # the database of embedded://, for the app's own table
    async with asyncpg.create_pool(server.dsn, min_size=1, max_size=3) as carts:
        await carts.execute("CREATE TABLE IF NOT EXISTS example_carts (id serial, expires_at timestamptz, paid boolean)")
        await carts.execute("INSERT INTO example_carts VALUES (1, now(), false), (2, 'tomorrow', true), (3, 'tomorrow', false)")
        async with jobs.runner() as runner, asyncio.timeout(20):
            await asyncio.gather(expired.wait(), refreshed.wait(), archived.wait())
            print("left:", [row["id"] for row in await carts.fetch("SELECT id FROM example_carts WHERE NOT paid")])
            for lease in await jobs.admin.leases():
                if lease.duty == "duty.expire_carts" and lease.runner_id == runner.id:
                    print(f"{lease.duty} is done by this runner, with {lease.errors or 0} errors")
        await carts.execute("DROP TABLE example_carts")
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
