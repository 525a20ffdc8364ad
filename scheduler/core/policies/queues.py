"""Queues that a policy may own. They know `number` and `key` of a request, and no policy.

Invariant: a request that was pushed and not removed is in the queue, once; out of the middle costs no more than in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from scheduler.core.request import Request


class Fifo:
    """First in, first out; out of the middle in O(1), without leaving anything to compact.

    Who comes back after it was parked had been first before it left: it goes before all who were never parked.
    """

    __slots__ = ("_queue", "_back", "_numbers")

    def __init__(self) -> None:
        self._queue: OrderedDict[int, Request] = OrderedDict()
        self._back: dict[int, Request] = {}
        self._numbers: list[int] = []  # of those in `_back`, ascending

    def __len__(self) -> int:
        return len(self._queue) + len(self._back)

    def push(self, request: Request) -> None:
        """At the end."""
        if request.parked is None:
            self._queue[request.number] = request
        else:
            self._back[request.number] = request
            insort(self._numbers, request.number)

    def push_front(self, request: Request) -> None:
        """Before all others: it was there before."""
        self._queue[request.number] = request
        self._queue.move_to_end(request.number, last=False)

    def first(self) -> Request | None:
        """The oldest, or None."""
        first = next(iter(self._queue.values()), None)
        if not self._numbers or (first is not None and first.preemptions and first.number < self._numbers[0]):
            return first
        return self._back[self._numbers[0]]

    def remove(self, request: Request) -> None:
        """From wherever it is."""
        if self._back.pop(request.number, None) is None:
            del self._queue[request.number]
        else:
            del self._numbers[bisect_left(self._numbers, request.number)]


class SortedQueue:
    """Requests by ascending (key, number), as short sorted runs: push and remove cost O(log n) and a short move.

    Removal is at once: unlike in a heap with dead entries, no single call is ever slow.
    """

    __slots__ = ("_runs", "_lasts", "_size")
    _LOAD = 512

    def __init__(self) -> None:
        self._runs: list[list[tuple[Any, int, Request]]] = []
        self._lasts: list[tuple[Any, ...]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Request]:
        return (entry[2] for run in self._runs for entry in run)

    def push(self, request: Request, key: Any = None) -> None:
        """In its place by `key`: `request.key`, if that is left out."""
        entry = (request.key if key is None else key, request.number, request)
        self._size += 1
        if not self._runs:
            self._runs.append([entry])
            self._lasts.append(entry)
            return
        index = min(bisect_left(self._lasts, entry), len(self._runs) - 1)
        run = self._runs[index]
        insort(run, entry)
        self._lasts[index] = run[-1]
        if len(run) > 2 * self._LOAD:
            self._runs[index : index + 1] = [run[: self._LOAD], run[self._LOAD :]]
            self._lasts[index : index + 1] = [run[self._LOAD - 1], run[-1]]

    def first(self) -> Request | None:
        """The least, or None."""
        return self._runs[0][0][2] if self._runs else None

    def remove(self, request: Request, key: Any = None) -> None:
        """From its place; its key must be the one it was pushed with."""
        index, at = self._place(request, key)
        run = self._runs[index]
        assert run[at][2] is request, f"{request} is not where its key says"
        del run[at]
        self._size -= 1
        if not run:
            del self._runs[index], self._lasts[index]
        elif at == len(run):
            self._lasts[index] = run[-1]

    def _place(self, request: Request, key: Any) -> tuple[int, int]:
        """Which run, and where in it."""
        if self._runs[0][0][2] is request:  # who is next leaves most often
            return 0, 0
        place = (request.key if key is None else key, request.number)
        index = bisect_left(self._lasts, place)
        return index, bisect_left(self._runs[index], place)


class TenantQueues:
    """A SortedQueue for each tenant of whom somebody waits. It knows no order among tenants."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[str, SortedQueue] = {}

    def __contains__(self, tenant: str) -> bool:
        return tenant in self._queues

    def push(self, request: Request) -> None:
        """In its place by `request.key` among those of its tenant."""
        queue = self._queues.get(request.tenant)
        if queue is None:
            queue = self._queues[request.tenant] = SortedQueue()
        queue.push(request)

    def first(self, tenant: str) -> Request:
        """The least of a tenant of whom somebody waits."""
        first = self._queues[tenant].first()
        assert first is not None, f"an empty queue was kept for {tenant}"
        return first

    def remove(self, request: Request) -> None:
        """From its place; its key must be the one it was pushed with."""
        queue = self._queues[request.tenant]
        queue.remove(request)
        if not len(queue):
            del self._queues[request.tenant]
