"""Clocks: how a step's end becomes an instant. Knows no scheduler. All instants are integer monotonic ns.

Invariant: `now` never goes back, and `finish_step(started, elapsed)` is never before `started`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

LATE_NS = 1_000_000


class Clock(Protocol):
    """What the loop asks of time."""

    host_late_ns: int

    def now(self) -> int:
        """The current instant."""

    def finish_step(self, started: int, elapsed: int) -> int:
        """The instant at which a step that began at `started` and took `elapsed` is over."""


class LiveClock:
    """The machine's clock: a step is over when the call returns."""

    def __init__(self, read: Callable[[], int] = time.monotonic_ns) -> None:
        self._read = read
        self.host_late_ns = 0

    def now(self) -> int:
        """Read the clock."""
        return self._read()

    def finish_step(self, started: int, elapsed: int) -> int:
        """The clock's reading; `elapsed` is already in it."""
        return max(self._read(), started)


class PacedClock(LiveClock):
    """For simulated hardware served live: waits until `started + elapsed`, never sleeps for `elapsed`.

    `host_late_ns` is by how much the last step's end came later than the hardware's would, when that is over 1 ms: the
    host, not the simulated hardware, was the limit then.
    """

    def __init__(self, read: Callable[[], int] = time.monotonic_ns, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(read)
        self._sleep = sleep

    def finish_step(self, started: int, elapsed: int) -> int:
        """Wait for the simulated end, then read the clock."""
        end = started + elapsed
        while (left := end - self._read()) > 0:
            self._sleep(left / 1e9)
        now = self._read()
        self.host_late_ns = now - end if now - end > LATE_NS else 0
        return now


class JumpClock:
    """Simulated time: a step's end is where the clock goes next, at once."""

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self.host_late_ns = 0

    def now(self) -> int:
        """The simulated instant."""
        return self._now

    def advance(self, instant: int) -> None:
        """Go to `instant`; going back is a bug of the caller."""
        assert instant >= self._now, "simulated time went back"
        self._now = instant

    def finish_step(self, started: int, elapsed: int) -> int:
        """Jump to the end of the step."""
        self.advance(started + elapsed)
        return self._now
