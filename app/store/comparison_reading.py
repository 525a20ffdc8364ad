"""What an interval says in a word: better, worse, unclear, or of too few. Pure; knows no run.

Invariant: a word is said only where there is an interval, never of fewer than ENOUGH values on either side, and never of a
run that is the first one again: chance made all that differs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

ENOUGH = 100


def reading(
    name: str, n: Sequence[int | None], intervals: Sequence[tuple[float, float] | None], repeats: Collection[int] = ()
) -> dict[str, Any]:
    """{better: "lower" | "higher", reading: by run}. Of shares of good answers more is better, of times less is.

    n: how many values each run's figure is of; repeats: places of the runs that are the base again. These, the base, and a
    figure without an interval read None.
    """
    better = "higher" if name.startswith("goodput.") else "lower"
    words = [_word(better, n[0], count, each) for count, each in zip(n, intervals, strict=True)]
    return {"better": better, "reading": [None if index in repeats else word for index, word in enumerate(words)]}


def enough(base: int | None, count: int | None) -> bool:
    """Both sides have values enough to read an interval of them."""
    return min(base or 0, count or 0) >= ENOUGH


def _word(better: str, base: int | None, count: int | None, interval: tuple[float, float] | None) -> str | None:
    if interval is None:
        return None
    if not enough(base, count):
        return "too_few"
    low, high = interval
    if low <= 0 <= high:
        return "unclear"
    return "better" if (low > 0) is (better == "higher") else "worse"
