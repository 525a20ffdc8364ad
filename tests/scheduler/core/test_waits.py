"""One clock a reason, one of them running."""

from __future__ import annotations

import random

import pytest

from scheduler.core.request import NO_WAITS, WaitReason
from scheduler.core.waits import WaitClocks, alone, together


def test_difference_of_two_readings_is_the_time_by_reason() -> None:
    clocks = WaitClocks()
    mark = clocks.read(100)
    clocks.switch(WaitReason.SLOTS, 110)
    clocks.switch(WaitReason.KV_BLOCKS, 150)
    spent = clocks.since(mark, 151)
    assert (spent[WaitReason.STEP], spent[WaitReason.SLOTS], spent[WaitReason.KV_BLOCKS]) == (10, 40, 1)


def test_times_by_reason_sum_to_the_time_that_passed() -> None:
    rng, clocks, now = random.Random(1), WaitClocks(), 0
    mark = clocks.read(0)
    for _ in range(1000):
        now += rng.randrange(50)
        clocks.switch(rng.choice(list(WaitReason)), now)
    assert sum(clocks.since(mark, now)) == now


def test_time_that_goes_back_is_refused() -> None:
    clocks = WaitClocks()
    clocks.advance(5)
    with pytest.raises(AssertionError, match="time went back"):
        clocks.advance(4)


def test_sums_by_reason() -> None:
    assert alone(WaitReason.SLOTS, 0) == NO_WAITS
    assert together(alone(WaitReason.SLOTS, 3), alone(WaitReason.STEP, 4))[:2] == (4, 3)
