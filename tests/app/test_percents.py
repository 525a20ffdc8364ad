"""Shares of one whole add up as people add them."""

from __future__ import annotations

import random

import pytest

from app.percents import percents


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([], []),
        ([1.0], ["100"]),
        ([0.998, 0.002], ["99.8", "0.2"]),
        ([0.978, 0.022], ["97.8", "2.2"]),
        ([0.72, 0.28], ["72", "28"]),
        ([0.655, 0.345], ["66", "34"]),
        ([1 / 3, 1 / 3, 1 / 3], ["34", "33", "33"]),
        ([0.5, 0.3], ["50", "30"]),
        ([0.9, 0.0, 0.1], ["90", "0", "10"]),
    ],
)
def test_parts_are_shown_with_the_same_decimals_and_their_sum(shares: list[float], said: list[str]) -> None:
    assert percents(shares) == said


def test_what_is_shown_of_a_whole_is_100_and_no_part_is_off_by_a_digit() -> None:
    chance = random.Random(7)
    for _ in range(500):
        parts = [chance.random() ** 3 for _ in range(chance.randint(1, 9))]
        shares = [part / sum(parts) for part in parts]
        said = [float(each) for each in percents(shares)]
        assert sum(said) == pytest.approx(100, abs=1e-6)
        assert all(abs(shown - 100 * share) < 1 for shown, share in zip(said, shares, strict=True))
