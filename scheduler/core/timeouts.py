"""Timeouts: whose hard time limit has passed. Knows only `timeout_at`, `number` and `state` of a request.

Far ones lie in 250 ms buckets, from which a finished request is removed at once, so that there is nothing to compact;
near ones in a small exact heap, where finished ones are skipped. Buckets are emptied one bucket ahead of time, and at
most MOVED requests a call, so that a hundred thousand equal time-outs do not stop one step.
Invariant: a live request with a `timeout_at` is in exactly one of the two.
"""

from __future__ import annotations

from heapq import heappop, heappush

from scheduler.core.request import Request, RequestState

BUCKET_NS = 250_000_000
MOVED = 1024


class Timeouts:
    """The time limits of all live requests."""

    def __init__(self) -> None:
        self._far: dict[int, dict[int, Request]] = {}
        self._order: list[int] = []  # heap of the buckets that exist
        self._near: list[tuple[int, int, Request]] = []

    def __bool__(self) -> bool:
        """Is anybody watched?"""
        return bool(self._order or self._near)

    def add(self, request: Request) -> None:
        """Watch `request`; without a time-out there is nothing to watch."""
        if request.timeout_at is None:
            return
        bucket = request.timeout_at // BUCKET_NS
        there = self._far.get(bucket)
        if there is None:
            there = self._far[bucket] = {}
            heappush(self._order, bucket)
        there[request.number] = request

    def remove(self, request: Request) -> None:
        """`request` ended. In the near heap it is skipped when its time comes."""
        if request.timeout_at is not None:
            there = self._far.get(request.timeout_at // BUCKET_NS)
            if there is not None:
                there.pop(request.number, None)

    def due(self, now: int, most: int) -> list[Request]:
        """At most `most` live requests whose time has passed, earliest first; they leave this object."""
        self._bring_near(now)
        near = self._near
        found: list[Request] = []
        while near and near[0][0] <= now and len(found) < most:
            request = heappop(near)[2]
            if request.state is not RequestState.FINISHED:
                found.append(request)
        return found

    def _bring_near(self, now: int) -> None:
        order, horizon, moved = self._order, now // BUCKET_NS + 1, 0
        while order and order[0] <= horizon and moved < MOVED:
            there = self._far[order[0]]
            while there and moved < MOVED:
                _, request = there.popitem()
                assert request.timeout_at is not None
                heappush(self._near, (request.timeout_at, request.number, request))
                moved += 1
            if not there:
                del self._far[heappop(order)]
