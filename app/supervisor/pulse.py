"""Pulse: does an engine life still beat? Knows instants, no process. All in seconds of one monotonic clock.

Hung means: work, no hold, and no step for longer than any step should take, max(`hang_s`, 20 × its longest step). A word
that is no step counts only before the first one: an engine that answers and does not step serves nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.core.events import EVENT_TYPES, StepCompleted
from scheduler.engine.messages import StepDone

HANG_S = 10.0
HANG_FACTOR = 20
FIRST_STEP_FACTOR = 12  # × hang_s: kernels are compiled and weights paged in during the first step of a life
LOADING_FACTOR = 60  # × hang_s without a word of progress
FIRST_STEP_S = FIRST_STEP_FACTOR * HANG_S
_STEP_KIND = EVENT_TYPES.index(StepCompleted)


class Pulse:
    """One engine life, listened to."""

    def __init__(self, clock: Callable[[], float], hang_s: float = HANG_S) -> None:
        self._clock = clock
        self._hang_s = hang_s
        self._beat_at = clock()
        self._longest_s = 0.0
        self.stepped = False

    @property
    def silent_s(self) -> float:
        """Since the last beat."""
        return self._clock() - self._beat_at

    def beat(self) -> None:
        """It stepped, or there is nothing to hear of."""
        self._beat_at = self._clock()

    def heard(self, message: object) -> None:
        """A message came."""
        before = self.stepped
        if isinstance(message, StepDone):
            for row in message.events:
                if row[0] == _STEP_KIND:
                    _, _, _, _, _, started_at, ended_at, *_ = row
                    self._longest_s = max(self._longest_s, (ended_at - started_at) / 1e9)
                    self.stepped = True
                    self.beat()
        if not before:
            self.beat()

    @property
    def hung(self) -> bool:
        """Silent for too long; to be asked only of a life that has work and is not held."""
        usual = max(self._hang_s, HANG_FACTOR * self._longest_s)
        return self.silent_s > (usual if self.stepped else FIRST_STEP_FACTOR * self._hang_s)

    @property
    def stuck(self) -> bool:
        """Silent for too long while it loads."""
        return self.silent_s > LOADING_FACTOR * self._hang_s
