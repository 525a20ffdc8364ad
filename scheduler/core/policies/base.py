"""Policy (ORDER): the protocol, what people see of a policy, and the base of orders by a key. Knows no budget and no step.

A policy says who is next and who yields; whether and how much is not its business. It owns its queue and the fields
`key` and `queue_data` of the requests in it, and changes nothing else.
Invariant: a request that was enqueued and not dequeued is in the queue, once; `head` is one of them whenever there is
one, and is the same until something changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from scheduler.core.blocks import BlockPool
from scheduler.core.policies.queues import SortedQueue
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


@dataclass(frozen=True, slots=True)
class Param:
    """A number that a policy takes. A whole-number default means that only whole numbers are taken."""

    name: str
    default: float
    low: float
    high: float
    help: str


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """A policy as people see it. make: from all of `params` by name, and the pool for orders that look at prefixes."""

    name: str
    help: str
    params: tuple[Param, ...]
    source: str
    guarantee: str
    make: Callable[[Mapping[str, float], BlockPool | None], Policy]


PREEMPT = Param("preempt", 0, 0, 1, "1: a waiting request may take the place of a running one that sorts behind it")


class Books:
    """A policy that keeps no books: it need not know who was served how much."""

    preempts = False

    def served(self, request: Request, prefill: int) -> None:
        """Nothing to note."""

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """Nothing to note."""


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
