"""Jobs that failed for good: find out why, mend the cause, and requeue them. What cannot be mended is acknowledged.

Run it with `python examples/dead_letters.py`.
"""

import asyncio

from asyncjobs import AsyncJobs

jobs = AsyncJobs("embedded://")
prices = {"tea": 3, "coffee": 4}


@jobs.job("dead letters.order", max_attempts=1)
async def order(item: str, quantity: int) -> int:
    """Fails with its only attempt for what nobody sells: the job is dead, and a dead letter tells of it."""
    return prices[item] * quantity


async def main() -> None:
    """Order what there is and what there is not, then deal with the dead letters."""
    async with jobs.runner():
        await jobs.admin.acknowledge_all(by="the example", type="dead letters.order")  # what an earlier run may have left
        for item in ("tea", "cocoa", "cocoa", "???"):
            await (await order.enqueue(item, 2)).wait()

        # The newest dead letter comes first.
        unseen = (await jobs.admin.dead_letters(type="dead letters.order", acknowledged=False)).dead_letters
        print("unseen:", [dead_letter.error_message for dead_letter in unseen])
        shown = await jobs.admin.dead_letter(unseen[-1].id)
        print("the first:", shown.job.payload, "-", shown.job.errors[-1]["traceback"].splitlines()[-1])

        await jobs.admin.acknowledge(unseen[0].id, by="ada")  # nobody sells "???"
        prices["cocoa"] = 5
        planned = await jobs.admin.requeue_all(by="ada", type="dead letters.order", dry_run=True)
        print("would be:", planned.outcomes)
        for dead_letter in reversed(unseen[1:]):  # each becomes a new job; `requeue_all` does it for all at once
            requeued = await jobs.admin.requeue(dead_letter.id, by="ada")
            assert requeued.new_id is not None
            print("requeued:", await order.handle(requeued.new_id).result())
        print("unseen:", (await jobs.admin.dead_letters(type="dead letters.order", acknowledged=False)).dead_letters)


if __name__ == "__main__":
    asyncio.run(main())
