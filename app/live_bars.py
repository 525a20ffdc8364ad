"""Bars of the batch timeline: which phase a request was in, from when to when. Knows neither requests nor JSON consumers.

Invariant: `since(last)` yields each bar that was opened or closed after `last` exactly once, in its newest state, or None
when that history is no longer kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

KEPT_S = 60
MAX_CLOSED = 20_000
MAX_CHANGES = 40_000
MAX_SHOWN = 4_000


@dataclass(slots=True)
class Bar:
    """One phase of one request. Times in ns; `end` is None while open; `reason` is set on a request's last bar."""

    number: int
    id: str
    tenant: str
    slot: int
    phase: str
    start: int
    end: int | None = None
    reason: str | None = None


class Bars:
    """The open bars, the closed ones of the last minute, and the order in which they changed."""

    def __init__(self) -> None:
        self._open: dict[int, Bar] = {}
        self._closed: deque[Bar] = deque()
        self._changes: deque[tuple[int, Bar]] = deque()
        self._floor = 0  # changes up to and including this seq may be forgotten
        self.dropped = 0  # closed bars forgotten for want of room, not of age

    def open(self, seq: int, bar: Bar) -> None:
        """`bar` begins; a request has one open bar at most."""
        self._open[bar.number] = bar
        self._changed(seq, bar)

    def close(self, seq: int, number: int, at: int, reason: str | None = None) -> None:
        """The open bar of `number` ends at `at`."""
        bar = self._open.pop(number)
        bar.end = at
        bar.reason = reason
        self._closed.append(bar)
        self._changed(seq, bar)
        if len(self._closed) > MAX_CLOSED:
            self._closed.popleft()
            self.dropped += 1

    def forget(self, before: int) -> None:
        """Drop closed bars that ended before the instant `before`."""
        closed = self._closed
        while closed and (closed[0].end or 0) < before:
            closed.popleft()

    def recent(self) -> tuple[list[Bar], int]:
        """(the newest 4,000 closed bars by their end, then all open ones; how many closed ones were left out)."""
        left_out = max(0, len(self._closed) - MAX_SHOWN)
        return [*islice(self._closed, left_out, None), *self._open.values()], left_out + self.dropped

    def since(self, last: int) -> list[Bar] | None:
        """Bars changed after seq `last`, oldest change first; None when the ring does not reach back that far."""
        if last < self._floor:
            return None
        found: dict[int, Bar] = {}
        for seq, bar in reversed(self._changes):
            if seq <= last:
                break
            found.setdefault(id(bar), bar)
        return list(reversed(found.values()))

    def _changed(self, seq: int, bar: Bar) -> None:
        self._changes.append((seq, bar))
        if len(self._changes) > MAX_CHANGES:
            self._floor = self._changes.popleft()[0]


def columns(bars: Iterable[Bar], ms: Callable[[int], float]) -> dict[str, list[object]]:
    """Columnar JSON of bars; `ms` turns an instant into milliseconds since the boot."""
    rows = [
        (
            bar.id,
            bar.number,
            bar.slot,
            bar.phase,
            ms(bar.start),
            None if bar.end is None else ms(bar.end),
            bar.tenant,
            bar.reason,
        )
        for bar in bars
    ]
    names = ("id", "number", "slot", "phase", "t0", "t1", "tenant", "reason")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}
