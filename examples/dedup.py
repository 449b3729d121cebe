"""One live job per dedup key: what happens when the same thing is enqueued twice.

Run it with `python examples/dedup.py`.
"""

import asyncio
from uuid import uuid4

from asyncjobs import AsyncJobs, DuplicateJob

jobs = AsyncJobs("embedded://")


@jobs.job("dedup.sync")
async def sync_account(account: str, *, full: bool = False) -> str:
    """Fetch an account's data. To have it waiting twice makes no sense."""
    return f"{account}: {'all of it' if full else 'what changed'}"


async def main() -> None:
    """Enqueue duplicates in the three ways there are, and once with a key that outlives its job."""
    account = f"acc-{uuid4()}"
    once = sync_account.using(dedup_key=account, delay=0.3)
    async with jobs.runner():
        first = await once.enqueue(account)
        again = await once.enqueue(account)  # the default: the live job's handle
        print("again:", "the same job" if (again.id, again.created) == (first.id, False) else "another job")

        # A job that has not started can be given the new payload and time.
        replaced = await once.using(on_duplicate="replace").enqueue(account, full=True)
        assert replaced.id == first.id
        try:
            await once.using(on_duplicate="raise").enqueue(account)
        except DuplicateJob as error:
            print("raise:", "DuplicateJob" if error.job_id == first.id else error)

        print("ran:  ", (await first.result(timeout=10)).removeprefix(f"{account}: "))
        after = await once.enqueue(account)  # the key is free once its job has ended
        assert after.created

        # Taken for an hour from the enqueue, even though the job ends sooner.
        webhook = sync_account.using(dedup_key=f"{account} delivery 17", dedup_for=3600)
        delivered = await webhook.enqueue(account)
        await delivered.result(timeout=10)
        repeated = await webhook.enqueue(account)
        print("later:", "known for an hour" if not repeated.created else "ran again")
        assert repeated.id == delivered.id


if __name__ == "__main__":
    asyncio.run(main())
