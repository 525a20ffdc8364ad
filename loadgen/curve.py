"""How many arrivals are expected by an instant, and when so many are: rates over time, written as points. Pure; draws nothing.

A rate is linear between its points and stays as it is after the last one; two points at one instant are a step.
Invariant: `mass` never falls, and `instant` is its inverse: mass(instant(m)) = m wherever the rate is above 0.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

Points = tuple[tuple[float, float], ...]  # (seconds, arrivals a second)
MOST_POINTS = 100
LATEST_S, HIGHEST = 604_800.0, 10_000.0
_POINT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?):(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


class Curve(Protocol):
    """Expected arrivals before `t` seconds; the second at which so many are expected, inf where they never are."""

    def mass(self, t: float) -> float: ...
    def instant(self, mass: float) -> float: ...


class Rates:
    """A curve through points that begin at 0 s. `period`: after so many seconds it begins anew."""

    def __init__(self, points: Sequence[tuple[float, float]], period: float = math.inf) -> None:
        self._times = [t for t, _ in points]
        self._rates = [rate for _, rate in points]
        self._sums = [0.0]
        for (t0, r0), (t1, r1) in zip(points, points[1:], strict=False):
            self._sums.append(self._sums[-1] + (r0 + r1) / 2 * (t1 - t0))
        self._period = period

    def mass(self, t: float) -> float:
        if t <= 0:
            return 0.0
        rounds, t = divmod(t, self._period) if math.isfinite(self._period) else (0.0, t)
        i = bisect_right(self._times, t) - 1
        past = t - self._times[i]
        return rounds * self._sums[-1] + self._sums[i] + past * (self._rates[i] + past * self._slope(i) / 2)

    def instant(self, mass: float) -> float:
        start = 0.0
        if math.isfinite(self._period):
            if self._sums[-1] <= 0:
                return math.inf
            rounds, mass = divmod(mass, self._sums[-1])
            start = rounds * self._period
        i = bisect_right(self._sums, mass) - 1
        return start + self._times[i] + self._spend(mass - self._sums[i], self._rates[i], self._slope(i))

    def _slope(self, i: int) -> float:
        """Of the stretch that begins at point i; level after the last."""
        if i + 1 == len(self._times):
            return 0.0
        length = self._times[i + 1] - self._times[i]
        return (self._rates[i + 1] - self._rates[i]) / length if length else 0.0

    @staticmethod
    def _spend(mass: float, rate: float, slope: float) -> float:
        """Seconds in which a rate that begins at `rate` brings `mass`, without a difference of near equals."""
        if not slope:
            return mass / rate if rate else math.inf
        twice_mean = rate + math.sqrt(max(0.0, rate * rate + 2 * slope * mass))
        return 2 * mass / twice_mean if twice_mean else 0.0


class Listed:
    """The instants themselves are the curve: one arrival at each."""

    def __init__(self, at_s: Sequence[float]) -> None:
        self._at_s = at_s

    def mass(self, t: float) -> float:
        return float(bisect_left(self._at_s, t))

    def instant(self, mass: float) -> float:
        return self._at_s[int(mass)] if mass < len(self._at_s) else math.inf


def read_points(text: str) -> Points:
    """The points of "0:1 20:8 40:8 60:1" (seconds:arrivals a second); ValueError says which point cannot be, and why."""
    words = text.split()
    if not 1 <= len(words) <= MOST_POINTS:
        raise ValueError(f'needs 1 to {MOST_POINTS} points such as "0:1 20:8", not {len(words)}')
    points = list[tuple[float, float]]()
    for n, word in enumerate(words, 1):
        try:
            points.append(_point(word, points))
        except ValueError as error:
            raise ValueError(f"point {n}, {word[:40]!r}, {error}") from None
    if not any(rate for _, rate in points):
        raise ValueError("brings nobody: some point needs a rate above 0")
    return tuple(points)


def _point(word: str, before: Sequence[tuple[float, float]]) -> tuple[float, float]:
    match = _POINT.fullmatch(word)
    if match is None:
        raise ValueError("is not SECONDS:RATE")
    t, rate = float(match[1]), float(match[2])
    if t > LATEST_S or rate > HIGHEST:
        raise ValueError(f"is beyond {LATEST_S:g} s or {HIGHEST:g} a second")
    if not before and t:
        raise ValueError("must be at 0 s, being the first")
    if before and t < before[-1][0]:
        raise ValueError(f"is earlier than the one before it, at {before[-1][0]:g} s")
    if [earlier for earlier, _ in before[-2:]] == [t, t]:
        raise ValueError("is the third at its instant; two make a step")
    return t, rate
