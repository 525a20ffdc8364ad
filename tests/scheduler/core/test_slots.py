"""Places among the running."""

from __future__ import annotations

from scheduler.core.slots import Slots


def test_lowest_free_slot_is_given_first() -> None:
    slots = Slots(3)
    assert [slots.take() for _ in range(3)] == [0, 1, 2] and slots.full
    slots.give(2)
    slots.give(0)
    assert [slots.take(), slots.take()] == [0, 2]


def test_lowered_limit_drains_and_a_raised_one_gives_more() -> None:
    slots = Slots(4)
    for _ in range(4):
        slots.take()
    slots.resize(2)
    slots.give(0)
    assert slots.full and slots.held == 3
    slots.give(3)
    slots.give(1)
    assert [slots.held, slots.take()] == [1, 0]
    assert slots.full, "slot 2 is still held"
    slots.resize(5)
    assert [slots.take() for _ in range(3)] == [1, 3, 4]
