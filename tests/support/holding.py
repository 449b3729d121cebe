"""Pausing a key, as the verb does it, on a link."""

from asyncjobs.store import pauses, serialized
from asyncjobs.store.database import Link


async def pause_key(link: Link, key: str, reason: str | None = None, by: str | None = None) -> bool:
    """Pause it and hold its head back; False when it was paused already."""
    paused = await pauses.pause(link, "key", key, reason, by)
    await serialized.hold_back(link, key)
    return paused.is_new
