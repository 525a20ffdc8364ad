"""HangWatch: sees to it that an engine that has work takes steps, one life after another. Knows no process, only what is known
of it.

Invariant: time in which we stood still ourselves is nobody's silence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.supervisor.engine_ties import Status
from app.supervisor.pulse import Pulse

log = logging.getLogger("batchscope")

WATCH_S = 1.0


class HangWatch:
    """`status`: of the present life; `work` counts what it should be busy with. All in seconds of one monotonic clock."""

    def __init__(
        self,
        status: Callable[[], Status],
        work: Callable[[], int],
        hang_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._status = status
        self._work = work
        self._hang_s = hang_s
        self._clock = clock
        self._sleep = sleep
        self._pulse = Pulse(clock, hang_s)

    def begin(self) -> None:
        """A new life."""
        self._pulse = Pulse(self._clock, self._hang_s)

    def heard(self, message: object) -> None:
        """It said something."""
        self._pulse.heard(message)

    @property
    def hung(self) -> bool:
        """It has work, is not held, and does not step; or it loads and says nothing."""
        status = self._status()
        if status.state != "up":
            return self._pulse.stuck
        if status.paused or not self._work():
            self._pulse.beat()
        return self._pulse.hung

    def keep(self, over: Callable[[], bool], kill: Callable[[], None]) -> None:
        """Look again and again, and kill what hangs, until it is `over`."""
        period = min(WATCH_S, self._hang_s / 4)
        while not over():
            asleep = self._clock()
            self._sleep(period)
            if self._clock() - asleep > period + WATCH_S:
                self._pulse.beat()  # it was us who stood still: what it said meanwhile is still to be read
            elif self.hung:
                log.error("the engine has work and took no step for %.0f s: killed", self._pulse.silent_s)
                kill()
