"""Figures of the live page: the ring of steps, and what is computed from it. Knows no request and no socket.

Every figure is a function of what was folded and of the instant that it is asked for; none reads a clock.
Percentiles are exact: linear interpolation over all samples of the window (numpy's default), None when there is none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from scheduler.metrics import WAIT_REASONS, percentile

RING = 6_000
NS = 1_000_000_000
RATE_WINDOW = 2 * NS
LATENCY_WINDOW = 30 * NS
RECENT_STEPS = 60


class Step(NamedTuple):
    """What is kept of one step; `reasons` counts the waiting by WaitReason, `emitted` output tokens; `slots`: what could run
    at once in it."""

    seq: int
    step: int
    started_at: int
    ended_at: int
    prefill: int
    decode: int
    emitted: int
    budget: int
    binding: str
    reasons: tuple[int, ...]
    running: int
    kv_used: int
    preempted: int
    slots: int | None = None


class StepRing:
    """The last `limit` steps (0: 6,000)."""

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit or RING
        self._rows: deque[Step] = deque()
        self._floor = 0

    def append(self, row: Step) -> None:
        """One more; the oldest goes when the ring is full."""
        self._rows.append(row)
        if len(self._rows) > self._limit:
            self._floor = self._rows.popleft().seq

    @property
    def last(self) -> Step | None:
        """The newest step."""
        return self._rows[-1] if self._rows else None

    def newest(self, count: int) -> list[Step]:
        """The last `count` steps, oldest first."""
        rows = self._rows
        return [rows[index] for index in range(max(0, len(rows) - count), len(rows))]

    def since(self, last: int) -> list[Step] | None:
        """Steps after seq `last`; None when the ring does not reach back that far."""
        if last < self._floor:
            return None
        found = []
        for row in reversed(self._rows):
            if row.seq <= last:
                break
            found.append(row)
        found.reverse()
        return found

    def rates(self) -> tuple[float | None, float | None]:
        """Output and prefill tokens a second over the last 2 s of steps (at least one step), idle gaps between included."""
        if not self._rows:
            return None, None
        end = self._rows[-1].ended_at
        output = prefill = 0
        begin = end
        for row in reversed(self._rows):
            if row.ended_at <= end - RATE_WINDOW and begin < end:
                break
            output += row.emitted
            prefill += row.prefill
            begin = row.started_at
        if begin >= end:
            return None, None
        seconds = (end - begin) / NS
        return output / seconds, prefill / seconds

    def step_ms_p50(self) -> float | None:
        """Median duration of the last 60 steps."""
        return percentile(sorted((row.ended_at - row.started_at) / 1e6 for row in self.newest(RECENT_STEPS)), 50)

    def budget_used(self) -> float | None:
        """Share of the token budget that the last 60 steps used."""
        rows = self.newest(RECENT_STEPS)
        budget = sum(row.budget for row in rows)
        return sum(row.prefill + row.decode for row in rows) / budget if budget else None


class Samples:
    """Latency samples of the last 30 s, at most `limit` of them; kept in order of size, so that looking is cheap."""

    def __init__(self, limit: int = RING) -> None:
        self._limit = limit
        self._rows: deque[tuple[int, int, int]] = deque()
        self._ordered: list[tuple[int, int]] = []
        self._weights: list[int] = []  # of `_ordered`, by themselves: they are added up for each frame

    def add(self, at: int, value: int, weight: int = 1) -> None:
        """`weight` samples of `value` ns, taken at `at`."""
        self._rows.append((at, value, weight))
        place = bisect_left(self._ordered, (value, weight))
        self._ordered.insert(place, (value, weight))
        self._weights.insert(place, weight)
        if len(self._rows) > self._limit:
            self._forget()

    def gauges(self, name: str, now: int) -> dict[str, float | int | None]:
        """{NAME_p50_ms, NAME_p95_ms, NAME_p99_ms, NAME_n}: of the 30 s before `now`."""
        while self._rows and self._rows[0][0] <= now - LATENCY_WINDOW:
            self._forget()
        until = list(accumulate(self._weights))
        of = {share: quantile(self._ordered, until, share / 100) / 1e6 if until else None for share in (50, 95, 99)}
        return {f"{name}_p{share}_ms": value for share, value in of.items()} | {f"{name}_n": until[-1] if until else 0}

    def stale_at(self) -> float:
        """The instant at which the oldest sample leaves the window; infinite when there is none."""
        return self._rows[0][0] + LATENCY_WINDOW if self._rows else inf

    def _forget(self) -> None:
        _, value, weight = self._rows.popleft()
        place = bisect_left(self._ordered, (value, weight))
        del self._ordered[place], self._weights[place]


def quantile(samples: Sequence[tuple[int, int]], until: Sequence[int], share: float) -> float:
    """The quantile at `share` of ascending (value, weight) pairs, each value counting `weight` times; `until`: the running sum
    of the weights."""
    exact = share * (until[-1] - 1)
    rank = int(exact)
    low = samples[bisect_right(until, rank)][0]
    high = samples[bisect_right(until, min(rank + 1, until[-1] - 1))][0]
    return low + (exact - rank) * (high - low)


def columns(rows: Sequence[Step], ms: Callable[[int], float]) -> dict[str, object]:
    """Columnar JSON of steps; `by_reason` holds only reasons that occur in them."""
    present = [index for index, _ in enumerate(WAIT_REASONS) if any(_at(row.reasons, index) for row in rows)]
    return {
        "seq": [row.seq for row in rows],
        "step": [row.step for row in rows],
        "t": [ms(row.ended_at) for row in rows],
        "ms": [round((row.ended_at - row.started_at) / 1e6, 3) for row in rows],
        "prefill": [row.prefill for row in rows],
        "decode": [row.decode for row in rows],
        "budget": [row.budget for row in rows],
        "binding": [row.binding for row in rows],
        "waiting": [sum(row.reasons) for row in rows],
        "by_reason": {WAIT_REASONS[index]: [_at(row.reasons, index) for row in rows] for index in present},
        "running": [row.running for row in rows],
        "kv_used": [row.kv_used for row in rows],
        "preempted": [row.preempted for row in rows],
        "slots": [row.slots for row in rows],
    }


def mean_us(values: Iterable[int]) -> float | None:
    """Mean of ns values in µs."""
    kept = list(values)
    return sum(kept) / len(kept) / 1e3 if kept else None


def _at(counts: tuple[int, ...], index: int) -> int:
    return counts[index] if index < len(counts) else 0
