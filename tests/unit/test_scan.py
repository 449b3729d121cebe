"""Where a scan starts: ahead in a backlog, and at the front often enough that nothing before it is missed for long."""

from asyncjobs.model.claim import FRONT
from asyncjobs.model.scan import ScanStart

AHEAD = (100, 7)


def ahead(*, at: float = 0.0, seconds: float = 0.001) -> ScanStart:
    """The start of a scan that was filled from the front at this time."""
    start = ScanStart()
    start.next(at)
    start.made(FRONT, full=True, last=AHEAD, priority=100, call=1, at=at, seconds=seconds)
    return start


def test_first_scan_starts_at_the_front() -> None:
    assert ScanStart().next(0.0) == FRONT


def test_full_scan_lets_the_next_start_behind_its_last_row() -> None:
    assert ahead().next(0.05) == AHEAD


def test_scan_that_came_back_short_lets_the_next_start_at_the_front() -> None:
    start = ahead()
    start.made(start.next(0.01), full=False, last=(100, 9), priority=100, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_full_scan_of_nothing_but_suspects_moves_no_start() -> None:
    start = ahead()
    start.made(start.next(0.01), full=True, last=None, priority=100, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_scan_starts_at_the_front_again_after_100_milliseconds() -> None:
    start = ahead()
    assert start.next(0.0999) == AHEAD
    assert start.next(0.1) == FRONT


def test_scans_that_start_ahead_do_not_put_the_front_off() -> None:
    start = ahead()
    for at in (0.02, 0.04, 0.06, 0.08):
        start.made(start.next(at), full=True, last=(100, 8), priority=100, call=1, at=at, seconds=0.001)
    assert start.next(0.09) == (100, 8)
    assert start.next(0.1) == FRONT


def test_costly_front_is_scanned_less_often() -> None:
    start = ahead(seconds=0.05)
    assert start.next(0.999) == AHEAD
    assert start.next(1.0) == FRONT


def test_cost_that_has_gone_is_forgotten() -> None:
    start = ahead(seconds=0.05)
    start.made(start.next(1.0), full=True, last=AHEAD, priority=100, call=1, at=1.0, seconds=0.001)
    assert start.next(1.11) == FRONT


def test_hint_starts_the_next_scan_at_the_front() -> None:
    start = ahead()
    start.hint()
    assert start.next(0.01) == FRONT


def test_hint_is_served_once() -> None:
    start = ahead()
    start.hint()
    start.made(start.next(0.01), full=True, last=AHEAD, priority=100, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == AHEAD


def test_hint_that_comes_while_a_scan_is_under_way_is_not_served_by_it() -> None:
    start = ahead()
    started = start.next(0.01)
    start.hint()
    start.made(started, full=True, last=(100, 8), priority=100, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_hint_between_two_hinted_scans_is_not_lost() -> None:
    start = ahead()
    start.hint()
    started = start.next(0.01)
    start.hint()
    start.made(started, full=True, last=(100, 8), priority=100, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_scan_whose_call_failed_leaves_its_hint_to_the_next() -> None:
    start = ahead()
    start.hint()
    assert start.next(0.01) == FRONT  # and no answer
    assert start.next(0.02) == FRONT


def test_short_scan_behind_full_ones_has_seen_what_was_there_when_the_first_of_them_was_sent() -> None:
    start = ScanStart()
    assert start.made(start.next(0.0), full=True, last=AHEAD, priority=100, call=1, at=0.0, seconds=0.001) is None
    assert start.made(start.next(0.01), full=True, last=(100, 9), priority=100, call=2, at=0.01, seconds=0.001) is None
    assert start.made(start.next(0.02), full=False, last=None, priority=100, call=3, at=0.02, seconds=0.001) == (1, 0.0)
    assert start.made(start.next(0.03), full=False, last=None, priority=100, call=4, at=0.03, seconds=0.001) == (4, 0.03)


def test_short_scan_after_another_visit_to_the_front_has_seen_what_was_there_at_that_visit() -> None:
    start = ahead()
    assert start.made(start.next(0.2), full=True, last=AHEAD, priority=100, call=5, at=0.2, seconds=0.001) is None
    assert start.made(start.next(0.21), full=False, last=None, priority=100, call=6, at=0.21, seconds=0.001) == (5, 0.2)


def test_full_scan_of_nothing_but_suspects_is_followed_by_one_that_sees_by_itself() -> None:
    start = ahead()
    assert start.made(start.next(0.01), full=True, last=None, priority=100, call=2, at=0.01, seconds=0.001) is None
    assert start.made(start.next(0.02), full=False, last=None, priority=100, call=3, at=0.02, seconds=0.001) == (3, 0.02)


def test_scan_by_age_sees_everything_by_itself() -> None:
    start = ScanStart(60.0)
    assert start.made(start.next(0.0), full=True, last=AHEAD, priority=100, call=1, at=0.0, seconds=0.001) is None
    assert start.made(start.next(0.01), full=False, last=None, priority=100, call=2, at=0.01, seconds=0.001) == (2, 0.01)


def rested(*claims: tuple[float, tuple[int, int]]) -> ScanStart:
    """The start of a scan that brought a job at each of these instants, and came back short."""
    start = ScanStart()
    for at, last in claims:
        start.made(start.next(at), full=False, last=last, priority=last[0], call=1, at=at, seconds=0.01)
    return start


def test_floor_is_the_place_of_a_job_that_was_claimed_a_second_ago() -> None:
    assert rested((0.0, (100, 7))).next(9.0) == FRONT
    assert rested((0.0, (100, 7)), (0.999, (100, 8))).next(9.0) == FRONT
    assert rested((0.0, (100, 7)), (0.999, (100, 8)), (1.0, (100, 9))).next(9.0) == (100, 7)
    assert rested((0.0, (100, 7)), (1.0, (100, 8)), (2.0, (100, 9))).next(9.0) == (100, 8)


def test_floor_is_of_the_most_urgent_priority_that_was_brought_and_ordinary_at_most() -> None:
    assert rested((0.0, (200, 7)), (1.0, (200, 8))).next(1.0) == (100, 7)
    assert rested((0.0, (10, 7)), (1.0, (100, 8)), (2.0, (100, 9))).next(2.0) == (10, 8)


def test_hint_and_poll_pass_the_floor() -> None:
    start = rested((0.0, (100, 7)), (1.0, (100, 8)))
    start.hint()
    assert start.next(1.0) == FRONT


def test_a_scan_from_the_floor_has_seen_everything_and_is_followed_by_scans_ahead() -> None:
    start = rested((0.0, (100, 7)), (1.0, (100, 8)))
    assert start.made(start.next(2.0), full=True, last=(100, 20), priority=100, call=5, at=2.0, seconds=0.01) is None
    assert start.next(2.09) == (100, 20)
    assert start.next(2.2) == FRONT, "it has been ahead for 20 times what the front took"
    assert start.made(start.next(2.05), full=False, last=None, priority=100, call=6, at=2.05, seconds=0.01) == (5, 2.0)


def test_full_scan_of_nothing_but_suspects_leaves_the_next_no_floor() -> None:
    start = rested((0.0, (100, 7)), (1.0, (100, 8)))
    start.made(start.next(2.0), full=True, last=None, priority=100, call=5, at=2.0, seconds=0.01)
    assert start.next(2.01) == FRONT


def test_looks_start_at_the_front_if_that_is_wanted_and_takes_a_twentieth_of_the_time_at_most() -> None:
    start = rested((0.0, (100, 7)), (1.0, (100, 8)))
    assert (start.look(2.0, from_front=False), start.look(2.0, from_front=True)) == ((100, 7), FRONT)
    start.looked((100, 7), found=False, at=2.0, seconds=9.0)
    start.looked(FRONT, found=False, at=2.0, seconds=0.1)
    assert (start.look(3.99, from_front=True), round(start.look_in(3.99), 3)) == ((100, 7), 0.01)
    assert start.look(4.0, from_front=True) == FRONT


def test_look_that_found_something_leaves_no_floor_for_a_second() -> None:
    start = rested((0.0, (100, 7)), (1.0, (100, 8)))
    start.looked((100, 7), found=True, at=1.5, seconds=0.001)
    assert (start.next(1.5), start.look(1.5, from_front=False)) == (FRONT, FRONT)
    for at in (2.0, 2.9):
        start.made(FRONT, full=False, last=(100, 20), priority=100, call=2, at=at, seconds=0.01)
        assert start.next(at) == FRONT
    start.made(FRONT, full=False, last=(100, 21), priority=100, call=3, at=3.0, seconds=0.01)
    assert start.next(3.0) == (100, 20)


def test_scan_by_age_has_no_floor() -> None:
    start = ScanStart(60.0)
    for at in (0.0, 1.0, 2.0):
        start.made(start.next(at), full=False, last=(100, 7), priority=100, call=1, at=at, seconds=0.01)
    assert (start.next(3.0), start.look(3.0, from_front=False)) == (start.front, FRONT)


def test_scans_that_start_ahead_say_nothing_of_what_came_before_them_meanwhile() -> None:
    start = ScanStart()
    start.made(start.next(0.0), full=True, last=(200, 10), priority=200, call=1, at=0.0, seconds=0.2)
    for at, place in (
        (1.1, 20),
        (2.2, 30),
        (3.3, 40),
    ):  # (100, 15) comes meanwhile
        start.made(start.next(at), full=True, last=(200, place), priority=200, call=2, at=at, seconds=0.01)
    start.made(start.next(3.4), full=False, last=None, priority=100, call=3, at=3.4, seconds=0.01)
    assert start.next(3.5) < (100, 15)
