"""Before the first start, and in each deployment: `python -m shop.setup` makes the tables of the shop and of its jobs."""

import asyncio

from .database import create_tables, engine
from .jobs import jobs


async def main() -> None:
    """Both, in the database of `$ASYNCJOBS_DSN`."""
    await create_tables()
    await engine().dispose()
    applied = await jobs.migrate()
    print("applied", *applied or ["nothing: the schema is as new"])


if __name__ == "__main__":
    asyncio.run(main())
