"""When jobs with a dedup key lived: at most one job of a type and key lives at any moment, whatever brings one to life.

The tables tell it only of the end. A life begins with a note that the job lives, and ends with one that it has ended; an
operator's retry begins another. Notes are numbered as they are written, in the transactions that they tell of: a job that takes
its key when another has let it go has the later number.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from asyncjobs.testing.attempts import Violation

_NEVER: Final = float("inf")


class Noted(NamedTuple):
    """One status of a job with a dedup key, as it was written."""

    number: int
    type: str
    dedup_key: str
    job_id: int
    is_live: bool
    is_gone: bool = False  # by now it has no row any more


class Lived(NamedTuple):
    """One life of a job, in moments of any kind (numbers, seconds)."""

    type: str
    dedup_key: str
    job_id: int
    since: float
    until: float = _NEVER


def lives(notes: Iterable[Noted]) -> Iterator[Lived]:
    """The lives that the notes tell of. The last one of a job that is gone is left out: nobody knows when it went."""
    begun: dict[int, Noted] = {}
    for note in sorted(notes):
        if note.is_live:
            begun.setdefault(note.job_id, note)
        elif note.job_id in begun:
            yield _life(begun.pop(note.job_id), note.number)
    yield from (_life(note, _NEVER) for note in begun.values() if not note.is_gone)


def _life(note: Noted, until: float) -> Lived:
    return Lived(note.type, note.dedup_key, note.job_id, note.number, until)


def together(lived: Iterable[Lived]) -> Iterator[Violation]:
    """Jobs that came to life while another lived that had their dedup key."""
    by_key: defaultdict[tuple[str, str], list[Lived]] = defaultdict(list)
    for life in lived:
        by_key[life.type, life.dedup_key].append(life)
    for (type, key), mine in by_key.items():
        last: Lived | None = None
        for life in sorted(mine, key=lambda life: life.since):
            if last is not None and life.since < last.until and life.job_id != last.job_id:
                yield Violation("dedup", life.job_id, f"came to life beside job {last.job_id} of dedup key {key} of {type}")
            if last is None or life.until > last.until:
                last = life
