"""A key's share of requests a minute: a minute's worth at once, then at its rate; others and loopback have their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rates import Rates


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_minutes_worth_may_come_at_once_and_then_one_in_its_time() -> None:
    clock = Clock()
    rates = Rates(30, clock=clock)
    assert [rates.take("a") for _ in range(31)] == [0] * 30 + [2]
    assert rates.take("b") == 0, "each key has its own"
    clock.now = 1.5
    assert rates.take("a") == 1
    clock.now = 2.0
    assert (rates.take("a"), rates.take("a")) == (0, 2)
    clock.now = 3600.0
    assert [rates.take("a") for _ in range(31)] == [0] * 30 + [2], "a rest saves up no more than a minute's worth"


@pytest.mark.parametrize(("per_minute", "name"), [(0, "a"), (1, None), (1, "loadgen")])
def test_no_limit_no_key_or_our_own_load_is_never_made_to_wait(per_minute: int, name: str | None) -> None:
    rates = Rates(per_minute, exempt=("loadgen",), clock=Clock())
    assert [rates.take(name) for _ in range(100)] == [0] * 100


@given(st.integers(1, 600), st.lists(st.floats(0.0, 20.0), min_size=1, max_size=200))
def test_no_span_has_more_than_its_share_and_who_waits_as_told_is_served(per_minute: int, pauses: list[float]) -> None:
    clock = Clock()
    rates = Rates(per_minute, clock=clock)
    accepted = 0
    for pause in pauses:
        clock.now += pause
        wait = rates.take("a")
        accepted += not wait
        assert 0 <= wait <= 60
        assert accepted <= per_minute * (1 + clock.now / 60) + 1e-6
    if wait:
        clock.now += wait
        assert rates.take("a") == 0
