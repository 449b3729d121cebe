"""Reports: slow work, which enqueues jobs of another module when it is done."""

from asyncjobs import JobContext, JobRouter
from examples.routers import mail

router = JobRouter(queue="reports")


@router.job("reports.monthly")
async def monthly(ctx: JobContext, month: str) -> int:
    """Make a report and tell two readers; the id of the first mail's job is the result.

    Jobs that an attempt enqueues carry its correlation id, and its job's id as their parent.
    """
    handles = [await mail.newsletter.enqueue(to, issue=int(month[-2:])) for to in ("ann@example.com", "bob@example.com")]
    return handles[0].id


@router.job("reports.count")
def count_words(text: str) -> int:
    """A plain `def` runs in a thread, so that it does not hold up the event loop."""
    return len(text.split())
