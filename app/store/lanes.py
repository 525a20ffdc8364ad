"""Rows of a timeline: which bar is drawn in which. Pure; knows no table and no pixel.

slot: a row a slot, what holds none (queued, preempted) in no row: -1. request: each request keeps one row from its arrival to
its end, the topmost that is free. tenant: the same, each tenant for itself.
Invariant: no two bars of a row overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

ROWS = ("slot", "request", "tenant")
_FOR_EVER = 1 << 62


class Placed(Protocol):
    """A bar as far as rows are concerned."""

    request: str
    tenant: str
    slot: int
    start: int
    end: int | None
    lane: int


def lay_out(bars: Sequence[Placed], rows: str) -> list[dict[str, Any]]:
    """Set each bar's `lane`; [{label, lanes}] from the top."""
    if rows == "slot":
        for bar in bars:
            bar.lane = bar.slot
        return [{"label": "slot", "lanes": max((bar.slot + 1 for bar in bars), default=0)}]
    whose: dict[str, list[Placed]] = {}
    for bar in bars:
        whose.setdefault(bar.tenant if rows == "tenant" else "request", []).append(bar)
    groups, first = [], 0
    for label in sorted(whose):
        lanes = _pack(whose[label], first)
        groups.append({"label": label, "lanes": lanes})
        first += lanes
    return groups


def _pack(bars: Sequence[Placed], first: int) -> int:
    """Give each request the lowest lane that is free when it arrives; how many lanes that takes."""
    busy, free, lanes = list[tuple[int, int]](), list[int](), 0
    for start, end, _, request in sorted(_lives(bars)):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heappush(busy, (end, lane))
        for bar in request:
            bar.lane = first + lane
    return lanes


def _lives(bars: Iterable[Placed]) -> Iterator[tuple[int, int, str, list[Placed]]]:
    """(start, end, id, bars) of each request."""
    whole: dict[str, list[Placed]] = {}
    for bar in bars:
        whole.setdefault(bar.request, []).append(bar)
    for name, mine in whole.items():
        yield min(bar.start for bar in mine), max(_FOR_EVER if bar.end is None else bar.end for bar in mine), name, mine
