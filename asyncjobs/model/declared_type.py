"""A job type as a runner declares it to the database, for enqueues from SQL."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

#: How JSON says it, which has no number for it.
INFINITE: Final = "Infinity"


class DeclaredType(msgspec.Struct, frozen=True, kw_only=True):
    """One name by which jobs of a type are enqueued, and what is usual for them: the columns of `types`."""

    name: str
    type: str  # of its jobs: another than the name when that is a former one
    version: int
    queue: str
    lane: str | None
    breaker: str | None = None
    priority: int
    max_attempts: int
    timeout_seconds: float | str | None  # INFINITE: none, whatever lane and app say
    app_timeout_seconds: float | None  # where neither type nor lane has one
    expires_seconds: float | None
    on_dead: str
    serialize_by: Any  # None: not at all; a list: a template; "function": only Python knows
    dedup_by: Any  # the same
    limit_name: str | None = None  # of its limit
    limit_by: Any = None  # the same, of limit keys; None: the limit has one key
    tags: tuple[str, ...]
    redact: tuple[str, ...] = ()
    schema: Mapping[str, Any]
    sieve: str
    queues: Mapping[str, Mapping[str, float | None]]  # of the program: the lanes of each, with their timeouts
    max_payload_bytes: int
    max_depth: int

    @property
    def digest(self) -> int:
        """A number of 64 bits that two definitions share only if they are the same."""
        return int.from_bytes(sha256(msgspec.json.encode(self, order="deterministic")).digest()[:8], signed=True)
