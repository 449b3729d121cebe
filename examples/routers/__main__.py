"""Put it together: the one place that knows the database, the queues and all routers."""

import asyncio

from asyncjobs import AsyncJobs, Queue
from examples.routers import mail, reports

jobs = AsyncJobs(
    "embedded://",
    queues=[Queue("mail", concurrency=8, lanes={"fast": 3}), Queue("reports", concurrency=2)],
    routers=[mail.router, reports.router],
)


async def main() -> None:
    """Enqueue from anywhere: a job type finds the opened AsyncJobs that includes it."""
    async with jobs.runner():
        print(await (await mail.welcome.enqueue("ada@example.com")).result(timeout=10))
        print(await (await reports.count_words.enqueue("to be or not to be")).result(timeout=10), "words")

        report = reports.monthly.using(correlation_id="report-2026-11")
        first_mail = await (await report.enqueue("2026-11")).result(timeout=10)
        job = await jobs.handle(first_mail).wait(timeout=10)
        print("newsletter:", job.result, "-", job.correlation_id)
    assert job.correlation_id == "report-2026-11"
    assert job.parent_job_id is not None
    assert "ada@example.com" in mail.sent


if __name__ == "__main__":
    asyncio.run(main())
