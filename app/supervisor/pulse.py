"""Pulse: does an engine life still beat? Knows instants, no process. All in seconds of one monotonic clock.

Hung means: work, no hold, and no word for longer than any step should take, max(10 s, 20 × its longest step).
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.core.events import EVENT_TYPES, StepCompleted
from scheduler.engine.messages import StepDone

HANG_S = 10.0
HANG_FACTOR = 20
FIRST_STEP_S = 120.0  # kernels are compiled and weights paged in during the first step of a life
_STEP_KIND = EVENT_TYPES.index(StepCompleted)


class Pulse:
    """One engine life, listened to."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._longest_s = 0.0
        self.stepped = False

    @property
    def silent_s(self) -> float:
        """Since the last word."""
        return self._clock() - self._heard_at

    def heard(self, message: object = None) -> None:
        """A message came, or there was nothing to hear of."""
        self._heard_at = self._clock()
        if isinstance(message, StepDone):
            for row in message.events:
                if row[0] == _STEP_KIND:
                    _, _, _, _, _, started_at, ended_at, *_ = row
                    self._longest_s = max(self._longest_s, (ended_at - started_at) / 1e9)
                    self.stepped = True

    @property
    def hung(self) -> bool:
        """Silent for too long; to be asked only of a life that has work and is not held."""
        bound = max(HANG_S, HANG_FACTOR * self._longest_s) if self.stepped else FIRST_STEP_S
        return self.silent_s > bound
