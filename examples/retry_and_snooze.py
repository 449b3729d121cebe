"""What a handler can answer besides a result: fail and be retried, come back later, give up, stop.

Run it with `python examples/retry_and_snooze.py`.
"""

import asyncio

from asyncjobs import AsyncJobs, Backoff, Cancel, Dead, JobContext, Retry, Snooze

jobs = AsyncJobs("embedded://")
quickly = Backoff(0.05, maximum=1)  # 0.05 s, 0.1 s, 0.2 s … between attempts; the default is 1 s … 5 min


@jobs.job("retry.flaky", max_attempts=5, backoff=quickly)
async def flaky(ctx: JobContext) -> str:
    """An exception is a failed attempt: the job is tried again after the back-off, five times in all."""
    if ctx.attempt < 3:
        raise ConnectionError(f"attempt {ctx.attempt} met a closed door")
    return f"went through at attempt {ctx.attempt}"


@jobs.job("retry.hopeless", max_attempts=2, backoff=quickly)
async def hopeless() -> None:
    """After the last attempt the job is dead: it is kept in the dead letters."""
    raise ValueError("no way")


@jobs.job("retry.throttled")
async def throttled(ctx: JobContext) -> str | Retry:
    """Retry fails the attempt without a traceback, and may say when to try again."""
    return Retry(delay=0.1) if ctx.attempt == 1 else "accepted"


@jobs.job("retry.polls", max_attempts=1)
async def polls(ctx: JobContext) -> str | Snooze:
    """Snooze comes back later and spends no attempt: this job has only one, and asks three times."""
    return "ready" if ctx.job.snoozes == 2 else Snooze(0.05)


@jobs.job("retry.unwanted")
async def unwanted(address: str) -> Dead | Cancel | None:
    """Dead gives up at once, whatever attempts are left; Cancel stops without calling it a failure."""
    return Dead("no such mailbox") if address == "nobody@example.com" else Cancel("unsubscribed")


async def main() -> None:
    """Run one of each and print how it ended."""
    async with jobs.runner():
        handles = [
            await flaky.enqueue(),
            await hopeless.enqueue(),
            await throttled.enqueue(),
            await polls.enqueue(),
            await unwanted.enqueue("nobody@example.com"),
            await unwanted.enqueue("gone@example.com"),
        ]
        ended = [await handle.wait(timeout=20) for handle in handles]
    for job in ended:
        print(f"{job.type:15} {job.status:9} attempts={job.attempts} snoozes={job.snoozes} {job.result or job.error_message}")
    assert [job.status for job in ended] == ["completed", "dead", "completed", "completed", "dead", "cancelled"]
    assert [job.attempts for job in ended] == [3, 2, 2, 1, 1, 1]


if __name__ == "__main__":
    asyncio.run(main())
