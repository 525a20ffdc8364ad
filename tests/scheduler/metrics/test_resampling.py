"""Resampling: draws from order statistics are those of real resamples, and intervals cover what they should."""

from __future__ import annotations

import random
from statistics import mean, stdev

import pytest

from scheduler.metrics import interval, percentile, quantile_draws, ratio_interval, share_draws

_chance = random.Random(3)
SAMPLE = sorted(_chance.expovariate(1) for _ in range(60))


@pytest.mark.parametrize("q", [50, 95, 99])
def test_draws_are_spread_as_resamples_are(q: int) -> None:
    chance = random.Random(1)
    real = [percentile(sorted(chance.choices(SAMPLE, k=len(SAMPLE))), q) or 0.0 for _ in range(3000)]
    drawn = quantile_draws(SAMPLE, q, "seed", 3000)
    assert drawn is not None
    assert mean(drawn) == pytest.approx(mean(real), rel=0.05) and stdev(drawn) == pytest.approx(stdev(real), rel=0.1)


def test_shares_are_drawn_as_binomials() -> None:
    for part, whole in ((3, 10), (150, 200), (99_000, 100_000), (0, 50), (50, 50)):
        drawn, p = share_draws(part, whole, "seed", 2000), part / whole
        assert drawn is not None and mean(drawn) == pytest.approx(p, abs=0.01)
        assert stdev(drawn) == pytest.approx((p * (1 - p) / whole) ** 0.5, rel=0.1, abs=1e-9)


def test_equal_seeds_give_equal_draws_and_nothing_gives_none() -> None:
    assert quantile_draws(SAMPLE, 95, "x") == quantile_draws(SAMPLE, 95, "x") != quantile_draws(SAMPLE, 95, "y")
    assert quantile_draws([], 50, "x") is share_draws(0, 0, "x") is interval(None, [1.0]) is None
    assert quantile_draws([7.0], 99, "x", 3) == [7.0, 7.0, 7.0]


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says() -> None:
    held = 0
    for trial in range(100):
        chance = random.Random(trial)
        one = sorted(chance.gauss(0, 1) for _ in range(80))
        other = sorted(chance.gauss(1, 1) for _ in range(80))
        found = interval(quantile_draws(one, 50, f"a{trial}", 100), quantile_draws(other, 50, f"b{trial}", 100))
        assert found is not None
        held += found[0] <= 1 <= found[1]
    assert 88 <= held <= 100


def test_a_change_is_never_below_minus_one_however_the_base_came_out() -> None:
    chance = random.Random(5)
    wide = sorted(chance.expovariate(1) for _ in range(40))
    base, other = quantile_draws(wide, 50, "a"), quantile_draws([0.01 * each for each in wide], 50, "b")
    assert base is not None and other is not None
    low, high = interval(base, other) or (0, 0)
    assert low / (percentile(wide, 50) or 1) < -1, "the case is no case"
    found = ratio_interval(base, other)
    assert found is not None and -1 <= found[0] < -0.99 < found[1] < -0.97
    assert ratio_interval([2.0] * 50, [3.0] * 50) == (0.5, 0.5)


def test_a_draw_of_nothing_has_no_ratio_and_counts_as_beyond_every_other() -> None:
    assert ratio_interval(None, [1.0]) is ratio_interval([1.0], []) is None
    assert ratio_interval([0.0] * 100, [1.0] * 100) is ratio_interval([1.0] * 96 + [0.0] * 4, [1.0] * 100) is None
    assert ratio_interval([1.0] * 98 + [0.0] * 2, [2.0] * 100) == (1.0, 1.0)
