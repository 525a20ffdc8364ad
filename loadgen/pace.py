"""A curve of the rate that somebody bends while the run goes on: from an instant on, arrivals are so many times denser.

Knows no clock and no request. Invariant: what was due before a change is due when it was; a change moves only what comes
after it, and the same changes give the same instants in every process.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from loadgen.curve import Curve


def users_at(users: int, factor: float) -> int:
    """How many of a closed loop's users ask at a rate factor."""
    return max(1, round(users * factor))


class Bend(NamedTuple):
    """From `at_s` on. spent: mass until then; along: the same on the curve itself."""

    at_s: float
    spent: float
    along: float
    factor: float


class Pace:
    """Instants of masses along `curve` times the factor in force. Changes come in the order of their instants."""

    def __init__(self, curve: Curve) -> None:
        self._curve = curve
        self._bends = [Bend(0.0, 0.0, 0.0, 1.0)]

    def change(self, at_s: float, factor: float) -> None:
        """From second `at_s` of the stream on the rate is `factor` times what its scenario says; below 0: from its start."""
        last, along = self._bends[-1], self._curve.mass(at_s)
        self._bends.append(Bend(at_s, last.spent + last.factor * (along - last.along), along, factor))

    def over(self, at_s: float) -> bool:
        """No rate of the curve is left after `at_s`: whatever the factor, nobody comes any more."""
        return self._curve.instant(self._curve.mass(at_s)) == math.inf

    def instant(self, mass: float) -> float:
        """Seconds from the stream's start; inf if it never comes."""
        bend = next(bend for bend in reversed(self._bends) if bend.spent <= mass)
        return self._curve.instant(bend.along + (mass - bend.spent) / bend.factor)
