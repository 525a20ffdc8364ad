"""Rates: how many POSTs to the inference API one API key may send. Knows key names and seconds, no request.

A token bucket a key (as in RFC 2697's committed rate): it holds a minute's worth, and refills evenly, so a minute's worth may
come at once and no more than the rate after that. A refused POST takes nothing.
Invariant: within any span of t seconds one key has no more than `per_minute` × (1 + t / 60) accepted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

MINUTE_S = 60.0


class Rates:
    """`per_minute`: 0 is no limit; `exempt`: names that have none."""

    def __init__(self, per_minute: int, exempt: tuple[str, ...] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._exempt = exempt
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # key name → what was left, and when; as many as there are keys

    def take(self, name: str | None) -> int:
        """0: the holder of this key may send one more, and it is counted. Else the whole seconds, 1 to 60, until it may."""
        if not self._per_minute or name is None or name in self._exempt:
            return 0
        now, most = self._clock(), float(self._per_minute)
        left, then = self._buckets.get(name, (most, now))
        left = min(most, left + (now - then) * most / MINUTE_S)
        if left < 1.0:
            return max(1, math.ceil((1.0 - left) * MINUTE_S / most))
        self._buckets[name] = (left - 1.0, now)
        return 0
