"""Where a scan starts: ahead in a backlog, and at the front often enough that nothing before it is missed for long."""

from asyncjobs.model.claim import FRONT
from asyncjobs.model.scan import ScanStart

AHEAD = (100, 7)


def ahead(*, at: float = 0.0, seconds: float = 0.001) -> ScanStart:
    """The start of a scan that was filled from the front at this time."""
    start = ScanStart()
    start.next(at)
    start.made(FRONT, full=True, last=AHEAD, call=1, at=at, seconds=seconds)
    return start


def test_first_scan_starts_at_the_front() -> None:
    assert ScanStart().next(0.0) == FRONT


def test_full_scan_lets_the_next_start_behind_its_last_row() -> None:
    assert ahead().next(0.05) == AHEAD


def test_scan_that_came_back_short_lets_the_next_start_at_the_front() -> None:
    start = ahead()
    start.made(start.next(0.01), full=False, last=(100, 9), call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_full_scan_of_nothing_but_suspects_moves_no_start() -> None:
    start = ahead()
    start.made(start.next(0.01), full=True, last=None, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_scan_starts_at_the_front_again_after_100_milliseconds() -> None:
    start = ahead()
    assert start.next(0.0999) == AHEAD
    assert start.next(0.1) == FRONT


def test_scans_that_start_ahead_do_not_put_the_front_off() -> None:
    start = ahead()
    for at in (0.02, 0.04, 0.06, 0.08):
        start.made(start.next(at), full=True, last=(100, 8), call=1, at=at, seconds=0.001)
    assert start.next(0.09) == (100, 8)
    assert start.next(0.1) == FRONT


def test_costly_front_is_scanned_less_often() -> None:
    start = ahead(seconds=0.05)
    assert start.next(0.999) == AHEAD
    assert start.next(1.0) == FRONT


def test_cost_that_has_gone_is_forgotten() -> None:
    start = ahead(seconds=0.05)
    start.made(start.next(1.0), full=True, last=AHEAD, call=1, at=1.0, seconds=0.001)
    assert start.next(1.11) == FRONT


def test_hint_starts_the_next_scan_at_the_front() -> None:
    start = ahead()
    start.hint()
    assert start.next(0.01) == FRONT


def test_hint_is_served_once() -> None:
    start = ahead()
    start.hint()
    start.made(start.next(0.01), full=True, last=AHEAD, call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == AHEAD


def test_hint_that_comes_while_a_scan_is_under_way_is_not_served_by_it() -> None:
    start = ahead()
    started = start.next(0.01)
    start.hint()
    start.made(started, full=True, last=(100, 8), call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_hint_between_two_hinted_scans_is_not_lost() -> None:
    start = ahead()
    start.hint()
    started = start.next(0.01)
    start.hint()
    start.made(started, full=True, last=(100, 8), call=1, at=0.01, seconds=0.001)
    assert start.next(0.02) == FRONT


def test_scan_whose_call_failed_leaves_its_hint_to_the_next() -> None:
    start = ahead()
    start.hint()
    assert start.next(0.01) == FRONT  # and no answer
    assert start.next(0.02) == FRONT


def test_short_scan_behind_full_ones_has_seen_what_was_there_when_the_first_of_them_was_sent() -> None:
    start = ScanStart()
    assert start.made(start.next(0.0), full=True, last=AHEAD, call=1, at=0.0, seconds=0.001) is None
    assert start.made(start.next(0.01), full=True, last=(100, 9), call=2, at=0.01, seconds=0.001) is None
    assert start.made(start.next(0.02), full=False, last=None, call=3, at=0.02, seconds=0.001) == (1, 0.0)
    assert start.made(start.next(0.03), full=False, last=None, call=4, at=0.03, seconds=0.001) == (4, 0.03)


def test_short_scan_after_another_visit_to_the_front_has_seen_what_was_there_at_that_visit() -> None:
    start = ahead()
    assert start.made(start.next(0.2), full=True, last=AHEAD, call=5, at=0.2, seconds=0.001) is None
    assert start.made(start.next(0.21), full=False, last=None, call=6, at=0.21, seconds=0.001) == (5, 0.2)


def test_full_scan_of_nothing_but_suspects_is_followed_by_one_that_sees_by_itself() -> None:
    start = ahead()
    assert start.made(start.next(0.01), full=True, last=None, call=2, at=0.01, seconds=0.001) is None
    assert start.made(start.next(0.02), full=False, last=None, call=3, at=0.02, seconds=0.001) == (3, 0.02)


def test_scan_by_age_sees_everything_by_itself() -> None:
    start = ScanStart(60.0)
    assert start.made(start.next(0.0), full=True, last=AHEAD, call=1, at=0.0, seconds=0.001) is None
    assert start.made(start.next(0.01), full=False, last=None, call=2, at=0.01, seconds=0.001) == (2, 0.01)
