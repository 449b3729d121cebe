"""The synchronous half of claiming: what is asked for, and when there is a reason to ask (P5, P6)."""

from collections.abc import Callable, Sequence

from asyncjobs.config import Queue
from asyncjobs.model.claim import FRONT, Claimed, Scan
from asyncjobs.runtime.coordinator import HEADS_SECONDS, LONELY_LOOK_SECONDS, SECOND_LOOK_SECONDS, Coordinator
from tests.support.claims import a_claimed


class Harness:
    """A coordinator whose timers are fired by hand."""

    def __init__(self, queue: Queue, *, others: bool = False) -> None:
        self.asked = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.others = others
        self.now = 0.0
        self.coordinator = Coordinator(queue, ask=self._ask, later=self._later)

    def _ask(self) -> None:
        self.asked += 1

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.append((seconds, callback))

    def fire(self) -> None:
        """Let the time of every timer come."""
        timers, self.timers = self.timers, []
        for _, callback in timers:
            callback()

    def scans(self) -> list[Scan]:
        self.now += 0.001
        return self.coordinator.scans(self.now)

    def answer(
        self, scan: Scan, count: int = 0, *, version: int | None = None, place: int = 1, suspicion: int = 0
    ) -> list[Claimed]:
        """Answer the scan with so many jobs, which take their slots."""
        claimed = [a_claimed(id=place + n, place=place + n, suspicion=suspicion) for n in range(count)]
        self.coordinator.answered(
            scan, claimed, version=self.coordinator.version if version is None else version,
            at=self.now, seconds=0.001, others=self.others,
        )  # fmt: skip
        for _ in claimed:
            self.coordinator.slots.take(scan.lane)
        return claimed

    def look(self, count: int = 0) -> None:
        """One turn with one scan."""
        [scan] = self.scans()
        self.answer(scan, count)


def asked_for(scans: Sequence[Scan]) -> list[tuple[str | None, int]]:
    return [(scan.lane, scan.limit) for scan in scans]


def test_asks_for_exactly_the_free_slots_of_each_lane() -> None:
    harness = Harness(Queue("q", concurrency=8, lanes={"fast": 3}))
    assert asked_for(harness.scans()) == [("fast", 3), (None, 5)]
    harness.coordinator.slots.take("fast")
    harness.coordinator.slots.take(None)
    assert asked_for(harness.scans()) == [("fast", 2), (None, 4)]


def test_lane_without_a_free_slot_is_not_asked_for() -> None:
    harness = Harness(Queue("q", concurrency=2, lanes={"fast": 1}))
    harness.coordinator.slots.take("fast")
    assert asked_for(harness.scans()) == [(None, 1)]
    harness.coordinator.slots.take(None)
    assert harness.scans() == []
    assert not harness.coordinator.is_hungry


def test_prefetch_is_asked_for_beyond_the_general_slots_as_long_as_it_is_not_there() -> None:
    harness = Harness(Queue("q", concurrency=3, lanes={"fast": 1}, prefetch=4))
    assert asked_for(harness.scans()) == [("fast", 1), (None, 6)]
    for lane in ("fast", None, None):
        harness.coordinator.slots.take(lane)
    assert asked_for(harness.scans()) == [(None, 4)]
    harness.coordinator.waiting = 3
    assert asked_for(harness.scans()) == [(None, 1)]
    harness.coordinator.waiting = 4
    assert not harness.coordinator.is_hungry


def test_nothing_is_asked_for_beyond_the_free_slots_unless_prefetch_is_given() -> None:
    harness = Harness(Queue("q", concurrency=3))
    assert asked_for(harness.scans()) == [(None, 3)]
    for _ in range(3):
        harness.coordinator.slots.take(None)
    assert not harness.coordinator.is_hungry


def test_is_stocked_while_more_than_half_of_what_it_may_claim_ahead_waits() -> None:
    coordinator = Harness(Queue("q", prefetch=4)).coordinator
    stocked = []
    for coordinator.waiting in range(5):
        stocked.append(coordinator.is_stocked)
    assert stocked == [False, False, False, True, True]


def test_nothing_is_prefetched_for_general_slots_that_there_are_none_of() -> None:
    assert asked_for(Harness(Queue("q", concurrency=1, lanes={"fast": 1}, prefetch=4)).scans()) == [("fast", 1)]


def test_is_hungry_until_a_scan_from_the_front_came_back_short() -> None:
    harness = Harness(Queue(concurrency=2))
    assert harness.coordinator.is_hungry
    harness.look(1)
    assert not harness.coordinator.is_hungry


def test_stays_hungry_after_a_full_claim() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look(2)
    harness.coordinator.slots.give_back(None)
    assert harness.coordinator.is_hungry


def test_freed_slot_is_no_reason_to_look_when_nothing_was_there() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look(1)
    harness.coordinator.slots.give_back(None)
    assert not harness.coordinator.is_hungry


def test_wake_up_while_a_claim_is_under_way_is_not_lost() -> None:
    harness = Harness(Queue(concurrency=2))
    version = harness.coordinator.version
    [scan] = harness.scans()
    harness.coordinator.wake()
    harness.answer(scan, 0, version=version)
    assert harness.coordinator.is_hungry
    harness.look()
    assert not harness.coordinator.is_hungry


def test_wake_up_while_all_slots_are_taken_is_served_when_one_is_free() -> None:
    harness = Harness(Queue(concurrency=1))
    harness.look(1)
    harness.coordinator.wake()
    assert not harness.coordinator.is_hungry
    harness.coordinator.slots.give_back(None)
    assert harness.coordinator.is_hungry


def test_short_scan_that_had_not_started_at_the_front_is_followed_by_one_that_does() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look(2)
    harness.coordinator.slots.give_back(None)
    [scan] = harness.scans()
    assert scan.start != FRONT
    harness.answer(scan)
    assert [scan.start for scan in harness.scans()] == [FRONT]


def test_call_that_failed_leaves_its_scans_hungry_and_at_the_front() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look(2)
    harness.coordinator.slots.give_back(None)
    harness.coordinator.wake(front=True)
    assert [scan.start for scan in harness.scans()] == [FRONT]  # never answered
    assert harness.coordinator.is_hungry
    assert [scan.start for scan in harness.scans()] == [FRONT]


def test_every_wake_up_asks_the_acker() -> None:
    harness = Harness(Queue())
    harness.coordinator.wake()
    harness.coordinator.wake(front=True)
    assert harness.asked == 2


def test_start_of_a_scan_moves_behind_its_last_job() -> None:
    harness = Harness(Queue(concurrency=2))
    [scan] = harness.scans()
    harness.answer(scan, 2, place=41)
    harness.coordinator.slots.give_back(None)
    assert [scan.start for scan in harness.scans()] == [(100, 42)]


def test_suspect_does_not_move_the_start() -> None:
    harness = Harness(Queue(concurrency=1))
    [scan] = harness.scans()
    harness.answer(scan, 1, place=41, suspicion=1)
    harness.coordinator.slots.give_back(None)
    assert [scan.start for scan in harness.scans()] == [FRONT]


def test_starts_of_lanes_are_their_own() -> None:
    harness = Harness(Queue(concurrency=4, lanes={"fast": 2}))
    fast, general = harness.scans()
    harness.answer(fast, 2, place=10)
    harness.answer(general, 1, place=50)
    for lane in ("fast", "fast", None):
        harness.coordinator.slots.give_back(lane)
    harness.coordinator.wake()
    assert [scan.start for scan in harness.scans()] == [(100, 11), FRONT]


def test_looks_soon_whether_another_runner_held_something_and_scans_only_if_so() -> None:
    harness = Harness(Queue(concurrency=2), others=True)
    harness.look()
    assert [seconds for seconds, _ in harness.timers] == [SECOND_LOOK_SECONDS]
    due = [harness.coordinator.is_look_due]
    harness.fire()
    due.append(harness.coordinator.is_look_due)
    assert due == [False, True]
    assert harness.coordinator.looks() == [("default", None)]
    harness.coordinator.looked(set())
    assert (harness.coordinator.is_look_due, harness.timers, harness.scans()) == (False, [], [])


def test_looks_again_after_growing_pauses_as_long_as_something_is_skipped() -> None:
    harness = Harness(Queue(concurrency=2))
    pauses = []
    for _ in range(9):
        harness.look()
        pauses += [seconds for seconds, _ in harness.timers]
        harness.fire()
        harness.coordinator.looked({("default", None)})
    assert pauses == [LONELY_LOOK_SECONDS, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
    harness.look()
    harness.fire()
    harness.coordinator.looked(set())
    harness.coordinator.wake()
    harness.look()
    assert [seconds for seconds, _ in harness.timers] == [LONELY_LOOK_SECONDS], "as at first"


def test_scans_of_the_same_time_share_a_look() -> None:
    harness = Harness(Queue(concurrency=4, lanes={"fast": 2}), others=True)
    for scan in harness.scans():
        harness.answer(scan)
    harness.coordinator.wake()
    harness.answer(harness.scans()[0])
    assert len(harness.timers) == 1
    assert sorted(harness.coordinator.looks(), key=str) == [("default", "fast"), ("default", None)]


def test_what_was_skipped_before_all_slots_were_taken_is_looked_for_when_one_is_free() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look(1)
    harness.coordinator.wake()
    harness.look(1)
    harness.fire()
    harness.coordinator.looked(set(harness.coordinator.looks()))
    assert harness.scans() == []
    harness.coordinator.slots.give_back(None)
    assert harness.coordinator.is_hungry


def test_full_claim_is_followed_by_no_second_look() -> None:
    harness = Harness(Queue(concurrency=2), others=True)
    harness.look(2)
    assert harness.timers == []


def test_head_of_a_key_may_start_without_a_scan_after_one_that_came_back_short() -> None:
    harness = Harness(Queue(concurrency=2))
    assert not harness.coordinator.may_start_heads(harness.now)
    harness.look(1)
    assert harness.coordinator.may_start_heads(harness.now)


def test_head_does_not_start_before_what_waits_since_the_last_scan_was_filled() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look(2)
    harness.coordinator.slots.give_back(None)
    assert not harness.coordinator.may_start_heads(harness.now)


def test_head_does_not_start_before_what_has_woken_the_coordinator() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look()
    harness.coordinator.wake()
    assert not harness.coordinator.may_start_heads(harness.now)


def test_head_does_not_start_on_the_word_of_an_old_scan() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look()
    assert not harness.coordinator.may_start_heads(harness.now + HEADS_SECONDS)


def test_head_starts_in_a_free_general_slot_only() -> None:
    harness = Harness(Queue(concurrency=2, lanes={"fast": 1}))
    for scan in harness.scans():
        harness.answer(scan)
    assert harness.coordinator.may_start_heads(harness.now)
    harness.coordinator.slots.take(None)
    assert not harness.coordinator.may_start_heads(harness.now)


def test_scan_of_a_lane_says_nothing_about_the_general_slots() -> None:
    harness = Harness(Queue(concurrency=2, lanes={"fast": 1}))
    fast, _ = harness.scans()
    harness.answer(fast)
    assert not harness.coordinator.may_start_heads(harness.now)


def test_expected_head_is_looked_for() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look()
    harness.coordinator.expect_head()
    assert len(harness.scans()) == 1
    assert harness.asked == 0  # the call is being made


def test_no_head_starts_after_a_stop() -> None:
    harness = Harness(Queue(concurrency=2))
    harness.look()
    harness.coordinator.stop()
    assert not harness.coordinator.may_start_heads(harness.now)


def test_stopped_coordinator_asks_for_nothing() -> None:
    harness = Harness(Queue())
    harness.coordinator.stop()
    harness.coordinator.wake(front=True)
    assert harness.scans() == []
    assert not harness.coordinator.is_hungry
    assert harness.coordinator.is_stopped
