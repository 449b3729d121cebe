"""Sequences that stand behind their rows: what logical replication leaves, which copies rows and no sequences.

What such a sequence hands out belongs to another row, or comes before what waits. What happens then:

1. A new connection of an enqueuer, and each sweep, look at the newest rows, and move sequences on.
2. An id that turns out to be another job's has all of them looked at once (`sender`); the enqueue goes on with a new one.
3. A place is compared with its key's line under the key's lock; is one later there, places are drawn again. So the order of a
   key holds, whatever the sequence did. (In a caller's SERIALIZABLE transaction nothing may be looked at: there 1 has to do.)
4. A dead letter, or a request, whose number is taken draws another one.
5. A caller that may not be helped is told by an EnqueueError that names the sequence; the doctor names them all.

Moving on is no part of a transaction, is done by any number of processes at once, and goes forward: nothing is left half done.
"""

from typing import Final

import msgspec

from asyncjobs.store.database import Link

#: The statement for an operator, named by errors and by the doctor.
REMEDY: Final = "SELECT * FROM asyncjobs.move_sequences()"


class Moved(msgspec.Struct, frozen=True):
    """A sequence that was behind, and where it stood and stands."""

    name: str
    was: int
    is_now: int


async def move_on(link: Link, *, surely: bool) -> list[Moved]:
    """Move those on that are behind. `surely`: places are compared with all that wait, not only with the newest rows'."""
    return [Moved(*row) for row in await link.fetch("move_sequences", surely)]
