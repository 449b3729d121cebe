"""Slots add up, and say so themselves (P13)."""

import pytest

from asyncjobs.model.slots import Slots, SlotsError


def test_general_slots_are_what_the_lanes_leave() -> None:
    slots = Slots(8, {"fast": 3, "slow": 1})
    assert [(lane, slots.free(lane)) for lane in slots.lanes] == [("fast", 3), ("slow", 1), (None, 4)]


def test_general_slots_are_filled_last() -> None:
    assert Slots(3, {"b": 1, "a": 1}).lanes == ["b", "a", None]


def test_slot_that_was_taken_is_free_when_it_is_given_back() -> None:
    slots = Slots(2, {"fast": 1})
    slots.take("fast")
    assert (slots.free("fast"), slots.free(None), slots.taken, slots.any_free) == (0, 1, 1, True)
    slots.take(None)
    assert not slots.any_free
    slots.give_back("fast")
    assert (slots.free("fast"), slots.free(None), slots.taken) == (1, 0, 1)


def test_lanes_may_keep_all_slots() -> None:
    slots = Slots(2, {"fast": 2})
    assert slots.free(None) == 0
    with pytest.raises(SlotsError):
        slots.take(None)


@pytest.mark.parametrize("lane", ["fast", None])
def test_one_too_many_is_a_defect(lane: str | None) -> None:
    slots = Slots(2, {"fast": 1})
    slots.take(lane)
    with pytest.raises(SlotsError, match="taken"):
        slots.take(lane)


@pytest.mark.parametrize(("taken", "lane"), [(None, "fast"), (None, None), ("fast", None)])
def test_giving_back_what_was_not_taken_is_a_defect(taken: str | None, lane: str | None) -> None:
    slots = Slots(2, {"fast": 1})
    if taken is not None:
        slots.take(taken)
    with pytest.raises(SlotsError):
        slots.give_back(lane)
