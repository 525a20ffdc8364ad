"""Bootstrap: how far a figure could have come out otherwise, had other requests of the same kind been drawn. Pure.

A draw of a resample's quantile costs O(1), not O(n): the k-th smallest of n resampled values is the value at the place
⌊n·U⌋ of the sorted ones, where U is the k-th smallest of n uniform numbers, which is Beta(k, n + 1 - k) (Efron's bootstrap,
1979; order statistics: David and Nagaraja). So the cost is bounded however many rows there are, and nothing is thinned out.
Requests are drawn as if independent. Neighbours in a queue are not, so that repeats of a run spread wider than this says.
Invariant: equal values and seed give equal draws, on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from random import Random

from scheduler.metrics.quantiles import percentile

DRAWS = 500
LEVEL = 0.95


def quantile_draws(ordered: Sequence[float], q: float, seed: str, draws: int = DRAWS) -> list[float] | None:
    """The q-th percentile (0..100, linear between ranks) of so many resamples of ascending values; None of no values."""
    n = len(ordered)
    if not n:
        return None
    chance = Random(seed)
    rank = (n - 1) * q / 100
    low = int(rank)
    return [_order_statistic(ordered, low, rank - low, chance) for _ in range(draws)]


def _order_statistic(ordered: Sequence[float], low: int, part: float, chance: Random) -> float:
    n = len(ordered)
    place = chance.betavariate(low + 1, n - low)
    value = ordered[min(int(n * place), n - 1)]
    if not part:
        return value
    place += (1 - place) * chance.betavariate(1, n - low - 1)  # the next larger one, given this one
    return value + (ordered[min(int(n * place), n - 1)] - value) * part


def share_draws(part: int, whole: int, seed: str, draws: int = DRAWS) -> list[float] | None:
    """A share's resamples: each a binomial number of `whole`, over `whole`; None of nothing."""
    if not whole:
        return None
    chance = Random(seed)
    return [_binomial(whole, part / whole, chance) / whole for _ in range(draws)]


def _binomial(n: int, p: float, chance: Random) -> int:
    """Exact in O(log n): the median of n uniform numbers is a beta number, and splits them in two halves (Devroye, X.4)."""
    count = 0
    while n > 16:
        middle = 1 + n // 2
        place = chance.betavariate(middle, n + 1 - middle)
        if place >= p:
            n, p = middle - 1, p / place
        else:
            count, n, p = count + middle, n - middle, (p - place) / (1 - place)
    return count + sum(chance.random() < p for _ in range(n))


def interval(base: Sequence[float] | None, other: Sequence[float] | None, level: float = LEVEL) -> tuple[float, float] | None:
    """The interval of `other` - `base` that holds `level` of the paired draws; None where one is undefined."""
    if not base or not other:
        return None
    return _middle([theirs - mine for mine, theirs in zip(base, other, strict=True)], level)


def ratio_interval(
    base: Sequence[float] | None, other: Sequence[float] | None, level: float = LEVEL
) -> tuple[float, float] | None:
    """As `interval`, of `other` / `base` - 1, for figures that are never negative: so never below -1.

    A draw of the base that is 0 has no ratio and counts as beyond every other; None where that leaves an end undefined.
    """
    if not base or not other:
        return None
    low, high = _middle([theirs / mine - 1 if mine > 0 else inf for mine, theirs in zip(base, other, strict=True)], level)
    return (low, high) if isfinite(low) and isfinite(high) else None


def _middle(values: Sequence[float], level: float) -> tuple[float, float]:
    """The ends between which so much of them lies."""
    ordered, tail = sorted(values), 50 * (1 - level)
    low, high = percentile(ordered, tail), percentile(ordered, 100 - tail)
    assert low is not None and high is not None
    return low, high
