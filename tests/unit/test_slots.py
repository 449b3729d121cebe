"""Slots add up, and say so themselves (P13)."""

import asyncio

import pytest

from asyncjobs.runtime.slots import Slots, SlotsError


def test_free_slots_are_taken_at_once() -> None:
    slots = Slots(3)
    assert slots.take(1) == 1
    assert (slots.free, slots.taken) == (2, 1)
    assert (slots.take_free(), slots.take_free(), slots.free, slots.taken) == (2, 0, 0, 3)
    assert (slots.take(1), slots.take(2)) == (0, 0)


def test_as_many_are_taken_as_are_wanted_and_free() -> None:
    slots = Slots(3)
    assert (slots.take(2), slots.free) == (2, 1)
    assert (slots.take(2), slots.free) == (1, 0)


def test_slot_that_was_taken_is_free_when_it_is_given_back() -> None:
    slots = Slots(3)
    slots.take_free()
    slots.give_back()
    slots.give_back(2)
    slots.give_back(0)
    assert (slots.free, slots.taken) == (3, 0)


def test_giving_back_what_was_not_taken_is_a_defect() -> None:
    slots = Slots(2)
    slots.take(1)
    with pytest.raises(SlotsError, match="taken"):
        slots.give_back(2)


def test_no_slots_at_all() -> None:
    assert (Slots(0).take_free(), Slots(0).take(1)) == (0, 0)


async def test_it_is_a_semaphore() -> None:
    slots = Slots(2)
    slots.take_free()
    waiting = [asyncio.create_task(slots.acquire()) for _ in range(2)]
    await asyncio.sleep(0)
    slots.give_back(2)
    assert await asyncio.gather(*waiting) == [True, True]
    assert (slots.free, slots.taken, slots.locked()) == (0, 2, True)
    slots.release()
    assert not slots.locked()
