"""What jobs of stubs left to their handlers, as it is written."""

from collections.abc import Sequence

import msgspec

from asyncjobs.model.claim import Claimed
from asyncjobs.model.new_row import OnDead
from asyncjobs.store.database import Link


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed job of a stub, as its handler has it."""

    job: Claimed
    on_dead: OnDead


async def fill_in(link: Link, asked: Sequence[Asked]) -> None:
    """Write what their handlers say, before they start."""
    asked = sorted(asked, key=lambda one: one.job.id)  # rows are locked in that order
    await link.fetch(
        "fill_in",
        [one.job.id for one in asked],
        [one.job.token for one in asked],
        [one.job.max_attempts for one in asked],
        [one.job.timeout_seconds for one in asked],
        [one.job.priority for one in asked],
        [one.on_dead for one in asked],
    )
