"""Percentiles and Jain's index: numbers in, numbers out. Knows no event.

Invariant: nothing is estimated; what is undefined (of no values) is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def percentile(ordered: Sequence[float], q: float) -> float | None:
    """The q-th percentile (0..100) of ascending values, linear between ranks (numpy's default); None of nothing."""
    if not ordered:
        return None
    rank = (len(ordered) - 1) * q / 100
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def few(n: int, q: float) -> bool:
    """True when fewer than one of n values is expected beyond the q-th percentile: shown, but grey."""
    return n * (100 - q) < 100


def percentiles(values: Iterable[float | None], qs: Sequence[int] = (50, 90, 95, 99)) -> dict[str, object]:
    """{"p50": …, "n": …, "few": [names of the percentiles that n is too small for]} over the defined values."""
    return ordered_percentiles(sorted(value for value in values if value is not None), qs)


def ordered_percentiles(ordered: Sequence[float], qs: Sequence[int] = (50, 90, 95, 99)) -> dict[str, object]:
    """The same of values that are ascending and all defined."""
    n = len(ordered)
    figures: dict[str, object] = {f"p{q}": percentile(ordered, q) for q in qs}
    return {**figures, "n": n, "few": [f"p{q}" for q in qs if few(n, q)]}


def jain(shares: Iterable[float]) -> float | None:
    """Jain's index (Σx)² / (n·Σx²): 1 when all are equal, 1/n when one has all; None when nobody had anything.

    Source: Jain, Chiu, Hawe, DEC-TR-301 (1984). Of service by tenant, give service / weight.
    """
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None
