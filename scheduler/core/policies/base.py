"""Policy (ORDER): the protocol, and the queues that a policy may own. Knows no budget, no blocks and no step.

A policy says who is next and who yields; whether and how much is not its business. It owns its queue and the fields
`key` and `queue_data` of the requests in it, and changes nothing else.
Invariant: a request that was enqueued and not dequeued is in the queue, once; `head` is one of them whenever there is
one, and is the same until something changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol

from scheduler.core.request import Request


class Departure(Enum):
    """Why a request leaves the queue."""

    ADMITTED = "admitted"  # it is the head, and runs
    GONE = "gone"  # it ended, from anywhere in the queue


class Policy(Protocol):
    """All that the mechanism asks. Ties are broken by `number`, the order in which requests were added."""

    preempts: bool
    """May a waiting request displace a running one?"""

    def enqueue(self, request: Request, now: int) -> None:
        """`request` waits: it is new, or back after a preemption (`request.preemptions` > 0)."""

    def head(self, now: int) -> Request | None:
        """Who is next; None only when nobody waits."""

    def dequeue(self, request: Request, why: Departure) -> None:
        """`request` waits no longer."""

    def served(self, request: Request, prefill: int) -> None:
        """A prefill of so many tokens was planned for `request`."""

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """Once a step: each of `decodes` got one token. changed: they are not the same as last time."""

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """Who of `running` yields to `needy`; None: nobody.

        A running `needy` is itself one of `running` and lacks a block; a waiting one lacks a place.
        """

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Take over from another policy: `waiting` in the order in which they were added, and who runs."""


class Books:
    """A policy that keeps no books: it need not know who was served how much."""

    preempts = False

    def served(self, request: Request, prefill: int) -> None:
        """Nothing to note."""

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """Nothing to note."""


class Fifo:
    """First in, first out; out of the middle in O(1), without leaving anything to compact."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: OrderedDict[int, Request] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, request: Request) -> None:
        """At the end."""
        self._queue[request.number] = request

    def push_front(self, request: Request) -> None:
        """Before all others: it was there before."""
        self._queue[request.number] = request
        self._queue.move_to_end(request.number, last=False)

    def first(self) -> Request | None:
        """The oldest, or None."""
        return next(iter(self._queue.values()), None)

    def remove(self, request: Request) -> None:
        """From wherever it is."""
        del self._queue[request.number]


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

    def push(self, request: Request) -> None:
        """In its place by `request.key`."""
        entry = (request.key, request.number, request)
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

    def remove(self, request: Request) -> None:
        """From its place; its key must be the one it was pushed with."""
        place = (request.key, request.number)
        index = bisect_left(self._lasts, place)
        run = self._runs[index]
        at = bisect_left(run, place)
        assert run[at][2] is request, f"{request} is not where its key says"
        del run[at]
        self._size -= 1
        if run:
            self._lasts[index] = run[-1]
        else:
            del self._runs[index], self._lasts[index]


class Keyed(Books, ABC):
    """Order by a key that is fixed while a request waits, the same one after a preemption; the largest key yields.

    A subclass says `key_of`. With `preempts`, `urgent` says whether a waiting request may displace a running one.
    """

    def __init__(self) -> None:
        self._queue = SortedQueue()

    @abstractmethod
    def key_of(self, request: Request, now: int) -> Any:
        """The sort key; smaller runs first."""

    def urgent(self, waiting: Request, running: Request) -> bool:
        """May `waiting` take the place of `running`? By default: whenever it sorts before it."""
        return bool((waiting.key, waiting.number) < (running.key, running.number))

    def enqueue(self, request: Request, now: int) -> None:
        """A new request gets its key; one that was preempted keeps it, and so its rank."""
        if request.key is None:
            request.key = self.key_of(request, now)
        self._queue.push(request)

    def head(self, now: int) -> Request | None:
        """The least key."""
        return self._queue.first()

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out of its place."""
        self._queue.remove(request)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The largest key among the running; for a waiting request, only if it may displace that one."""
        worst = max(running, key=lambda request: (request.key, request.number), default=None)
        if worst is None or needy.slot >= 0 or self.urgent(needy, worst):
            return worst
        return None

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Everybody gets a key of this policy's own."""
        for request in running:
            request.key = self.key_of(request, now)
        for request in waiting:
            request.key = self.key_of(request, now)
            self._queue.push(request)
