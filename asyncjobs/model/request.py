"""What operators ask of a job that runs."""

from typing import Literal

import msgspec

#: cancel it; make it dead; or fail this attempt, with more to come if there are any.
Wanted = Literal["cancel", "dead", "fail"]


class Request(msgspec.Struct, frozen=True):
    """The end of an attempt that was asked for, addressed by job and claim token."""

    id: int
    token: int
    wanted: Wanted
    message: str | None
