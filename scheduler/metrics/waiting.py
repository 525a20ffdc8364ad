"""Waiting: by reason, how many at once, Little's law, starvation. Knows lives, no step.

Invariant: `little` gives the same number twice, computed apart, on every log that ends empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.request import WaitReason
from scheduler.metrics.lives import Life

WAIT_REASONS: tuple[str, ...] = tuple(reason.name.lower() for reason in WaitReason)


def waits(finished: Iterable[Life]) -> dict[str, int]:
    """ns waited before the first admission, by reason, over requests that have ended; all reasons present."""
    totals = [0] * len(WAIT_REASONS)
    for life in finished:
        if life.parts is not None:
            totals = [total + wait for total, wait in zip(totals, life.parts.waits, strict=True)]
    return dict(zip(WAIT_REASONS, totals, strict=True))


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many were waiting or preempted: a staircase of (instant, depth from then on), and its exact integral."""

    stairs: tuple[tuple[int, int], ...]
    area: int  # request-ns between the first and the last instant

    @property
    def peak(self) -> int:
        """The greatest depth."""
        return max((level for _, level in self.stairs), default=0)


def depth(finished: Iterable[Life]) -> QueueDepth:
    """The number outside the running set over time, arrivals counted from `received_at`."""
    moves: dict[int, int] = {}
    for life in finished:
        for start, end in life.spans:
            moves[start] = moves.get(start, 0) + 1
            moves[end] = moves.get(end, 0) - 1
    level, area, before, stairs = 0, 0, 0, []
    for at in sorted(moves):
        area += level * (at - before)
        level, before = level + moves[at], at
        stairs.append((at, level))
    return QueueDepth(tuple(stairs), area)


def little(finished: Sequence[Life]) -> tuple[int, int]:
    """Both sides of L·T = λT·W for the waiting (preempted included): the staircase's area, and the sum of single waits.

    They are computed apart, the first from the depth over time, the second from the parts that the core counted;
    on a finished log they are equal to the nanosecond.
    """
    parts = [life.parts for life in finished if life.parts is not None]
    return depth(finished).area, sum(sum(each.waits) + each.preempted for each in parts)


@dataclass(frozen=True, slots=True)
class Starvation:
    """The longest wait before an admission, and of `n` requests how many waited longer than the threshold; ns."""

    longest: float
    over: int
    threshold: float
    n: int


def starvation(waited: Iterable[float | None], threshold: float) -> Starvation | None:
    """From each request's wait (until its end, where it was never admitted); None where nobody could have waited."""
    known = [wait for wait in waited if wait is not None]
    if not known:
        return None
    return Starvation(max(known), sum(wait > threshold for wait in known), threshold, len(known))
