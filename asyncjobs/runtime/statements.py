"""The statement that a runner's call is: `finish`, or a lean one that does the same for less.

On a few jobs the server spends more on statements and functions than on rows. So what a busy runner asks for nearly always has
functions of its own:

1. `finish_one`: one attempt has completed, and there is no scan but that for its key's next job. Of a job with a key it starts
   the key's next job in the general slot that its actor took.
2. `finish_completed`: all attempts have completed, and there is at most one scan: for general slots, without probes or
   ageing. While something is paused, or there are suspects, it leaves the scan to `finish`. Server time of a job, against
   `finish`: 70 of 86 µs at 10 jobs a call, 33 of 39 at 50. A claim of an idle runner: 712 of 1,063 thousand instructions.
3. `finish`: anything else, also what has to say how far it was.

What they write, and what they answer, is the same. Where the instructions of a call go, and what was tried: bench/NOTES.md.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from asyncjobs.model.claim import AGED, Ack, Finished, Probe, Scan
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.tokens import Tokens
from asyncjobs.runtime.turnstile import Turnstile
from asyncjobs.store import jobs
from asyncjobs.store.database import Link

_kind: Final = attrgetter("outcome.kind")
_progress: Final = attrgetter("progress")
_empties: Final = attrgetter("outcome.empties")


class Statements:
    """Makes the calls of one runner, on the link of its call line."""

    def __init__(
        self,
        link: Link,
        turnstile: Turnstile,
        probation: Probation,
        tokens: Tokens,
        *,
        runner_id: Callable[[], int],
        max_errors: int,
    ) -> None:
        self._link = link
        self._turnstile = turnstile
        self._probation = probation
        self._tokens = tokens
        self._runner_id = runner_id
        self._max_errors = max_errors

    def leanest(
        self, acks: Sequence[Ack], scans: Sequence[Scan], probes: Sequence[Probe], head_of: Ack | None
    ) -> Callable[[], Awaitable[Finished]]:
        """The call that does it for the least. `head_of`: the one scan is for the next head of this one's key."""
        all_completed = _all_completed(acks)
        if all_completed and len(acks) == 1:
            [ack] = acks
            if ack is head_of and not ack.number:
                return partial(self.finish_one, ack, scans[0].queue)
            if not scans and ack.key_queue is None and not ack.number:
                return partial(self.finish_one, ack, None)
        is_plain = not scans or (scans[0].lane is None and scans[0].start[0] != AGED)
        if probes or len(scans) > 1 or not is_plain or not all_completed:
            return partial(self.finish, acks, scans, probes)
        return partial(self.finish_completed, acks, scans[0] if scans else None)

    def finish(self, acks: Sequence[Ack], scans: Sequence[Scan], probes: Sequence[Probe] = ()) -> Awaitable[Finished]:
        """Any outcomes, any scans."""
        return jobs.finish(
            self._link, self._runner_id(), acks, scans, self._turnstile.types(), probes=probes,
            suspects=[self._may_take_suspect(scan) for scan in scans], token_base=self._tokens.base, max_errors=self._max_errors,
            token_seq=self._tokens.take(sum(scan.limit + 1 for scan in scans) * (len(probes) + 1)),
        )  # fmt: skip

    def finish_completed(self, acks: Sequence[Ack], scan: Scan | None) -> Awaitable[Finished]:
        """Completions only, and at most one plain scan."""
        return jobs.finish_completed(
            self._link, self._runner_id(), acks, scan, self._turnstile.types(),
            suspects=scan is not None and self._may_take_suspect(scan), token_base=self._tokens.base,
            token_seq=self._tokens.take(0 if scan is None else scan.limit),
        )  # fmt: skip

    def finish_one(self, ack: Ack, queue: str | None) -> Awaitable[Finished]:
        """One completion, and the next job of its key if that is of this queue."""
        token = self._tokens.next()
        return jobs.finish_one(self._link, self._runner_id(), ack, queue, self._turnstile.types(), next_token=token)

    def skipped(self, starts: Mapping[tuple[str, str | None], tuple[int, int]]) -> Awaitable[set[tuple[str, str | None]]]:
        """Those lanes (and queues) of which something is there that a scan from behind there would take if it were not locked."""
        suspects = self._probation.is_free
        return jobs.skipped(self._link, self._runner_id(), starts, self._turnstile.types(), suspects=suspects)

    def _may_take_suspect(self, scan: Scan) -> bool:
        """None is on probation here, and there is a slot for it now. (Most scans of a busy runner start behind the last.)"""
        return not scan.is_ahead and scan.has_slot and self._probation.is_free


def _all_completed(acks: Sequence[Ack]) -> bool:
    """Whether all have completed, and nothing but the end is to be written of any."""
    if not [*map(_kind, acks)].count("completed") == len(acks) == [*map(_progress, acks)].count(None):
        return False
    return True not in [*map(_empties, acks)]
