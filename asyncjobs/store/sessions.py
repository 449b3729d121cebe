"""Sessions of the dashboard that a user ended before their time, so that no process takes their cookies any more."""

from asyncjobs.store.database import Link


async def end(link: Link, session: str, until: float) -> None:
    """End the session, which would have lasted until then (seconds since 1970). Twice is once."""
    await link.fetch("end_session", session, until)


async def is_ended(link: Link, session: str) -> bool:
    """Whether it was ended."""
    (row,) = await link.fetch("is_session_ended", session)
    return bool(row["ended"])
