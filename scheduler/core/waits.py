"""WaitClocks: how long everybody waited for what, in O(1) a request. Knows no request and no queue.

One clock a reason, of which exactly one runs: the one that holds back all who wait. A request's time per reason is
the difference of two readings. Invariant: the readings' sum grows exactly with time.
"""

from __future__ import annotations

from operator import add, sub

from scheduler.core.request import NO_WAITS, WaitReason


class WaitClocks:
    """The running clocks; `reason` is the one that runs, `at` the last reading."""

    __slots__ = ("reason", "at", "_ns")

    def __init__(self) -> None:
        self.reason = WaitReason.STEP
        self._ns = [0] * len(WaitReason)
        self.at = 0

    def advance(self, now: int) -> None:
        """Let the running clock catch up with `now`."""
        assert now >= self.at, f"time went back from {self.at} to {now}"
        self._ns[self.reason] += now - self.at
        self.at = now

    def switch(self, reason: WaitReason, now: int) -> None:
        """From `now` on, everybody waits for `reason`."""
        if reason is not self.reason:
            self.advance(now)
            self.reason = reason

    def read(self, now: int) -> tuple[int, ...]:
        """The reading at `now`: the mark of a wait that begins."""
        self.advance(now)
        return tuple(self._ns)

    def since(self, mark: tuple[int, ...], now: int) -> tuple[int, ...]:
        """Time by reason between `mark` and `now`."""
        self.advance(now)
        return tuple(map(sub, self._ns, mark))


def alone(reason: WaitReason, ns: int) -> tuple[int, ...]:
    """`ns` under one reason."""
    if not ns:
        return NO_WAITS
    waits = list(NO_WAITS)
    waits[reason] = ns
    return tuple(waits)


def together(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The sum by reason."""
    return tuple(map(add, first, second))
