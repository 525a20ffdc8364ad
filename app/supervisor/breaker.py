"""Breaker: how long to rest before the next engine life. Knows instants, no process. All in seconds of one monotonic clock.

Three deaths within a minute open it: a rest, then one try; it rests again while deaths are that close.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

CRASHES_ALLOWED = 3
CRASH_WINDOW_S = 60.0
REST_S = 30.0


class Breaker:
    """Told of each death."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deaths: deque[float] = deque(maxlen=CRASHES_ALLOWED)

    def died(self) -> None:
        """An engine life ended that should not have."""
        self._deaths.append(self._clock())

    def explained(self) -> None:
        """What killed them is known and shut out: they say nothing about the next life."""
        self._deaths.clear()

    @property
    def rest_s(self) -> float:
        """Before the next try; 0 while the breaker is closed."""
        often = len(self._deaths) == CRASHES_ALLOWED and self._clock() - self._deaths[0] < CRASH_WINDOW_S
        return REST_S if often else 0.0
