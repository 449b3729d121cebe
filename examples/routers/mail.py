"""Everything that sends mail. The router's defaults hold for all jobs declared on it."""

from asyncjobs import JobContext, JobRouter

router = JobRouter(queue="mail", timeout=30, max_attempts=5)

#: What was sent, for the example's sake.
sent: list[str] = []


@router.job("mail.welcome", lane="fast")
async def welcome(ctx: JobContext, to: str) -> str:
    """Send one mail. The slots of lane "fast" are kept for mails that somebody waits for."""
    sent.append(to)
    return f"welcomed {to} from queue {ctx.job.queue}"


@router.job("mail.newsletter", priority=200)
async def newsletter(to: str, issue: int) -> str:
    """Later than other mail: a lower priority number goes first."""
    sent.append(to)
    return f"issue {issue} for {to}"
