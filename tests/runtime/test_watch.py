"""When many jobs are looked at, and what a look may miss."""

from typing import Any, cast

from asyncjobs.model.ending import Ending
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.runtime.watch import Pace, Watch


class Rig:
    """An app of which a test says what has ended, and what ends while it is looked at."""

    def __init__(self) -> None:
        self.wakes = Wakes(lambda _: None)
        self.ended: set[int] = set()
        self.looks: list[list[int]] = []
        self.told = 0
        self.during: list[int] = []

    async def ended_among(self, ids: list[int]) -> list[Ending]:
        self.looks.append(list(ids))
        found = [Ending(id, "completed", "t") for id in ids if id in self.ended]
        for job_id in self.during:
            self.end(job_id)
        self.during = []
        return found

    def end(self, job_id: int) -> None:
        self.ended.add(job_id)
        self.wakes.ended(job_id)

    def tell(self) -> None:
        self.told += 1

    def watch(self, count: int) -> Watch:
        return Watch(cast("Any", self), range(1, count + 1), self.tell)


async def test_what_ends_while_it_is_looked_at_is_looked_at_again_at_once() -> None:
    rig = Rig()
    watch = rig.watch(3)
    rig.end(1)
    rig.during = [2, 3]  # in the look's statement, and too late for its snapshot
    assert [one.id for one in await watch.look(everywhere=True)] == [1]
    assert watch.has_all, "nothing else is to be waited for"
    assert [one.id for one in await watch.look(everywhere=False)] == [2, 3]
    assert not watch.missing


async def test_only_what_was_told_is_looked_at_between_polls() -> None:
    rig = Rig()
    watch = rig.watch(4)
    rig.end(3)
    await watch.look(everywhere=False)
    await watch.look(everywhere=False)
    await watch.look(everywhere=True)
    assert rig.looks == [[3], [1, 2, 4]]


async def test_who_waits_is_woken_for_the_first_and_for_the_last_that_ends() -> None:
    rig = Rig()
    watch = rig.watch(1_000)
    for job_id in range(1, 1_001):
        rig.end(job_id)
    assert rig.told == 2, "a turn for each of ten thousand takes longer than their jobs"
    watch.close()
    assert not rig.wakes.has_waiters


def test_looks_are_quick_for_few_and_three_a_second_for_many_or_in_time() -> None:
    for missing, first in ((1, 0.02), (100, 0.02), (1_000, 0.2), (10_000, 1 / 3)):
        pace, now = Pace(missing, 0.0), 0.0
        assert pace.is_poll_due(now)
        pace.looked(now, everywhere=True)
        assert pace.next_at(has_news=True) <= max(first * 1.5, 1 / 3)
        looks = []
        while now < 100:
            now = pace.next_at(has_news=True)
            looks.append(now)
            pace.looked(now, everywhere=pace.is_poll_due(now))
        assert len([at for at in looks if at >= 10]) <= 3 * 90 + 2
        assert len(looks) <= 3 * 100 + (10 if missing < 10_000 else 1)


def test_where_nothing_is_told_half_a_second_passes_between_looks() -> None:
    pace, now = Pace(10_000, 0.0), 0.0
    for _ in range(10):
        pace.looked(now, everywhere=True)
        now = pace.next_at(has_news=False)
        assert pace.is_poll_due(now)
    pace.looked(now, everywhere=True)
    assert pace.next_at(has_news=False) - now == 0.5
