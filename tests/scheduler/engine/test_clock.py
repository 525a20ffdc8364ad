"""Clocks: simulated hardware is waited for until its end, never for its length."""

from __future__ import annotations

import pytest

from scheduler.engine.clock import JumpClock, LiveClock, PacedClock


class Hands:
    """A clock's hands for tests: sleeping moves them, by `overshoot` more than asked."""

    def __init__(self, overshoot: int = 0) -> None:
        self.now = 0
        self.overshoot = overshoot
        self.slept: list[float] = []

    def read(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += round(seconds * 1e9) + self.overshoot


def test_a_live_step_ends_when_the_clock_says():
    hands = Hands()
    clock = LiveClock(hands.read)
    hands.now = 70
    assert clock.finish_step(10, 5) == 70


def test_a_paced_step_waits_only_for_what_is_left():
    hands = Hands()
    hands.now = 4_000_000
    clock = PacedClock(hands.read, hands.sleep)
    assert clock.finish_step(0, 10_000_000) == 10_000_000
    assert hands.slept == [0.006]
    assert clock.host_late_ns == 0


def test_a_step_that_the_host_made_late_is_counted():
    hands = Hands()
    hands.now = 15_000_000
    clock = PacedClock(hands.read, hands.sleep)
    assert clock.finish_step(0, 10_000_000) == 15_000_000
    assert hands.slept == []
    assert clock.host_late_ns == 5_000_000


def test_oversleeping_within_a_millisecond_is_not_the_hosts_fault():
    hands = Hands(overshoot=900_000)
    clock = PacedClock(hands.read, hands.sleep)
    clock.finish_step(0, 10_000_000)
    assert clock.host_late_ns == 0


def test_simulated_time_jumps_and_never_goes_back():
    clock = JumpClock(5)
    assert clock.finish_step(5, 10) == 15
    assert clock.now() == 15
    with pytest.raises(AssertionError):
        clock.advance(14)
